# shellcheck shell=bash
# TCP ports for servers of tests: sourced, never run.
#
#   . port.sh; port_take; server -p "$port" &

# port_take: sets port to a TCP port that is not in use and that no other test takes
# while this shell or a child of it lives: a lock on a file keeps it. It is below the
# ports that the kernel gives to sockets without one. Returns 1 if there is none.
# Another program may still bind it before the server does.
port_take() {
    local low=10000 high=32768 tries file fd
    read -r high _ 2>/dev/null </proc/sys/net/ipv4/ip_local_port_range
    [ "$high" -gt 12000 ] || high=32768
    port=${port_last:-$((low + $$ % (high - low)))}
    for ((tries = low; tries < high; ++tries)); do
        port=$((port + 1))
        [ $port -lt "$high" ] || port=$low
        file=${TMPDIR:-/tmp}/uct_vqp.port.$port
        [ -e "$file" ] || : 2>/dev/null >"$file"
        { exec {fd}<"$file"; } 2>/dev/null || continue
        if flock -n $fd && ! port_used $port; then
            port_last=$port
            return 0
        fi
        exec {fd}<&-
    done
    return 1
}

# port_used PORT: has a socket of this machine the port?
port_used() {
    grep -qs "^ *[0-9]*: [0-9A-F]*:$(printf %04X "$1") " /proc/net/tcp /proc/net/tcp6
}

# port_wait PORT PID: until a server listens there. Returns 1 if process PID has ended.
port_wait() {
    until grep -qs ":$(printf %04X "$1") 0*:0000 0A" /proc/net/tcp /proc/net/tcp6; do
        kill -0 "$2" 2>/dev/null || return 1
        sleep 0.01
    done
}
