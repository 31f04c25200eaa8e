#!/bin/bash
# demo-links.sh bandwidth|cut BUILD: for demo.sh: what several links are worth, on
# the timed mode of the software fabric. Its clock is virtual: links have the rate
# that they are given, on every machine.
#
#   bandwidth  puts between two workers over 1, 2 and 4 links, beside rc_verbs
#   cut        a stream of checked puts over four links, one of which drops all
#              packets for 20 ms
set -u
what=${1:?bandwidth or cut}
build=${2:?the build directory}
top=$(cd "$(dirname "$0")/.." && pwd)
export UCX_WARN_UNUSED_ENV_VARS=n

# timed OPTION... -- COMMAND...
timed() {
    "$top/contrib/fabric-run" --build "$build" --violations off --timeout 100 \
        --mode timed -o CLOCK=virtual -o DELAY=2us -o JITTER=0 "$@"
}

# bars MAX: reads "LABEL|VALUE|NOTE", prints a bar for each value
bars() {
    awk -F'|' -v max="$1" '
        {
            n = int($2 / max * 40 + 0.5)
            bar = substr("########################################", 1, n)
            printf "%-18s %5d MB/s %-40s %s\n", $1, $2, bar, $3
        }'
}

# flow TRANSPORT-ENVIRONMENT...: MB/s of puts of 1 MiB. Each queue pair has a link
# of 1000 MB/s of its own, as a flow on bonded ports
flow() {
    timed -o PATH_RATE=8000 -o PORT_RATE=1000000 -- env "$@" \
        "$build/test/perf/flow" --tests put_bw --sizes 1048576 --time 0.02 |
        awk -F, '$1 == "put_bw" { printf "%d\n", $4 }'
}

bandwidth() {
    local links mbps
    mbps=$(flow UCX_TLS=rc_v,self UCX_IB_GID_INDEX=1)
    [ -n "$mbps" ] || return
    echo "rc_verbs|$mbps"
    for links in 1 2 4; do
        mbps=$(flow UCX_TLS=vqp UCX_VQP_NUM_PATHS=$links UCX_VQP_MIN_PATHS=$links \
            "$build/contrib/vqp-run")
        [ -n "$mbps" ] || return
        echo "vqp, $links link$([ $links = 1 ] || echo s)|$mbps"
    done
}

# The stream's lines "trace,WHICH,MS,MB/s,..." are those of half a millisecond
stream() {
    UCX_IB_GID_INDEX=1 UCX_VQP_NUM_PATHS=4 UCX_VQP_MIN_PATHS=4 \
        UCX_VQP_RAILS="fab0:1,fab1:1,fab2:1,fab3:1;fab4:1,fab5:1,fab6:1,fab7:1" \
        timed --devices 8 -o PORT_RATE=8000 -- "$build/contrib/vqp-run" \
        "$build/test/perf/failover_bench" --links 4 --trace 0.0005 \
        --warm 0.01 --dark 0.02 --limit 0.04
}

# Means of 2 ms; fails if the second link was never idle, or is not used again
plot() {
    awk -F, '
        $1 == "trace" {
            at = int($3 / 2)
            if ($2 == "all") { all[at] += $4; ++count[at]; if (at > last) last = at }
            if ($2 == "link 2") second[at] += $4
        }
        END {
            for (at = 0; at < last; ++at) {
                link = second[at] / count[at]
                note = (link < 1) ? "link 2 is idle" : ""
                idle += (link < 1)
                if ((link > 900) && idle && !back) { note = "its share is back"; back = 1 }
                printf "%2d ms|%d|%s\n", 2 * at, all[at] / count[at], note
            }
            exit !(idle && back)
        }'
}

set -o pipefail
case $what in
    bandwidth) bandwidth | bars 4000 ;;
    cut) stream | plot | bars 4000 ;;
    *) echo "usage: demo-links.sh bandwidth|cut BUILD" >&2; exit 2 ;;
esac
