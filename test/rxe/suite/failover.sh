# shellcheck shell=bash
# One of two rails loses all packets, or its link goes down, again and again: stock
# programs notice nothing, and all data are right. RC would report a loss after a
# quarter of a minute: what finds it is the silence of the paths of that rail.

# shellcheck disable=SC2034
SUITE_DEVICES=4
# shellcheck source-path=SCRIPTDIR source=rails.sh
. "$HERE/rails.sh"
forget_cases
# shellcheck source-path=SCRIPTDIR source=../fault
. "$HERE/../fault"

# What rxe0 .. rxe3 are: DEVS becomes the two bonds
RAILS=("${DEVS[@]}")

failover_on() {
    need_faults
    two_bonds
    export UCX_VQP_PATH_TIMEOUT=auto UCX_VQP_TIMEOUT=2s UCX_LOG_LEVEL=diag
}

# Until the device has sent some data: programs need a network that works until they
# are connected
wait_traffic() {
    local bytes="/sys/class/net/$1/statistics/tx_bytes" before
    before=$(<"$bytes")
    until [ $(($(<"$bytes") - before)) -gt 200000 ]; do
        sleep 0.05
    done
}

# lose DEV: nothing that it sends arrives for a while, and so on
lose() {
    wait_traffic "$(fault_netdev "$1")"
    while fault_netem "$1" loss 100% && sleep 0.3; do
        fault_clear "$1"
        sleep 0.4
    done
}

# sever DEV: nothing that it sends arrives any more
sever() {
    wait_traffic "$(fault_netdev "$1")"
    fault_netem "$1" loss 100%
    sleep infinity
}

# flap DEV DOWN UP: its link, again and again, for so many seconds. The guest has one CPU:
# without a priority the link is down until the programs that poll have had their turns,
# ten times as long as 50 ms.
flap() {
    local start
    chrt -f -p 1 $BASHPID
    wait_traffic "$1"
    while start=${EPOCHREALTIME/./} && fault_set_link "$1" down && sleep "$2"; do
        fault_set_link "$1" up
        echo "$1 was down for $(((${EPOCHREALTIME/./} - start) / 1000)) ms"
        sleep "$3"
    done
}

# has_survived NAME...: are these counters not 0?
has_survived() {
    local name value
    [ -s "$STATS" ] || fail "the transport wrote no statistics"
    for name in "$@"; do
        value=$(stats_max "$name")
        echo "$name: $value"
        [ "$value" -gt 0 ] || return 1
    done
}

check_survived() {
    has_survived "$@" || fail "a counter is 0"
}

# with_faults COMMAND... -- COMMAND...: the first one in the background
with_faults() {
    local faults=() pid
    while [ "$1" != -- ]; do
        faults+=("$1")
        shift
    done
    shift
    "${faults[@]}" 2>faults.log &
    pid=$!
    # shellcheck disable=SC2064
    trap "kill $pid; wait $pid; heal" EXIT
    "$@"
    kill $pid
    wait $pid 2>/dev/null
    heal
    trap heal EXIT
}

# survives NAME... -- COMMAND... -- COMMAND...: with_faults, again until these counters
# are not 0. Whether a path fails and is back while a program runs depends on the speed of
# the machine. The limit of the case ends what never happens.
survives() {
    local names=()
    while [ "$1" != -- ]; do
        names+=("$1")
        shift
    done
    shift
    while :; do
        with_faults "$@"
        ! has_survived "${names[@]}" || break
    done
}

heal() {
    local dev
    for dev in "${RAILS[@]}"; do
        fault_clear "$dev"
        fault_set_link "$(fault_netdev "$dev")" up
    done
}

# failover_perftest RAIL TEST SIZES: the client is the second device
failover_perftest() {
    failover_on
    survives path_downs path_ups silences -- lose "${RAILS[$1]}" -- \
        perftest_sizes "$2" "$3"
}

failover_cut() {
    failover_on
    survives path_downs -- sever "${RAILS[$1]}" -- perftest_sizes "$2" "$3"
}

