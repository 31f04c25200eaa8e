# shellcheck shell=sh disable=SC2034
# Sourced by the load tests: where things are, and how a test ends.
# make check exports the variables; exit 77 is automake's "skipped".
: "${top_srcdir:?run by make check}" "${top_builddir:?run by make check}"
builddir=$(cd "$top_builddir" && pwd)
shim=$builddir/src/preload/.libs/libvqp_preload.so
module=$builddir/src/uct/.libs/libuct_vqp.so.0
wrong=$builddir/test/load/wrong/.libs/libuct_vqp.so.0
layout=$builddir/test/load/layout/.libs/libuct_vqp.so.0
assert=$builddir/test/load/assert/.libs/libuct_vqp.so.0
list=$builddir/test/load/list_components
out=$(mktemp -d "${TMPDIR:-/tmp}/vqp_load.XXXXXX") || exit 99
trap 'rm -rf "$out"' EXIT
unset LD_PRELOAD VQP_MODULE UCX_TLS
[ -z "$VQP_UCX_LIBDIR" ] ||
    export LD_LIBRARY_PATH="$VQP_UCX_LIBDIR${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

fail() {
    echo "FAIL: $*" >&2
    for file in "$out"/*; do
        [ -f "$file" ] && sed "s|^|  $(basename "$file"): |" "$file" >&2
    done
    exit 1
}

skip() {
    echo "skip: $*"
    exit 77
}

# A module with a sanitizer in it loads only into programs that have it, too
no_sanitizer() {
    [ -z "$VQP_SANITIZERS" ] ||
        skip "the module is built with $VQP_SANITIZERS, ucx_info is not"
}
