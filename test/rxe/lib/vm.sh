# shellcheck shell=bash disable=SC2034
# What the two kinds of virtual machine have in common: the directory through
# which runner and guest talk, the output, the time limit, the exit status.
# Sourced by run.  A backend brings <vm>_possible and <vm>_start.
#
# In $WORK: ctl/ (seen by the guest as /run/rxe: cmd, env, conf, *.sh in,
# status, error out), the FIFOs out and err, the guest's console, and alive,
# the FIFO of the watchdog.

# The watchdog outlives everything: on the time limit, and when the runner
# itself dies, it kills the machine.  It sleeps in a read from a FIFO that only
# the runner has open for writing (descriptor 9): its first line names the
# process group to kill, the second says that all is over.
vm_start_watchdog() {
    mkfifo "$WORK/alive"
    (
        trap '' INT TERM HUP
        exec 3<"$WORK/alive" >/dev/null 2>&1
        read -r pid <&3 || exit 0
        read -r -t "$TIMEOUT" <&3
        status=$?
        # 0: a line, 1: the runner is gone, above 128: the time is up
        [ "$status" -ne 0 ] || exit 0
        [ "$status" -le 128 ] || : >"$WORK/timeout"
        kill -9 -- "-$pid"
        [ "$status" -gt 128 ] || rm -rf "$WORK"
    ) &
    disown
    exec 9>"$WORK/alive"
}

vm_clean_up() {
    trap '' PIPE    # the watchdog may be gone
    if [ -n "$VM_PID" ]; then
        kill -9 -- "-$VM_PID"
        wait "$VM_PID"
    fi
    # those of a machine that was never started wait for it to open the FIFOs
    [ ${#READERS[@]} -eq 0 ] || kill "${READERS[@]}"
    echo over >&9
    rm -rf "$WORK"
} 2>/dev/null

vm_prepare() {
    WORK=$(mktemp -d "${TMPDIR:-/tmp}/rxe.XXXXXX") || rxe_die "mktemp failed"
    VM_PID=''
    READERS=()
    exec 9>/dev/null
    trap vm_clean_up EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    trap 'exit 129' HUP
    mkdir "$WORK/ctl"
    mkfifo "$WORK/out" "$WORK/err"
    : >"$WORK/console"
    cp "$RXE_DIR/lib/fabric.sh" "$RXE_DIR/lib/guest.sh" "$WORK/ctl"
    rxe_save_command "$WORK/ctl" "$@"
    {
        printf 'VM=%q DEVICES=%q MTU=%q CTL=%q RW=(' \
               "$VM" "$DEVICES" "$MTU" "$WORK/ctl"
        [ ${#RW[@]} -eq 0 ] || printf '%q ' "${RW[@]}"
        echo ')'
    } >"$WORK/ctl/conf"
}

# The exit status of a run that has ended, with a message about the error
vm_status() {
    if [ -e "$WORK/ctl/error" ]; then
        rxe_say "the guest's set-up failed: $(cat "$WORK/ctl/error")"
        tail -n 20 "$WORK/console" >&2
    fi
    if [ -s "$WORK/ctl/status" ]; then
        return "$(cat "$WORK/ctl/status")"
    fi
    if [ -e "$WORK/timeout" ]; then
        rxe_say "timeout after $TIMEOUT s"
        return "$RXE_TIMEOUT"
    fi
    rxe_say "the machine ended without a status; the end of its output:"
    tail -n 25 "$WORK/console" >&2
    return "$RXE_DIED"
}

vm_run() {
    local status

    # Guests take memory as they use it: half is what most runs get to
    rxe_check_memory "$((MEM / 2))" "a virtual machine"
    "${VM}_prepare"
    vm_prepare "$@"
    vm_start_watchdog
    cat <"$WORK/out" 9>&- &
    READERS+=($!)
    cat <"$WORK/err" >&2 9>&- &
    READERS+=($!)
    "${VM}_start"
    echo "$VM_PID" >&9

    wait "$VM_PID" 2>/dev/null
    kill -9 -- "-$VM_PID" 2>/dev/null
    VM_PID=''
    wait "${READERS[@]}"
    READERS=()
    [ -z "$CONSOLE" ] || cp "$WORK/console" "$CONSOLE"
    vm_status
    status=$?
    exit "$status"
}
