# shellcheck shell=bash
# Invalid memory accesses, leaks and undefined behavior in the core: unit tests, the
# corpora of the fuzz targets, the simulator. The objects of unit tests and simulator are
# those of the first build: to instrument C++ takes three times as long as all else here,
# and --all does (sanitizers).

asan_environment
corpora=$(cd "$CHECK_SRC/test/fuzz/corpus" && printf 'test/fuzz/%s ' *)
# shellcheck disable=SC2086 # words
configured asan --enable-debug --enable-asan --enable-ubsan &&
    made asan test_core test/sim/vqp_sim $corpora \
        test_core_OBJECTS="$(echo "$CHECK_DIR"/gcc/test/core/core-*.o)" \
        test_sim_vqp_sim_OBJECTS="$(echo "$CHECK_DIR"/gcc/test/sim/vqp_sim-*.o)" &&
    tests asan TESTS="test_core $corpora" &&
    suite "asan: sim" "$CHECK_DIR/asan/test/sim/vqp_sim" \
        --seeds "$CHECK_SRC/test/sim/seeds.txt"
