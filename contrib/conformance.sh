#!/bin/bash
# conformance.sh: runs UCX's own test suites with vqp. Builds them from the
# sources of the installed UCX, runs them in batches where there are devices,
# and compares with what stock rc_verbs does there.
# shellcheck disable=SC2034 # test/conformance/lib.sh uses what is set here
set -u
top=$(cd "$(dirname "$0")/.." && pwd)

usage() {
    cat <<'EOT'
usage: contrib/conformance.sh [OPTION]... uct|ucp
       contrib/conformance.sh [OPTION]... gate|all
Runs UCX's UCT or UCP test suite. Prints a line for each test that failed, and
last "N passed, N failed, N skipped"; the status is 1 when something failed.
A skip that rc_verbs does not have is a failure, unless test/conformance lists
it. "all" runs everything in all configurations: hours; with --sample N, of UCP
the default one whole, and of each other N tests, another part of the suite for
each. "gate" is what a change must pass: the tests of test/conformance/gate.list. With
--time-box S, "all" runs UCP for S seconds, in parts for each configuration.

  --on fabric|rxe  the devices: the software verbs of test/fabric, or real
                   Soft-RoCE, see test/rxe/README.md [fabric; all: both]
  --tl TRANSPORT   vqp, or rc_verbs for the baseline [vqp]
  --rails N        N devices, bonded to one [1]
  --devices N      of ucp: N devices side by side, for tests of several lanes
  --faults SCRIPT  of uct, ucp and gate: with failover, under these faults of the
                   fabric (test/fabric/fab_fault.h); "cuts": paths that are cut
                   and healed all the time
  --config P       of "gate" and "all": only configurations whose names match the
                   shell pattern P: ucp.fabric.4.tail.*, uct.rxe*
  --filter F       tests whose names match the shell pattern F, or one of
                   several with colons between
  --sample N       N of the tests, chosen by the seed
  --from M         with --sample: from the M-th of the seed's order on [0]
  --seed S         also of the tests' own random numbers [1; "gate": of its list]
  --time-box S     begin no batch after S seconds; the seed orders the tests
  --limit S        seconds for a single test [120, on rxe 1200, of gate 600];
                   CHECK_PATIENCE=2 in the environment doubles it
  --jobs N         processes or guests side by side [2, or the number of CPUs]
  --build DIR      build tree of the project [build-conformance, made if need be]
  --suites DIR     where UCX's suites are built, once for many build trees
                   [below ~/.cache/uct_vqp, by what they are made of]
  --logs DIR       where results and logs are left [BUILD/test/conformance]
  --list           print the names of the tests
  --plan           of "gate" and "all": print the configurations, and run nothing
  --record         (with --tl rc_verbs) keep what was skipped as the baseline
  --verbose        a line for each test
Options of the transport come from the environment:
UCX_VQP_MIN_PATHS=4 contrib/conformance.sh uct
EOT
}

SUITE='' ON='' TL=vqp RAILS=1 DEVICES='' CONFIG='*' FILTER='*' SAMPLE=0 FROM=0 SEED=1
FAULTS=''
TIME_BOX=0 LIMIT='' JOBS='' BUILD=$top/build-conformance SUITES=''
LOGS='' LIST='' PLAN='' RECORD='' VERBOSE='' VERSION='' GATE=''

need_number() {
    [[ $2 =~ ^[0-9]+$ ]] || die "$1 needs a number, not '$2'"
}

# shellcheck source-path=SCRIPTDIR source=../test/conformance/lib.sh
. "$top/test/conformance/lib.sh"

while [ $# -gt 0 ]; do
    case $1 in
        --list) LIST=yes; shift; continue ;;
        --plan) PLAN=yes; shift; continue ;;
        --record) RECORD=yes; shift; continue ;;
        --verbose) VERBOSE=yes; shift; continue ;;
        -h|--help) usage; exit 0 ;;
        uct|ucp|gate|all) SUITE=$1; shift; continue ;;
        --*) [ $# -ge 2 ] || die "$1 needs a value (see --help)" ;;
        *) die "unexpected '$1' (see --help)" ;;
    esac
    case $1 in
        --on) ON=$2 ;;
        --tl) TL=$2 ;;
        --rails) need_number "$@"; RAILS=$2 ;;
        --devices) need_number "$@"; DEVICES=$2 ;;
        --faults) FAULTS=$2 ;;
        --config) CONFIG=$2 ;;
        --filter) FILTER=$2 ;;
        --sample) need_number "$@"; SAMPLE=$2 ;;
        --from) need_number "$@"; FROM=$2 ;;
        --seed) need_number "$@"; SEED=$2 ;;
        --time-box) need_number "$@"; TIME_BOX=$2 ;;
        --limit) need_number "$@"; LIMIT=$2 ;;
        --jobs) need_number "$@"; JOBS=$2 ;;
        --suites) SUITES=$(readlink -m "$2") ;;
        --logs) LOGS=$(readlink -m "$2") ;;
        --build) BUILD=$(readlink -m "$2") ;;
        *) die "unknown option $1 (see --help)" ;;
    esac
    shift 2
