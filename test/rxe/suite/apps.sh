# shellcheck shell=bash
# Programs that check their data: UCX's io_demo and ucp_client_server; a process
# that sends to itself with no other transport; programs that sleep. The report of vqp-run.

# Both find each other by address, through the RDMA connection manager: UCP
# takes only devices that the connection manager names, which TCP's does not.
export UCX_SOCKADDR_TLS_PRIORITY=rdmacm
read -ra IPS <<<"${RXE_IPS:-}"

# wait_line FILE TEXT PID: until process PID has written TEXT (10 s at most)
wait_line() {
    local i
    for ((i = 0; i < 500; ++i)); do
        ! grep -q "$2" "$1" || return 0
        kill -0 "$3" 2>/dev/null || fail "the server ended early"
        sleep 0.02
    done
    fail "the server does not listen"
}

# no_complaint PATTERN: neither side may have printed it
no_complaint() {
    ! grep -qi "$1" client.log server.log ||
        fail "$(grep -hi "$1" client.log server.log | head -n 1)"
}

# demo_case INDEX SIZES [ARG]...: a server on device 0, a client on device INDEX
# that reads and writes and checks what it gets
demo_case() {
    local index=$1 sizes=$2 status
    shift 2
    need_tool io_demo
    need_devices $((index + 1))
    new_port
    serve "${DEVS[0]}" io_demo -q -d "$sizes" -p "$PORT" "$@"
    wait_line server.log "started listener" "$SERVER"
    on "${DEVS[index]}" io_demo -q -o read,write -d "$sizes" -t 20 -c 2 "$@" \
        -I "${IPS[index]}" -p "$PORT" "${IPS[0]}" >client.log 2>&1
    status=$?
    kill "$SERVER"    # it waits for further clients
    wait "$SERVER"
    [ $status -eq 0 ] || fail "the client ended with $status"
    no_complaint "corrupt\| ERROR \|assert"
}

# least_case PATHS DEMO_CASE-ARGUMENT...: with the least ring
least_case() {
    export UCX_VQP_RING_SIZE=4k UCX_VQP_NUM_PATHS=$1 UCX_VQP_MIN_PATHS=$1
    demo_case "${@:2}"
}

# client_server_case API SIZE [ARG]...
client_server_case() {
    local api=$1 size=$2 status
    local program=$CHECK_BIN/ucp_client_server
    shift 2
    [ -x "$program" ] || skip "ucp_client_server could not be built"
    # The client closes after its last message. UCP's connection manager tells the server
    # at once, and UCP drops what it has received of a stream and the server has not taken.
    [ "$api" != stream ] || grep -q "FIN message" "$program" ||
        skip "the example of UCX before 1.14 does not wait for the last message"
    new_port
    set -- -p "$PORT" -c "$api" -s "$size" -i 100 "$@"
    serve "${DEVS[0]}" "$program" "$@" -l "${IPS[0]}"
    wait_line server.log "listening" "$SERVER"
    on "${DEVS[0]}" "$program" "$@" -a "${IPS[0]}" >client.log 2>&1
    status=$?
    kill "$SERVER" 2>/dev/null
    wait "$SERVER"
    [ $status -eq 0 ] || fail "the client ended with $status"
    no_complaint "client failed\|server failed\|UCX  ERROR\|doesn.t match"
}

# to_self TEST SIZES: a loopback endpoint to the own worker
to_self() {
    need_tool ucx_perftest
    local pair
    perftest_find
    for pair in $2; do
        on "${DEVS[0]}" "${perftest[@]}" -l -t "$1" -s "${pair%:*}" \
            -n "${pair#*:}" -w 1 -f >>client.log 2>&1 ||
            fail "$1 of ${pair%:*} bytes ended with $?"
    done
}

# sleep_case TEST SIZES: both sides block in epoll between completions.  Stock
# UCX loses wake-ups on rxe: it does not poll again after it armed the CQ.
sleep_case() {
    [ "$CHECK_TL" = vqp ] || skip "stock transports lose wake-ups on rxe"
    need_devices 2
    perftest_sizes "$@" -E sleep
    check_shares few
}

# accept_case [HOST]: the report of vqp-run, of two processes, or of two calls of vqp-run
accept_case() {
    [ "$CHECK_TL" = vqp ] || skip "it is a program of vqp"
    need_devices 2
    if [ $# -gt 0 ]; then
        new_port
        serve "${DEVS[0]}" --accept --listen --port "$PORT"
        wait_listen "$PORT" "$SERVER"
        set -- "$1" --port "$PORT"
    fi
    on "${DEVS[1]}" --accept --seconds 2 "$@" >client.log 2>&1 ||
        fail "$(grep -E '^(problem|verdict):' client.log | head -n 1)"
    [ $# -eq 0 ] || wait "$SERVER" || fail "the server ended with $?"
    grep '^ok: failover: .* puts' client.log || fail "no path was broken under puts"
    tail -n 1 client.log | grep '^verdict: ok' || fail "the last line is no verdict"
}

add accept_local 120 accept_case
add accept_host 120 accept_case 127.0.0.1
add io_demo_tag 60 demo_case 0 1:65536 -i 300
add io_demo_least 60 least_case 4 0 1:65536 -i 100
add io_demo_least_one_path 60 least_case 1 0 1:65536 -i 100
add io_demo_am 60 demo_case 0 1:65536 -i 300 -A
add io_demo_large 60 demo_case 0 100000:4194304 -i 20
add io_demo_two_devices 60 demo_case 1 1:65536 -i 100
for api in stream tag am; do
    add client_server_$api 40 client_server_case $api 30000
done
add client_server_iov 40 client_server_case tag 10000 -v 4
for test in tag_lat tag_bw ucp_put_bw ucp_get ucp_fadd stream_bw ucp_am_lat
do
    case $test in
    ucp_fadd) add self_$test 30 to_self $test "8:200" ;;
    *) add self_$test 60 to_self $test "1:200 8192:100 1048576:10" ;;
    esac
done
# no one-sided ones: their target waits for memory to change, which wakes no
# process
for test in tag_lat ucp_am_lat stream_lat tag_bw ucp_am_bw; do
    add sleep_$test 60 sleep_case $test "8:2000 65536:100 1048576:10"
done
