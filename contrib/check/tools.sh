# shellcheck shell=bash
# Stock programs on the fabric: of rdma-core and UCX, and MPI.

suite tools "$CHECK_SRC/test/fabric/run-tools" --build "$CHECK_DIR/gcc"
