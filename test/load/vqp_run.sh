#!/bin/sh
# vqp-run from the build tree: what it sets, and what it leaves alone.
# shellcheck disable=SC2016
. "$(dirname "$0")/common.sh"
no_sanitizer
run=$builddir/contrib/vqp-run

"$run" "$list" >"$out/stdout" 2>"$out/stderr" || fail "exit $?"
grep -qx vqp "$out/stdout" || fail "no component vqp"
[ "$("$run" sh -c 'echo $UCX_TLS')" = vqp ] || fail "UCX_TLS is not set"
[ "$(UCX_TLS=tcp "$run" sh -c 'echo $UCX_TLS')" = tcp ] ||
    fail "UCX_TLS of the user is not kept"
[ "$(LD_PRELOAD=libm.so.6 "$run" sh -c 'echo $LD_PRELOAD')" = \
  "$shim:libm.so.6" ] || fail "LD_PRELOAD of the user is not kept"
"$run" sh -c 'exit 7'
[ $? = 7 ] || fail "the command's exit status is lost"
"$run" --version >"$out/stdout" || fail "--version"
grep -q '^vqp-run .*[0-9]' "$out/stdout" || fail "--version says nothing"
"$run" --help | grep -q mca || fail "--help has no hint for Open MPI"
"$run" --check >"$out/stdout" 2>"$out/stderr"
grep -q '^UCX  *[0-9]' "$out/stdout" || fail "--check names no UCX version"

# A UCX of another commit, with the same version: revisions BUILT RUNNING prints what
# --check says of them
mkdir "$out/bin"
revisions() {
    "$UCX_INFO" -v | sed "s/ revision .*/ revision $2/; ${3-}" >"$out/bin/version"
    printf '#!/bin/sh\ncat "%s"\n' "$out/bin/version" >"$out/bin/ucx_info"
    sed "s|^ucx_info=.*|ucx_info='$out/bin/ucx_info'|; s|^ucx_revision=.*|ucx_revision=$1|" \
        "$run" >"$out/bin/vqp-run"
    chmod +x "$out/bin/vqp-run" "$out/bin/ucx_info"
    "$out/bin/vqp-run" --check | grep '^warning: .*revision'
}
revisions 1234abc 5678def | grep -q '1234abc.*5678def.*if the module is refused' ||
    fail "other revision: no warning"
# another version has another revision, and may be refused for its version
! revisions 1234abc 5678def 's/\(ersion.*[0-9]\.\)[0-9][0-9]*/\1999/' ||
    fail "a warning about the revision of another version"
for built in 1234abc 0000000 ''; do
    ! revisions "$built" 1234abc || fail "a warning about '$built' and 1234abc"
done
! revisions 1234abc 0000000 || fail "a warning about an unknown revision"

# made_device NAME LINK_LAYER: as a device looks in sysfs, in $out/sys
made_device() {
    mkdir -p "$out/sys/class/infiniband/$1/ports/1" &&
        echo '1: CA' >"$out/sys/class/infiniband/$1/node_type" &&
        echo "$2" >"$out/sys/class/infiniband/$1/ports/1/link_layer"
}

# flow_label_of NAME: what --check says about that device
flow_label_of() {
    SYSFS_PATH=$out/sys "$run" --check 2>&1 |
        sed -n "/^port  *$1:1,/{n;s/^ *flow label  *//p;}"
}

made_device soft_0 Ethernet && touch "$out/sys/class/infiniband/soft_0/parent"
for driver in mlx5_core other; do
    made_device "$driver" Ethernet
    mkdir "$out/sys/class/infiniband/$driver/device"
    ln -s "../$driver" "$out/sys/class/infiniband/$driver/device/driver"
done
made_device none Ethernet
made_device fabric InfiniBand
for expect in 'soft_0 yes*rdma_rxe*' 'mlx5_core yes*mlx5_core*' \
              'other unknown*other*' 'none unknown*unknown*' \
              'fabric no UDP port*'; do
    device=${expect%% *}
    said=$(flow_label_of "$device")
    # shellcheck disable=SC2254 # a pattern
    case $said in
        ${expect#* }) ;;
        *) fail "--check says '$said' about the flow label of $device" ;;
    esac
