# shellcheck shell=bash
# The tests that need devices, on the software fabric. An API violation fails them.
# devices.sh has more of them.

# uct NAME [OPTION]... -- FILTER: tests of test_uct. Each pattern of the filter has some
uct() {
    local name=$1 filter=${*: -1} pattern patterns
    shift
    gtest "fabric: $name" on_fabric gcc --violations fail "${@:1:$#-1}" \
        "$CHECK_DIR/gcc/test_uct" --gtest_filter="$filter"
    IFS=: read -ra patterns <<<"${filter%%-*}"
    for pattern in "${patterns[@]}"; do
        matches "$(log_of "fabric: $name")" "$pattern" ||
            result FAIL "fabric: $name: no test is $pattern"
    done
}

# matches LOG PATTERN: has a test of that name begun?
matches() {
    local test
    while read -r test; do
        # shellcheck disable=SC2053 # it is a pattern
        [[ $test != $2 ]] || return 0
    done < <(sed -nE 's/^\[ RUN +\] ([^ ,]+).*/\1/p' "$1")
    return 1
}

gtest "fabric: test_verbs" on_fabric gcc --violations fail -- \
    "$CHECK_DIR/gcc/test_verbs"

# What Soft-RoCE does with receives that are posted in ERR
gtest "fabric: test_verbs, Soft-RoCE" on_fabric gcc --violations fail --profile rxe -- \
    "$CHECK_DIR/gcc/test_verbs" --gtest_filter='qp.*error_state*'
# A device that says it gave more than can be used
gtest "fabric: test_verbs, bnxt" on_fabric gcc --violations fail --profile bnxt -- \
    "$CHECK_DIR/gcc/test_verbs" --gtest_filter='cqpool_fixed.queues_of_bnxt*'
uct "failover, Soft-RoCE" --profile rxe -- 'failover_fixture.receives*:source_test.*'

# GID tables of other networks: IPv6 only, with and without a global address
gids() {
    gtest "fabric: test_verbs, $1" on_fabric gcc --violations fail -o GIDS="$2" -- \
        "$CHECK_DIR/gcc/test_verbs" --gtest_filter='dev.*gid*'
}

gids "global IPv6" v2/ll,-,-,v2/fd00::1:1
gids "IPv6 and RoCEv1" v1/ip,v2/ll
gids "the same addresses with RoCEv1" v1/ll,v2/ll,v1/ip,v2/ip

# Of the tests that fail each call of a verb in turn, five verbs; one transfer of more
# than 2 GiB. Not those that depend on the
# machine's time
verbs=(create_cq reg_mr create_qp modify_qp post_send)
timed=$(grep '^[^#]' "$CHECK_SRC/test/timing.filter" | paste -sd:)
uct test_uct -- "-*bond_pairs*:large*:*nth*:$timed"
uct "failing verbs" -- "$(printf '*nth_verb.fails/%s:' "${verbs[@]}")nth.none_fails"
uct "more than 2 GiB" -- large.get_of_3e9_bytes

# Flows that take links by their labels
uct "a slow link" --devices 2 --mode timed -o CLOCK=virtual -o DELAY=2us -o JITTER=0 \
    -o LINKS=8 -o PATH_RATE=8000 -o PORT_RATE=1000000 -- 'slow_flow.*'
uct "a slow link, mlx5" --devices 2 --profile mlx5-lag -o LAG=hash --mode timed \
    -o CLOCK=virtual -o DELAY=2us -o JITTER=0 -o LINKS=8 -o PATH_RATE=8000 \
    -o PORT_RATE=1000000 -- 'slow_flow.*source_port*'
for links in 1 4; do
    uct "as many paths as links, $links" --devices 2 --mode timed -o CLOCK=virtual \
        -o DELAY=2us -o JITTER=0 -o LINKS=$links -o PATH_RATE=8000 -o PORT_RATE=1000000 \
        -- 'elastic_flow.*'
done

# A process that computes between its calls of progress
uct "a process that computes" --mode timed -o CLOCK=virtual -o DELAY=5us -o JITTER=0 \
    -o PATH_RATE=100000 -o PORT_RATE=100000 -- 'busy_flow.*'

