# shellcheck shell=bash
# A second compiler: all of its warnings, and make check.

need clang clang clang clang++ &&
    build clang CC=clang CXX=clang++ &&
    run "clang: test programs" make -C "$CHECK_DIR/clang" -s -j"$CHECK_JOBS" \
        check TESTS= &&
    tests clang