done
[[ $ON =~ ^(|fabric|rxe)$ ]] || die "--on is fabric or rxe, not '$ON'"
[[ $RAILS =~ ^[1-4]$ ]] || die "--rails is 1 to 4, not '$RAILS'"
[[ -z $DEVICES || ($DEVICES =~ ^[1-4]$ && $SUITE = ucp && $RAILS = 1) ]] ||
    die "--devices is 1 to 4, for ucp, without --rails"
[[ $TL != rc_verbs || $RAILS = 1 ]] || die "rc_verbs has no --rails"
[[ $TL =~ ^(vqp|rc_verbs)$ ]] || die "--tl is vqp or rc_verbs, not '$TL'"
[ -n "$SUITE" ] || { usage >&2; exit 2; }
[[ $SUITE != uc[tp] ]] || ON=${ON:-fabric}
[[ -z $FAULTS || ($SUITE != all && $ON != rxe && $TL = vqp) ]] ||
    die "--faults is for uct, ucp or gate, with vqp on the fabric"
# no test of the gate is timed: the limit ends one that hangs
[ "$SUITE" != gate ] || {
    [ "$FILTER$SAMPLE$TIME_BOX$LIST" = '*00' ] ||
        die "gate has a list: no --filter, --sample, --time-box or --list"
    GATE=yes FILTER='' LIMIT=${LIMIT:-600}
}

# The project in $BUILD, unless it is there
build_project() {
    [ "$BUILD" = "$top/build-conformance" ] || {
        [ -e "$BUILD/contrib/vqp-run" ] || die "$BUILD has no module: run make"
        return
    }
    [ -e "$BUILD/config.status" ] || {
        "$top/contrib/get-ucx-src.sh" || exit 2
        [ -x "$top/configure" ] || "$top/autogen.sh" || exit 2
        mkdir -p "$BUILD"
        env -C "$BUILD" "$top/configure" -q --with-ucx-src="$top/ucx-src" ||
            exit 2
    }
    make -C "$BUILD" -s -j"$(nproc)" || exit 2
}

# The tests of gate.list for this entry of its plan: they are not looked up, so one that
# does not exist has no result and fails. With a UCX that the list is not for, such a test
# is skipped.
choose_gate_names() {
    gate_names "$1" "$SEED" >"$WORK/wanted"
    tried_with_faults <"$WORK/wanted" >"$WORK/names"
    : >"$WORK/rc_verbs"
    # by the names that rc_verbs has them
    if [ "$SUITE" = ucp ]; then
        sed 's,^vqp/,rc/,' "$WORK/names"
    else
        sed -E 's,^vqp/(test_md|test_mem|test_cuda),ib/\1,; s,^vqp/,rc_verbs/,' "$WORK/names"
    fi >"$WORK/rc_names"
    TOTAL=$(wc -l <"$WORK/names")
    # the list is for one version of UCX
    if [ "$VERSION" = "$BASELINE_VERSION" ]; then
        cp "$WORK/names" "$WORK/tests"
    else
        list_names "$TL" >"$WORK/there"
        grep -xFf "$WORK/there" "$WORK/names" >"$WORK/tests"
        grep -vxFf "$WORK/there" "$WORK/names" |
            sed 's/.*/skip & (UCX '"$VERSION"' has no such test)/' >"$WORK/missing"
    fi
}

