#!/bin/sh
# LD_PRELOAD of the module itself works as well, also together with the shim.
. "$(dirname "$0")/common.sh"
no_sanitizer

for preload in "$module" "$module:$shim" "$shim:$module"; do
    LD_PRELOAD=$preload "$list" >"$out/stdout" 2>"$out/stderr" ||
        fail "$preload: exit $?"
    [ "$(grep -cx vqp "$out/stdout")" = 1 ] ||
        fail "$preload: no single component vqp"
    [ -s "$out/stderr" ] && fail "$preload: there are messages"
done

# A second copy (another file with the same module) does not register again
mkdir "$out/copy" && cp "$module" "$out/copy/" || fail "cp"
LD_PRELOAD=$out/copy/libuct_vqp.so.0:$shim "$list" >"$out/stdout" \
    2>"$out/stderr" || fail "copy: exit $?"
[ "$(grep -cx vqp "$out/stdout")" = 1 ] || fail "copy: no single component vqp"
exit 0
