# shellcheck shell=bash
# The simulator with new seeds, for a tenth of the time.

suite sim "$CHECK_SRC/test/sim/run" --build "$CHECK_DIR/gcc" \
    --seconds $((CHECK_MINUTES * 6)) --seed "$CHECK_SEED"
