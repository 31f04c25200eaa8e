# shellcheck shell=bash
# The module in stock UCX on the fabric: ucx_perftest of each kind, and MPI.
# programs.sh has more programs.

suite tools "$CHECK_SRC/test/fabric/run-tools" --build "$CHECK_DIR/gcc" \
    --only '@(vqp_!(memory|least*|cuts*|accept_!(host))|mpi_2)'
