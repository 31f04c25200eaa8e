# shellcheck shell=bash
# The module by a second compiler, with its warnings.

need warnings clang clang clang++ &&
    configured warnings CC=clang CXX=clang++ --without-gtest &&
    made warnings module
