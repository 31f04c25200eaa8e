# shellcheck shell=bash
# Bad networks: loss, delay, reordering and duplication on both devices.  All
# data must still be right, and be seen to come out of order between paths.

. "$HERE/mpi.sh"
forget_cases
. "$HERE/../fault"

# netem_perftest "NETEM ARGS" TEST SIZES
netem_perftest() {
    need_faults
    need_devices 2
    # shellcheck disable=SC2086
    fault_netem_all $1 || fail "tc"
    perftest_sizes "$2" "$3"
    check_shares
}

# netem_mpi "NETEM ARGS" [ARG]...: data are looked at
netem_mpi() {
    local args=$1
    shift
    need_faults
    need_devices 2
    # shellcheck disable=SC2086
    fault_netem_all $args || fail "tc"
    mpi_run 2 "$CHECK_BIN/vqp_mpi_check" -s "${CHECK_SEED:-1}" "$@" ||
        fail "mpirun ended with $?"
}

# shellcheck disable=SC2153
# skew_perftest TEST SIZES: each path has its own delay, and keeps its own order: what
# arrives early on one path waits for what is late on another. In turn: left would
# take the fast ones
skew_perftest() {
    export UCX_VQP_SCHED=rr
    need_faults
    need_devices 2
    fault_skew "${DEVS[0]}" 1 && fault_skew "${DEVS[1]}" 1 || fail "tc"
    perftest_sizes "$@"
    check_shares
    check_reordered
}

skew_mpi() {
    export UCX_VQP_SCHED=rr
    need_faults
    need_devices 2
    fault_skew "${DEVS[0]}" 1 && fault_skew "${DEVS[1]}" 1 || fail "tc"
    mpi_run 2 "$CHECK_BIN/vqp_mpi_check" -s "${CHECK_SEED:-1}" "$@" ||
        fail "mpirun ended with $?"
    check_reordered
}

add netem_loss_tag_bw 60 netem_perftest "loss 0.2%" tag_bw "2048:300 65536:60"
add netem_loss_mpi 90 netem_mpi "loss 0.1%" -m 65536
add netem_delay_tag_bw 60 netem_perftest "delay 2ms" tag_bw "2048:300 65536:60"
add netem_delay_mpi 90 netem_mpi "delay 1ms" -m 65536
add netem_reorder_tag_bw 60 netem_perftest "delay 1ms reorder 98%" \
    tag_bw "2048:300 16384:60"
add netem_jitter_mpi 90 netem_mpi "delay 300us 100us" -m 16384 -c random_pairs
add netem_duplicate_tag_bw 60 netem_perftest "duplicate 2%" \
    tag_bw "2048:300 65536:60"
add netem_duplicate_mpi 90 netem_mpi "duplicate 1%" -m 65536
add netem_skew_tag_bw 60 skew_perftest tag_bw "2048:300 65536:60 1048576:8"
add netem_skew_am_bw 60 skew_perftest ucp_am_bw "2048:300 65536:60 1048576:8"
add netem_skew_mpi 90 skew_mpi -m 65536
