#!/bin/bash
# check.sh: the tests that a change must pass, and with --all every test. Installs what
# that takes, copies the tree to build-check/, builds it there, and runs the steps of
# contrib/check/ side by side, one for each CPU, two at most.
# shellcheck disable=SC2016,SC2317 # inner shells expand; run calls functions
set -u
top=$(cd "$(dirname "$0")/.." && pwd)
work=$top/build-check
install=yes
ucx_src=
only=
commit= # that is checked, if the tree is that of a commit
all=no
again=no
given=() # options that a repetition needs too
minutes=60
seed=
limit=4200 # seconds until a step counts as hung, for slow machines; --all has more

# The steps that follow the first build: NAME:SECONDS:NEEDS. SECONDS is the processor
# time of the step. The longest steps start first, so that the slots become idle at
# about the same time. NEEDS: b, the first build; d, Soft-RoCE devices. u: the step
# runs against another UCX, too (--with-ucx).
#
# A change must pass these. The same tree has the same result: seeds and lists are
# fixed, no test has a limit that a slow machine meets, and nothing is retried.
steps="fabric:300:bu asan:200:b suites:170:b unit:130:bu form:50:b warnings:35:b tools:35:bu"
# --all runs these too. They explore: seeds and samples differ from run to run.
long="conformance:1375:bdu sanitizers:780: mutants:650:b rxe:650:bd fuzz:440:b
      clang:290: devices:600:b package:175:b soak:150:b tsan:90: sim:66:b
      valgrind:60:b cuts:60:b debian:55:b perf:50:bd programs:50:b"
with_ucx= # the prefix of another UCX

usage() {
    cat <<EOT
Usage: contrib/check.sh [--no-install] [--ucx-src SOURCES] [--with-ucx PREFIX]
                        [--dir DIR] [--again] [--only STEP[,STEP]...]
                        [--all [--minutes N] [--seed S]]

Builds, and runs the tests that a change must pass: 20 minutes of processor time, 12
minutes on two idle cores. The first run takes 5 minutes more, for packages and UCX's
suites, which are kept in ~/.cache/uct_vqp. The same tree has the same result. The last
line is "N passed, N failed, N skipped". The exit status is 1 if something failed. Each
skip is printed with its reason. After a run of all steps without a failure DIR/passed
has the hash of the commit.

  --all         every test: also Soft-RoCE in virtual machines, mutants, fuzzing, soak,
                sanitizers over everything, all configurations of UCX's suites. Takes
                hours. For each failure the command that repeats it is printed
  --minutes N   with --all: for what explores (simulator, fuzzing, soak, UCX's UCP
                suite), together [$minutes]
  --seed S      with --all: of everything that is drawn [the time]
  --again       run the steps on the tree that the last run has copied and built
  --no-install  install no package; fail when one is missing
  --ucx-src SOURCES
                the sources of the installed UCX, a tarball or a directory;
                otherwise ucx-src/, or the source package of the distribution
  --with-ucx PREFIX
                against the UCX below PREFIX, whose sources --ucx-src names: builds,
                loads, runs ucx_perftest, test_uct, MPI, and UCX's own suites of that
                version on the fabric (UCT, and a part of UCP). Steps that do not
                depend on UCX, or need the distribution's, are skipped
  --only STEPS  of: $(step_names "$steps")
                of --all: $(step_names "$long")
  --dir DIR     where to build [$work]
EOT
}

# step_names LIST
step_names() {
    tr -s ' \n' '\n' <<<"$1" | cut -d: -f1 | paste -sd' '
}

# explores STEP: whether it is one of --all
explores() {
    [[ " $(step_names "$long") " == *" $1 "* ]]
}

