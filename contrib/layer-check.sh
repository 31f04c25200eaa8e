#!/bin/sh
# Layering and form of the sources, without building anything:
# - src/core names nothing of libibverbs or UCX and includes libc headers only; its
#   folders include only what lies below them
# - src/verbs names nothing of UCX
# - versions are tested in the compat headers only
# - src/tools uses libc and src/core, vqp-probe src/verbs too, vqp-accept UCX's public API
# - each source file is in its directory's sources.am, and in a table of
#   docs/design.md
# - no file is longer than 750 lines, no line longer than 100 columns
# - each file begins with its license, then says what it is for
# Prints what breaks a rule as FILE:LINE: TEXT; status 1 then.
# shellcheck disable=SC2086 # lists of files
cd "$(dirname "$0")/.." || exit 2
bad=0
core=$(find src/core -name '*.[ch]' | sort)
all=$(find src -name '*.[ch]' | sort)

# rule TEXT FOUND: what was found, one per line, breaks the rule
rule() {
    [ -n "$2" ] || return 0
    bad=1
    printf 'layer-check: %s:\n' "$1"
    printf '%s\n' "$2" | sed 's/^/  /'
}

rule "src/core names libibverbs or UCX" \
    "$(grep -nEi '(^|[^a-z])(ibv_|uct_|ucs_|ucp_|rdma_)' $core)"
rule "src/core includes more than libc and src/core" \
    "$(grep -nE '^ *# *include' $core |
       grep -vE '<(assert|errno|fnmatch|inttypes|limits|stdarg|stdatomic|stdbool|stddef|stdint|stdio|stdlib|string)\.h>|"core/')"
# data and conn are beside each other, above the headers that all use
rule "a folder of src/core includes what lies above it" \
    "$(awk -F'"' '
        function rank(file) {
            if (file ~ /core\/((cover|le|seq|stats|status)\.h|turns\.[ch])$/) { return 0 }
            if (file ~ /core\/(data|conn)\//) { return 1 }
            if (file ~ /core\/(vqp_def\.h|timers\.[ch])$/) { return 2 }
            if (file ~ /core\/(failover\/|(rings|mirror)\.[ch]$)/) { return 3 }
            return file ~ /core\/(telemetry\/|vqp(_recv|_time)?\.[ch]$)/ ? 4 : 9
        }
        /^ *# *include *"core\// &&
            (rank($2) > rank(FILENAME) ||
             (FILENAME ~ /\/data\// && $2 ~ /\/conn\//) ||
             (FILENAME ~ /\/conn\// && $2 ~ /\/data\//) ||
             (FILENAME ~ /\/telemetry\// && $2 ~ /core\/vqp\.h/) ||
             (FILENAME ~ /core\/vqp(_recv|_time)?\./ && $2 ~ /\/telemetry\//) ||
             rank(FILENAME) == 9) {
            print FILENAME ":" FNR ": " $0
        }' $core || echo "awk has failed")"
rule "src/core uses a clock, a thread, the heap or a log" \
    "$(grep -nE '\<(malloc|calloc|realloc|free|clock_gettime|gettimeofday|time|pthread_[a-z_]+|printf|fprintf|perror|syslog) *\(' \
           $core)"
rule "src/verbs names UCX" \
    "$(grep -nEi '(^|[^a-z])(uct_|ucs_|ucp_)' src/verbs/*.[ch] 2>/dev/null)"
rule "src/verbs includes src/uct" \
    "$(grep -nE '^ *# *include *"uct/' src/verbs/*.[ch] 2>/dev/null)"
rule "src/preload includes more than libc" \
    "$(grep -nE '^ *# *include *("|<(uc[stp]|infiniband|rdma)/)' src/preload/*.[ch])"
rule "src/tools includes more than libc and src/core" \
    "$(grep -nE '^ *# *include *("(uct|verbs|preload)/|<(uc[stp]|infiniband|rdma)/)' \
           src/tools/vqp_top.c src/tools/tele*.[ch])"
rule "vqp-probe includes UCX or the module" \
    "$(grep -nE '^ *# *include *("(uct|preload)/|<uc[stp]/)' src/tools/vqp_probe.c /dev/null)"
rule "vqp-accept includes more of UCX than its public API, or the module" \
    "$(grep -nE '^ *# *include *("(uct|verbs|preload)/|<(uc[sp]|infiniband|rdma)/|<uct/[^a]|<uct/api/v)' \
           src/tools/accept*.[ch] src/tools/vqp_accept.c)"
rule "a version of UCX is tested outside src/uct/compat.h" \
    "$(grep -nE '\<UCT_(API|VERSION|VQP_UCX_SINCE)\>' $all |
       grep -v '^src/uct/compat\.h:')"
rule "a version of rdma-core is tested outside src/verbs/compat.h" \
    "$(grep -nE '^ *# *if.*(HAVE_|IBV_|IBVERBS)' src/verbs/*.[ch] 2>/dev/null |
       grep -v '^src/verbs/compat\.h:')"

missing=$(for file in $all; do
    layer=${file#src/}
    grep -qE "(^|[[:space:]])$file([[:space:]]|$)" "src/${layer%%/*}/sources.am" ||
        echo "$file"
done)
rule "in no sources.am" "$missing"

# the tables name a pair of files `NAME`, a single file `NAME.h` or `NAME.c` too
missing=$(for file in $core src/verbs/*.[ch] src/uct/*.[ch] src/tools/*.[ch]; do
    name=${file##*/}
    grep -qE "^\\|[^|]*\`(${name%.*}|$name)\`[^|]*\\|" docs/design.md ||
        echo "$file"
done)
rule "in no table of docs/design.md" "$missing"
rule "longer than 750 lines" \
    "$(wc -l $all | awk '$2 != "total" && $1 > 750 {print $2 ": " $1}')"
rule "a line longer than 100 columns" \
    "$(awk 'length > 100 {print FILENAME ":" FNR ": " $0}' $all)"
rule "no license at the top, with a comment below that says what the file is for" \
    "$(awk '(FNR == 1) && ($0 != "/* SPDX-License-Identifier: BSD-3-Clause */") ||
            (FNR == 2) && !/^\/\*/ {print FILENAME ":" FNR}' $all)"

# what is left behind for later belongs into an issue
rule "unfinished work in the sources" \
    "$(grep -nE '\<(TODO|FIXME|XXX)\>' $all 2>/dev/null)"

[ "$bad" = 0 ] && echo "layer-check: ok"
exit "$bad"
