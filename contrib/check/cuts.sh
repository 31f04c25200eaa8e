# shellcheck shell=bash
# While the fabric cuts and heals paths all the time: UCX's UCT suite, the tests of both
# suites that the gate runs, as much of the UCP suite as a quarter of the time allows, and
# the soak's mix. programs.sh runs MPI so.

cuts() {
    taskset -c "$CHECK_CPU" "$CHECK_SRC/contrib/conformance.sh" --jobs 2 \
        --build "$CHECK_DIR/gcc" --logs "$CHECK_DIR/cuts" --faults cuts "$@"
}

suite "cuts: conformance uct" cuts --seed "$CHECK_SEED" uct
suite "cuts: conformance gate" cuts gate
suite "cuts: conformance ucp" cuts --seed "$CHECK_SEED" --time-box $((CHECK_MINUTES * 15)) ucp
suite "cuts: soak" "$CHECK_SRC/test/soak/run" --build "$CHECK_DIR/gcc" --cuts \
    --seed "$CHECK_SEED" --minutes 0 --seconds 3