while [ $# -gt 0 ]; do
    case $1 in
        --no-install) install=no; given+=("$1") ;;
        --all) all=yes ;;
        --again) again=yes ;;
        --minutes) minutes=${2:?--minutes needs a number}; shift ;;
        --seed) seed=${2:?--seed needs a number}; shift ;;
        --ucx-src) ucx_src=$(readlink -m "${2:?--ucx-src needs a name}")
                   given+=("$1" "$ucx_src"); shift ;;
        --with-ucx) with_ucx=$(readlink -m "${2:?--with-ucx needs a directory}")
                    given+=("$1" "$with_ucx"); shift ;;
        --only) only=${2:?--only needs a list of steps}; shift ;;
        --dir) work=$(readlink -m "${2:?--dir needs a directory}")
               given+=("$1" "$work"); shift ;;
        -h|--help) usage; exit 0 ;;
        *) usage >&2; exit 2 ;;
    esac
    shift
done
[[ $minutes =~ ^[1-9][0-9]*$ && $seed =~ ^[0-9]*$ ]] || {
    echo "check.sh: --minutes and --seed need numbers" >&2
    exit 2
}
# a step of --all can be named without it, and --with-ucx has one
[ -z "$with_ucx" ] || all=yes
for step in ${only//,/ }; do
    ! explores "$step" || all=yes
done
[ "$all" = no ] || {
    steps+=" $long"
    limit=$((limit + 60 * minutes))
}
# the environment of a user changes no result; where the fabric has its files it may say
for name in "${!GTEST_@}" "${!UCX_@}" "${!VQP_FABRIC_@}" VQP_TEST_LIMIT CHECK_PATIENCE; do
    [ "$name" = VQP_FABRIC_DIR ] || unset "$name"
done
for step in ${only//,/ }; do
    [[ " $(step_names "$steps") " == *" $step "* ]] || {
        echo "check.sh: no step '$step' (see --help)" >&2
        exit 2
    }
done

if [ -n "$with_ucx" ]; then
    [ -n "$ucx_src" ] || {
        echo "check.sh: --with-ucx needs --ucx-src with the sources of that UCX" >&2
        exit 2
    }
    for libdir in "$with_ucx"/lib "$with_ucx"/lib64 "$with_ucx"/lib/*-linux-gnu; do
        [ ! -e "$libdir/libuct.so" ] || break
    done
    [ -e "$libdir/libuct.so" ] && [ -x "$with_ucx/bin/ucx_info" ] || {
        echo "check.sh: there is no UCX below $with_ucx" >&2
        exit 2
    }
    # for all programs, of this project, of UCX and of Open MPI
    export PATH=$with_ucx/bin:$PATH
    export LD_LIBRARY_PATH=$libdir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi
export CHECK_WITH_UCX=$with_ucx

# shellcheck source-path=SCRIPTDIR source=../test/lib/jobs.sh
. "$top/test/lib/jobs.sh"
mapfile -t cpu < <(jobs_cpus)
slots=$(jobs_slots)

[ ! -e "$work" ] || [ -d "$work/log" ] || {
    echo "check.sh: $work exists and is not mine" >&2
    exit 2
}
if [ "$again" = no ]; then
    rm -rf "$work"
elif ! grep -qsxE "$all|yes" "$work/built"; then
    echo "check.sh: --again needs a run of the same kind that has built in $work" >&2
    exit 2
fi
rm -rf "$work/log" "$work/passed"
mkdir -p "$work/log" || exit 2
: >"$work/counts"
: >"$work/times"
: >"$work/notes"
: >"$work/failures"
export CHECK_DIR=$work CHECK_SRC=$work/src CHECK_UCX=$top/ucx-src
export CHECK_JOBS=${#cpu[@]} CHECK_CPU=${cpu[0]} CHECK_MUST=$install CHECK_RXE=yes
export CHECK_SEED=${seed:-$(date +%s)} CHECK_MINUTES=$minutes CHECK_AGAIN=$again
# the copy has no history: reports of failures contain its commit
VQP_COMMIT=$(git -C "$top" describe --always --long --dirty 2>/dev/null)
export VQP_COMMIT
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

# repeated_with STEP: the options with which a step draws the same again
repeated_with() {
    local options=("${given[@]}")
    ! explores "$1" || options+=(--seed "$CHECK_SEED" --minutes "$CHECK_MINUTES")
    [ ${#options[@]} = 0 ] || printf ' %q' "${options[@]}"
}

# The hash of the commit, if the tree is that of the commit
clean_commit() {
    [ -n "$(git -C "$top" status --porcelain 2>&1)" ] ||
        git -C "$top" rev-parse HEAD
}

# whole: has everything run that --help promises?
whole() {
    [ -z "$only$with_ucx" ] && [ "$again$install" = noyes ]
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
    while IFS=$'\t' read -r step text; do
        echo "failed: $text" | cut -c 1-200
        [ "$step" = - ] ||
            echo "    repeat: contrib/check.sh --only $step$(repeated_with "$step")"
    done <"$work/failures"
    awk '{ passed += $1; failed += $2; skipped += $3 }
         END { printf "%d passed, %d failed, %d skipped\n",
                      passed, failed, skipped
               exit failed > 0 }' "$work/counts" || exit
    if whole && [ -n "$commit" ]; then
        echo "$commit" >"$work/passed"
    fi
    exit 0
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
    local -
    set -o pipefail
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
    commit=$(clean_commit)
    run "a copy of the tree" copy_tree || return 1
    if [ -n "$ucx_src" ] || [ ! -e "$CHECK_UCX/configure.ac" ]; then
        CHECK_UCX=$work/ucx-src
        run "sources of UCX" "$top/contrib/get-ucx-src.sh" -o "$CHECK_UCX" \
            ${ucx_src:+"$ucx_src"} || return 1
    fi
    echo "$CHECK_UCX" >"$work/ucx"
    run "autogen" "$CHECK_SRC/autogen.sh"
}

# The build that most steps use, with all programs of tests: steps that run side
# by side must not find something to make in it. Mutants replace the objects of single
# files; for the rest batches are faster.
first_build() {
    local batches=--enable-test-batches
    [ "$all" = no ] || batches=--disable-test-batches
    build gcc CC=gcc CXX=g++ "$batches" &&
        run "gcc: test programs" make -C "$work/gcc" -s -j"$CHECK_JOBS" \
            "$([ "$all" = no ] && echo gate-programs || echo check)" TESTS= &&
        echo "$all" >"$work/built"
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
omitted=()  # those that do not apply to another UCX
needs=      # what they need, together
while IFS=: read -r step _ letters; do
    wanted "$step" || continue
    if [ -n "$with_ucx" ]; then
        [[ $letters == *u* ]] || { omitted+=("$step"); continue; }
        letters=${letters//d/} # on the fabric only
    fi
    order+=("$step")
    needs+=$letters
done < <(tr -s ' \n' '\n' <<<"$steps" | sort -t: -k2,2rn)

# run_step SLOT NAME: on the slot's CPU
# shellcheck disable=SC2317 # jobs_run calls it
run_step() {
    export CHECK_CPU=${cpu[$1]} CHECK_JOBS=1 CHECK_STEP=$2
    # mutants name the seeds that find them
    ! explores "$2" || [ "$2" = mutants ] || export VQP_FABRIC_SEED=$CHECK_SEED
    exec timeout -k 20 "$limit" "$CHECK_SRC/contrib/check/step" "$2" \
        >"$work/log/step-$2.out" 2>&1 </dev/null
}

# ended SLOT NAME STATUS SECONDS: what the step printed, in one piece
# shellcheck disable=SC2317 # jobs_run calls it
ended() {
    local name=$2 out=$work/log/step-$2.out CHECK_STEP=$2
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
if [ "$again" = no ]; then
    timed packages packages || finish
    timed sources sources || finish
    [[ $needs != *b* ]] || timed build first_build || finish
else
    CHECK_UCX=$(cat "$work/ucx")
fi
[[ $needs != *d* ]] || timed kernel devices
[ "$all" = no ] || echo "== seed $CHECK_SEED, $CHECK_MINUTES minutes"
for step in "${omitted[@]}"; do
    result skip "$step" "it is for the UCX of the distribution, not for --with-ucx"
done
echo "== $slots steps side by side: ${order[*]}"
jobs_run "$slots" run_step ended "${order[@]}"
finish
