# shellcheck shell=bash
# The module by a second compiler, for its warnings. The configuration is that of the first
# build: clang has what was found for gcc.

need warnings clang clang &&
    run "warnings: clang" make -C "$CHECK_DIR/gcc" -s syntax CC=clang CFLAGS=
