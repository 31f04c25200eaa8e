#!/bin/bash
# coverage.sh: how many lines of src are run by tests that need no virtual machine, for each
# directory. docs/testing.md has its table.
set -euo pipefail

usage() {
    cat <<'EOF'
usage: coverage.sh [DIR]
Builds with gcov in DIR [build-coverage], runs the unit tests, the simulator, test_verbs and
test_uct on the software fabric, stock programs with the module, and this project's own
programs, and prints a table. A line counts if one of them runs it. Takes some 25 minutes.
Needs configure (autogen.sh) and UCX's sources (contrib/get-ucx-src.sh). Edit nothing
meanwhile: what is built anew loses its counts.
EOF
}

case ${1:-} in
-h | --help) usage; exit ;;
-*) usage >&2; exit 2 ;;
esac

src=$(cd "$(dirname "$0")/.." && pwd)
dir=$(mkdir -p "${1:-build-coverage}" && cd "${1:-build-coverage}" && pwd)
jobs=$(nproc)
timed=$(grep '^[^#]' "$src/test/timing.filter" | paste -sd:)

# attempt WHAT COMMAND...: a test that fails makes the table incomplete, and is named
attempt() {
    local what=$1
    shift
    echo "$what"
    "$@" >"$dir/$what.log" 2>&1 || {
        tail -n 5 "$dir/$what.log"
        echo "$what failed, see $dir/$what.log"
        status=1
    }
}

# shellcheck disable=SC2317 # attempt calls it
on_fabric() {
    "$src/contrib/fabric-run" --build "$dir" --devices 2 "$@"
}

cd "$dir"
status=0
[ -e Makefile ] || "$src/configure" --enable-gcov CFLAGS=-O0 CXXFLAGS=-O0 >configure.log
grep -q "enable-gcov" config.status || { echo "$dir is built without gcov" >&2; exit 1; }
make -j"$jobs" >make.log
make -j"$jobs" gate-programs >>make.log
find . -name '*.gcda' -delete

attempt "unit" ./test_core --gtest_brief=1
attempt "simulator" "$src/test/sim/run" --build "$dir"
attempt "test_verbs" on_fabric -- ./test_verbs --gtest_brief=1
attempt "test_uct" on_fabric -- ./test_uct --gtest_brief=1 \
    --gtest_filter="-$timed:large.*:*nth*"
attempt "tools" "$src/test/fabric/run-tools" --build "$dir"
attempt "programs" make check-TESTS VQP_SANITIZERS= TESTS="test/load/vqp_top.sh test/load/vqp_run.sh \
    test/load/imbalance.sh"
! grep '^# SKIP: *[1-9]' programs.log || status=1

# Per object a JSON document, one in a line. A line of a header is in several of them.
# shellcheck disable=SC2016 # $ is Python's
find src -name '*.gcno' -exec gcov --json-format --stdout {} + 2>gcov.log |
    python3 -c '
import collections, json, os, sys

src = sys.argv[1] + "/src/"
lines = collections.defaultdict(dict)
for document in sys.stdin:
    data = json.loads(document)
    for entry in data["files"]:
        name = os.path.normpath(os.path.join(data["current_working_directory"],
                                             entry["file"]))
        if name.startswith(src):
            found = lines[name[len(src):]]
            for line in entry["lines"]:
                number = line["line_number"]
                found[number] = max(found.get(number, 0), line["count"])

total = collections.Counter()
run = collections.Counter()
for name, found in lines.items():
    for key in (os.path.dirname(name), "all"):
        total[key] += len(found)
        run[key] += sum(count > 0 for count in found.values())
if total["all"] == 0:
    sys.exit("gcov found no lines, see gcov.log")

print("| directory | lines | run |\n|---|---|---|")
for key in sorted(total, key=lambda key: (key == "all", key)):
    where = "all" if key == "all" else "`src/%s`" % key
    print("| %s | %d | %.1f %% |" % (where, total[key], 100 * run[key] / max(total[key], 1)))
' "$src"
exit $status
