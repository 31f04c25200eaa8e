# shellcheck shell=bash
# Invalid memory accesses, leaks and undefined behavior in the core: unit tests, the
# corpora of the fuzz targets, the simulator. The objects of unit tests and simulator are
# those of the first build, since to instrument C++ takes three times as long as all else
# here. Only vqp*.cc of the simulator, which have the inline functions of the data path in
# them, are compiled anew. In the step sanitizers of --all everything is.

# objects TEST: what the first build has compiled for it, by files or in batches
objects() {
    local object
    for object in "$CHECK_DIR/gcc/test/$1"/*.o "$CHECK_DIR/gcc/test/batch"/*"$1"_[0-9].o; do
        case $object in
            */vqp_sim-vqp*.o | *'*'*) ;;
            *) echo "$object" ;;
        esac
    done | paste -sd' '
}

asan_environment
corpora=$(cd "$CHECK_SRC/test/fuzz/corpus" && printf 'test/fuzz/%s ' *)
objects=(test_core_OBJECTS="$(objects core)"
         test_sim_vqp_sim_OBJECTS="$(objects sim) test/batch/sim_vqp_sim-sim_vqp.o")
# One core for both: with assertions (--enable-debug), without coverage points. This simulator
# can not say which points were reached.
objects+=(test_sim_vqp_sim_LDADD=libvqp_core.la test_sim_vqp_sim_DEPENDENCIES=libvqp_core.la)
# C++ has to compile with an explicit prefix, too, which is /usr on Debian
prefix=${CHECK_WITH_UCX:-$(pkg-config --variable=prefix ucx)}
# shellcheck disable=SC2086 # words
configured asan --with-ucx="$prefix" --enable-debug --enable-asan --enable-ubsan \
    --enable-test-batches &&
    made asan test_core test/sim/vqp_sim $corpora "${objects[@]}" &&
    tests asan TESTS="test_core $corpora" "${objects[@]}" &&
    suite "asan: sim" "$CHECK_DIR/asan/test/sim/vqp_sim" \
        --seeds "$CHECK_SRC/test/sim/seeds.txt"
