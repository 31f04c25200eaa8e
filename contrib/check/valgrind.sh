# shellcheck shell=bash
# Valgrind's memcheck on the fabric: a selection of the tests through UCT, and
# stock ucx_perftest. Leaks are left to the sanitizers: memcheck would read the
# fabric's whole world, 16 GB that are nearly empty, and allocate them.

# shellcheck source-path=SCRIPTDIR source=../../test/lib/perftest.sh
. "$CHECK_SRC/test/lib/perftest.sh"

memcheck() {
    on_fabric gcc --violations fail -- "$CHECK_DIR/gcc/contrib/vqp-run" \
        valgrind -q --error-exitcode=9 --leak-check=no --fair-sched=yes \
        --suppressions="$CHECK_SRC/contrib/check/valgrind.supp" \
        --num-callers=20 "$@"
}

if need valgrind valgrind valgrind; then
    perftest_find
    gtest "valgrind: test_uct" memcheck "$CHECK_DIR/gcc/test_uct" \
        --gtest_filter='*/ops.*/four_paths:flush_test.*:md_test.*:stats_test.*'
    for test in ucp_put_bw tag_lat; do
        run "valgrind: ucx_perftest $test" \
            memcheck "${perftest[@]}" -l -t $test -s 20000 -n 100 -w 10
    done
fi
