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
       contrib/conformance.sh [OPTION]... all|ci
Runs UCX's UCT or UCP test suite. Prints a line for each test that failed, and
last "N passed, N failed, N skipped"; the status is 1 when something failed.
A skip that rc_verbs does not have is a failure, unless test/conformance lists
it. "all" runs everything in all configurations, "ci" what a change must pass.

  --on fabric|rxe  the devices: the software verbs of test/fabric, or real
                   Soft-RoCE, see test/rxe/README.md [fabric]
  --tl TRANSPORT   vqp, or rc_verbs for the baseline [vqp]
  --filter F       tests whose names match the shell pattern F, or one of
                   several with colons between
  --sample N       N of the tests, chosen by the seed
  --seed S         also of the tests' own random numbers [1]
  --time-box S     begin no batch after S seconds; the seed orders the tests
  --limit S        seconds for a single test [120, on rxe 240];
                   CHECK_PATIENCE=2 in the environment doubles it
  --jobs N         processes or guests side by side [2, or the number of CPUs]
  --build DIR      build tree of the project [build-conformance, made if need be]
  --suites DIR     where UCX's suites are built, once for many build trees
                   [BUILD/test/conformance/suites]
  --list           print the names of the tests
  --record         (with --tl rc_verbs) keep what was skipped as the baseline
  --verbose        a line for each test
Results and logs are left in BUILD/test/conformance. Options of the transport
come from the environment: UCX_VQP_NUM_PATHS=1 contrib/conformance.sh uct
EOT
}

SUITE='' ON=fabric TL=vqp FILTER='*' SAMPLE=0 SEED=1 TIME_BOX=0 LIMIT=''
JOBS='' BUILD=$top/build-conformance SUITES='' LIST='' RECORD='' VERBOSE=''

need_number() {
    [[ $2 =~ ^[0-9]+$ ]] || die "$1 wants a number, not '$2'"
}

# shellcheck source-path=SCRIPTDIR source=../test/conformance/lib.sh
. "$top/test/conformance/lib.sh"
# shellcheck source-path=SCRIPTDIR source=../test/rxe/lib/util.sh
. "$top/test/rxe/lib/util.sh"

while [ $# -gt 0 ]; do
    case $1 in
        --list) LIST=yes; shift; continue ;;
        --record) RECORD=yes; shift; continue ;;
        --verbose) VERBOSE=yes; shift; continue ;;
        -h|--help) usage; exit 0 ;;
        uct|ucp|all|ci) SUITE=$1; shift; continue ;;
        --*) [ $# -ge 2 ] || die "$1 wants a value (see --help)" ;;
        *) die "unexpected '$1' (see --help)" ;;
    esac
    case $1 in
        --on) ON=$2 ;;
        --tl) TL=$2 ;;
        --filter) FILTER=$2 ;;
        --sample) need_number "$@"; SAMPLE=$2 ;;
        --seed) need_number "$@"; SEED=$2 ;;
        --time-box) need_number "$@"; TIME_BOX=$2 ;;
        --limit) need_number "$@"; LIMIT=$2 ;;
        --jobs) need_number "$@"; JOBS=$2 ;;
        --suites) SUITES=$(readlink -m "$2") ;;
        --build) BUILD=$(readlink -m "$2") ;;
        *) die "unknown option $1 (see --help)" ;;
    esac
    shift 2
done
[[ $ON =~ ^(fabric|rxe)$ ]] || die "--on is fabric or rxe, not '$ON'"
[[ $TL =~ ^(vqp|rc_verbs)$ ]] || die "--tl is vqp or rc_verbs, not '$TL'"
[ -n "$SUITE" ] || { usage >&2; exit 2; }

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

# Which tests: $WORK/wanted and rc_verbs have the names that either transport
# has, names those that are to be run
choose_names() {
    list_names "$TL" | matching "$FILTER" >"$WORK/wanted"
    : >"$WORK/rc_verbs"
    [ "$TL" != vqp ] || list_names rc_verbs | as_vqp | matching "$FILTER" \
        >"$WORK/rc_verbs"
    # what is listed is in vqp's names
    paste <(as_vqp <"$WORK/wanted") "$WORK/wanted" |
        awk -v tl="$TL" 'NR == FNR { word[$1] = $2; next }
             word[$1] == "none" || (word[$1] == "out" && tl == "vqp") { next }
             { print $2 }' <(listed; echo) - >"$WORK/names"
    if [ "$SAMPLE" -gt 0 ] || [ "$TIME_BOX" -gt 0 ]; then
        shuffled <"$WORK/names" >"$WORK/order"
        head -n "$((SAMPLE > 0 ? SAMPLE : 1000000))" "$WORK/order" \
            >"$WORK/names"
    fi
}

