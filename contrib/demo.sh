#!/bin/bash
# demo.sh: from a fresh Debian 12 or 13 to vqp at work: packages, UCX's sources, build,
# puts over several links and over one that is cut, ucx_info with vqp on RDMA devices
# (by default a software fabric), an MPI program, and a table of rc_verbs beside vqp.
# Builds in build-demo/; installs packages only.
set -u
top=$(cd "$(dirname "$0")/.." && pwd)
work=$top/build-demo
install=yes
ucx_src=
devices=fabric
run_args=()

usage() {
    cat <<EOF
Usage: contrib/demo.sh [--no-install] [--ucx-src SOURCES] [--dir DIR]
                       [--rxe | --host-device DEV]

Shows vqp at work, in nine steps, and ends with "demo: ok" or "demo: failed: WHY".
The devices are those of a software fabric that the build makes (test/fabric):
no RDMA hardware, no virtual machine. A minute and a half on two cores, most
of it the build; the first time about 4, for packages and sources.

  --no-install       install no package; fail when one is missing
  --ucx-src SOURCES  the sources of the installed UCX, a tarball or a directory;
                     otherwise the source package of the distribution is fetched
  --rxe              real Soft-RoCE devices instead: on this host where it can
                     have them, else in a virtual machine, whose kernel is built
                     once; about 2 minutes, the first time about 8
  --host-device DEV  measure on this RDMA device of the host (mlx5_0) instead;
                     it gets ordinary traffic to itself only
  --dir DIR          where to build [$work]

To undo: rm -r build-demo ucx-src ~/.cache/uct_vqp, and apt-get remove the packages
that step 1 names.
EOF
}

while [ $# -gt 0 ]; do
    case $1 in
        --no-install) install=no ;;
        --ucx-src) ucx_src=${2:?--ucx-src needs a tarball or a directory}; shift ;;
        --rxe) devices=rxe; run_args=(--devices 2) ;;
        --host-device) devices=host
                       run_args=(--host-device "${2:?--host-device needs a device}")
                       shift ;;
        --dir) work=${2:?--dir needs a directory}; shift ;;
        -h|--help) usage; exit 0 ;;
        *) usage >&2; exit 2 ;;
    esac
    shift
done

step=0
say() {
    step=$((step + 1))
    echo "[$step/9 $(printf '%3d' $SECONDS) s] $*"
}

failed() {
    echo "demo: failed: $*"
    exit 1
}

# show FILE COMMAND...: its output, indented, and into the file
show() {
    local file=$1
    shift
    "$@" 2>&1 | sed 's/^/    /' | tee "$file"
    return "${PIPESTATUS[0]}"
}

# What several links are worth, by the software fabric's virtual clock
show_links() {
    say "puts over links of 1000 MB/s, one for each queue pair"
    show bandwidth.txt "$top/contrib/demo-links.sh" bandwidth "$work" ||
        failed "a measurement did not finish"

    say "a checked stream over four links; link 2 drops all packets from 10 to 30 ms"
    show cut.txt "$top/contrib/demo-links.sh" cut "$work" ||
        failed "the stream has failed, or link 2 is not used again"
    echo "    (rc_verbs ends with an error; docs/performance.md, \"A link is cut\")"
}

show_mpi() {
    say "an MPI program that checks what it receives: 4 ranks"
    if [ $devices = fabric ]; then
        show mpi.txt on_devices 100 "$top/contrib/demo-mpi.sh" "$work" ||
            failed "the MPI program"
    else
        echo "    (skipped: it runs on the software fabric)"
    fi
}

# quietly WHAT COMMAND...: output goes to the log, its end is shown on failure
quietly() {
    local what=$1
    shift
    "$@" >>"$log" 2>&1 </dev/null && return
    tail -n 20 "$log" | sed 's/^/    /'
    failed "$what; all of its output is in $log"
}

# on_devices SECONDS COMMAND...
on_devices() {
    local seconds=$1
    shift
    if [ $devices = fabric ]; then
        "$top/contrib/fabric-run" --build "$work" --violations off \
            --timeout "$seconds" -- "$@"
    else
        "$top/test/rxe/run" "${run_args[@]}" --timeout "$seconds" -- "$@"
    fi
}

case $(uname -s) in
    Linux) ;;
    *) failed "RDMA and UCX need Linux, and this is $(uname -s)" ;;
esac

if [ -n "$ucx_src" ]; then
    "$top/contrib/get-ucx-src.sh" --test "$ucx_src" >/dev/null ||
        failed "$ucx_src has no UCX sources"
fi

say "packages"
if [ "$install" = yes ]; then
    "$top/contrib/install-deps.sh" || failed "packages could not be installed"
elif ! missing=$("$top/contrib/install-deps.sh" --missing --build-only); then
    failed "missing packages: $(echo "$missing" | paste -sd' ')"
fi

mkdir -p "$work" || failed "can not write $work"
log=$work/demo.log
: >"$log"

say "the sources of UCX $(ucx_info -v | sed -n '1s/^[^0-9]*//p')"
"$top/contrib/get-ucx-src.sh" ${ucx_src:+"$ucx_src"} || failed "no sources of UCX"

say "autogen, configure, make"
[ -x "$top/configure" ] || quietly "autogen.sh" "$top/autogen.sh"
cd "$work" || exit 1
[ -e config.status ] ||
    quietly "configure" "$top/configure" --with-ucx-src="$top/ucx-src"
quietly "make" make -j"$(nproc)" all test/perf/flow test/perf/failover_bench
echo "    $(stat -c '%n, %s bytes' src/uct/.libs/libuct_vqp.so.0.0.0)"

show_links

case $devices in
    fabric) say "RDMA devices: a software fabric in this machine's memory" ;;
    rxe) say "RDMA devices: Soft-RoCE" ;;
    host) say "RDMA devices: ${run_args[1]} of this host" ;;
esac
for dev in /sys/class/infiniband/*; do
    [ -e "$dev" ] && [ $devices != host ] &&
        echo "    (this host has ${dev##*/}: --host-device ${dev##*/} would use it)"
done
on_devices 1200 ls /sys/class/infiniband 2>&1 | sed 's/^/    /'
[ "${PIPESTATUS[0]}" = 0 ] || failed "there are no RDMA devices"

say "ucx_info -d -t vqp"
on_devices 100 "$work/contrib/vqp-run" ucx_info -d -t vqp >ucx_info.txt 2>&1 || {
    cat ucx_info.txt
    failed "ucx_info failed"
}
grep -E 'Transport|Device|bandwidth|latency|put_zcopy|am_bcopy' ucx_info.txt |
    sed 's/^#/   /'
grep -q 'Transport: vqp' ucx_info.txt || failed "ucx_info shows no vqp"

show_mpi

say "what it costs: rc_verbs beside vqp with its defaults, and with 4 paths always (medians of 3)"
show table.txt on_devices 900 "$top/contrib/demo-table.sh" "$work" ||
    failed "a measurement did not finish"

echo "    all of it: $work/ucx_info.txt, $work/table.txt; start your own:" \
     "$work/contrib/vqp-run COMMAND"
[ $devices != fabric ] ||
    echo "    on such devices: contrib/fabric-run $work/contrib/vqp-run COMMAND"
echo "demo: ok"
