# shellcheck shell=bash
# Programs that know nothing of the fabric, on it: of rdma-core and UCX, and MPI.

suite tools "$CHECK_SRC/test/fabric/run-tools" --build "$CHECK_DIR/gcc"