# Keeps what rc_verbs skipped, for judge, and what other runs have found of tests
# that did not run now
record() {
    local list=$CONFORMANCE/$SUITE.rc_verbs
    as_vqp <"$WORK/names" >"$WORK/now"
    {
        awk '$1 == "skip" { print $2 }' "$WORK/results" | as_vqp
        grep -v '^#' "$list" | grep -vxFf "$WORK/now"
    } | sort >"$WORK/record"
    {
        echo "# Tests that rc_verbs skips itself. Made by" \
             "contrib/conformance.sh --tl rc_verbs --record"
        cat "$WORK/record"
    } >"$list"
}

# run_suite NAME [K=V]...: one suite in one configuration, in a directory of
# that name
run_suite() {
    local start=$SECONDS begun
    WORK=$LOGS/$1
    shift
    rm -rf "$WORK" && mkdir -p "$WORK" || exit 2
    # one guest comes first: it builds what has to be built
    [ "$ON" != rxe ] || "$top/test/rxe/run" --devices 1 -- true || exit 2
    choose_names
    echo "# $SUITE on $ON: $(wc -l <"$WORK/names") tests of $TL, seed $SEED" \
         "$(env "$@" | grep ^UCX_VQP_ | paste -sd' ')"
    make_batches "$WORK/names"
    run_batches "$@"
    cat "$WORK"/batch/*/results >"$WORK/results"
    judge >"$WORK/verdicts"
    if [ -n "$VERBOSE" ]; then
        cat "$WORK/verdicts"
    else
        grep '^FAIL ' "$WORK/verdicts"
    fi
    cat "$WORK/verdicts" >>"$LOGS/verdicts"
    begun=$(wc -l <"$WORK/results")
    [ "$begun" -ge "$(wc -l <"$WORK/names")" ] ||
        echo "# (time box: $begun of $(wc -l <"$WORK/names") tests run)"
    echo "# $(counts "$WORK/verdicts") in $((SECONDS - start)) s"
    [ -z "$RECORD" ] || record
}

counts() {
    awk '{ ++count[$1] }
         END { printf "%d passed, %d failed, %d skipped\n",
                      count["ok"], count["FAIL"], count["skip"] }' "$1"
}

# All configurations. rxe is slow, and wears out: a sample of UCP there.
run_all() {
    local paths notify order
    for SUITE in uct ucp; do
        ON=fabric
        for paths in 1 4; do for notify in dqplb spray; do
            for order in post any; do
                run_suite "$SUITE.fabric.$paths.$notify.$order" \
                    UCX_VQP_NUM_PATHS=$paths UCX_VQP_NOTIFY=$notify \
                    UCX_VQP_COMP_ORDER=$order
            done
        done; done
    done
    run_rxe
}

run_rxe() {
    ON=rxe
    SUITE=uct
    run_suite uct.rxe
    SUITE=ucp SAMPLE=132
    run_suite ucp.rxe
}

run_ci() {
    ON=fabric
    SUITE=uct
    run_suite uct.fabric
    SUITE=ucp TIME_BOX=300
    run_suite ucp.fabric
    TIME_BOX=0
    run_rxe
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
    build_project
    SUITES=${SUITES:-$BUILD/test/conformance/suites}
    LOGS=$BUILD/test/conformance/$SUITE.$TL
    [[ $SUITE != uc[tp] ]] || LOGS+=.$ON
    mkdir -p "$LOGS" "${SUITES%/*}" && : >"$LOGS/verdicts" || exit 2
    (
        flock 9 # others may want the same ones
        build_suites
    ) 9>"$SUITES.lock" || exit
    mapfile -t CPUS < <(rxe_cpus)
    [ -n "$JOBS" ] || JOBS=$((${#CPUS[@]} < 2 ? ${#CPUS[@]} : 2))
    trap stop INT TERM HUP
    if [ -n "$LIST" ]; then
        WORK=$LOGS
        list_names "$TL" | matching "$FILTER"
        exit
    fi
    case $SUITE in
        all) run_all ;;
        ci) run_ci ;;
        *) run_suite run ;;
    esac
    counts "$LOGS/verdicts"
    ! grep -q '^FAIL ' "$LOGS/verdicts"
    exit
}

# in a function: this file may change while it runs
main