failover_flap() {
    local dev
    failover_on
    dev=$(fault_netdev "${RAILS[$1]}") || fail "no device"
    # up for long enough to be used again: the kernel needs up to a second to find that an
    # address does not resolve, if a rebuild began without a link
    survives path_downs path_ups -- flap "$dev" 0.3 2 -- perftest_sizes "$2" "$3"
}

# A path that is silent goes down, too: the log has to name the port
failover_flap_mpi() {
    local dev
    failover_on
    dev=$(fault_netdev "${RAILS[$1]}") || fail "no device"
    survives path_downs path_ups -- flap "$dev" 0.05 2.95 -- rails_mpi_ranks 2 "${@:2}" \
        2>&1 | tee flap.log
    [ "${PIPESTATUS[0]}" = 0 ] || exit 1
    grep -q "DIAG  ${RAILS[$1]}:1: port error" flap.log || fail "no port went down"
}

failover_mpi() {
    failover_on
    survives path_downs silences -- lose "${RAILS[$1]}" -- rails_mpi_ranks 2 "${@:2}"
}

# dead RAIL: nothing that it sends arrives, and its peers do not know its address
dead() {
    failover_on
    trap heal EXIT
    cut_rail "$1"
}

cut_rail() {
    fault_netem "${RAILS[$1]}" loss 100% || fail "no loss"
    ip neigh flush all
}

# A rail is dead before the programs connect
failover_dead_perftest() {
    dead "$1"
    perftest_sizes "$2" "$3"
    check_survived path_downs
}

failover_dead_mpi() {
    dead "$1"
    rails_mpi_ranks 2 "${@:2}"
    check_survived path_downs
}

# dead, and then it is not
failover_revived_perftest() {
    dead "$1"
    while :; do
        (wait_traffic "$(fault_netdev "${RAILS[$2]}")"; fault_clear "${RAILS[$1]}") &
        perftest_sizes "$3" "$4"
        wait
        ! has_survived path_downs path_ups || break
        cut_rail "$1"
    done
}

# The ranks find the bonds in RXE_DEVS; faults need all devices there
rails_mpi_ranks() {
    RXE_DEVS="${DEVS[*]}" mpi_run "$1" "$CHECK_BIN/vqp_mpi_check" -s "${CHECK_SEED:-1}" "${@:2}" ||
        fail "mpirun ended with $?"
}

add failover_requests_lost_tag_bw 240 failover_perftest 3 tag_bw "65536:5000"
add failover_answers_lost_tag_bw 240 failover_perftest 1 tag_bw "65536:5000"
add failover_requests_lost_put_bw 240 failover_perftest 3 ucp_put_bw "65536:10000"
add failover_answers_lost_get 240 failover_perftest 1 ucp_get "65536:10000"
add failover_requests_lost_tag_lat 240 failover_perftest 3 tag_lat "8:20000"
add failover_cut_tag_bw 240 failover_cut 3 tag_bw "1048576:500"
add failover_cut_put_bw 240 failover_cut 2 ucp_put_bw "65536:5000"
add failover_cut_am_bw 240 failover_cut 3 ucp_am_bw "8192:20000"
add failover_cut_fadd 240 failover_cut 3 ucp_fadd "8:20000"
add failover_link_down_tag_bw 240 failover_flap 3 tag_bw "65536:5000"
add failover_dead_tag_bw 240 failover_dead_perftest 3 tag_bw "65536:2000"
add failover_dead_first_rail_put_bw 240 failover_dead_perftest 2 ucp_put_bw "65536:2000"
add failover_dead_mpi 240 failover_dead_mpi 1 -m 262144
add failover_revived_put_bw 240 failover_revived_perftest 3 2 ucp_put_bw "65536:10000"
add failover_link_down_put_bw 240 failover_flap 2 ucp_put_bw "65536:10000"
add failover_link_down_mpi 240 failover_flap_mpi 3 -m 1048576 -r 8
add failover_mpi 240 failover_mpi 3 -m 1048576
