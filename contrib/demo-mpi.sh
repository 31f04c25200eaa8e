#!/bin/bash
# demo-mpi.sh BUILD: for demo.sh, inside contrib/fabric-run: an MPI program with four
# ranks over vqp, which checks every byte that it receives (test/mpi). Prints its
# cases; its last line is "N passed, N failed".
set -u
build=${1:?the build directory}
top=$(cd "$(dirname "$0")/.." && pwd)

for program in mpicc mpirun; do
    type -P $program >/dev/null || {
        echo "(skipped: there is no $program)"
        exit 0
    }
done
mpicc -O2 -o "$build/demo_mpi" "$top"/test/mpi/*.c || exit

# Debian's configuration excludes pml/ucx, and pml/ucx takes by default only devices
# and transports that it knows
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
    OMPI_MCA_pml=ucx OMPI_MCA_osc=ucx OMPI_MCA_plm=isolated \
    OMPI_MCA_btl=^openib,uct,tcp,vader OMPI_MCA_pml_ucx_tls=any \
    OMPI_MCA_pml_ucx_devices=any OMPI_MCA_mpi_yield_when_idle=1 UCX_TLS=vqp
set -o pipefail
"$build/contrib/vqp-run" mpirun --oversubscribe -np 4 "$build/demo_mpi" -s 1 \
    -m 262144 2>&1 | grep -v '^$'
