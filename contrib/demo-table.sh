#!/bin/bash
# demo-table.sh [--csv] BUILD [ROW]...: for demo.sh, inside contrib/fabric-run or
# test/rxe/run: the table that sets stock rc_verbs beside vqp with its default options,
# and with four paths always (vqp-4), between the first two RDMA devices, in the same
# run. ROUNDS (3) rounds take turns; medians are shown. --csv: for test/perf/bench.
set -u
csv=no
[ "${1:-}" != --csv ] || { csv=yes; shift; }
# shellcheck source-path=SCRIPTDIR source=../test/lib/perftest.sh
. "$(dirname "$0")/../test/lib/perftest.sh"
perftest_find
build=${1:?the build directory}
shift
rounds=${ROUNDS:-3}
read -ra devs <<<"${RXE_DEVS:?run me by contrib/fabric-run or test/rxe/run}"
server_dev=${devs[0]}
client_dev=${devs[1]:-${devs[0]}}
out=$(mktemp -d "${TMPDIR:-/tmp}/demo-table.XXXXXX") || exit 1
trap 'rm -rf "$out"' EXIT
export UCX_WARN_UNUSED_ENV_VARS=n
port=15000

# name, perftest's test, message size, iterations, column of its output, unit
rows=("$@")
[ $# -gt 0 ] || rows=(tag_lat:8:1000:latency:us
                      tag_bw:65536:400:bandwidth:MB/s
                      tag_bw:1048576:60:bandwidth:MB/s
                      ucp_put_bw:1048576:60:bandwidth:MB/s
                      ucp_am_bw:65536:400:bandwidth:MB/s)
columns=(rc_verbs vqp vqp-4)
# Long enough for what is measured to be the steady state. With Soft-RoCE that would take
# minutes
scale=1
[ -z "${VQP_FABRIC_DEVICES:-}" ] || scale=50

# perf COLUMN DEVICE ARGUMENT...: ucx_perftest over that transport
perf() {
    local column=$1 dev=$2
    shift 2
    case $column in
        rc_verbs)
            # what stock UCX needs on Soft-RoCE
            UCX_TLS=rc_v,self UCX_UD_VERBS_ETH_DGID_CHECK=n \
                UCX_IB_GID_INDEX=${RXE_GID:-1} UCX_NET_DEVICES=$dev:1 \
                exec "${perftest[@]}" "$@" ;;
        vqp-*)
            export UCX_VQP_NUM_PATHS=${column#*-} UCX_VQP_MIN_PATHS=${column#*-}
            perf vqp "$dev" "$@" ;;
        vqp)
            UCX_TLS=vqp UCX_NET_DEVICES=$dev:1 \
                exec "$build/contrib/vqp-run" "${perftest[@]}" "$@" ;;
    esac
}

listening() {
    grep -q "$(printf ':%04X 0*:0000 0A' "$1")" /proc/net/tcp /proc/net/tcp6
}

# one COLUMN TEST SIZE ITERATIONS QUANTITY: prints the figure
one() {
    local column=$1 args server i
    args=(-t "$2" -s "$3" -n "$4" -w $(($4 / 10)) -f -v)
    port=$((port + 1))
    perf "$column" "$server_dev" "${args[@]}" -p $port >"$out/server" 2>&1 &
    server=$!
    for ((i = 0; i < 500; ++i)); do
        ! listening $port || break
        sleep 0.02
    done
    (perf "$column" "$client_dev" "${args[@]}" -p $port 127.0.0.1) \
        >"$out/client" 2>&1 || {
        kill $server 2>/dev/null
        echo "demo-table: $column $2 $3 failed:" >&2
        grep -v '^[#+|]' "$out/client" | head -n 3 >&2
        return 1
    }
    wait $server
    # iterations, typical, average, overall latency (us), average, overall MB/s
    awk -F, -v q="$5" '/^ *[0-9]+(,[0-9.]+)+$/ {v = q == "latency" ? $3 : $6}
        END {if (v == "") exit 1; print v}' "$out/client"
}

# median [FILE]
median() {
    sort -n "$@" | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'
}

# ratio COLUMN: the median of its ratios to rc_verbs, each of one round
ratio() {
    paste "$out/$1" "$out/rc_verbs" | awk '{printf "%.3f\n", $1 / $2}' | median
}

# measure TEST SIZE ITERATIONS QUANTITY: rounds into $out/COLUMN
measure() {
    local column round
    rm -f "${columns[@]/#/$out/}"
    for ((round = 0; round < rounds; ++round)); do
        for column in "${columns[@]}"; do
            one "$column" "$@" >>"$out/$column" || return
        done
    done
}

[ $csv = yes ] || {
    printf '%-12s %9s' test size
    printf ' %10s' "${columns[@]}"
    printf '  unit\n'
}
for row in "${rows[@]}"; do
    IFS=: read -r test size iterations quantity unit <<<"$row"
    measure "$test" "$size" $((iterations * scale)) "$quantity" || exit 1
    if [ $csv = yes ]; then
        for column in "${columns[@]}"; do
            echo "$test,$column,$size,$(median "$out/$column"),$unit,$(ratio "$column")"
        done
        continue
    fi
    printf '%-12s %9s' "$test" "$size"
    for column in "${columns[@]}"; do
        printf ' %10.1f' "$(median "$out/$column")"
    done
    printf '  %s\n' "$unit"
done
[ $csv = no ] || exit 0
if [ -n "${VQP_FABRIC_DEVICES:-}" ]; then
    echo "(there is no network: a post copies the data at once, in software."
    echo " Compare columns; links that add up are what this can not show)"
elif grep -q 'User Mode Linux' /proc/cpuinfo; then
    echo "(both ends took turns on the one CPU of a virtual machine: compare"
    echo " columns, and take none of these figures for a property of hardware)"
fi
