# shellcheck shell=bash
# UCX's own test suites in all configurations: all of UCT, and of UCP as many tests as a
# quarter of the time allows, on the fabric; UCT and a sample of UCP on Soft-RoCE. With
# stock rc_verbs UCT's are tests of the fabric. Two tests at a time, though the step has
# one CPU: many of them sleep.

conformance() {
    taskset -c "$CHECK_CPU" "$CHECK_SRC/contrib/conformance.sh" --jobs 2 \
        --seed "$CHECK_SEED" --build "$CHECK_DIR/gcc" "$@"
}

on=()
need_rxe "conformance on Soft-RoCE" || on=(--on fabric)
suite conformance conformance "${on[@]}" --time-box $((CHECK_MINUTES * 15)) all
suite "conformance uct, rc_verbs" conformance --tl rc_verbs uct
