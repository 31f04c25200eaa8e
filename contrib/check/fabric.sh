# shellcheck shell=bash
# The tests that want devices, on the software fabric; a mistake of the caller
# of verbs fails them.

gtest "fabric: test_verbs" on_fabric gcc --manners fail -- \
    "$CHECK_DIR/gcc/test_verbs"
gtest "fabric: test_uct" on_fabric gcc --manners fail -- \
    "$CHECK_DIR/gcc/test_uct"
