#!/bin/sh
# The libraries export only names of their own.
. "$(dirname "$0")/common.sh"
command -v nm >/dev/null || skip "nm (binutils) is missing"
no_sanitizer

nm -D --defined-only "$module" | awk '{print $3}' | grep -vx 'uct_vqp_.*\|vqp_status' \
    >"$out/module" && fail "the module exports foreign names"
nm -D --defined-only "$module" | awk '{print $3}' | grep -qx vqp_status ||
    fail "debuggers do not find vqp_status"
[ "$(nm -D --defined-only "$shim" | awk '{print $3}')" = uct_query_components ] ||
    fail "the shim exports more than uct_query_components"
exit 0
