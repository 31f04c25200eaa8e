#!/bin/sh
# A program without UCX gets the shim's mapping and nothing else.
. "$(dirname "$0")/common.sh"

LD_PRELOAD=$shim cat /proc/self/maps >"$out/stdout" 2>"$out/stderr" ||
    fail "exit $?"
grep -q 'libvqp_preload' "$out/stdout" || fail "the shim is not loaded"
grep -qE '/lib(uct|ucs|ucm|ucp|ibverbs|uct_vqp|stdc\+\+|asan)\.so' \
    "$out/stdout" && fail "the shim drags libraries in"
[ -s "$out/stderr" ] && fail "there are messages"
exit 0
