#!/bin/bash
# vqp-top on the files of two processes on the software fabric, one of which is killed:
# the table, JSON and metrics; and files that are not what they seem.
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"
no_sanitizer
top=$builddir/src/tools/vqp-top
command -v ucx_perftest >/dev/null || skip "ucx_perftest is missing"
fabric=$(cd "$top_srcdir" && pwd)/contrib/fabric-run
dir=$out/files
mkdir "$dir" || exit 99

vqp_top() {
    timeout 120 "$top" "$@" >"$out/stdout" 2>"$out/stderr"
}

has() {
    grep -qE -- "$1" "$out/stdout" || fail "$2"
}

# ---- no file, wrong options ----

ldd "$top" | grep -E 'libuc|libibverbs' && fail "vqp-top needs UCX or libibverbs"
vqp_top --once "$dir" || fail "exit $? without files"
has 'No process' "nothing is said without files"
vqp_top --json "$dir" || fail "--json: exit $? without files"
vqp_top --help || fail "--help: exit $?"
has 'UCX_VQP_TELEMETRY' "--help says nothing"
vqp_top --version || fail "--version: exit $?"
has '^vqp-top [0-9]' "--version says nothing"
for wrong in --none --sort=none --delay=0 --count=0; do
    vqp_top $wrong "$dir"
    [ $? = 2 ] || fail "$wrong: another status than 2"
done
vqp_top --once "$out/none"
[ $? = 1 ] || fail "a directory that is not there: another status than 1"

# ---- files: of a server, and of a client that is killed ----

cat >"$out/job" <<'END'
#!/bin/bash
run=$1 dir=$2 lib=$3
. "$lib/port.sh"
. "$lib/perftest.sh"
perftest_find
port_take || exit 1
export UCX_VQP_TELEMETRY=$dir UCX_WARN_UNUSED_ENV_VARS=n UCX_NET_DEVICES=fab0:1
export UCX_VQP_MIN_PATHS=4
"$run" "${perftest[@]}" -p $port &
server=$!
port_wait $port $server || exit 1
"$run" "${perftest[@]}" -p $port localhost -t ucp_put_bw -s 1048576 -n 10000000 &
client=$!
trap 'kill -9 $server $client 2>/dev/null' EXIT
echo $server >"$dir/../server"
echo $client >"$dir/../client"
while [ ! -e "$dir/../kill" ]; do sleep 0.1; done
kill -9 $client
wait $client
touch "$dir/../killed"
while [ ! -e "$dir/../end" ]; do sleep 0.1; done
END
"$fabric" --build "$builddir" --timeout 600 -- bash "$out/job" \
    "$builddir/contrib/vqp-run" "$dir" "$top_srcdir/test/lib" >"$out/job.log" 2>&1 &
job=$!
trap 'touch "$out/kill" "$out/end"; wait "$job"; rm -rf "$out"' EXIT

# wait_for SECONDS COMMAND...
wait_for() {
    local i
    for ((i = 0; i < 10 * $1; ++i)); do
        "${@:2}" && return
        sleep 0.1
    done
    fail "waited for: ${*:2}"
}

# shellcheck disable=SC2317 # wait_for calls it
is_shown() {
    vqp_top --json "$dir" && grep -q '"rate":[1-9]' "$out/stdout"
}

wait_for 120 is_shown
server=$(cat "$out/server")
client=$(cat "$out/client")

vqp_top --once "$dir" || fail "--once: exit $?"
[ "$(grep -cE '^ {13}[0-3] UP +fab0:1 +[0-9]{5} 0x[0-9a-f]{5} ' "$out/stdout")" = 8 ] ||
    fail "--once: not four paths of each of two connections"
has "^ *$client ucx_perftest .* LIVE " "--once: no client"
grep -E 'LIVE' "$out/stdout" | head -n 1 | grep -qE "^ *$client " ||
    fail "--once: the highest rate is not first"
# shellcheck disable=SC2317 # wait_for calls it
has_latency() {
    vqp_top --once "$dir" &&
        [ "$(grep -cE '^ {13}[0-3] UP .* (<=|>)[0-9]+ +(<=|>)[0-9]+$' "$out/stdout")" -ge 4 ]
}

