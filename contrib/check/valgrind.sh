# shellcheck shell=bash
# Valgrind's memcheck: a selection of what the sanitizers run, without their
# instrumentation, and stock ucx_perftest. No error, and nothing of ours leaks.

need valgrind valgrind valgrind || return 0
