# shellcheck shell=bash
# Each fuzz target: together a quarter of the time.

targets=("$CHECK_SRC"/test/fuzz/corpus/*)
need fuzz clang clang clang++ &&
    suite fuzz "$CHECK_SRC/test/fuzz/run" --jobs 1 --build "$CHECK_DIR/gcc" \
        --seconds $((CHECK_MINUTES * 15 / ${#targets[@]})) --seed "$CHECK_SEED" \
        --dir "$CHECK_DIR/fuzz"
