# shellcheck shell=bash
# A second compiler: all of its warnings, and make check.

need clang clang clang clang++ &&
    build clang CC=clang CXX=clang++ && tests clang
