# shellcheck shell=bash
# Open MPI over the transport: its ranks are spread over the devices, and check
# all data that arrive.

# mpi_run RANKS COMMAND...: what each rank's UCX needs comes in the environment
mpi_run() {
    local ranks=$1 wrap="" env=""
    shift
    need_tool mpirun
    [ -x "$CHECK_BIN/vqp_mpi_check" ] ||
        skip "vqp_mpi_check could not be built (needs mpicc)"
    # Debian's configuration excludes pml/ucx; pml/ucx takes by default only
    # devices and transports of a fixed list.  Ranks take turns on one CPU.
    env=$(printf '%s\n' \
        OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
        OMPI_MCA_pml=ucx OMPI_MCA_osc=ucx OMPI_MCA_btl=^openib,uct,tcp,vader \
        OMPI_MCA_pml_ucx_tls=any OMPI_MCA_pml_ucx_devices=any \
        OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_plm=isolated)
    # shellcheck disable=SC2086,SC2016
    wrap='devs=($RXE_DEVS)
          dev=${devs[OMPI_COMM_WORLD_RANK % ${#devs[@]}]}
          UCX_NET_DEVICES=$dev:1 exec "$@"'
    # shellcheck disable=SC2086
    env $env mpirun --oversubscribe -np "$ranks" \
        "${RUN[@]}" bash -c "$wrap" rank "$@"
}

# mpi_case RANKS [ARG]...
mpi_case() {
    local ranks=$1
    shift
    mpi_run "$ranks" "$CHECK_BIN/vqp_mpi_check" -s "${CHECK_SEED:-1}" "$@" ||
        fail "mpirun ended with $?"
    check_shares few
}

add mpi_1_self 60 mpi_case 1
add mpi_2 120 mpi_case 2
add mpi_4_messages 120 mpi_case 4 -m 2097152
for name in alltoall_random alltoall_largest put_fence random_pairs; do
    add mpi_4_${name}_8M 90 mpi_case 4 -c $name
done
