# shellcheck shell=bash
# The project's own tests of the transport (test/uct): fences over uneven paths,
# what overtakes, flush and pending requests, sleeping, threads.

# shellcheck source-path=SCRIPTDIR source=own_ops.sh
. "$HERE/own_ops.sh"
forget_cases

for setting in one_path auto dqplb spray order_all; do
    add own_fence_$setting 90 own_case "*/fence.*/$setting"
done
add own_overtaking 60 own_case "overtaking.*"
add own_flush 60 own_case "flush_test.*"
add own_event 90 own_case "event_test.*"
add own_thread 90 own_case "thread_test.*"
add own_ucp 60 own_case "ucp_test.*"
