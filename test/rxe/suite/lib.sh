# shellcheck shell=bash disable=SC2034
# Functions of check's suites, inside test/rxe/run: a table of cases, programs
# started with the transport under test, pairs of client and server, and what
# checks of the transport's statistics.
#
# A suite is a file that calls `add NAME SECONDS FUNCTION [ARG]...` for each of
# its cases.  A case runs in a shell of its own, in an empty directory, and
# passes when its function returns 0.  `skip REASON` ends it otherwise.
#
# From check: CHECK_TL (vqp or rc_v), CHECK_BUILD (the build tree), CHECK_BIN
# (programs compiled for the suites), CHECK_PATHS (paths of a vqp),
# CHECK_MAP_COUNT (mappings that a process of the host may have).

# shellcheck source-path=SCRIPTDIR source=../../lib/perftest.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../lib/perftest.sh"

CASE_NAMES=() CASE_LIMITS=() CASE_COMMANDS=()
SKIPPED=77                  # exit status of a case that was skipped
read -ra DEVS <<<"${RXE_DEVS:-}"
STATS=stats.json            # in the directory of the case

add() {
    CASE_NAMES+=("$1")
    CASE_LIMITS+=("$2")
    shift 2
    CASE_COMMANDS+=("$(printf '%q ' "$@")")
}

# For a suite that takes another one's functions only
forget_cases() {
    CASE_NAMES=() CASE_LIMITS=() CASE_COMMANDS=()
}

skip() {
    echo "skip: $*"
    exit $SKIPPED
}

fail() {
    echo "failed: $*"
    exit 1
}

need_tool() {
    local tool
    for tool in "$@"; do
        type -P "$tool" >/dev/null || skip "$tool is not installed"
    done
}

need_devices() {
    [ ${#DEVS[@]} -ge "$1" ] || skip "needs $1 devices"
}

need_faults() {
    [ "${VQP_RXE_FAULTS:-0}" = 1 ] ||
        skip "faults are only for devices that the runner made"
}

# The environment that selects the transport under test.  For the baseline,
# what stock UCX needs on rxe.
set_transport() {
    export UCX_WARN_UNUSED_ENV_VARS=n
    case $CHECK_TL in
    vqp)
        RUN=("$CHECK_BUILD/contrib/vqp-run")
        UCT_TL=vqp
        export UCX_TLS=vqp
        export UCX_VQP_NUM_PATHS=${UCX_VQP_NUM_PATHS:-$CHECK_PATHS}
        export UCX_VQP_MIN_PATHS=${UCX_VQP_MIN_PATHS:-$UCX_VQP_NUM_PATHS}
        export UCX_VQP_STATS_FILE=$PWD/$STATS
        # with one CPU the driver and the processes take turns: a path is often silent
        # for longer than on a network
        export UCX_VQP_PATH_TIMEOUT=inf
        ;;
    *)
        RUN=(env)
        UCT_TL=${CHECK_TL/rc_v/rc_verbs}
        export UCX_TLS=$CHECK_TL,self
        export UCX_UD_VERBS_ETH_DGID_CHECK=n UCX_IB_GID_INDEX=$RXE_GID
        ;;
    esac
}

# on DEV COMMAND...: with the transport, on that device
on() {
    local dev=$1
    shift
    UCX_NET_DEVICES=$dev:1 "${RUN[@]}" "$@"
}

# serve DEV COMMAND...: the same in the background, in server.log; SERVER is the
# process itself
serve() {
    local dev=$1
    shift
    UCX_NET_DEVICES=$dev:1 exec "${RUN[@]}" "$@" >server.log 2>&1 &
    SERVER=$!
}

# wait_listen PORT PID: until process PID's server accepts. The limit of the case ends
# what hangs.
wait_listen() {
    local port
    port=$(printf ':%04X 0*:0000 0A' "$1")
    until grep -q "$port" /proc/net/tcp /proc/net/tcp6; do
        kill -0 "$2" 2>/dev/null || fail "the server ended early"
        sleep 0.02
    done
}

