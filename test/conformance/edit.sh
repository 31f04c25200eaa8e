#!/bin/bash
# edit.sh DIR: what is changed in UCX's suites before they are built. DIR is a
# copy of the sources. Each edit must change something, or this fails.
# shellcheck disable=SC1003 # backslashes for sed
set -eu
cd "$1/test/gtest"

# edit FILE SED-SCRIPT
edit() {
    sed "$2" "$1" >"$1.new"
    if cmp -s "$1" "$1.new"; then
        echo "edit.sh: nothing to edit in $1 for: $2" >&2
        exit 1
    fi
    mv "$1.new" "$1"
}

# ---- vqp is one of the transports ----

edit uct/uct_test.h '/^#define UCT_TEST_NO_SELF_TLS/a\    vqp, \\'
edit uct/test_md.cc '/FOREACH(_UCT_MD_INSTANTIATE_TEST_CASE/a\    vqp, \\'
edit uct/test_flush.cc \
    's/(GetParam()->tl_name != "rc_verbs")/& \&\& !has_transport("vqp")/'
edit ucp/ucp_test.h '/^#define UCP_INSTANTIATE_TEST_CASE(/a\
    UCP_INSTANTIATE_TEST_CASE_TLS(_test_case, vqp, "vqp") \\'
edit ucp/ucp_test.h '/^#define UCP_INSTANTIATE_TEST_CASE_GPU_AWARE(/a\
    UCP_INSTANTIATE_TEST_CASE_TLS_GPU_AWARE(_test_case, vqp, "vqp") \\'

edit ucp/test_ucp_sockaddr.cc '/^#define UCP_INSTANTIATE_CM_TEST_CASE(/a\
    UCP_INSTANTIATE_TEST_CASE_TLS_GPU_AWARE(_test_case, vqp, "vqp") \\'
edit ucp/test_ucp_wireup.cc '/^\/\* Test unscalable transports only/i\
UCP_INSTANTIATE_TEST_CASE_TLS(test_ucp_wireup_fallback, vqp, "vqp")'

# ---- quirks ----

# These send right after connecting and take "no resources" for a failure. UCT
# allows that status for any send; the suites skip tcp by name for it.
edit uct/test_p2p_am.cc '/m_alignment, m_align_offset);/a\        flush();'
edit uct/test_fence.cc '/receiver->connect(1, \*sender, 0);/a\        flush();'

# Takes a transport that connects to interfaces for one whose endpoints share a
# queue pair, and makes 2048 of them instead of 128
edit uct/test_pending.cc 's/N = 2048;/N = has_transport("vqp") ? 128 : 2048;/'

# Sleeps 10 ms for the peer's error and never calls progress, where transports
# other than by hardware events learn of it
edit uct/test_p2p_err.cc '/ucs::safe_usleep(1e4);/a\            short_progress_loop(50);'

# Counts operations by the million, and compares no figure (main.cc: -p): a
# hundredth shows as well that each of them works
edit uct/test_uct_perf.cc 's/ 2000000lu/ 20000lu/; t; s/ 100000lu/ 1000lu/'
