#!/bin/sh
# Programs that load libucp into a local scope get vqp through the shim.
. "$(dirname "$0")/common.sh"
no_sanitizer

LD_PRELOAD=$shim "$builddir/test/load/dlopen_ucp" >"$out/stdout" \
    2>"$out/stderr" || fail "exit $?"
grep -qx libuct_vqp.so.0 "$out/stdout" || fail "module not loaded"
[ -s "$out/stderr" ] && fail "there are messages"
exit 0
