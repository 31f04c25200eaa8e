#!/bin/sh
# Layering and form of the sources, without building anything:
# - src/core names nothing of libibverbs or UCX and includes libc headers only
# - src/verbs names nothing of UCX
# - versions are tested in the compat headers only
# - each source file is in its directory's sources.am
# - no file is longer than 500 lines, no line longer than 100 columns
# Prints what breaks a rule as FILE:LINE: TEXT; status 1 then.
cd "$(dirname "$0")/.." || exit 2
bad=0

rule() {
    text=$1
    found=$2
    [ -n "$found" ] || return
    bad=1
    printf '%s\n' "$found"
    printf 'layer-check: %s\n' "$text" >&2
}

rule "src/core names libibverbs or UCX" \
    "$(grep -nEi '(^|[^a-z])(ibv_|uct_|ucs_|ucp_|rdma_)' src/core/*.[ch])"
rule "src/core includes more than libc and src/core" \
    "$(grep -nE '^ *# *include' src/core/*.[ch] |
       grep -vE '<(assert|errno|inttypes|limits|stdarg|stdatomic|stdbool|stddef|stdint|stdio|stdlib|string)\.h>|"core/')"
rule "src/core uses a clock, a thread, the heap or a log" \
    "$(grep -nE '\<(malloc|calloc|realloc|free|clock_gettime|gettimeofday|time|pthread_[a-z_]+|printf|fprintf|perror|syslog) *\(' \
           src/core/*.[ch])"
rule "src/verbs names UCX" \
    "$(grep -nEi '(^|[^a-z])(uct_|ucs_|ucp_)' src/verbs/*.[ch] 2>/dev/null)"
rule "src/verbs includes src/uct" \
    "$(grep -nE '^ *# *include *"uct/' src/verbs/*.[ch] 2>/dev/null)"
rule "src/preload includes more than libc" \
    "$(grep -nE '^ *# *include *("|<(uc[stp]|infiniband|rdma)/)' src/preload/*.[ch])"
rule "a version of UCX is tested outside src/uct/compat.h" \
    "$(grep -nE '\<UCT_(API|VERSION|VQP_UCX_SINCE)\>' src/*/*.[ch] |
       grep -v '^src/uct/compat\.h:')"
rule "a version of rdma-core is tested outside src/verbs/compat.h" \
    "$(grep -nE '^ *# *if.*(HAVE_|IBV_|IBVERBS)' src/verbs/*.[ch] 2>/dev/null |
       grep -v '^src/verbs/compat\.h:')"

for dir in src/core src/verbs src/uct src/preload; do
    for file in "$dir"/*.[ch]; do
        [ -e "$file" ] || continue
        grep -qE "(^|[[:space:]])$file([[:space:]]|$)" "$dir/sources.am" ||
            rule "not in $dir/sources.am" "$file"
    done
done

for file in src/*/*.[ch]; do
    lines=$(wc -l <"$file")
    [ "$lines" -le 500 ] || rule "longer than 500 lines" "$file: $lines lines"
    rule "line longer than 100 columns" \
        "$(awk -v f="$file" 'length > 100 {print f ":" FNR ": " $0}' "$file")"
    case $(sed -n 1p "$file") in
        '/*'*) ;;
        *) rule "does not begin with a comment that says what it is for" \
               "$file" ;;
    esac
done

# what is left behind for later belongs into an issue
rule "unfinished work in the sources" \
    "$(grep -nE '\<(TODO|FIXME|XXX)\>' src/*/*.[ch] 2>/dev/null)"

[ "$bad" = 0 ] && echo "layer-check: ok"
exit "$bad"
