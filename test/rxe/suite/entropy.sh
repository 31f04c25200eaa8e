# shellcheck shell=bash
# Path entropy: which flows a job makes of its connections, seen on the wire,
# and whether a network that picks links by a hash would spread them evenly.

# shellcheck source-path=SCRIPTDIR source=mpi.sh
. "$HERE/mpi.sh"
forget_cases

# capture RANKS: small messages from each rank to each, round after round, so
# that all paths are used; what the devices sent is in flows.txt.  Half of the
# ranks are on each device: what stays on a device goes over no wire.
capture() {
    local listener i
    need_devices 2
    # on the host's own devices there is other traffic, and no network device
    need_faults
    # shellcheck disable=SC2086
    "$CHECK_BIN/flows" $RXE_NETDEVS >flows.txt 2>flows.log &
    listener=$!
    for ((i = 0; i < 100; ++i)); do
        ! grep -q ready flows.log || break
        kill -0 $listener 2>/dev/null || fail "$(cat flows.log)"
        sleep 0.05
    done
    mpi_run "$1" "$CHECK_BIN/vqp_mpi_check" -s "${CHECK_SEED:-1}" -m 256 -r 8 \
        -c alltoall_random || fail "mpirun ended with $?"
    kill $listener
    wait $listener || fail "$(cat flows.log)"
    ! grep missed flows.log || fail "packets were missed"
}

# The source ports, one per line
ports() {
    awk '{ print $2 }' flows.txt | sort -nu
}

# 36 pairs of ranks, 72 endpoints of 4 paths, in 12 processes
even_flows() {
    [ "$CHECK_TL" = vqp ] || skip "is about vqp"
    capture 12
    [ "$(wc -l <flows.txt)" -eq $((72 * CHECK_PATHS)) ] ||
        fail "$(wc -l <flows.txt) flows instead of $((72 * CHECK_PATHS))"
    "$CHECK_BIN/even" <flows.txt || fail "the flows are uneven"
}

# What even is able to see, and why there is an option: rc_verbs makes the label
# of the index of the path alone, so that all processes use the same ports
stock_flows() {
    local CHECK_TL=rc_v count
    unset UCX_VQP_PATH_ENTROPY
    set_transport
    capture 6
    count=$(ports | wc -l)
    echo "source ports of stock rc_verbs: $(ports | paste -sd' ')"
    if "$CHECK_BIN/even" <flows.txt; then
        skip "rc_verbs of this UCX spreads its flows: $count ports"
    fi
    [ "$count" -le 4 ] || fail "$count source ports, and uneven"
}

# listed_ports LIST PORT...: these and no others
listed_ports() {
    local list=$1
    shift
    [ "$CHECK_TL" = vqp ] || skip "is about vqp"
    export UCX_VQP_PATH_ENTROPY=$list UCX_VQP_NUM_PATHS=4 UCX_VQP_MIN_PATHS=4
    capture 2
    [ "$(ports | paste -sd' ')" = "$*" ] ||
        fail "source ports $(ports | paste -sd' ') instead of $*"
}

# Label 0: rxe makes the port of the queue pair numbers
entropy_off() {
    [ "$CHECK_TL" = vqp ] || skip "is about vqp"
    export UCX_VQP_PATH_ENTROPY=off UCX_VQP_NUM_PATHS=4 UCX_VQP_MIN_PATHS=4
    capture 2
    echo "source ports: $(ports | paste -sd' ')"
    [ "$(ports | wc -l)" -gt 1 ] || fail "one source port for all paths"
}

# Drivers that are known to honour flow labels are named so
known_driver() {
    "$CHECK_BUILD/contrib/vqp-run" --check >check.txt
    cat check.txt
    grep -q '^ *flow label *yes.*driver rdma_rxe' check.txt ||
        fail "vqp-run --check does not list rdma_rxe"
}

add entropy_known_driver 30 known_driver
add entropy_even_flows 150 even_flows
add entropy_stock_rc_verbs 90 stock_flows
add entropy_list 60 listed_ports 1,0x102,0x4001,16383 49152 49153 49410 65535
add entropy_list_repeats 60 listed_ports 7,9 49159 49161
add entropy_off 60 entropy_off
