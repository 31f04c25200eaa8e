# shellcheck shell=bash disable=SC2034
# Helpers shared by the rxe runner's parts: messages, room checks, the cache.
# Sourced, never run.  Callers set PROG, the name in front of messages.

RXE_USAGE=126      # exit status: wrong usage, or the runner can't be set up
RXE_DIED=125       # exit status: the machine died before the command ended
RXE_TIMEOUT=124    # exit status: the time limit passed

rxe_say() {
    echo "$PROG: $*" >&2
}

rxe_die() {
    rxe_say "$@"
    exit "$RXE_USAGE"
}

rxe_have() {
    local tool
    for tool in "$@"; do
        type -P "$tool" >/dev/null || return 1
    done
}

# rxe_need "PACKAGES" TOOL...: end with a hint when a tool is not installed
rxe_need() {
    local packages=$1 tool
    shift
    for tool in "$@"; do
        rxe_have "$tool" ||
            rxe_die "$tool is missing; try: apt-get install $packages"
    done
}

# Free space in MiB of the file system that holds DIR
rxe_free_disk() {
    df -Pm "$1" 2>/dev/null | awk 'NR == 2 { print $4 }'
}

# Memory in MiB that can be had without swapping: the machine's, or what the
# control group leaves when that is less
rxe_free_memory() {
    local host max now
    host=$(awk '/^MemAvailable/ { print int($2 / 1024) }' /proc/meminfo)
    if max=$(cat /sys/fs/cgroup/memory.max 2>/dev/null) &&
       [[ $max =~ ^[0-9]+$ ]]; then
        now=$(cat /sys/fs/cgroup/memory.current 2>/dev/null || echo 0)
        max=$(((max - now) / 1048576))
        [ "$max" -ge "$host" ] || host=$max
    fi
    echo "$host"
}

rxe_check_memory() {
    local free
    free=$(rxe_free_memory)
    [ "$free" -ge "$1" ] ||
        rxe_die "$2 needs $1 MiB of memory, $free MiB are free"
}

rxe_check_disk() {
    local free
    free=$(rxe_free_disk "$1")
    [ "${free:-0}" -ge "$2" ] ||
        rxe_die "$3 needs $2 MiB in $1, ${free:-0} MiB are free"
}

# The directory for what is expensive to make.  Prints it; makes it.
rxe_cache_dir() {
    local dir=${VQP_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/uct_vqp}
    mkdir -p "$dir" || rxe_die "can't make the cache directory $dir"
    readlink -f "$dir"
}

# The newest version of package NAME that apt has (empty: none)
rxe_package_version() {
    # apt takes a name with a dot for a pattern too: linux-source-6.1 for 6.12
    apt-cache show "$1" 2>/dev/null |
        awk -v name="$1" '/^Package:/ { same = $2 == name }
                          /^Version:/ && same { print $2; exit }'
}

# Writes to directory DIR what the guest needs to run a command as if it had
# been started here: cmd (a script) and env.
rxe_save_command() {
    local dir=$1
    shift
    {
        printf 'cd %q || exit %d\n' "$PWD" $RXE_USAGE
        printf 'exec'
        printf ' %q' "$@"
        echo
    } >"$dir/cmd"
    export -p >"$dir/env"
}
