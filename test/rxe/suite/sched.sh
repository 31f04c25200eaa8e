# shellcheck shell=bash
# Links of unequal rates: the default scheduler has to see which is the fast one,
# rails and flows alike. Rates are low, and what is compared differs by more than
# a busy machine makes of it. How good it gets is in docs/scheduling.md.

# shellcheck disable=SC2034
SUITE_DEVICES=4
# shellcheck source-path=SCRIPTDIR source=../fault
. "$HERE/../fault"

# rate SCHED OPTION...: MB/s of puts of 512 KiB, one at a time, of which a path has
# room for half. Even on the slow one that takes less than the 100 ms after which
# left does not believe what it has measured.
rate() {
    UCX_VQP_SCHED=$1 UCX_VQP_PATH_BYTES=256k "$BENCH" --size 512k "${@:2}" \
        bandwidth >rate.txt && awk '{ print $2 }' rate.txt
}

# One link of two is eight times as fast: 56 MB/s together. In turn both get the
# same, and 12.5 MB/s come through.
left_against_rr() {
    local left rr
    rr=$(rate rr "$@") && left=$(rate left "$@") || fail "no rate"
    echo "rr $rr MB/s, left $left MB/s"
    awk -v left="$left" -v rr="$rr" 'BEGIN { exit !(left >= 1.5 * rr) }' ||
        fail "left reaches $left MB/s, rr $rr"
}

unequal_links() {
    BENCH=$CHECK_BUILD/test/perf/sched_bench
    [ "$CHECK_TL" = vqp ] || skip "is about vqp"
    [ -x "$BENCH" ] || skip "sched_bench is not built (make check TESTS=)"
    need_faults
    need_devices 4
    export UCX_VQP_NUM_PATHS=2
    unset UCX_VQP_STATS_FILE
}

# shellcheck disable=SC2153
unequal_rails() {
    unequal_links
    fault_netem "${DEVS[0]}" rate 50mbit &&
        fault_netem "${DEVS[1]}" rate 400mbit || fail "tc"
    export UCX_VQP_RAILS="${DEVS[0]}:1,${DEVS[1]}:1;${DEVS[2]}:1,${DEVS[3]}:1"
    left_against_rr --from bond0 --to bond1
}

unequal_flows() {
    unequal_links
    fault_flows "${DEVS[0]}" 50mbit 400mbit || fail "tc"
    export UCX_VQP_PATH_ENTROPY=16,17
    left_against_rr --from "${DEVS[0]}" --to "${DEVS[2]}"
}

add sched_unequal_rails 40 unequal_rails
add sched_unequal_flows 40 unequal_flows
