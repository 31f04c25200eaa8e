# shellcheck shell=bash
# Unit tests with the address and undefined behaviour sanitizers.

build sanitizers --enable-debug --enable-asan --enable-ubsan &&
    tests sanitizers TESTS=test_core check_PROGRAMS=test_core
