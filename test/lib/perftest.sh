# shellcheck shell=bash
# How to start ucx_perftest: sourced, never run.
#
#   . perftest.sh; perftest_find; "${perftest[@]}" -t tag_lat ...
#
# An ucx_perftest that was built with MPI (Debian 13) runs as an MPI rank and expects a
# second one, unless its standard input is a terminal or it has the option -P 0. One
# that was built without MPI (Debian 12) prints its help and ends when it has -P.

# perftest_find: sets perftest, the command and the options that it needs everywhere
perftest_find() {
    perftest=(ucx_perftest)
    ! ucx_perftest -h 2>/dev/null </dev/null | grep -q '^ *-P <0|1>' || perftest+=(-P 0)
}
