#!/bin/sh
# vqp-run from the build tree: what it sets, and what it leaves alone.
# shellcheck disable=SC2016
. "$(dirname "$0")/common.sh"
no_sanitizer
run=$builddir/contrib/vqp-run

"$run" "$list" >"$out/stdout" 2>"$out/stderr" || fail "exit $?"
grep -qx vqp "$out/stdout" || fail "no component vqp"
[ "$("$run" sh -c 'echo $UCX_TLS')" = vqp ] || fail "UCX_TLS is not set"
[ "$(UCX_TLS=tcp "$run" sh -c 'echo $UCX_TLS')" = tcp ] ||
    fail "UCX_TLS of the user is not kept"
[ "$(LD_PRELOAD=libm.so.6 "$run" sh -c 'echo $LD_PRELOAD')" = \
  "$shim:libm.so.6" ] || fail "LD_PRELOAD of the user is not kept"
"$run" sh -c 'exit 7'
[ $? = 7 ] || fail "the command's exit status is lost"
"$run" --version >"$out/stdout" || fail "--version"
grep -q '^vqp-run .*[0-9]' "$out/stdout" || fail "--version says nothing"
"$run" --help | grep -q mca || fail "--help has no hint for Open MPI"
"$run" --check >"$out/stdout" 2>"$out/stderr"
grep -q '^UCX  *[0-9]' "$out/stdout" || fail "--check names no UCX version"
"$run" >/dev/null 2>&1
[ $? = 2 ] || fail "usage error has another status than 2"
exit 0
