#!/bin/bash
# install-deps.sh: the packages that building and testing need, on Debian 12 and
# its relatives. Nothing but apt packages is installed.
set -u

# libucx-dev ucx-utils: UCX with its public headers and ucx_info
build="autoconf automake libtool make gcc g++ pkg-config dpkg-dev xz-utils
       libucx-dev ucx-utils libibverbs-dev libgtest-dev"
# the virtual machine for Soft-RoCE is built with flex, bison, bc; test/fuzz links
# with the run-time library of clang 14, which is recommended by clang only; gdb
# is for backtraces of tests that hang
check="clang libclang-rt-14-dev shellcheck rdma-core ibverbs-providers
       ibverbs-utils perftest iproute2 kmod openmpi-bin libopenmpi-dev valgrind
       gdb flex bison bc python3"

usage() {
    cat <<EOF
Usage: contrib/install-deps.sh [--build-only] [--print] [--missing]

Installs what building and testing uct_vqp needs, with apt-get (by sudo when
not root). To undo: apt-get remove the packages that it names as new.

  --build-only  without what only the tests need
  --print       print the packages and do nothing
  --missing     print the packages that are not installed, and do nothing;
                status 1 when there are some
EOF
}

mode=install
for arg in "$@"; do
    case $arg in
        --build-only) check= ;;
        --print) mode=print ;;
        --missing) mode=missing ;;
        -h|--help) usage; exit 0 ;;
        *) usage >&2; exit 2 ;;
    esac
done

missing=()
for package in $build $check; do
    [ "$mode" != print ] || { echo "$package"; continue; }
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = \
      installed ] || missing+=("$package")
done
[ "$mode" != print ] || exit 0

if [ ${#missing[@]} = 0 ]; then
    [ "$mode" = missing ] || echo "install-deps: everything is installed"
    exit 0
fi
if [ "$mode" = missing ]; then
    printf '%s\n' "${missing[@]}"
    exit 1
fi

command -v apt-get >/dev/null || {
    echo "install-deps: no apt-get here. Wanted, by Debian's names:" \
         "${missing[*]}" >&2
    exit 1
}
sudo=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || {
        echo "install-deps: not root, and no sudo. Install: ${missing[*]}" >&2
        exit 1
    }
    sudo=sudo
fi
echo "install-deps: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get -qq update || exit 1
$sudo apt-get -y -qq install --no-install-recommends "${missing[@]}"
