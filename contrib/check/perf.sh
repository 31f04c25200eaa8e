# shellcheck shell=bash
# shellcheck disable=SC2016 # the inner shell expands
# The benches of docs/performance.md still work, and the page can be made. What
# they measure here says nothing, and no time is asserted.

need "benches" "python3 and valgrind" python3 valgrind && {
    out=$CHECK_DIR/perf
    for bench in "$CHECK_SRC"/test/perf/bench/*; do
        bench=${bench##*/}
        [ "$bench" != rxe ] || need_rxe "bench rxe" || continue
        run "bench $bench" "$CHECK_SRC/test/perf/run" --quick \
            --build "$CHECK_DIR/gcc" --out "$out" --only "$bench"
    done
    # all that was measured stands in the page
    run "page of the benches" sh -c '! grep -n "not measured\|Not measured" \
        "$1/performance.md" && grep -q "| target |" "$1/performance.md"' - "$out"
}