# Bonded ports: which of them a path has, and what two of them carry
lag=(--devices 2 --profile mlx5-lag --mode timed -o CLOCK=virtual -o DELAY=2us -o JITTER=0
     -o PATH_RATE=8000 -o PORT_RATE=1000000)
uct "bonded ports, in turn" "${lag[@]}" -- 'lag_affinity.*'
uct "bonded ports, another one in RTS" "${lag[@]}" -o LAG_RESET=rts -- \
    'lag_affinity.pa*:lag_affinity.two_paths*'
uct "bonded ports, by the hash" "${lag[@]}" -o LAG=hash -- 'lag_hash.*'
gtest "fabric: test_verbs, bonded ports" on_fabric gcc --violations fail \
    --profile mlx5-lag -- "$CHECK_DIR/gcc/test_verbs" --gtest_filter='lag.*:mlx5.*'

# Paths that fall silent, with that clock, and how often a warning comes. Timers of
# sleepers go by the machine's
uct "silent paths" --mode timed -o CLOCK=virtual -o DELAY=2us -o JITTER=0 -- \
    '*silence_test.*:*not_told*-*a_side_that_sleeps*'

# Memory that goes back after seconds, or from who sends without a pause
uct "mirrors" --mode timed -o CLOCK=virtual -o DELAY=2us -o JITTER=0 -- \
    'mirror_idle.*:mirror.of_endpoints_that_send*'

# So many queue pairs in a time: by the real clock they may take as long as that
uct "paths that are rebuilt" --devices 2 --mode timed -o CLOCK=virtual -o DELAY=2us \
    -o JITTER=0 -- 'rebuilds.*'

# Devices that count what they discard, or long requests once: the traffic of the probe
# shows it
for how in discarded messages reads; do
    uct "a device that counts $how" -o RQ_PSN=$how -- 'source_test.probe*'
done
uct "a count in timed mode" --mode timed -o CLOCK=virtual -o DELAY=20us -- \
    'source_test.*'
uct "a count of what is discarded, in timed mode" --mode timed -o CLOCK=virtual \
    -o DELAY=20us -o RQ_PSN=discarded -- 'source_test.probe_finds*'

# A device that takes more inline than the ring takes, and one whose longest message
# is short
uct "long inline, small ring" -o MAX_INLINE=4096 -- env UCX_VQP_RING_SIZE=4k \
    UCX_VQP_TX_MIN_INLINE=4k '*/ops.am_short*/four_paths'
uct "short longest message" -o MAX_MSG=4096 -- '*longest*'

# Memory of a GPU, which a driver offers to the devices: the CPU may not touch it
uct "GPU memory" -o PEER_MEM=yes -- 'gpu*'
UCX_VQP_RAILS="fab0:1,fab1:1;fab2:1,fab3:1" uct "GPU memory, two rails" --devices 4 \
    -o PEER_MEM=yes -- env RXE_DEVS="bond0 bond1" 'gpu_memory*'
UCX_VQP_RAILS="fab0:1,fab1:1;fab2:1,fab3:1" uct "GPU memory, UCP over two rails" \
    --devices 4 -o PEER_MEM=yes -- env RXE_DEVS="fab0 fab2" 'gpu/*'

# Bonds: of one to four ports at each end, and the operations over two rails
uct bonds --devices 4 -- '*bond*'
UCX_VQP_RAILS="fab0:1,fab1:1;fab2:1,fab3:1" uct "two rails" --devices 4 -- \
    env RXE_DEVS="bond0 bond1" '*/ops.*/four_paths'

# Order, where paths differ: in immediate mode each request is there before the
# next one is posted, whatever the transport does. With the virtual clock paths differ
# alike on a busy machine
order=':*/ops.ams*:flush_test.pending_requests*:flush_test.completes*'
order+=':flush_test.does_not*'
uct "order, jitter" --mode timed -o CLOCK=virtual -o DELAY=20us -o JITTER=300us -- \
    "overtaking.*:deferred_test.*:*/fence.*/tail*:*/fence.*/spray:*/fence.*/auto$order"
uct "order, asymmetric paths" --mode timed -o CLOCK=virtual \
    -o DELAY=5us,50us,200us,20us -o PATH_RATE=8000,1000,250,4000 -o JITTER=20us -- \
    "*/fence.*/dqplb:*/fence.*/rr:*/fence.*/auto$order"
