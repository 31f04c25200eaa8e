# shellcheck shell=bash
# UCX's own test suites in all configurations: all of UCT, and of UCP as many tests as a
# quarter of the time allows, on the fabric; UCT and a sample of UCP on Soft-RoCE. With
# stock rc_verbs UCT's are tests of the fabric. Against another UCX (check.sh
# --with-ucx): all of UCT and as much of UCP, on the fabric. Two tests at a time, though
# the step has one CPU: many of them sleep.

conformance() {
    taskset -c "$CHECK_CPU" "$CHECK_SRC/contrib/conformance.sh" --jobs 2 \
        --seed "$CHECK_SEED" --build "$CHECK_DIR/gcc" "$@"
}

box=$((CHECK_MINUTES * 15))
if [ -n "$CHECK_WITH_UCX" ]; then
    # rc_verbs runs what vqp does not pass
    suite "conformance uct" conformance --on fabric uct
    suite "conformance ucp" conformance --on fabric --time-box $box ucp
    if [ -e "$CHECK_UCX/test/gtest/ucp/test_ucp_fault_tolerance.cc" ]; then
        suite "conformance fault tolerance" conformance --on fabric --devices 2 \
            --filter '*fault_tolerance*' ucp
    else
        result skip "conformance fault tolerance" "this UCX has no such tests"
    fi
else
    on=()
    need_rxe "conformance on Soft-RoCE" || on=(--on fabric)
    suite conformance conformance "${on[@]}" --time-box $box all
    suite "conformance uct, rc_verbs" conformance --tl rc_verbs uct
fi
