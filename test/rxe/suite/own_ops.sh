# shellcheck shell=bash
# The project's own tests of the transport (test/uct): operations, memory
# domain, statistics.  Each case runs the tests that a filter selects.

# own_case FILTER: a filter of googletest
own_case() {
    local program=$CHECK_BUILD/test_uct
    [ "$CHECK_TL" = vqp ] || skip "these are for vqp only"
    [ -x "$program" ] || skip "test_uct is not built (make test_uct)"
    need_devices 1
    # the tests choose their options themselves
    unset UCX_TLS UCX_VQP_NUM_PATHS UCX_VQP_MIN_PATHS UCX_VQP_STATS_FILE
    "$program" --gtest_brief=1 --gtest_filter="$1" ||
        fail "of $(basename "$program") --gtest_filter='$1'"
}

for setting in one_path four_paths spray_post small_frags_all tiny; do
    add own_ops_$setting 60 own_case "*/ops.*/$setting"
done
add own_md 60 own_case "md_test.*"
add own_stats 90 own_case "stats_test.*"
