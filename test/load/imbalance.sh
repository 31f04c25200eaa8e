#!/bin/bash
# A path over a slow link is a line in the log, and with telemetry is marked in the file.
# With equal links there is no line. On the software fabric, in its timed mode.
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"
no_sanitizer
top=$builddir/src/tools/vqp-top
command -v ucx_perftest >/dev/null || skip "ucx_perftest is missing"
fabric=$(cd "$top_srcdir" && pwd)/contrib/fabric-run

cat >"$out/job" <<'END'
#!/bin/bash
run=$1 dir=$2 lib=$3 telemetry=$4
. "$lib/port.sh"
. "$lib/perftest.sh"
perftest_find
port_take || exit 1
export UCX_VQP_TELEMETRY=$telemetry UCX_WARN_UNUSED_ENV_VARS=n UCX_NET_DEVICES=fab0:1
export UCX_VQP_MIN_PATHS=4
export UCX_VQP_SLOW_PATH=inf # else the path is moved to other flows first
"$run" "${perftest[@]}" -p $port &
server=$!
port_wait $port $server || exit 1
"$run" "${perftest[@]}" -p $port localhost -t ucp_put_bw -s 1048576 -n 10000000 &
client=$!
trap 'kill -9 $server $client 2>/dev/null' EXIT
while [ ! -e "$dir/end" ]; do sleep 0.1; done
END

# start NAME RATES [TELEMETRY]: RATES of the links of four paths, in Mb/s
start() {
    mkdir "$out/$1" || exit 99
    "$fabric" --build "$builddir" --timeout 600 --mode timed -o PATH_RATE="$2" -- \
        bash "$out/job" "$builddir/contrib/vqp-run" "$out/$1" \
        "$top_srcdir/test/lib" "${3:-$out/$1}" \
        >"$out/$1.log" 2>&1 &
}

# shellcheck disable=SC2317 # a trap calls it
end() {
    touch "$out/slow/end" "$out/off/end" "$out/equal/end"
    wait
}
trap 'end; rm -rf "$out"' EXIT
start slow 50,50,50,10
start off 50,50,50,10 off
start equal 50,50,50,50

# wait_for COMMAND...: the limit ends only what hangs
wait_for() {
    local i
    for ((i = 0; i < 3000; ++i)); do
        "$@" && return
        sleep 0.1
    done
    fail "waited for: $*"
}

# shellcheck disable=SC2317 # wait_for calls it
is_marked() {
    "$top" --once "$out/slow" >"$out/stdout" || fail "vqp-top: exit $?"
    grep -q '!' "$out/stdout"
}

# shellcheck disable=SC2317 # wait_for calls it
is_live() {
    "$top" --once "$out/equal" >"$out/stdout" || fail "vqp-top: exit $?"
    grep -qE ' LIVE +[0-9.]+M ' "$out/stdout"
}

for name in off slow; do
    wait_for grep -q 'less than half of its share' "$out/$name.log"
    line=$(grep -h 'less than half of its share' "$out/$name.log") || fail "no line"
    [ "$(wc -l <<<"$line")" = 1 ] || fail "more than one line"
    grep -q ' WARN ' <<<"$line" || fail "it is no warning"
    path=$(sed -n 's/.* path \([0-3]\) (fab0:1, UDP source port [0-9]*) .*/\1/p' <<<"$line")
    [ -n "$path" ] || fail "the line names no path"
done
! ls "$out"/off/uct_vqp.* 2>/dev/null || fail "telemetry that is off"
wait_for is_marked
[ "$(grep -c '!' "$out/stdout")" = 1 ] || fail "not one path is marked"
grep -qE "^ {13}$path UP .*!" "$out/stdout" || fail "another path is marked than logged"
wait_for is_live
! grep -q '!' "$out/stdout" || fail "a path of equal links is marked"
! grep -q 'of its share' "$out/equal.log" || fail "a line for equal links"
exit 0