# A port that no case of this guest used before
new_port() {
    PORT=$((10000 + (CASE_INDEX * 20 + (PORT_COUNT = ${PORT_COUNT:-0} + 1)) % 20000))
}

# pair PROGRAM [ARG]...: ucx_perftest or alike between the first two devices;
# the client's output goes to client.log, the server's to server.log
pair() {
    local status
    new_port
    serve "${DEVS[0]}" "$@" -p $PORT
    wait_listen $PORT $SERVER
    on "${DEVS[1]:-${DEVS[0]}}" "$@" -p $PORT 127.0.0.1 >client.log 2>&1
    status=$?
    [ $status -eq 0 ] || fail "the client ended with $status"
    wait $SERVER || fail "the server ended with $?"
}

# The sums of "frags" over all interfaces in the statistics, one per path
stats_frags() {
    awk '{
        while (match($0, /"path": *[0-9]+, *"frags": *[0-9]+/)) {
            split(substr($0, RSTART, RLENGTH), part, /[:,]/)
            frags[part[2] + 0] += part[4]
            $0 = substr($0, RSTART + RLENGTH)
        }
    }
    END { for (path in frags) print path, frags[path] }' "$STATS" | sort -n
}

# The largest value of a member called NAME in the statistics
stats_max() {
    awk -v name="\"$1\": *[0-9]+" '{
        while (match($0, name)) {
            value = substr($0, RSTART, RLENGTH)
            sub(/.*: */, "", value)
            if (value + 0 > max) max = value + 0
            $0 = substr($0, RSTART + RLENGTH)
        }
    }
    END { print max + 0 }' "$STATS"
}

# Every path must have carried its share of the frags: 15 to 35 % of four paths that
# take turns, one frag where the measured rate of the paths decides. Shares are
# not checked with fewer than 50 frags per path: such a case has to pass "few".
check_shares() {
    local low=60 high=140
    [ "$CHECK_TL" = vqp ] || return 0
    [ -s "$STATS" ] || fail "the transport wrote no statistics"
    [ "${UCX_VQP_SCHED:-left}" = rr ] || low=0 high=$((100 * UCX_VQP_NUM_PATHS))
    stats_frags | awk -v paths="$UCX_VQP_NUM_PATHS" -v few="${1:-}" \
        -v low=$low -v high=$high '
        { path[NR] = $1; frags[NR] = $2; total += $2 }
        END {
            if (total < 50 * paths) {
                print (few ? "" : "failed: ") "only " total + 0 " frags"
                exit few ? 0 : 1
            }
            if (NR != paths) {
                print "failed: " NR " paths instead of " paths; exit 1
            }
            for (i = 1; i <= NR; ++i) {
                share = frags[i] * 100 / total
                line = line sprintf(" %.0f%%", share)
                if (frags[i] == 0 || share * paths < low || share * paths > high) bad = 1
            }
            print (bad ? "failed: " : "") "frags per path:" line
            exit bad
        }'
}

# Fragments must have come out of order, and it must have been noticed
check_reordered() {
    local depth
    [ "$CHECK_TL" = vqp ] || return 0
    depth=$(stats_max ooo_max)
    echo "largest out of order depth: $depth"
    [ "$depth" -gt 1 ] || fail "nothing came out of order"
}

# perftest_sizes TEST "SIZE:ITERATIONS..." [ARG]...: one pair of processes runs
# the test with all sizes; each must give a result
perftest_sizes() {
    local test=$1 sizes=$2 pair count=0 results
    shift 2
    need_tool ucx_perftest
    for pair in $sizes; do
        echo "s${pair%:*} -t $test -s ${pair%:*} -n ${pair#*:}" \
             "-w $((${pair#*:} / 10 + 1)) $*"
        count=$((count + 1))
    done >sizes.txt
    perftest_find
    pair "${perftest[@]}" -b sizes.txt -f
    results=$(grep -cE '^ *s[0-9,]+ +[0-9]+ +[0-9.]+ ' client.log)
    [ "$results" -eq "$count" ] ||
        fail "$results results instead of $count"
}
