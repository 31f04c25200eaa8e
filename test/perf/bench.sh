# shellcheck shell=bash
# What the benches of test/perf/bench share. A bench defines
#
#   measure       prints lines "bench,config,parameter,value,unit,ratio"; with
#                 QUICK=yes it takes some seconds and only shows that it works
#   draw CSV DIR  makes pictures of such lines, or does nothing
#
# and ends with: bench "$@". Run by test/perf/run as `bench/NAME measure` and
# `bench/NAME draw CSV DIR`, with PERF_BUILD, the build tree, and QUICK.
#
# A line whose bench is "target" is a row of the page's table of targets: name
# of the target, what is required, what was measured, unit, and met or missed.
set -u -o pipefail
PERF=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
TOP=$(cd "$PERF/../.." && pwd)
QUICK=${QUICK:-no}
HEAD=bench,config,parameter,value,unit,ratio
export UCX_WARN_UNUSED_ENV_VARS=n

# quick_or QUICK FULL: the argument for this run
quick_or() {
    if [ "$QUICK" = yes ]; then echo "$1"; else echo "$2"; fi
}

# on_fabric OPTION... -- COMMAND...: on the software fabric of the build
on_fabric() {
    "$TOP/contrib/fabric-run" --build "$PERF_BUILD" --violations off \
        --timeout 300 "$@"
}

# transport CONFIG [VARIABLE=VALUE]...: sets TRANSPORT, a command to put in front of a
# UCX program for one of the configurations that are compared:
#   vqp              with its default options, but for the given ones
#   vqp-N            with N paths, always
#   rc_verbs         stock
#   rc_verbs-pathsN  with its own multi-path, which is UCP's
transport() {
    local n=${1##*[!0-9]} config=$1
    shift
    case $config in
        rc_verbs*) TRANSPORT=(env "UCX_TLS=rc_v,self" "UCX_IB_GID_INDEX=${RXE_GID:-1}"
                              UCX_UD_VERBS_ETH_DGID_CHECK=n) ;;
        vqp*) TRANSPORT=(env UCX_TLS=vqp "$@") ;;
    esac
    case $config in
        rc_verbs-paths*) TRANSPORT+=("UCX_IB_NUM_PATHS=$n" "UCX_MAX_RNDV_RAILS=$n") ;;
        vqp-*) TRANSPORT+=("UCX_VQP_NUM_PATHS=$n" "UCX_VQP_MIN_PATHS=$n") ;;
    esac
    [[ $config != vqp* ]] || TRANSPORT+=("$PERF_BUILD/contrib/vqp-run")
}

# ratios: fills the last column: against rc_verbs of the same bench and
# parameter. Ratios that are there stay.
ratios() {
    awk -F, -v OFS=, '
        { line[NR] = $0; base[$1, $3] = ($2 == "rc_verbs") ? $4 : base[$1, $3] }
        END {
            for (i = 1; i <= NR; ++i) {
                $0 = line[i]
                if ($1 != "target" && $6 == "" && base[$1, $3] > 0)
                    $6 = sprintf("%.3f", $4 / base[$1, $3])
                print
            }
        }'
}

# target NAME "ASKED" VALUE UNIT: a row; ASKED is "<= N", "< N", ">= N"
target() {
    awk -v name="$1" -v asked="$2" -v value="$3" -v unit="$4" 'BEGIN {
        split(asked, part, " ")
        limit = part[2] + 0
        if (value == "")
            verdict = "not measured"
        else if ((part[1] == "<=" && value + 0 <= limit) ||
                 (part[1] == "<" && value + 0 < limit) ||
                 (part[1] == ">=" && value + 0 >= limit))
            verdict = "met"
        else
            verdict = "missed"
        printf "target,%s,%s,%s,%s,%s\n", name, asked, value, unit, verdict
    }'
}

# plot OUTPUT ARGUMENT...: by test/perf/plot, of value over parameter
plot() {
    "$PERF/plot" --x parameter --y value --series config "${@:2}" >"$1.new" &&
        mv "$1.new" "$1"
}

bench() {
    case ${1:-} in
        measure) measure | { echo "$HEAD"; grep -v "^$HEAD\$"; } ;;
        draw) draw "$2" "$3" ;;
        *) echo "usage: ${0##*/} measure | draw CSV DIR" >&2; exit 2 ;;
    esac
}
