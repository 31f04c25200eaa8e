#!/bin/bash
# check.sh: everything that must hold for a change. Installs what that takes,
# copies the tree to build-check/, builds it there, and runs the steps of
# contrib/check/ side by side, one for each CPU, two at most.
# shellcheck disable=SC2016,SC2317 # inner shells expand; run calls functions
set -u
top=$(cd "$(dirname "$0")/.." && pwd)
work=$top/build-check
install=yes
ucx_src=
only=
limit=4200 # seconds until a step counts as hung: three times the longest, for slow machines

# The steps that follow the first build: NAME:SECONDS:NEEDS. SECONDS is the time
# of the step on one idle CPU. The longest steps start first, so that the slots
# become idle at about the same time. NEEDS: b, the first build; d, Soft-RoCE devices.
steps="conformance:1375:bd sanitizers:780: mutants:650:b rxe:650:bd fuzz:440:b
       clang:290: fabric:240:b package:175:b soak:150:b tsan:90: sim:66:b
       valgrind:60:b perf:50:bd tools:50:b unit:25:b form:5:b"

usage() {
    cat <<EOT
Usage: contrib/check.sh [--no-install] [--ucx-src SOURCES] [--dir DIR]
                        [--only STEP[,STEP]...]

Builds and tests everything. This takes 66 to 86 minutes of processor time: about
48 minutes on two idle cores, up to 66 minutes on two busy ones. The first run
takes 5 minutes more, for packages and the kernel of the virtual machine. The last
line is "N passed, N failed, N skipped". The exit status is 1 if something failed.
Each skip is printed with its reason.

  --no-install  install no package; fail when one is missing
  --ucx-src SOURCES
                the sources of the installed UCX, a tarball or a directory;
                otherwise ucx-src/, or the source package of the distribution
  --only STEPS  of: $(step_names)
  --dir DIR     where to build [$work]
EOT
}

step_names() {
    tr -s ' \n' '\n' <<<"$steps" | cut -d: -f1 | paste -sd' '
}

while [ $# -gt 0 ]; do
    case $1 in
        --no-install) install=no ;;
        --ucx-src) ucx_src=$(readlink -m "${2:?--ucx-src needs a name}"); shift ;;
        --only) only=${2:?--only needs a list of steps}; shift ;;
        --dir) work=$(readlink -m "${2:?--dir needs a directory}"); shift ;;
        -h|--help) usage; exit 0 ;;
        *) usage >&2; exit 2 ;;
    esac
    shift
