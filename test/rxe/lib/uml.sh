# shellcheck shell=bash disable=SC2034
# Backend "uml": the command runs under a User-Mode Linux kernel that has
# rdma_rxe, with the host's root below an overlay in memory.  Programs run at
# native speed on one CPU; no privilege is needed.  Sourced by run.

UML_BUILD_DIR=$RXE_DIR/uml

uml_possible() {
    [ "$(uname -m)" = x86_64 ] || {
        RXE_WHY="User-Mode Linux needs an x86_64 machine"
        return 1
    }
}

# The memory of a UML guest is a file that is mapped executable: prefer one
# that is in memory.
uml_memory_dir() {
    local dir
    for dir in /dev/shm "${TMPDIR:-/tmp}" /var/tmp; do
        [ -w "$dir" ] && [ "$(rxe_free_disk "$dir")" -gt "$1" ] &&
            ! findmnt -no OPTIONS -T "$dir" | grep -qw noexec &&
            { echo "$dir"; return 0; }
    done
    return 1
}

# The guest's root is not mounted yet: host root read-only through hostfs.
uml_write_init() {
    cat >"$1" <<'INIT'
#!/bin/bash
# First process: put a writable overlay over the host's root, enter it.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
. "${BASH_SOURCE[0]%/*}/conf"
mount -n -t tmpfs -o size=50%,mode=755 over /mnt &&
    mkdir /mnt/upper /mnt/work /mnt/root &&
    mount -n -t overlay root /mnt/root \
        -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work &&
    cd /mnt/root && mkdir -p proc sys dev run tmp &&
    mount -n -t proc proc proc && mount -n -t sysfs sys sys &&
    mount -n -t devtmpfs dev dev && mount -n -t tmpfs -o mode=755 run run &&
    mkdir run/rxe && mount -n -t hostfs -o "$CTL" none run/rxe &&
    exec chroot /mnt/root /bin/bash /run/rxe/guest.sh
echo "rxe: can't make the guest's root"
mount -n -t proc proc /proc
echo o >/proc/sysrq-trigger
INIT
    chmod +x "$1"
}

# Before anything is started: the kernel may have to be built
uml_prepare() {
    UML_KERNEL=${VQP_UML_KERNEL:-$("$UML_BUILD_DIR/build")} ||
        exit "$RXE_USAGE"
    [ -x "$UML_KERNEL" ] || rxe_die "no kernel $UML_KERNEL"
}

# Starts the kernel; sets VM_PID, the leader of its process group
uml_start() {
    local memdir cpus

    memdir=$(uml_memory_dir "$MEM") ||
        rxe_die "no directory with $MEM MiB free for the guest's memory" \
                "(tried /dev/shm, ${TMPDIR:-/tmp}, /var/tmp)"
    uml_write_init "$WORK/ctl/init"
    awk 'NF == 0 { print; exit } 1' /proc/cpuinfo >"$WORK/ctl/cpuinfo"
    # A system call in UML costs 6 us on one CPU, 47 us when it moves between
    # two: the kernel and its processes stay on one.
    if [ -z "$CPU" ]; then
        mapfile -t cpus < <(jobs_cpus)
        CPU=${cpus[$(($$ % ${#cpus[@]}))]}
    fi
    exec 7<>"$WORK/out" 8<>"$WORK/err"
    TMPDIR=$memdir setsid taskset -c "$CPU" "$UML_KERNEL" mem="${MEM}M" \
        rootfstype=hostfs rootflags=/ ro "init=$WORK/ctl/init" \
        con=null con0=null,fd:1 ssl=null ssl1=null,fd:7 ssl2=null,fd:8 \
        quiet loglevel=4 random.trust_cpu=on "uml_dir=$WORK/" umid=u \
        ${APPEND[@]+"${APPEND[@]}"} \
        </dev/null >"$WORK/console" 2>&1 9>&- &
    VM_PID=$!
    exec 7>&- 8>&-
}
