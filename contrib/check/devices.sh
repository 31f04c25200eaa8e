# shellcheck shell=bash
# All tests that need devices, on the software fabric. An API violation fails them.

gtest "devices: test_uct" on_fabric gcc --violations fail -- \
    "$CHECK_DIR/gcc/test_uct" --gtest_filter='-*bond_pairs*'

# Flows that take links by their labels
gtest "devices: a slow link" on_fabric gcc --devices 2 --violations fail --mode timed \
    -o CLOCK=virtual -o DELAY=2us -o JITTER=0 -o LINKS=8 -o PATH_RATE=8000 \
    -o PORT_RATE=1000000 -- "$CHECK_DIR/gcc/test_uct" --gtest_filter='slow_flow.*'

# A device that takes more inline than the ring takes
gtest "devices: long inline, small ring" on_fabric gcc --violations fail \
    -o MAX_INLINE=4096 -- env UCX_VQP_RING_SIZE=4k UCX_VQP_TX_MIN_INLINE=4k \
    "$CHECK_DIR/gcc/test_uct" --gtest_filter='*/ops.am_short*/four_paths'

# A device whose longest message is short
gtest "devices: short longest message" on_fabric gcc --violations fail \
    -o MAX_MSG=4096 -- "$CHECK_DIR/gcc/test_uct" --gtest_filter='*longest*'
gtest "devices: longest message of 60000 bytes" on_fabric gcc --violations fail \
    -o MAX_MSG=60000 -- "$CHECK_DIR/gcc/test_uct" \
    --gtest_filter='*longest*:*/ops.*/four_paths'

# Bonds: of one to four ports at each end, their events, and the operations over
# two rails
gtest "devices: bonds" on_fabric gcc --devices 4 --violations fail -- \
    "$CHECK_DIR/gcc/test_uct" --gtest_filter='*bond*:*async_*'
UCX_VQP_RAILS="fab0:1,fab1:1;fab2:1,fab3:1" gtest "devices: test_uct, two rails" \
    on_fabric gcc --devices 4 --violations fail -- env RXE_DEVS="bond0 bond1" \
    "$CHECK_DIR/gcc/test_uct" \
    --gtest_filter='*/ops.*/four_paths:*/fence.*:flush*:large*'

# Order, where paths differ: in immediate mode each request is there before the
# next one is posted, whatever the transport does
order='*/fence.*:*/ops.ams*:flush_test.pending_requests*:flush_test.completes*'
order+=':flush_test.does_not*'
gtest "devices: order, jitter" on_fabric gcc --violations fail --mode timed \
    -o DELAY=20us -o JITTER=300us -- "$CHECK_DIR/gcc/test_uct" \
    --gtest_filter="overtaking.*:deferred_test.*:$order"
gtest "devices: order, asymmetric paths" on_fabric gcc --violations fail --mode timed \
    -o DELAY=5us,50us,200us,20us -o PATH_RATE=8000,1000,250,4000 \
    -o JITTER=20us -- "$CHECK_DIR/gcc/test_uct" --gtest_filter="$order"
UCX_VQP_RAILS="fab0:1,fab1:1;fab2:1,fab3:1" gtest "devices: order, two rails" \
    on_fabric gcc --devices 4 --violations fail --mode timed \
    -o DELAY=5us,50us,200us,20us -o JITTER=20us -- env RXE_DEVS="bond0 bond1" \
    "$CHECK_DIR/gcc/test_uct" --gtest_filter='*/fence.*:*/ops.ams*'
order='*failover_test.messages_come*:*failover_test.a_message_behind*'
order+=':*failover_test.short_puts*'
gtest "devices: order, paths that fail" on_fabric gcc --violations fail --mode timed \
    -o DELAY=20us -o JITTER=300us -- "$CHECK_DIR/gcc/test_uct" \
    --gtest_filter="$order"

# A device without RC queue pairs is not offered, and that is no error: one line for each
# says why, and --check has it too
no_rc() {
    local said
    said=$(on_fabric gcc --profile efa -- env UCX_LOG_LEVEL=diag \
           "$CHECK_DIR/gcc/contrib/vqp-run" ucx_info -d -t vqp 2>&1) || return 1
    echo "$said"
    [ "$(grep -c 'fab1: vqp can not use this device: .* without RC' <<<"$said")" = 1 ] ||
        return 1
    said=$(on_fabric gcc --profile efa -- "$CHECK_DIR/gcc/contrib/vqp-run" --check) &&
        return 1
    echo "$said"
    grep -q '^refused   fab0: vqp can not use this device: .* without RC' <<<"$said" &&
        grep -q '^problem: UCX offers vqp on no port' <<<"$said" || return 1
    said=$(on_fabric gcc --profile efa -- "$CHECK_DIR/gcc/contrib/vqp-run" \
           ucx_info -d -t vqp 2>&1) || return 1
    echo "$said"
    ! grep -qE 'Device:|ERROR' <<<"$said"
}

# Devices of other kinds (profiles of the fabric)
for profile in irdma "irdma -o ATOMICS=hca" bnxt small rxe; do
    filter='source_test.*:*guarantee*:*failover_test.*:*/ops.*/four_paths'
    filter+=':*/fence.*:connect_test.*'
    # shellcheck disable=SC2086 # options
    gtest "devices: profile ${profile/ -o / }" on_fabric gcc --violations fail \
        --profile $profile -- "$CHECK_DIR/gcc/test_uct" --gtest_filter="$filter"
done
gtest "devices: any number as rq_psn" on_fabric gcc --violations fail \
    -o RQ_PSN=garbage -- "$CHECK_DIR/gcc/test_uct" \
    --gtest_filter='source_test.*:*guarantee*'
run "devices: profile efa is offered to nobody" no_rc
