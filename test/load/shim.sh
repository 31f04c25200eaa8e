#!/bin/sh
# The shim in LD_PRELOAD brings vqp into stock UCX, once and without a word.
. "$(dirname "$0")/common.sh"
no_sanitizer

LD_PRELOAD=$shim "$list" >"$out/stdout" 2>"$out/stderr" || fail "exit $?"
[ "$(grep -cx vqp "$out/stdout")" = 1 ] || fail "no single component vqp"
[ -s "$out/stderr" ] && fail "there are messages"

"$list" >"$out/stdout" 2>"$out/stderr" || fail "exit $?"
grep -qx vqp "$out/stdout" && fail "vqp is there without the shim"

LD_PRELOAD=$shim "$UCX_INFO" -d >"$out/stdout" 2>"$out/stderr" ||
    fail "ucx_info -d: exit $?"
LD_PRELOAD=$shim VQP_MODULE=/nonexistent/m.so "$list" >"$out/stdout" \
    2>"$out/stderr" || fail "missing module: exit $?"
[ "$(wc -l <"$out/stderr")" = 1 ] || fail "missing module: not one line"
grep -q '^uct_vqp: not loaded: /nonexistent/m.so' "$out/stderr" ||
    fail "missing module: wrong message"
grep -qx tcp "$out/stdout" || fail "missing module: UCX does not go on"
exit 0
