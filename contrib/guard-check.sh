#!/bin/bash
# guard-check.sh: configure and the version guard know the same functions. configure finds
# in the headers which of them are declared (config/m4/ucx.m4), the guard finds in the
# running library which are there (src/uct/vqp_guard.c). A function in one list alone is
# never compared, or refuses each UCX that has it.
cd "$(dirname "$0")/.." || exit 2

configured=$(sed -n '/^m4_define(\[vqp_ucx_functions\]/,/\])/p' config/m4/ucx.m4 |
             grep -oE '\<uct_[a-z0-9_]+' | sort)
guarded=$(sed -n '/guard_functions\[\] = {/,/^};/s/^ *{"\(uct_[a-z0-9_]*\)".*/\1/p' \
              src/uct/vqp_guard.c | sort)

[ -n "$configured" ] || { echo "guard-check: no list in config/m4/ucx.m4"; exit 1; }
if [ "$configured" != "$guarded" ]; then
    echo "guard-check: < config/m4/ucx.m4, > src/uct/vqp_guard.c"
    diff <(echo "$configured") <(echo "$guarded")
    exit 1
fi
echo "guard-check: ok, $(wc -l <<<"$guarded") functions"
