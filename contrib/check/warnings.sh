# shellcheck shell=bash
# The module by a second compiler, with its warnings. None of them needs optimized code.

need warnings clang clang clang++ &&
    configured warnings CC=clang CXX=clang++ CFLAGS=-O0 --without-gtest &&
    made warnings module
