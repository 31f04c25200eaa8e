# shellcheck shell=bash
# shellcheck disable=SC2016 # the inner shell expands
# The benches of docs/performance.md still work, and the page can be made. The
# results are not used, and no time is asserted.

need "benches" "python3 and valgrind" python3 valgrind && {
    out=$CHECK_DIR/perf
    for bench in "$CHECK_SRC"/test/perf/bench/*; do
        bench=${bench##*/}
        [[ $bench != *rxe ]] || need_rxe "bench $bench" || continue
        run "bench $bench" "$CHECK_SRC/test/perf/run" --quick \
            --build "$CHECK_DIR/gcc" --out "$out" --only "$bench"
    done
    # quick runs leave tables of the page empty, but not that of the targets
    run "page of the benches" sh -c 'grep -qE "\| (met|\*\*missed)" \
        "$1/performance.md" && for svg in "$1"/perf/*.svg; do
            [ -s "$svg" ] || exit 1; done' - "$out"
}
