# shellcheck shell=bash
# Real Soft-RoCE: the tests that need devices, and stock programs (test/rxe).

if need_rxe rxe; then
    gtest "rxe: test_verbs" "$CHECK_SRC/test/rxe/run" --devices 2 --timeout 300 \
        --cpu "$CHECK_CPU" -- "$CHECK_DIR/gcc/test_verbs"
    suite rxe taskset -c "$CHECK_CPU" "$CHECK_SRC/test/rxe/check" --jobs 1 \
        --build "$CHECK_DIR/gcc"
fi
