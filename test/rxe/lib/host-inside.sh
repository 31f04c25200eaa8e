#!/bin/bash
# The child of the host backend, in the name space where the devices are to be:
# makes the fabric, sees whether it carries packets, runs the command.
# Its parameters come in the environment (see host_try in host.sh).
set -u
: "${RXE_DIR:?}"
# shellcheck source-path=SCRIPTDIR source=util.sh
. "$RXE_DIR/lib/util.sh"
# shellcheck source-path=SCRIPTDIR source=fabric.sh
. "$RXE_DIR/lib/fabric.sh"

# Do packets get from the first device to itself?
probe() {
    local dev=${RXE_DEVS%% *} port=$((20000 + $$ % 10000)) server status
    timeout 5 ibv_rc_pingpong -d "$dev" -g "$RXE_GID" -p "$port" -n 5 \
        >/dev/null 2>&1 &
    server=$!
    sleep 0.3
    timeout 4 ibv_rc_pingpong -d "$dev" -g "$RXE_GID" -p "$port" -n 5 \
        127.0.0.1 >/dev/null 2>&1
    status=$?
    kill "$server" 2>/dev/null
    wait "$server"
    return "$status"
}

if [ "$HOST_SPACE" = own ]; then
    mount -t sysfs sys /sys
else
    # This space stays: leave nothing in it
    trap 'fabric_remove "$DEVICES"' EXIT
    trap 'exit 143' TERM INT HUP
fi
fabric_make "$DEVICES" "$MTU" || {
    rxe_say "$FABRIC_ERROR"
    exit "$RXE_USAGE"
}
if [ "$HOST_SPACE" = own ]; then
    probe || exit "$RXE_USAGE"
else
    VQP_RXE_FAULTS=0
fi
: >"$HOST_STARTED"
ulimit -l unlimited
"$@" </dev/null
exit
