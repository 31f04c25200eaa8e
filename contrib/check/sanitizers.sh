# shellcheck shell=bash
# Invalid memory accesses, leaks and undefined behavior: in unit tests, the
# corpora of the fuzz targets, the simulator, the fabric, through verbs and UCT,
# and in UCX's UCT suite.

asan_environment

# What can not be destroyed leaks: that is what these tests make happen
leaving='*nth_verb.fails/de*:*nth_verb.fails/close_device'

if build sanitizers --enable-debug --enable-asan --enable-ubsan &&
   run "sanitizers: test programs" make -C "$CHECK_DIR/sanitizers" -s \
       -j"$CHECK_JOBS" check TESTS=; then
    tests sanitizers TESTS="test_core $(cd "$CHECK_SRC/test/fuzz/corpus" &&
        printf 'test/fuzz/%s ' *)"
    # it preloads the fabric itself; the sanitizer must come before
    gtest "sanitizers: test_fabric" env \
        LD_PRELOAD="$(gcc -print-file-name=libasan.so)" \
        "$CHECK_DIR/sanitizers/test_fabric"
    gtest "sanitizers: test_verbs" on_fabric sanitizers --violations fail -- \
        "$CHECK_DIR/sanitizers/test_verbs"
    gtest "sanitizers: test_uct" on_fabric sanitizers --violations fail -- \
        "$CHECK_DIR/sanitizers/test_uct" --gtest_filter="-large.*:$leaving"
    suite "sanitizers: sim" "$CHECK_DIR/sanitizers/test/sim/vqp_sim" \
        --seeds "$CHECK_SRC/test/sim/seeds.txt" --seconds 20 --seed "$CHECK_SEED"
    # the suite is not built with a sanitizer, and leaks of its own
    suite "sanitizers: UCX's UCT suite" env ASAN_OPTIONS=detect_leaks=0 \
        "$CHECK_SRC/contrib/conformance.sh" \
        --jobs 1 --build "$CHECK_DIR/sanitizers" uct
fi