wait_for 120 has_latency # of each path of the client
vqp_top --prometheus "$out/metrics.prom" "$dir" || fail "--prometheus: exit $?"
# the samples of a path end with their number, and buckets have those below them in them
awk '/^uct_vqp_path_latency_seconds_bucket/ {
         if ($2 < last) exit 1
         last = /le="\+Inf"/ ? 0 : $2; count = $2; ++lines
     }
     /^uct_vqp_path_latency_seconds_count/ {if ($2 != count) exit 1; with += ($2 > 0)}
     END {if (lines != 8 * 16 || with < 4) exit 1}' "$out/metrics.prom" ||
    fail "--prometheus: no histograms"
vqp_top --once --sort pid "$dir" || fail "--sort: exit $?"
grep -E 'LIVE' "$out/stdout" | head -n 1 |
    grep -qE "^ *$((server < client ? server : client)) " || fail "--sort pid: wrong order"
vqp_top --count 3 --delay 0.01 "$dir" || fail "--count: exit $?"
[ "$(grep -c '^vqp-top ' "$out/stdout")" = 3 ] || fail "--count 3: not three tables"

# on a terminal: the screen is cleared, and lines are cut at its width
if command -v script >/dev/null && command -v stty >/dev/null; then
    timeout 120 script -qec "stty rows 8 cols 60; '$top' -n 2 -d 0.1 '$dir'" /dev/null \
        </dev/null >"$out/stdout" 2>"$out/stderr" || fail "on a terminal: exit $?"
    escape=$(printf '\033')
    [ "$(grep -c "^$escape\[H$escape\[2Jvqp-top " "$out/stdout")" = 1 ] ||
        fail "on a terminal: the screen is not cleared at first"
    [ "$(grep -o 'vqp-top [0-9][0-9]:' "$out/stdout" | wc -l)" = 2 ] ||
        fail "on a terminal: not two tables"
    [ "$(grep -c '\.\.\.' "$out/stdout")" = 2 ] || fail "on a terminal: rows are not cut"
    sed "s/$escape\[[A-Z0-9]*//g; s/\r//g" "$out/stdout" |
        awk 'length > 63 {exit 1}' || fail "on a terminal: columns are not cut"
fi

if command -v python3 >/dev/null; then
    timeout 400 python3 "$top_srcdir/test/load/top_keys.py" "$top" "$dir" \
        >"$out/stdout" 2>"$out/stderr" || fail "keys: $(tail -n 5 "$out/stderr")"
fi

# where "on" puts the files
XDG_RUNTIME_DIR=$dir vqp_top --json || fail "the default place: exit $?"
grep -q "\"file\":\"$dir/uct_vqp\.$client\." "$out/stdout" ||
    fail "the runtime directory is not searched"

# ---- post-mortem ----

touch "$out/kill"
wait_for 120 test -e "$out/killed"
vqp_top --once "$dir" || fail "ended: exit $?"
has "^ *$client ucx_perftest +fab0:1 +ended .* LIVE " "the killed client is not shown"
has "^ *$server ucx_perftest +fab0:1 +[0-9.]+ s .* LIVE " "the server is not shown"
vqp_top --json "$dir" || fail "--json: exit $?"
if command -v python3 >/dev/null; then
    python3 -c '
import json, sys
found = {i["pid"]: i for i in json.load(sys.stdin)["interfaces"]}
server, client = (found[int(pid)] for pid in sys.argv[1:])
assert server["running"] and not client["running"], "running"
assert not client["torn"], "torn"
paths = client["connections"][0]["paths"]
assert len(paths) == 4 and all(p["bytes"] > 0 for p in paths), "paths"
assert all(sum(p["latency_us_%s" % i] for i in [2**j for j in range(15)] + ["more"]) > 0
           for p in paths), "latency"
assert client["fields"]["ops"] == client["connections"][0]["fields"]["ops"] > 0, "ops"
assert [p["qpn"] for p in paths] == \
    [p["peer_qpn"] for p in server["connections"][0]["paths"]], "queue pairs"
' "$server" "$client" <"$out/stdout" 2>"$out/stderr" || fail "--json: wrong contents"
fi

# ---- metrics ----

vqp_top --prometheus "$out/metrics.prom" "$dir" || fail "--prometheus: exit $?"
[ ! -s "$out/stdout" ] || fail "--prometheus: there is output"
grep -q "^uct_vqp_path_bytes_total{pid=\"$server\"," "$out/metrics.prom" ||
    fail "--prometheus: no bytes of the server"
grep -q "pid=\"$client\"" "$out/metrics.prom" &&
    fail "--prometheus: a process that has ended"
grep -vE '^# (HELP|TYPE) uct_vqp_[a-z0-9_]+ |^uct_vqp_[a-z0-9_]+\{([a-z_]+="[^"\\]*",?)+\} [0-9.]+$' \
    "$out/metrics.prom" && fail "--prometheus: not in its format"
sed 's/ [^ ]*$//' "$out/metrics.prom" | grep -v '^#' | sort | uniq -d | grep . &&
    fail "--prometheus: a series comes twice"
grep '^# TYPE' "$out/metrics.prom" | sort | uniq -d | grep . &&
    fail "--prometheus: a metric comes twice"
# all samples of a metric come together, behind its type
awk '/^# TYPE/ {name = $3; type = $4}
     /^[^#]/ {sub(/\{.*/, ""); if (type == "histogram") sub(/_(bucket|sum|count)$/, "")
              if ($0 != name) exit 1}' \
    "$out/metrics.prom" || fail "--prometheus: a sample without its type in front"
# the dashboard asks only for metrics that there are
dashboard=$top_srcdir/contrib/grafana/uct_vqp.json
if command -v python3 >/dev/null; then
    python3 -m json.tool "$dashboard" >/dev/null || fail "the dashboard is not JSON"
fi
grep -o 'uct_vqp_[a-z_]*' "$dashboard" | sort -u >"$out/asked"
[ "$(wc -l <"$out/asked")" -ge 15 ] || fail "the dashboard asks for few metrics"
while read -r metric; do
    grep -q "^$metric{" "$out/metrics.prom" || fail "the dashboard asks for $metric"
done <"$out/asked"
vqp_top --prometheus "$out/none/metrics.prom" "$dir"
[ $? = 1 ] || fail "--prometheus: a failed write has another status than 1"
[ -z "$(find "$out" -name '*.tmp')" ] || fail "--prometheus: a file is left behind"

# ---- files that are not what they seem ----

real=$(find "$dir" -name "uct_vqp.$client.*")
mkdir "$out/bad" "$out/bad/uct_vqp.1.0"
: >"$out/bad/uct_vqp.1.1"
head -c 100000 /dev/urandom >"$out/bad/uct_vqp.1.2"
for length in 1 200 208 5000 12000; do
    head -c $length "$real" >"$out/bad/uct_vqp.2.$length"
done
ln -s "$real" "$out/bad/uct_vqp.3.0"
mkfifo -m 600 "$out/bad/uct_vqp.3.1"
cp "$real" "$out/bad/uct_vqp.3.2"
chmod 666 "$out/bad/uct_vqp.3.2"
cp "$real" "$out/bad/uct_vqp.name"
# change FILE OFFSET BYTES: of a copy of the client's file
change() {
    cp "$real" "$1"
    printf '%b' "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>"$out/stderr" || fail dd
}
change "$out/bad/uct_vqp.4.0" 12 '\377'             # version
change "$out/bad/uct_vqp.4.1" 44 '\377\377\377\377' # connections
change "$out/bad/uct_vqp.4.2" 28 '\377\377'         # record of the interface
chmod 600 "$out"/bad/uct_vqp.[124].*
vqp_top --once "$out/bad" || fail "bad files: exit $?"
has 'No process' "a bad file is shown"
[ ! -s "$out/stderr" ] || fail "bad files: messages without --verbose"
vqp_top --once --verbose "$out/bad" || fail "bad files: exit $?"
[ "$(grep -c 'is ignored' "$out/stderr")" = 14 ] || fail "bad files: not 14 reasons"
grep -q '4\.0 is ignored: of another version' "$out/stderr" || fail "no version is named"
vqp_top --once "$out/bad/uct_vqp.1.2"
[ $? = 1 ] || fail "a named bad file: another status than 1"
grep -q 'not a telemetry file' "$out/stderr" || fail "a named bad file: no reason"

# a snapshot that the writer did not finish; names that a terminal must not get
mkdir "$out/odd"
change "$out/odd/uct_vqp.$client.0" 48 '\001'
change "$out/odd/uct_vqp.$client.1" 160 '\033[2J"\134'
vqp_top --once "$out/odd" || fail "odd files: exit $?"
has 'ended~' "a torn snapshot is not marked"
has ' \?\[2J\?\?' "the name of a program is not made printable"

# ---- cleaning up ----

vqp_top --clean "$dir" || fail "--clean: exit $?"
has '^1 files removed' "--clean: not one file"
[ -e "$real" ] && fail "--clean: the file is there"
[ -n "$(find "$dir" -name "uct_vqp.$server.*")" ] || fail "--clean: of a running process"
exit 0
