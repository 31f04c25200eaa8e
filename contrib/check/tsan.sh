# shellcheck shell=bash
# Data races: threads with a worker each that talk to each other, and several
# threads in one UCP worker; all of ours, and the fabric, with the thread
# sanitizer.

export TSAN_OPTIONS=second_deadlock_stack=1
# UCX's hook of madvise() takes a lock in threads that the sanitizer has ended
export UCX_MEM_MMAP_HOOK_MODE=none

build tsan --enable-debug --enable-tsan &&
    run "tsan: test_uct" make -C "$CHECK_DIR/tsan" -s -j"$CHECK_JOBS" test_uct &&
    gtest "tsan: two workers" on_fabric tsan -- "$CHECK_DIR/tsan/test_uct" \
        --gtest_filter='thread_test.*:event_test.threads_*:ucp_test.*:resolve_test.*'