done

# a GID of a network interface that is in another network namespace, and devices in sysfs
# without their files: as in a container that got neither
gids=$out/sys/class/infiniband/other/ports/1
mkdir -p "$gids/gids" "$gids/gid_attrs/ndevs" &&
    echo 0000:0000:0000:0000:0000:ffff:0a58:0101 >"$gids/gids/0" &&
    echo nowhere0 >"$gids/gid_attrs/ndevs/0"
SYSFS_PATH=$out/sys "$run" --check >"$out/stdout" 2>&1 &&
    fail "--check: usable without a device"
grep -q '^warning: other:1: its network interface nowhere0 .*--network=host' \
    "$out/stdout" || fail "--check does not see another network namespace"
# there_is_none WHAT [SED]: no warning, with another place of /proc/net/dev by SED
there_is_none() {
    sed "${2-}" "$run" >"$builddir/contrib/vqp-run.$$" && chmod +x "$builddir/contrib/vqp-run.$$"
    SYSFS_PATH=$out/sys "$builddir/contrib/vqp-run.$$" --check >"$out/none" 2>&1
    rm -f "$builddir/contrib/vqp-run.$$"
    grep -q '^  gid 0 ' "$out/none" || fail "--check has no GID"
    ! grep '^warning: .*network namespace' "$out/none" || fail "$1"
}
there_is_none "--check knows the interfaces without /proc/net/dev" \
    "s|^net_dev=.*|net_dev=$out/nowhere|"
# an address of the port is here: a VLAN may be elsewhere
echo 0000:0000:0000:0000:0000:ffff:0a58:0102 >"$gids/gids/1"
echo lo >"$gids/gid_attrs/ndevs/1"
there_is_none "--check warns although an interface of the port is here"
rm "$gids/gids/1"
echo lo >"$gids/gid_attrs/ndevs/0"
there_is_none "--check takes lo for an interface of another network namespace"
[ -e /dev/infiniband ] ||
    grep -q '^problem: there is no /dev/infiniband.*--device=/dev/infiniband' \
        "$out/stdout" || fail "--check does not miss /dev/infiniband"

# docs/memory.md has the figures that it compares limits with
for name in CONTROL PROBES CONTROL_DRIVER MIRRORS MIRROR CONN QP_DRIVER CQ_DRIVER; do
    bytes=$(sed -n "s/^#define VQP_IB_PINNED_$name  *\([0-9]*\)u.*/\1/p" \
        "$top_srcdir/src/verbs/pinned.h")
    text=$(echo "$bytes" | sed 's/[0-9]\{3\}$/,&/; s/[0-9]\{3\},/,&/; s/^,//')
    [ -n "$bytes" ] && grep -q "^| [ci][a-z]*: .*| $text |$" "$top_srcdir/docs/memory.md" ||
        fail "docs/memory.md has no $name of '$text' bytes"
done

# without a device --accept stops behind --check
SYSFS_PATH=$out/none "$run" --accept >"$out/stdout" 2>"$out/stderr" &&
    fail "--accept: usable without a device"
grep -q '^problem: there is no RDMA device .*driver' "$out/stdout" ||
    fail "--accept does not say that there is no device"
tail -n 1 "$out/stdout" | grep -q '^verdict: not usable' ||
    fail "the last line of --accept is no verdict"
for arguments in --seconds '--seconds x' --port '--port x' 'node1 --port 0' \
    'node1 --port 65536' '--port 20000' '--listen --seconds 1' '--seconds 1 node1 node2' \
    'node1 --listen' --nonsense; do
    # shellcheck disable=SC2086 # several arguments
    "$run" --accept $arguments >"$out/stdout" 2>"$out/stderr"
    [ $? = 2 ] || fail "--accept $arguments has another status than 2"
done
grep -q "has no option '--nonsense'" "$out/stderr" || fail "--accept --nonsense: no reason"
"$run" --accept '' >"$out/stdout" 2>"$out/stderr"
[ $? = 2 ] || fail "--accept '' has another status than 2"
grep -q 'HOST is empty' "$out/stderr" || fail "--accept '': no reason"

"$run" >/dev/null 2>&1
[ $? = 2 ] || fail "usage error has another status than 2"
exit 0
