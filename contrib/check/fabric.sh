# shellcheck shell=bash
# The tests that want devices, on the software fabric; a mistake of the caller
# of verbs fails them.

gtest "fabric: test_verbs" on_fabric gcc --manners fail -- \
    "$CHECK_DIR/gcc/test_verbs"
gtest "fabric: test_uct" on_fabric gcc --manners fail -- \
    "$CHECK_DIR/gcc/test_uct" --gtest_filter='-*bond_pairs*'

# A device that takes more inline than the ring takes
gtest "fabric: long inline, small ring" on_fabric gcc --manners fail \
    -o MAX_INLINE=4096 -- env UCX_VQP_RING_SIZE=4k UCX_VQP_TX_MIN_INLINE=4k \
    "$CHECK_DIR/gcc/test_uct" --gtest_filter='*/ops.am_short*/four_paths'

# Bonds: of one to four ports at each end, and the operations over two rails
gtest "fabric: bonds" on_fabric gcc --devices 4 --manners fail -- \
    "$CHECK_DIR/gcc/test_uct" --gtest_filter='*bond*'
UCX_VQP_RAILS="fab0:1,fab1:1;fab2:1,fab3:1" gtest "fabric: test_uct, two rails" \
    on_fabric gcc --devices 4 --manners fail -- env RXE_DEVS="bond0 bond1" \
    "$CHECK_DIR/gcc/test_uct" \
    --gtest_filter='*/ops.*/four_paths:am_test*:*/fence.*:flush*:large*'

# order, where paths are of unequal delay
gtest "fabric: order in timed mode" on_fabric gcc --manners fail --mode timed \
    -o DELAY=20us -o JITTER=300us -- "$CHECK_DIR/gcc/test_uct" \
    --gtest_filter='overtaking.*:*/fence.*'
