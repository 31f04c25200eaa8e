# shellcheck shell=bash disable=SC2034
# Backend "qemu": the command runs under the distribution's stock kernel in an
# emulated machine (TCG), with the host's root below an overlay in memory.
# Slower than UML, but with several CPUs and a kernel as people run it.
# Sourced by run.

qemu_possible() {
    RXE_WHY="the QEMU backend needs an x86_64 machine"
    [ "$(uname -m)" = x86_64 ] || return 1
    RXE_WHY="qemu-system-x86_64 is missing (apt-get install qemu-system-x86)"
    rxe_have qemu-system-x86_64
}

# Finds or makes the kernel, its modules, and the first root
qemu_prepare() {
    QEMU_DIR=$("$RXE_DIR/qemu/build") || exit "$RXE_USAGE"
}

# qemu_share ID DIR [OPTION]: a directory of the host for the guest to mount
qemu_share() {
    QEMU_ARGS+=(
        -fsdev "local,id=$1,path=$2,security_model=none,multidevs=remap${3:-}"
        -device "virtio-9p-pci,fsdev=$1,mount_tag=$1")
}

qemu_start() {
    local i=0 dir
    echo "MODULES=$QEMU_DIR/modules" >>"$WORK/ctl/conf"
    ln -s out "$WORK/out.out"
    ln -s err "$WORK/err.out"
    mkfifo "$WORK/out.in" "$WORK/err.in"
    QEMU_ARGS=(
        -nodefaults -no-user-config -display none -no-reboot
        -M "q35,vmport=off,hpet=off" -accel "tcg,thread=multi,tb-size=256"
        -cpu "max,la57=off" -smp "$SMP" -m "$MEM"
        -kernel "$QEMU_DIR/vmlinuz" -initrd "$QEMU_DIR/initrd"
        -append "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off \
nokaslr no5lvl tsc=reliable random.trust_cpu=on audit=0 ${APPEND[*]:-}"
        -serial "file:$WORK/console" -device "virtio-serial-pci,max_ports=4"
        -chardev "pipe,id=out,path=$WORK/out"
        -device "virtserialport,chardev=out,nr=1,name=out"
        -chardev "pipe,id=err,path=$WORK/err"
        -device "virtserialport,chardev=err,nr=2,name=err")
    qemu_share root / ,readonly=on
    qemu_share ctl "$WORK/ctl"
    for dir in ${RW[@]+"${RW[@]}"}; do
        qemu_share "rw$i" "$dir"
        i=$((i + 1))
    done
    setsid qemu-system-x86_64 "${QEMU_ARGS[@]}" \
        </dev/null >>"$WORK/console" 2>&1 9>&- &
    VM_PID=$!
}
