# shellcheck shell=bash
# shellcheck disable=SC2016 # the inner shell expands
# The form of the sources: layers, scripts, and the page made from the options.

run "layer check" "$CHECK_SRC/contrib/layer-check.sh"
run "circle check" "$CHECK_SRC/contrib/circle-check.sh"

run "configure and the guard have the same functions" \
    "$CHECK_SRC/contrib/guard-check.sh"

run "each sentence of docs/ordering.md has a test" \
    "$CHECK_SRC/contrib/order-doc-check.sh"

need "scripts: shellcheck" shellcheck shellcheck &&
    run "scripts: shellcheck" env -C "$CHECK_SRC" sh -c 'shellcheck -x $(
        grep -rlE "^#!/bin/(ba)?sh" autogen.sh .ci contrib debian/tests test) contrib/check/*.sh'

need "man pages" groff-base groff &&
    run "man pages" "$CHECK_SRC/contrib/man-check.sh"

run "versions agree" "$CHECK_SRC/contrib/version-check.sh"

run "docs/config.md is current" \
    "$CHECK_SRC/contrib/gen-config-doc.sh" --check "$CHECK_DIR/gcc"

run "the table of UCX's suites is that of its results" \
    "$CHECK_SRC/test/conformance/table" --check

# the pictures of the pages
need "plots" python3 python3 && suite plots "$CHECK_SRC/test/perf/plot-test"

suite "table of mutants" "$CHECK_SRC/test/mutants/run" --check
run "each named defect has its mutant" "$CHECK_SRC/test/mutants/run" --check-named

run "make distdir" make -C "$CHECK_DIR/gcc" -s distdir
