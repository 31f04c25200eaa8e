# shellcheck shell=bash disable=SC2034
# A fabric of soft RDMA devices: N rxe devices, each on one end of a veth pair
# whose other end is a port of one bridge.  Packets between two devices so take
# a real (if virtual) wire, which can lose, delay and reorder them.
# Sourced by the guest's init and by the host backend; needs ip, rdma and root.
# Does not depend on where it runs.
#
# FABRIC_TAG is put in front of all names that are made (empty in a guest);
# FABRIC_NET is the first three bytes of the addresses.

FABRIC_TAG=${FABRIC_TAG-}
FABRIC_NET=${FABRIC_NET:-10.77.0}

# fabric_make_device INDEX MTU
fabric_make_device() {
    local e=${FABRIC_TAG}e$1 p=${FABRIC_TAG}p$1 mac conf
    mac=$(printf '02:00:0a:4d:00:%02x' $(($1 + 1)))

    ip link add "$e" address "$mac" mtu "$2" \
       type veth peer name "$p" mtu "$2" || return 1
    # All devices are in one name space: the kernel must accept packets from
    # its own addresses, and answer ARP only for the address of the device.
    conf=/proc/sys/net/ipv4/conf/$e
    echo 1 >"$conf/accept_local" && echo 0 >"$conf/rp_filter" &&
        echo 1 >"$conf/arp_ignore" && echo 2 >"$conf/arp_announce" || return 1
    # No duplicate address detection: the link-local address works at once.
    conf=/proc/sys/net/ipv6/conf/$e
    [ ! -d "$conf" ] || echo 0 >"$conf/accept_dad"
    ip link set "$p" addrgenmode none master "${FABRIC_TAG}br0" up &&
        ip link set "$e" addrgenmode eui64 up &&
        ip addr add "$FABRIC_NET.$(($1 + 1))/24" dev "$e" &&
        rdma link add "${FABRIC_TAG}rxe$1" type rxe netdev "$e"
}

# The index of the first RoCEv2/IPv4 GID of DEVICE (fails: there is none)
fabric_gid() {
    local port=/sys/class/infiniband/$1/ports/1 i type gid
    for i in $(seq 0 15); do
        type=$(cat "$port/gid_attrs/types/$i" 2>/dev/null) || continue
        gid=$(cat "$port/gids/$i" 2>/dev/null) || continue
        case "$type $gid" in
        "RoCE v2 0000:0000:0000:0000:0000:ffff:"*) echo "$i"; return 0 ;;
        esac
    done
    return 1
}

# Waits, 5 s at most, until DEVICE is active, has its address, and its nodes
fabric_wait() {
    local dir=/sys/class/infiniband/$1 i node
    for ((i = 0; i < 100; ++i)); do
        for node in "$dir"/device/infiniband_verbs/uverbs* \
                    /sys/class/infiniband_verbs/uverbs*; do
            [ "$(cat "$node/ibdev" 2>/dev/null)" = "$1" ] &&
                [ -e "/dev/infiniband/${node##*/}" ] &&
                [ "$(cat "$dir/ports/1/state")" = "4: ACTIVE" ] &&
                fabric_gid "$1" >/dev/null && return 0
        done
        sleep 0.05
    done
    return 1
}

# fabric_make COUNT MTU: makes the devices and exports their names for the command.
# On failure sets FABRIC_ERROR to the reason and returns 1. What was made stays:
# the caller gives up the name space, or calls fabric_remove.
fabric_make() {
    local i br=${FABRIC_TAG}br0 devs=() ips=() nets=() ports=()

    ip link set lo up
    FABRIC_ERROR="can't make a bridge"
    ip link add "$br" type bridge forward_delay 0 || return 1
    ip link set "$br" mtu "$2" addrgenmode none up || return 1
    for ((i = 0; i < $1; ++i)); do
        FABRIC_ERROR="can't make rxe device $i"
        fabric_make_device "$i" "$2" || return 1
        devs+=("${FABRIC_TAG}rxe$i")
        ips+=("$FABRIC_NET.$((i + 1))")
        nets+=("${FABRIC_TAG}e$i")
        ports+=("${FABRIC_TAG}p$i")
    done
    for i in "${devs[@]}"; do
        FABRIC_ERROR="$i does not get active"
        fabric_wait "$i" || return 1
    done
    RXE_DEVS=${devs[*]}
    RXE_IPS=${ips[*]}
    RXE_NETDEVS=${nets[*]}
    RXE_PORTS=${ports[*]}
    RXE_GID=$(fabric_gid "${devs[0]}")
    VQP_RXE=1
    VQP_RXE_FAULTS=1
    export RXE_DEVS RXE_IPS RXE_NETDEVS RXE_PORTS RXE_GID \
           VQP_RXE VQP_RXE_FAULTS
}

# fabric_remove COUNT: gives back what fabric_make made in a name space that
# stays.  Deleting an rxe device waits for the last process that has it open:
# in the background, so that a stuck one can't hold the runner.
fabric_remove() {
    local i
    for ((i = 0; i < $1; ++i)); do
        rdma link delete "${FABRIC_TAG}rxe$i" &
        ip link delete "${FABRIC_TAG}e$i"
    done 2>/dev/null
    ip link delete "${FABRIC_TAG}br0" 2>/dev/null
}
