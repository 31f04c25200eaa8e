# shellcheck shell=bash
# Planted bugs: the suite that is named in each must find it.

suite mutants "$CHECK_SRC/test/mutants/run" --jobs 1 \
    --build "$CHECK_DIR/gcc" --dir "$CHECK_DIR/mutants"
