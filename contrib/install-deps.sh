#!/bin/bash
# install-deps.sh: the packages that building and testing need, on Debian 12, Debian 13
# and their relatives. Nothing but apt packages is installed.
set -u

# libucx-dev ucx-utils: UCX with its public headers and ucx_info
build="autoconf automake libtool make gcc g++ pkg-config dpkg-dev xz-utils
       libucx-dev ucx-utils libibverbs-dev libgtest-dev"
# the virtual machine for Soft-RoCE is built with flex, bison, bc; gdb is for
# backtraces of tests that hang
check="clang shellcheck groff-base debhelper lintian rdma-core ibverbs-providers
       ibverbs-utils perftest iproute2 kmod openmpi-bin libopenmpi-dev mpich
       libmpich-dev python3-mpi4py valgrind gdb flex bison bc python3"

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

# clang_runtime: the package of the library that test/fuzz and the sanitizers of clang
# link with. The package clang only recommends it, and the name has the version that
# clang depends on: 14 in Debian 12, 19 in Debian 13. Prints nothing where another
# package contains the library (Ubuntu 22.04), and if apt has no lists yet.
clang_runtime() {
    local version
    version=$({ dpkg-query -W -f '${Depends}\n' clang
                apt-cache depends clang; } 2>/dev/null |
              sed -n 's/^.*clang-\([0-9][0-9]*\).*$/\1/p' | head -n 1)
    [ -n "$version" ] || return 0
    apt-cache show --no-all-versions "libclang-rt-$version-dev" 2>/dev/null |
        sed -n 's/^Package: //p'
}

# found PACKAGE: where there is no dpkg, by a program or pkg-config module of the package
found() {
    local program=$1
    case $1 in
        libucx-dev) pkg-config --exists ucx; return ;;
        libibverbs-dev) pkg-config --exists libibverbs; return ;;
        libgtest-dev) pkg-config --exists gtest; return ;;
        dpkg-dev|ibverbs-providers|rdma-core) return 0 ;; # no program that is used
        libtool) program=libtoolize ;;
        xz-utils) program=xz ;;
        ucx-utils) program=ucx_info ;;
        ibverbs-utils) program=ibv_devinfo ;;
        perftest) program=ib_write_bw ;;
        iproute2) program=ip ;;
        groff-base) program=groff ;;
        debhelper) program=dh ;;
        kmod) program=modprobe ;;
        openmpi-bin) program=mpirun ;;
        libopenmpi-dev) program=mpicc ;;
        mpich) program=mpiexec.mpich ;;
        libmpich-dev) program=mpicc.mpich ;;
        python3-mpi4py) /usr/bin/python3 -c 'import mpi4py'; return ;;
    esac
    type -P "$program" >/dev/null
}

# is_installed PACKAGE
is_installed() {
    if type -P dpkg-query >/dev/null; then
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
    else
        found "$1" 2>/dev/null
    fi
}

# find_missing: sets packages, all that are wanted, and missing
find_missing() {
    local package
    # shellcheck disable=SC2206 # words
    packages=($build $check)
    [ -z "$check" ] || mapfile -tO ${#packages[@]} packages < <(clang_runtime)
    missing=()
    for package in "${packages[@]}"; do
        is_installed "$package" || missing+=("$package")
    done
}

find_missing
if [ "$mode" = print ]; then
    printf '%s\n' "${packages[@]}"
    exit 0
fi
if [ ${#missing[@]} = 0 ]; then
    [ "$mode" = missing ] || echo "install-deps: everything is installed"
    exit 0
fi
if [ "$mode" = missing ]; then
    printf '%s\n' "${missing[@]}"
    exit 1
fi

command -v apt-get >/dev/null || {
    echo "install-deps: no apt-get here. Missing, by Debian's names:" \
         "${missing[*]} (docs/install.md has the names of other systems)" >&2
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
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get -qq update || exit 1
find_missing # with the lists of packages, which name the run-time library of clang
echo "install-deps: installing ${missing[*]}"
$sudo apt-get -y -qq install --no-install-recommends "${missing[@]}"
