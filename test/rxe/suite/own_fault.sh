# shellcheck shell=bash
# The project's own tests of the transport (test/uct): connections, failures,
# lengths beyond 32 bits.

# shellcheck source-path=SCRIPTDIR source=own_ops.sh
. "$HERE/own_ops.sh"
forget_cases

add own_connect 120 own_case "connect_test.*"
add own_error 120 own_case "error_test.*"
for test in put_of_2_gib get_of_3e9_bytes put_of_4_gib_less_1 \
            get_of_4_gib_and_1 put_of_5_gib; do
    add own_large_$test 120 own_case "large.$test"
done
