# shellcheck shell=bash
# UCX's own test suites, in configurations that the commit chooses: all of UCT on
# the fabric and on Soft-RoCE; of UCP, four minutes on the fabric and a
# sample on Soft-RoCE. With stock rc_verbs UCT's are tests of the fabric. Two tests
# at a time, though the step has one CPU: many of them sleep.

conformance() {
    taskset -c "$CHECK_CPU" "$CHECK_SRC/contrib/conformance.sh" --jobs 2 \
        --build "$CHECK_DIR/gcc" --suites "$CHECK_DIR/suites" "$@"
}

if need_rxe "conformance on Soft-RoCE"; then
    suite conformance conformance ci
else
    suite conformance conformance --on fabric ci
fi
suite "conformance uct, rc_verbs" conformance --tl rc_verbs uct
