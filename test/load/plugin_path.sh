#!/bin/sh
# UCX 1.22 and newer load the module from UCX_PLUGIN_PATH, without the shim.
. "$(dirname "$0")/common.sh"
no_sanitizer

"$UCX_INFO" -cf | grep -q '^UCX_PLUGIN_PATH=' || skip "this UCX has no UCX_PLUGIN_PATH"
UCX_PLUGIN_PATH=$(dirname "$module") "$list" >"$out/stdout" 2>"$out/stderr" ||
    fail "exit $?"
grep -qx vqp "$out/stdout" || fail "no component vqp"
[ ! -s "$out/stderr" ] || fail "there are messages"
UCX_PLUGIN_PATH=$(dirname "$wrong") "$list" >"$out/stdout" 2>"$out/stderr" ||
    fail "the module of another version: exit $?"
! grep -qx vqp "$out/stdout" || fail "the module of another version is registered"
[ "$(grep -c '^uct_vqp: not loaded' "$out/stderr")" = 1 ] ||
    fail "the module of another version says nothing, or more than a line"
exit 0
