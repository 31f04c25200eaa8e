# shellcheck shell=bash
# The UCT tests of ucx_perftest on one device: every operation in every layout
# that the transport advertises.

# The largest RDMA of stock rc_verbs is the device's largest message
LARGEST=67108864
[ "$CHECK_TL" = vqp ] || LARGEST=8388608

# uct_case TEST LAYOUT "SIZE:ITERATIONS..." [ARG]...
uct_case() {
    local test=$1 layout=$2 sizes=$3
    shift 3
    # a UCT server uses the client's device
    DEVS=("${DEVS[0]}")
    perftest_sizes "$test" "$sizes" -D "$layout" -d "${DEVS[0]}:1" \
                   -x "$UCT_TL" "$@"
    check_shares few
}

# Operations that the device, not the transport, has or has not
uct_optional() {
    (uct_case "$@") || {
        ! grep -q "not support" client.log ||
            skip "the device does not offer it"
        exit 1
    }
}

for test in am_lat am_bw; do
    add uct_${test}_short 30 uct_case $test short "8:200 32:200"
    add uct_${test}_shortiov 30 uct_case $test shortiov "8:200 32:200"
    add uct_${test}_bcopy 30 uct_case $test bcopy "8:200 1024:200 8000:100"
    add uct_${test}_zcopy 30 uct_case $test zcopy "9:200 1024:200 4000:100"
done
for test in put_lat put_bw; do
    add uct_${test}_short 30 uct_case $test short "1:200 8:200 32:200"
    add uct_${test}_bcopy 30 uct_case $test bcopy "8:200 1024:200 8000:100"
    add uct_${test}_zcopy 40 uct_case $test zcopy \
        "8:200 4096:200 65536:50 1048576:6 $LARGEST:1"
done
add uct_get_bcopy 30 uct_case get bcopy "8:200 1024:200 8000:100"
add uct_get_zcopy 40 uct_case get zcopy \
    "128:200 4096:200 65536:50 1048576:6 $LARGEST:1"
add uct_add_lat 20 uct_case add_lat short "8:200"
add uct_add_mr 20 uct_case add_mr short "8:400"
add uct_fadd 20 uct_case fadd short "8:200"
add uct_cswap 20 uct_case cswap short "8:200"
add uct_swap 20 uct_optional swap short "8:200"
add uct_fadd_32 20 uct_optional fadd short "4:200"
