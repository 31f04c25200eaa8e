# shellcheck shell=bash
# With failover, while the fabric cuts and heals paths all the time: a share of UCX's
# UCT suite, and the soak's mix.

suite "cuts: conformance" taskset -c "$CHECK_CPU" "$CHECK_SRC/contrib/conformance.sh" --jobs 2 \
    --build "$CHECK_DIR/gcc" --seed "$CHECK_SEED" \
    --logs "$CHECK_DIR/cuts" --faults cuts --sample 40 uct
suite "cuts: soak" "$CHECK_SRC/test/soak/run" --build "$CHECK_DIR/gcc" --cuts \
    --seed "$CHECK_SEED" --minutes 0 --seconds 3
