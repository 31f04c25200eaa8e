# shellcheck shell=bash
# Each fuzz target for a minute.

need fuzz clang clang clang++ &&
    suite fuzz "$CHECK_SRC/test/fuzz/run" --seconds 60 --jobs 1 \
        --build "$CHECK_DIR/gcc" --dir "$CHECK_DIR/fuzz"
