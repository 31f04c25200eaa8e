# shellcheck shell=bash
# The project's own tests of the transport (test/uct): connections, failures,
# lengths beyond 32 bits.

# shellcheck source-path=SCRIPTDIR source=own_ops.sh
. "$HERE/own_ops.sh"
forget_cases

add own_connect 120 own_case "connect_test.*"
add own_error 120 own_case "error_test.*"

# large_case TEST: 2 GiB and more.  User-Mode Linux maps what a process has in a
# process of the host, and ends it ("Killed") at the host's limit of mappings.
# With the kernel's default, 65530, that happens now and then above 2 GiB; with
# the one of newer distributions it does not.
large_case() {
    local count=1048576
    if grep -qs "^VM=uml" /run/rxe/conf &&
        [ "$CHECK_MAP_COUNT" -lt $count ]; then
        skip "vm.max_map_count of the host is $CHECK_MAP_COUNT, less than $count"
    fi
    own_case "large.$1"
}

for test in put_of_2_gib get_of_3e9_bytes put_of_4_gib_less_1 \
            get_of_4_gib_and_1 put_of_5_gib; do
    add own_large_$test 300 large_case $test
done
