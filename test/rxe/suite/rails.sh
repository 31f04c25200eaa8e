# shellcheck shell=bash
# Bonds of two and four rails on four devices: the project's own tests over them,
# stock programs between two bonds, and within one.

# shellcheck disable=SC2034
SUITE_DEVICES=4
# shellcheck source-path=SCRIPTDIR source=mpi.sh
. "$HERE/mpi.sh"
forget_cases

# two_bonds: DEVS are two bonds of two rails; one_bond: one of four, twice
two_bonds() {
    [ "$CHECK_TL" = vqp ] || skip "is about vqp"
    need_devices 4
    export UCX_VQP_RAILS="${DEVS[0]}:1,${DEVS[1]}:1;${DEVS[2]}:1,${DEVS[3]}:1"
    DEVS=("${DEVS[0]}" "${DEVS[2]}")
}

one_bond() {
    [ "$CHECK_TL" = vqp ] || skip "is about vqp"
    need_devices 4
    export UCX_VQP_RAILS="${DEVS[0]}:1,${DEVS[1]}:1,${DEVS[2]}:1,${DEVS[3]}:1"
    DEVS=("${DEVS[0]}" "${DEVS[0]}")
}

# rails_own BONDS FILTER: tests of test_uct, over these bonds ("" for none)
rails_own() {
    local program=$CHECK_BUILD/test_uct
    [ "$CHECK_TL" = vqp ] || skip "is about vqp"
    need_devices 4
    [ -x "$program" ] || skip "test_uct is not built (make test_uct)"
    [ -z "$1" ] || { "$1"; export RXE_DEVS="bond0 bond1"; }
    unset UCX_TLS UCX_VQP_NUM_PATHS UCX_VQP_MIN_PATHS UCX_VQP_STATS_FILE
    "$program" --gtest_brief=1 --gtest_filter="$2" ||
        fail "of $(basename "$program") --gtest_filter='$2'"
}

# rails_perftest BONDS TEST SIZES
rails_perftest() {
    "$1"
    perftest_sizes "$2" "$3"
    check_shares few
}

# rails_mpi BONDS RANKS [ARG]...
rails_mpi() {
    "$1"
    export RXE_DEVS="${DEVS[*]}"
    mpi_case "${@:2}"
}

add rails_own_bonds 120 rails_own "" "*bond*"
add rails_own_ops 120 rails_own two_bonds "*ops*/four_paths:fence*:flush*"
for bonds in two_bonds one_bond; do
    add rails_${bonds}_tag_bw 60 rails_perftest $bonds tag_bw \
        "8:200 65536:60 1048576:8"
    add rails_${bonds}_get 60 rails_perftest $bonds ucp_get \
        "8:200 65536:60 1048576:8"
    add rails_${bonds}_fadd 30 rails_perftest $bonds ucp_fadd "8:200"
    add rails_${bonds}_mpi 120 rails_mpi $bonds 2 -m 262144
done