done
for step in ${only//,/ }; do
    [[ " $(step_names) " == *" $step "* ]] || {
        echo "check.sh: no step '$step' (see --help)" >&2
        exit 2
    }
done

# shellcheck source-path=SCRIPTDIR source=../test/lib/jobs.sh
. "$top/test/lib/jobs.sh"
mapfile -t cpu < <(jobs_cpus)
slots=$(jobs_slots)

[ ! -e "$work" ] || [ -d "$work/log" ] || {
    echo "check.sh: $work exists and is not mine" >&2
    exit 2
}
rm -rf "$work"
mkdir -p "$work/log" || exit 2
: >"$work/counts"
: >"$work/times"
: >"$work/notes"
: >"$work/failures"
export CHECK_DIR=$work CHECK_SRC=$work/src CHECK_UCX=$top/ucx-src
export CHECK_JOBS=${#cpu[@]} CHECK_CPU=${cpu[0]} CHECK_MUST=$install CHECK_RXE=yes
# the copy has no history: reports of failures contain its commit, and the number of
# commits up to it selects what is run of some suites
VQP_COMMIT=$(git -C "$top" describe --always --long --dirty 2>/dev/null)
VQP_COMMIT_COUNT=
if [ "$(git -C "$top" rev-parse --is-shallow-repository 2>/dev/null)" = false ]
then
    VQP_COMMIT_COUNT=$(git -C "$top" rev-list --count HEAD 2>/dev/null)
fi
export VQP_COMMIT VQP_COMMIT_COUNT
# shellcheck source-path=SCRIPTDIR source=check/lib.sh
. "$top/contrib/check/lib.sh"

# Write build-check/steps: the list at the top with the seconds of this run. After a
# run on an idle machine it may replace the list at the top.
steps_of_this_run() {
    awk -F: 'NR == FNR { split($0, part, " ")
                         took[part[2]] = part[1]; cpu[part[2]] = part[3]; next }
             $1 in took { print took[$1], $1 ":" took[$1] ":" $3
                          listed += $2; now += took[$1]; all += cpu[$1] }
             END { print "0 # listed", listed, "s, took", now, \
                         "s, processor time", all, "s" }' \
        "$work/times" <(tr -s ' \n' '\n' <<<"$steps") |
        sort -k1,1rn | sed 's/^[0-9]* //' >"$work/steps"
}

finish() {
    steps_of_this_run
    echo
    echo "slowest, with processor time: $(sort -rn "$work/times" | head -n 8 |
        awk '{ printf "%s%s %d s (%d)", (NR > 1 ? ", " : ""), $2, $1, $3 }');" \
        "all $SECONDS s ($(awk '{ all += $3 } END { print all }' "$work/times"))" \
        "on ${#cpu[@]} CPUs"
    # retried cases and expected failures
    sed -E 's/^(retried|expected failure) /\1: /' "$work/notes" | sort -u | cut -c 1-200
    echo "retried: $(grep -c '^retried ' "$work/notes")," \
        "expected failures: $(grep -c '^expected failure ' "$work/notes")"
    sed 's/^/failed: /' "$work/failures" | cut -c 1-200
    awk '{ passed += $1; failed += $2; skipped += $3 }
         END { printf "%d passed, %d failed, %d skipped\n",
                      passed, failed, skipped
               exit failed > 0 }' "$work/counts"
    exit
}

wanted() {
    [ -z "$only" ] || [[ ,$only, == *,$1,* ]]
}

# timed NAME COMMAND...: for the list of what is slow
timed() {
    local start=$SECONDS before status
    before=$(processor_time)
    "${@:2}"
    status=$?
    echo "$((SECONDS - start)) $1 $(($(processor_time) - before))" >>"$work/times"
    return $status
}

packages() {
    local missing
    if [ -n "$ucx_src" ]; then
        run "sources of UCX are given" "$top/contrib/get-ucx-src.sh" --test \
            "$ucx_src" || return 1
    fi
    if [ "$install" = yes ]; then
        "$top/contrib/install-deps.sh" && return
        result FAIL "packages" "install-deps.sh failed"
    elif ! missing=$("$top/contrib/install-deps.sh" --missing --build-only); then
        result FAIL "packages" "missing: $(echo "$missing" | paste -sd' ')"
    else
        return 0
    fi
    return 1
}

# A copy of the tree as it is now, without what builds left in it
copy_tree() {
    mkdir -p "$CHECK_SRC" || return 1
    if git -C "$top" rev-parse --git-dir >/dev/null 2>&1; then
        (cd "$top" && git ls-files -z -co --exclude-standard |
            xargs -0 sh -c 'for f; do [ ! -e "$f" ] || printf "%s\0" "$f"; done' sh |
            tar -c --null -T - | tar -x -C "$CHECK_SRC")
    else
        (cd "$top" && tar -c --exclude='./build*' --exclude=./ucx-src . |
            tar -x -C "$CHECK_SRC")
    fi
}

sources() {
    run "a copy of the tree" copy_tree || return 1
    if [ -n "$ucx_src" ] || [ ! -e "$CHECK_UCX/configure.ac" ]; then
        CHECK_UCX=$work/ucx-src
        run "sources of UCX" "$top/contrib/get-ucx-src.sh" -o "$CHECK_UCX" \
            ${ucx_src:+"$ucx_src"} || return 1
    fi
    run "autogen" "$CHECK_SRC/autogen.sh"
}

# The build that most steps use, with all programs of tests: steps that run side
# by side must not find something to make in it
first_build() {
    build gcc CC=gcc CXX=g++ &&
        run "gcc: test programs" make -C "$work/gcc" -s -j"$CHECK_JOBS" \
            check TESTS=
}

# The first guest: its kernel may have to be built
devices() {
    local log
    log=$(log_of "Soft-RoCE devices")
    if "$CHECK_SRC/test/rxe/run" --timeout 60 -- true >"$log" 2>&1 </dev/null; then
        result ok "Soft-RoCE devices"
        return
    fi
    CHECK_RXE=$(tail -n 1 "$log")
    CHECK_RXE=${CHECK_RXE:-no Soft-RoCE devices}
}

order=()    # names of the steps that are wanted, longest first
needs=      # what they need, together
while IFS=: read -r step _ letters; do
    ! wanted "$step" || { order+=("$step"); needs+=$letters; }
done < <(tr -s ' \n' '\n' <<<"$steps" | sort -t: -k2,2rn)

# run_step SLOT NAME: on the slot's CPU
# shellcheck disable=SC2317 # jobs_run calls it
run_step() {
    export CHECK_CPU=${cpu[$1]} CHECK_JOBS=1
    exec timeout -k 20 "$limit" "$CHECK_SRC/contrib/check/step" "$2" \
        >"$work/log/step-$2.out" 2>&1 </dev/null
}

# ended SLOT NAME STATUS SECONDS: what the step printed, in one piece
# shellcheck disable=SC2317 # jobs_run calls it
ended() {
    local name=$2 out=$work/log/step-$2.out
    echo "$4 $name $(cat "$work/log/step-$name.cpu" 2>/dev/null)" \
        >>"$work/times"
    echo "== $name, $4 s"
    cat "$out"
    if [ "$3" = 124 ]; then
        result FAIL "$name" "it took more than $limit s"
    elif [ "$3" != 0 ]; then
        result FAIL "$name" "its status is $3"
    elif ! grep -qE '^(ok|FAIL|skip|----) ' "$out"; then
        result FAIL "$name" "it said nothing"
    fi
}

trap 'jobs_stop; exit 130' INT TERM HUP
timed packages packages || finish
timed sources sources || finish
[[ $needs != *b* ]] || timed build first_build || finish
[[ $needs != *d* ]] || timed kernel devices
echo "== $slots steps side by side: ${order[*]}"
jobs_run "$slots" run_step ended "${order[@]}"
finish
