# shellcheck shell=bash
# Every UCP test of ucx_perftest between two devices, 1 byte to 64 MiB.

# Stock rc_verbs on rxe needs minutes for READs of 64 MiB
LARGEST=67108864
[ "$CHECK_TL" = vqp ] || LARGEST=4194304
SIZES="1:200 8:200 1000:200 4096:200 65536:60 1048576:8 $LARGEST:1"
LARGE="2048:400 65536:100 1048576:16 $LARGEST:1"

# ucp_case TEST SIZES [ARG]...
ucp_case() {
    need_devices 2
    perftest_sizes "$@"
    check_shares
}

add stream_lat 150 ucp_case stream_lat "$SIZES"    # 10 MB/s: small pieces
for test in tag_lat tag_sync_lat ucp_put_lat ucp_am_lat; do
    add "$test" 60 ucp_case $test "$SIZES"
done
for test in tag_bw tag_sync_bw ucp_put_bw ucp_get stream_bw ucp_am_bw; do
    add "$test" 60 ucp_case $test "1:300 8:300 $LARGE"
done
for test in ucp_add ucp_fadd ucp_swap ucp_cswap; do
    add "$test" 30 perftest_sizes $test "4:200 8:400"
done
add tag_lat_unexpected 40 ucp_case tag_lat "8:100 4096:100 1048576:4" -U
add tag_bw_iov 40 ucp_case tag_bw "100,4000:200 65536,1048576:8" -D iov,iov
add tag_bw_threads 40 perftest_sizes tag_bw "8:200 65536:50" -T 2 -M multi
add stream_recv_data 40 ucp_case stream_bw "8:300 65536:100" -r recv_data
