#!/bin/bash
# The guest's first process once its root is mounted: makes the rest of the
# file systems and the fabric, runs the command, leaves its exit status, powers
# off.  The runner starts it from the control directory /run/rxe, where it has
# put: conf, cmd, env, fabric.sh, and for UML cpuinfo.  It reads back: status,
# and error (why the set-up failed).
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
ctl=/run/rxe
# shellcheck source=/dev/null
. $ctl/conf
# shellcheck source-path=SCRIPTDIR source=fabric.sh
. $ctl/fabric.sh

finish() {
    echo "$1" >$ctl/status.tmp
    mv $ctl/status.tmp $ctl/status
    sync
    echo o >/proc/sysrq-trigger
    sleep 30
}

fail() {
    echo "$*" >$ctl/error
    finish 125
}

mount_all() {
    local dir i=0
    mkdir -p /dev/shm /dev/pts
    mount -t tmpfs shm /dev/shm
    mount -t devpts pts /dev/pts
    mount -t debugfs debug /sys/kernel/debug 2>/dev/null
    ln -sfn /proc/self/fd /dev/fd
    ln -sfn fd/0 /dev/stdin
    ln -sfn fd/1 /dev/stdout
    ln -sfn fd/2 /dev/stderr
    for dir in "${RW[@]}"; do
        case $VM in
        uml) mount -t hostfs -o "$dir" none "$dir" ;;
        qemu) mount -t 9p -o \
              rw,trans=virtio,version=9p2000.L,msize=512000,cache=mmap \
              rw$i "$dir" ;;
        esac || fail "can't mount $dir"
        i=$((i + 1))
    done
}

# One CPU for many processes that poll: short time slices, or every message
# costs a whole one.
set_scheduler() {
    local dir=/sys/kernel/debug/sched
    echo 400000 >$dir/latency_ns
    echo 100000 >$dir/min_granularity_ns
    echo 100000 >$dir/wakeup_granularity_ns
    echo HRTICK >$dir/features
} 2>/dev/null

set_up_uml() {
    # UML's own has no "cpu MHz" line, which perftest requires
    mount --bind $ctl/cpuinfo /proc/cpuinfo
    set_scheduler
    out=/dev/ttyS1 err=/dev/ttyS2
    stty raw -echo <$out
    stty raw -echo <$err
}

set_up_qemu() {
    mkdir -p /lib/modules
    mount --bind "$MODULES" /lib/modules || fail "can't bind $MODULES"
    modprobe -a rdma_rxe rdma_ucm ib_umad veth bridge sch_netem ||
        fail "can't load the kernel's modules"
    # devtmpfs gives the short names; udev would make /dev/virtio-ports
    out=/dev/vport0p1 err=/dev/vport0p2
}

mount_all
ulimit -l unlimited
hostname rxe 2>/dev/null
set_up_"$VM"
fabric_make "$DEVICES" "$MTU" || fail "$FABRIC_ERROR"
cut -d' ' -f1 /proc/uptime >$ctl/ready

# The command's own environment, in which only what fabric_make exported is
# new.  Its two outputs stay apart; the pipes let it see no terminal.
(
    fabric=$(export -p | grep -E '^declare -x (RXE_|VQP_RXE)')
    # shellcheck source=/dev/null
    . $ctl/env
    eval "$fabric"
    {
        {
            bash $ctl/cmd 3>&-
            echo $? >$ctl/rc
        } </dev/null 2>&1 1>&3 3>&- | cat >"$err" 3>&-
    } 3>&1 | cat >"$out"
)
finish "$(cat $ctl/rc)"