# Which tests: $WORK/wanted and rc_verbs have the names that either transport
# has, tests those that are to be run. Of the tests listed as
# impossible here, some are tried, but not in a sample on rxe, where it takes long.
choose_names() {
    list_names "$TL" | matching "$FILTER" >"$WORK/wanted"
    : >"$WORK/rc_verbs"
    # it would have each test for each device
    [ "$TL" != vqp ] || RAILS=1 list_names rc_verbs >"$WORK/rc_names"
    [ "$TL" != vqp ] || as_vqp <"$WORK/rc_names" | matching "$FILTER" >"$WORK/rc_verbs"
    # what is listed is in vqp's names
    paste <(as_vqp <"$WORK/wanted") "$WORK/wanted" |
        awk 'NR == FNR { none[$1] = $2 ~ /^none/; next }
             { print none[$1] ? "none" : "names", $2 }' <(listed; echo) - \
        >"$WORK/words"
    sed -n 's/^names //p' "$WORK/words" >"$WORK/names"
    : >"$WORK/none"
    # they pass without cuts, and it takes long to see that they do not now
    [ -n "$FAULTS" ] || { [ "$ON" = rxe ] && [ $((SAMPLE + TIME_BOX)) -gt 0 ]; } ||
        sed -n 's/^none //p' "$WORK/words" | shuffled | head -n 5 >"$WORK/none"
    TOTAL=$(wc -l <"$WORK/names")
    if [ "$SAMPLE" -gt 0 ] || [ "$TIME_BOX" -gt 0 ]; then
        shuffled <"$WORK/names" >"$WORK/order"
        window "$FROM" "$((SAMPLE > 0 ? SAMPLE : 1000000))" <"$WORK/order" \
            >"$WORK/names"
    fi
    # in a time box the first ones run
    cat "$WORK/none" "$WORK/names" >"$WORK/tests"
}

# With a UCX that there is no list for of what rc_verbs skips, rc_verbs runs the tests
# that vqp did not pass: $WORK/beside/results
beside_rc_verbs() {
    local differ=$WORK/differ names=$WORK/rc_names WORK=$WORK/beside TL=rc_verbs RAILS=1
    mkdir -p "$WORK"
    awk '$1 == "skip" || $1 == "FAIL" { print $2 }' "$WORK/../results" >"$differ"
    paste <(as_vqp <"$names") "$names" |
        awk 'NR == FNR { differs[$1] = 1; next } $1 in differs { print $2 }' \
            "$differ" - >"$WORK/tests"
    : >"$WORK/results"
    [ -s "$WORK/tests" ] || return
    make_batches "$WORK/tests"
    TIME_BOX=0 run_batches "$@"
    cat "$WORK"/batch/*/results >"$WORK/results"
    echo "# rc_verbs beside it, of what vqp did not pass: $(counts "$WORK/results")"
}

# run_suite NAME [K=V]...: one suite in one configuration, in a directory of
# that name
run_suite() {
    local start=$SECONDS due
    WORK=$LOGS/$1
    shift
    rm -rf "$WORK" && mkdir -p "$WORK" || exit 2
    # one guest comes first: it builds what has to be built
    [ "$ON" != rxe ] || "$top/test/rxe/run" --devices 1 -- true || exit 2
    if [ -n "$GATE" ]; then
        choose_gate_names "${WORK##*/}"
    else
        choose_names
    fi
    echo "# ${WORK##*/}: $(wc -l <"$WORK/tests") tests of $SUITE with $TL on" \
         "$ON, seed $SEED $(env "$@" | grep ^UCX_VQP_ | paste -sd' ')" \
         "$([ "$RAILS" = 1 ] || rails)"
    make_batches "$WORK/tests"
    run_batches "$@"
    due >"$WORK/due"
    cat "$WORK"/batch/*/results >"$WORK/results"
    [ "$TL$VERSION" = "vqp$BASELINE_VERSION" ] || [ "$TL" != vqp ] || beside_rc_verbs "$@"
    judge >"$WORK/verdicts"
    [ ! -e "$WORK/missing" ] || cat "$WORK/missing" >>"$WORK/verdicts"
    [ -z "$FAULTS" ] || cuts_done
    [ -s "$WORK/verdicts" ] || echo "FAIL ${WORK##*/} (no test)" >"$WORK/verdicts"
    cat "$WORK"/batch/*/retried >"$WORK/retried" 2>/dev/null
    [ -z "$VERBOSE" ] || grep -vE '^(xfail|FAIL) ' "$WORK/verdicts"
    explained "$WORK/verdicts" "$WORK"/batch/*/all.log
    notes "$WORK/verdicts" "$WORK/retried"
    cat "$WORK/verdicts" >>"$LOGS/verdicts"
    cat "$WORK/retried" >>"$LOGS/retried"
    due=$(wc -l <"$WORK/due")
    [ "$due" -ge "$(wc -l <"$WORK/tests")" ] ||
        echo "# (time box: $due of $(wc -l <"$WORK/tests") tests run)"
    echo "# $(counts "$WORK/verdicts") in $((SECONDS - start)) s"
    keep_result $((SECONDS - start))
    [ -z "$RECORD" ] || record
}

