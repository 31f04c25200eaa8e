# shellcheck shell=bash
# Links of unequal rates: the default scheduler has to see which is the fast one,
# rails and flows alike. The guest's time is simulated: computing takes none, so
# that only the links count, and the rates are the same on every machine. How good
# it gets is in docs/scheduling.md.

# shellcheck disable=SC2034
SUITE_DEVICES=4
# shellcheck disable=SC2034
SUITE_APPEND=time-travel=inf-cpu
# shellcheck source-path=SCRIPTDIR source=../fault
. "$HERE/../fault"

# rate SCHED OPTION...: MB/s of puts of 512 KiB, two at a time. It sleeps between
# its polls: no time passes else.
rate() {
    UCX_VQP_SCHED=$1 "$BENCH" --size 512k --window 2 --nap 1 --seconds 0.1 \
        "${@:2}" bandwidth >rate.txt && awk '{ print $2 }' rate.txt
}

# One link carries 125 MB/s, the other one 1000. left has to get nine tenths of
# the sum, and half as much again as taking turns does.
left_against_rr() {
    local left rr
    rr=$(rate rr "$@") && left=$(rate left "$@") || fail "no rate"
    echo "rr $rr MB/s, left $left MB/s"
    awk -v left="$left" -v rr="$rr" \
        'BEGIN { exit !(left >= 0.9 * 1125 && left >= 1.5 * rr) }' ||
        fail "left reaches $left MB/s, rr $rr"
}

unequal_links() {
    BENCH=$CHECK_BUILD/test/perf/sched_bench
    [ "$CHECK_TL" = vqp ] || skip "is about vqp"
    [ -x "$BENCH" ] || skip "sched_bench is not built (make check TESTS=)"
    grep -q "$SUITE_APPEND" /proc/cmdline ||
        skip "compares rates, and time is not simulated here (--vm uml)"
    need_faults
    need_devices 4
    export UCX_VQP_NUM_PATHS=2 UCX_VQP_MIN_PATHS=2
    unset UCX_VQP_STATS_FILE
}

# shellcheck disable=SC2153
unequal_rails() {
    unequal_links
    fault_netem "${DEVS[0]}" rate 1gbit &&
        fault_netem "${DEVS[1]}" rate 8gbit || fail "tc"
    export UCX_VQP_RAILS="${DEVS[0]}:1,${DEVS[1]}:1;${DEVS[2]}:1,${DEVS[3]}:1"
    left_against_rr --from bond0 --to bond1
}

unequal_flows() {
    unequal_links
    fault_flows "${DEVS[0]}" 1gbit 8gbit || fail "tc"
    export UCX_VQP_PATH_ENTROPY=16,17
    left_against_rr --from "${DEVS[0]}" --to "${DEVS[2]}"
}

add sched_unequal_rails 120 unequal_rails
add sched_unequal_flows 120 unequal_flows
