#!/bin/sh
# A module that was compiled for another UCX prints one line with both versions,
# registers nothing, and does no harm.
. "$(dirname "$0")/common.sh"
no_sanitizer

check() {
    what=$1
    rc=$2
    [ "$rc" = 0 ] || fail "$what: exit $rc"
    [ "$(wc -l <"$out/stderr")" = 1 ] || fail "$what: not one line on stderr"
    grep -q '^uct_vqp: not loaded: .*for UCX 1\.12, .*running UCX is 1\.' \
        "$out/stderr" || fail "$what: wrong message"
    grep -qw vqp "$out/stdout" && fail "$what: vqp is registered"
    grep -qw tcp "$out/stdout" || fail "$what: UCX does not work any more"
}

VQP_MODULE=$wrong LD_PRELOAD=$shim "$list" >"$out/stdout" 2>"$out/stderr"
check "by the shim" $?
LD_PRELOAD=$wrong "$list" >"$out/stdout" 2>"$out/stderr"
check "by LD_PRELOAD" $?
VQP_MODULE=$wrong LD_PRELOAD=$shim "$UCX_INFO" -d >"$out/stdout" \
    2>"$out/stderr"
check "ucx_info" $?

# with libucp in the process the exact version is known
grep -q "running UCX is $("$UCX_INFO" -v | sed -n '/ersion/{s/^.*ersion:* *\([0-9.]*\).*$/\1/p;q;}')" \
    "$out/stderr" || fail "ucx_info: version not named"

# the same version with another configuration has other structures: MODULE is refused,
# since STRUCTURE has another size
configuration() {
    module=$1
    structure=$2
    VQP_MODULE=$module LD_PRELOAD=$shim "$list" >"$out/stdout" 2>"$out/stderr" ||
        fail "$structure: exit $?"
    [ "$(wc -l <"$out/stderr")" = 1 ] || fail "$structure: not one line on stderr"
    grep -q "^uct_vqp: not loaded: .*$structure has [0-9]* bytes, not" \
        "$out/stderr" || fail "$structure: wrong message"
    ! grep -qx vqp "$out/stdout" || fail "$structure: vqp is registered"
}
configuration "$assert" uct_mm_ep_t
"$UCX_INFO" -b | grep -q '^#define ENABLE_STATS *1' ||
    configuration "$layout" uct_base_iface_t

# the same version, and a member at another place, or a function that was added
# together with a member: as a commit between two releases
other_commit() {
    # shellcheck disable=SC2086 # flags
    $CC $UCX_CPPFLAGS "$1" -w -shared -fPIC -o "$out/moved.so" \
        "$top_srcdir/test/load/moved.c" || fail "moved.c does not compile"
    LD_PRELOAD="$out/moved.so $shim" "$list" >"$out/stdout" 2>"$out/stderr" ||
        fail "$1: exit $?"
}
other_commit -DMOVED=0
grep -qx vqp "$out/stdout" || fail "refused with no member moved"
for what in "-DMOVED=8 uct_iface_config_t.max_num_eps begins at byte" \
            "-DFUNCTION there is uct_[a-z_]*, which belongs to a member of uct_"; do
    other_commit "${what%% *}"
    grep -qx vqp "$out/stdout" && fail "$what: vqp is registered"
    [ "$(wc -l <"$out/stderr")" = 1 ] || fail "$what: not one line on stderr"
    grep -q "^uct_vqp: not loaded: .*commit.* ${what#* }" "$out/stderr" ||
        fail "$what: wrong message"
done

# each option whose offset is compared is in its table, in this UCX: else it is not compared
VQP_FIND=$(sed -n '/guard_offsets\[\] = {/,/^};/s/^ *{"\([a-z_]*\)", *"\([A-Z_]*\)",.*/\1:\2/p' \
    "$top_srcdir/src/uct/vqp_guard.c" | tr '\n' ' ')
[ "$(echo "$VQP_FIND" | wc -w)" = 5 ] || fail "not the five options: $VQP_FIND"
export VQP_FIND
other_commit -DFIND
grep '^no option' "$out/stderr" && fail "an option is in no table"
[ "$(grep -c '^option' "$out/stderr")" = 5 ] || fail "the options were not looked for"
exit 0
