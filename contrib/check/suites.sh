# shellcheck shell=bash
# Tests of UCX's own suites, of a fixed list, on the fabric. Two at a time, though the
# step has one CPU: many of them sleep.

suite suites taskset -c "$CHECK_CPU" "$CHECK_SRC/contrib/conformance.sh" --jobs 2 \
    --build "$CHECK_DIR/gcc" gate
