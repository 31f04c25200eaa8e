# shellcheck shell=bash disable=SC2034
# What the benchmarks share: the configurations that are compared, and a table
# of medians.  Sourced by instr; PERF_BUILD is the build tree.

# vqp-N: with N paths
PERF_CONFIGS=(rc_verbs vqp-1 vqp-2 vqp-4)

# perf_with CONFIG COMMAND...: with the transport of that configuration
perf_with() {
    local config=$1
    shift
    case $config in
    rc_verbs)
        UCX_TLS=${PERF_BASE_TLS:-rc_v,self} UCX_IB_GID_INDEX=$RXE_GID \
            UCX_UD_VERBS_ETH_DGID_CHECK=n "$@" ;;
    vqp-*-failover)
        UCX_VQP_FAILOVER=y perf_with "${config%-failover}" "$@" ;;
    vqp-*)
        UCX_VQP_FAILOVER=${UCX_VQP_FAILOVER:-n} UCX_TLS=vqp \
            UCX_VQP_NUM_PATHS=${config#vqp-} UCX_VQP_MIN_PATHS=${config#vqp-} \
            "$PERF_BUILD/contrib/vqp-run" "$@" ;;
    esac
}

# perf_table UNIT BETTER: reads lines "ROW CONFIG VALUE", several of each, and
# prints a markdown table of medians, with the ratio to rc_verbs behind each
# other; BETTER (more or less) is said in the heading.  Rows keep their order.
perf_table() {
    sort -k1,1 -k2,2 -k3,3g | awk -v configs="${PERF_CONFIGS[*]}" \
        -v unit="$1" -v better="$2" '
        function median(key) {
            if (!(key in count)) return ""
            return (value[key, int((count[key] + 1) / 2)] + \
                    value[key, int((count[key] + 2) / 2)]) / 2
        }
        {
            key = $1 " " $2
            value[key, ++count[key]] = $3
            if (!($1 in seen)) { seen[$1] = 1; row[++rows] = $1 }
        }
        END {
            n = split(configs, config, " ")
            line = "| " unit ", " better " is better |"
            rule = "|---|"
            for (c = 1; c <= n; ++c) {
                line = line " " config[c] " |"
                rule = rule "---|"
            }
            print line "\n" rule
            for (r = 1; r <= rows; ++r) {
                name = row[r]
                sub(/^[0-9]+:/, "", name)
                gsub(/,/, " ", name)
                line = "| " name " |"
                base = median(row[r] " " config[1])
                for (c = 1; c <= n; ++c) {
                    m = median(row[r] " " config[c])
                    if (m == "") line = line " - |"
                    else if (c == 1 || base == 0 || base == "")
                        line = line sprintf(" %.4g |", m)
                    else line = line sprintf(" %.4g (%.2f) |", m, m / base)
                }
                print line
            }
        }'
}
