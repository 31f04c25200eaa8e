# shellcheck shell=bash
# The simulator: the seeds that are kept, new ones for a minute, and whether the
# rare branches were reached.

suite sim "$CHECK_SRC/test/sim/run" --build "$CHECK_DIR/gcc" --seconds 60