# keep_result SECONDS: a line for test/conformance/table: name, transport, tests
# that ran, of how many, passed, failed, expected failures, skipped, seconds, seed,
# commit and day
keep_result() {
    local commit=${VQP_COMMIT:-}
    # of a plan, and of whole suites: --filter makes no result for the table
    [[ -z $FAULTS$GATE && ($FILTER == '*' || ${WORK##*/} == *.sockaddr) ]] &&
        [ "${WORK##*/}" != run ] || return 0
    [ -n "$commit" ] || commit=$(git -C "$top" describe --always --dirty 2>/dev/null)
    # only the verdicts of tests that ran
    comm -12 <(sort "$WORK/due") <(sort "$WORK/names") >"$WORK/ran"
    awk 'NR == FNR { ran[$1] = 1; next } $2 in ran' "$WORK/ran" \
        "$WORK/verdicts" >"$WORK/ran.verdicts"
    echo "${WORK##*/} $TL $(wc -l <"$WORK/ran") $TOTAL" \
        "$(tallies "$WORK/ran.verdicts") $1" \
        "$SEED ${commit:-unknown} $(date +%F)" >>"$LOGS/results"
}

# run_entry NAME [K=V]...: an entry of a plan
run_entry() {
    local SUITE ON RAILS paths notify order option fixed=()
    local SAMPLE=0 FROM=0 TIME_BOX=0 FILTER=$FILTER SEED=$SEED
    IFS=. read -r SUITE ON paths notify order RAILS _ <<<"$1"
    for option in "${@:2}"; do
        local "${option?}"
    done
    RAILS=${RAILS%%.*}
    if [ "$paths" = auto ]; then # not those of the caller
        fixed=(UCX_VQP_NUM_PATHS=4 UCX_VQP_MIN_PATHS=auto)
    else
        fixed=(UCX_VQP_NUM_PATHS="$paths" UCX_VQP_MIN_PATHS="$paths")
        [ "$paths" = 1 ] || fixed+=("UCX_VQP_TX_QUEUE_LEN=${UCX_VQP_TX_QUEUE_LEN:-32}")
    fi
    run_suite "$1" "${fixed[@]}" UCX_VQP_NOTIFY="$notify" UCX_VQP_COMP_ORDER="$order"
}

run_plan() {
    local entry words
    for entry in "${plan[@]}"; do
        read -ra words <<<"$entry"
        run_entry "${words[@]}"
    done
}

# Batches look for this file, wherever they run
# shellcheck disable=SC2317 # a trap calls it
stop() {
    local dir
    for dir in "$WORK/batch" "$WORK"/batch/*; do
        touch "$dir/stop"
    done
    wait
    exit 130
}

main() {
    local plan=()
    if [[ $SUITE != uc[tp] ]]; then
        mapfile -t plan < <("plan_$SUITE")
        [ ${#plan[@]} -gt 0 ] || die "no configuration matches '$CONFIG'"
        [ -n "$GATE" ] || echo "# seed $SEED"
        [ -z "$PLAN" ] || { printf '%s\n' "${plan[@]}"; exit; }
    fi
    build_project
    VERSION=$(built_for VQP_UCX_VERSION)
    VERSION=${VERSION%.*}
    [ -z "$RECORD" ] || [ "$VERSION" = "$BASELINE_VERSION" ] ||
        die "--record is for UCX $BASELINE_VERSION: with others rc_verbs runs beside vqp"
    SUITES=${SUITES:-$(kept_suites)}
    LOGS=${LOGS:-$BUILD/test/conformance}/$SUITE.$TL
    [[ $SUITE != uc[tp] ]] || LOGS+=.$ON
    mkdir -p "$LOGS" "${SUITES%/*}" &&
        truncate -s 0 "$LOGS"/{verdicts,retried,results} || exit 2
    (
        flock 9 # others may need the same ones
        build_suites
    ) 9>"$SUITES.lock" || exit
    mapfile -t CPUS < <(jobs_cpus)
    [ -n "$JOBS" ] || JOBS=$(jobs_slots)
    trap stop INT TERM HUP
    if [ -n "$LIST" ]; then
        WORK=$LOGS
        list_names "$TL" | matching "$FILTER"
        exit
    fi
    case $SUITE in
        uct|ucp) run_suite run ;;
        *) run_plan ;;
    esac
    notes_counts "$LOGS/verdicts" "$LOGS/retried"
    counts "$LOGS/verdicts"
    good "$LOGS/verdicts"
    exit
}

# in a function: this file may change while it runs
main
