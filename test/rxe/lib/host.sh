# shellcheck shell=bash disable=SC2034
# Backend "host": rxe devices made on this machine, or devices that it has.
# Sourced by run.
#
# Devices that are made have a network name space of their own, which ends
# with the last process in it.  Kernels whose rxe supports only the first name
# space (found out by trying) get uniquely named devices there instead; they
# are removed afterwards, and faults are refused.

host_possible() {
    RXE_WHY="this host can't load rdma_rxe"
    [ "$(id -u)" = 0 ] || { RXE_WHY="not root"; return 1; }
    [ -d /sys/module/rdma_rxe ] || modprobe -q rdma_rxe 2>/dev/null ||
        return 1
    RXE_WHY="ip or rdma can't make network devices"
    ip link show lo >/dev/null 2>&1 && rdma link show >/dev/null 2>&1
}

# A tag of at most 9 letters and a subnet that is unused on this host
host_pick_names() {
    local i
    FABRIC_TAG=v$$
    for i in $(seq 77 254); do
        FABRIC_NET=10.$i.$(($$ % 250 + 1))
        [ -n "$(ip -4 route show root "$FABRIC_NET.0/24")" ] || return 0
    done
    rxe_die "no free subnet in 10.77.0.0 to 10.254.0.0"
}

# host_try own|first COMMAND...: runs it within the time limit
host_try() {
    local enter=()
    HOST_SPACE=$1
    shift
    if [ "$HOST_SPACE" = own ]; then
        enter=(unshare --net --mount --pid --fork --kill-child --mount-proc)
    fi
    export RXE_DIR PROG DEVICES MTU HOST_SPACE HOST_STARTED FABRIC_TAG \
           FABRIC_NET
    timeout --kill-after=10 "$TIMEOUT" \
        "${enter[@]}" bash "$RXE_DIR/lib/host-inside.sh" "$@"
}

host_run() {
    local status
    rxe_need "ibverbs-utils util-linux" ibv_rc_pingpong unshare
    WORK=$(mktemp -d "${TMPDIR:-/tmp}/rxe.XXXXXX") || rxe_die "mktemp failed"
    trap 'rm -rf "$WORK"' EXIT
    trap 'exit 143' TERM INT HUP
    HOST_STARTED=$WORK/started
    FABRIC_TAG=v$$ FABRIC_NET=10.77.0
    host_try own "$@"
    status=$?
    if [ ! -e "$HOST_STARTED" ] && [ "$status" -ne "$RXE_TIMEOUT" ]; then
        rxe_say "rxe does not work in a name space of its own here;" \
                "using the host's, without faults"
        host_pick_names
        host_try first "$@"
        status=$?
        [ -e "$HOST_STARTED" ] || status=$RXE_USAGE
    fi
    # 137 is the time limit's second signal, or the command's own business
    [ "$status" -ne 137 ] || [ "$SECONDS" -lt "$TIMEOUT" ] ||
        status=$RXE_TIMEOUT
    [ "$status" -ne "$RXE_TIMEOUT" ] || rxe_say "timeout after $TIMEOUT s"
    exit "$status"
}

# --host-device: nothing is made, nothing is changed
host_run_on_devices() {
    local dev net i ips=() nets=()
    # shellcheck source-path=SCRIPTDIR source=fabric.sh
    . "$RXE_DIR/lib/fabric.sh"
    for dev in "${HOST_DEVICES[@]}"; do
        [ -d "/sys/class/infiniband/$dev" ] ||
            rxe_die "this host has no RDMA device $dev"
        [ "$(cat "/sys/class/infiniband/$dev/ports/1/state")" = "4: ACTIVE" ] ||
            rxe_die "port 1 of $dev is not active"
        # InfiniBand has neither a RoCEv2 GID nor a network device
        i=$(fabric_gid "$dev") || i=0
        net=$(cat "/sys/class/infiniband/$dev/ports/1/gid_attrs/ndevs/$i" \
              2>/dev/null) || net=-
        nets+=("$net")
        ips+=("$(ip -4 -o addr show dev "$net" 2>/dev/null |
                 awk '{ sub("/.*", "", $4); print $4; exit }')")
        RXE_GID=${RXE_GID:-$i}
    done
    export VQP_RXE=1 VQP_RXE_FAULTS=0 RXE_GID
    export RXE_DEVS="${HOST_DEVICES[*]}" RXE_IPS="${ips[*]}" \
           RXE_NETDEVS="${nets[*]}" RXE_PORTS=
    timeout --kill-after=10 "$TIMEOUT" "$@" </dev/null
    exit
}
