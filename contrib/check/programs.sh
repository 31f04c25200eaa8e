# shellcheck shell=bash
# All stock programs on the fabric: of rdma-core and UCX, and MPI.

suite programs "$CHECK_SRC/test/fabric/run-tools" --build "$CHECK_DIR/gcc"
