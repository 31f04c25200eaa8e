#!/bin/bash
# get-ucx-src.sh: the sources of exactly the UCX that is installed, put where
# configure looks for them. On Debian and its relatives they come from the
# distribution's source package; a tarball or a directory that is here already serves
# anywhere.
set -u
top=$(cd "$(dirname "$0")/.." && pwd)
dest=$top/ucx-src
given=
version=
test_only=no

usage() {
    cat <<EOF
Usage: contrib/get-ucx-src.sh [-o DIR] [--version X.Y.Z] [TARBALL | SOURCES]
       contrib/get-ucx-src.sh --test TARBALL | SOURCES

Unpacks the sources of the installed UCX to DIR (default: $dest).
With TARBALL (ucx-X.Y.Z.tar.gz of a UCX release) or SOURCES (a directory with the
sources, for example a git checkout of the tag) nothing is downloaded;
otherwise the distribution's source package is (2.5 MB, plus its package index
of about 10 MB, which is thrown away). Neither apt's configuration nor its lists
are changed. A DIR that has the right version already is left alone.

  --version X.Y.Z  of an UCX that ucx_info in PATH does not belong to
  --test           print the version of the given sources and do nothing; status 1
                   if they are not UCX's
EOF
}

die() {
    echo "get-ucx-src: $*" >&2
    exit 1
}

while [ $# -gt 0 ]; do
    case $1 in
        -o) dest=${2:?-o needs a directory}; shift ;;
        --version) version=${2:?--version needs a version}; shift ;;
        --test) test_only=yes ;;
        -h|--help) usage; exit 0 ;;
        -*) usage >&2; exit 2 ;;
        *) given=$1 ;;
    esac
    shift
done
[ $test_only = no ] || [ -n "$given" ] || { usage >&2; exit 2; }

tmp=$(mktemp -d "${TMPDIR:-/tmp}/get-ucx-src.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT

# The version in a source tree, as configure reads it
tree_version() {
    sed -n 's/^define(\[ucx_ver_\(major\|minor\|patch\)\], *\([0-9]*\)).*/\2/p' \
        "$1/configure.ac" 2>/dev/null | paste -sd.
}

# Copies the given sources to $tmp and sets given_version
from_given() {
    local dir
    if [ -d "$given" ]; then
        [ -e "$given/src/uct/base/uct_iface.h" ] ||
            die "$given has no UCX sources (src/uct/base/uct_iface.h)"
        mkdir "$tmp/ucx" && tar -C "$given" --exclude=./.git -c . |
            tar -C "$tmp/ucx" -x || die "$given can not be copied"
    else
        [ -r "$given" ] || die "$given can not be read"
        tar -C "$tmp" -xf "$given" || die "$given can not be unpacked"
    fi
    given_version=
    for dir in "$tmp"/*/; do
        [ ! -e "$dir/src/uct/base/uct_iface.h" ] ||
            given_version=$(tree_version "$dir")
    done
    [ -n "$given_version" ] || die "$given has no UCX sources" \
        "(a directory with configure.ac and src/uct/base/uct_iface.h)"
}

# What is given can be checked before UCX is installed
[ -z "$given" ] || from_given
if [ $test_only = yes ]; then
    echo "$given_version"
    exit 0
fi

if [ -z "$version" ]; then
    command -v ucx_info >/dev/null ||
        die "ucx_info is missing: apt-get install ucx-utils, or give --version"
    version=$(ucx_info -v |
              sed -n '/ersion/{s/^.*ersion:* *\([0-9.]*\).*$/\1/p;q;}')
fi

if [ -e "$dest/configure.ac" ] && [ "$(tree_version "$dest")" = "$version" ]
then
    echo "get-ucx-src: $dest has UCX $version already"
    exit 0
fi
[ ! -e "$dest" ] ||
    die "$dest exists and is not UCX $version: move it away, or use -o"

by_hand="get ucx-$version.tar.gz (https://github.com/openucx/ucx/releases) or a git
    checkout of its tag v$version, and give its name: contrib/get-ucx-src.sh NAME, or
    the option --ucx-src NAME of demo.sh and check.sh"

# Writes deb-src lines for the archive that the installed UCX came from, or for
# all archives when apt has no entry for it
write_sources() {
    local site file
    site=$(apt-cache policy "$1" | sed -n 's|^ *[0-9]* \(https\?://[^ ]*\) .*|\1|p' |
           head -n1)
    mkdir -p "$tmp/parts" "$tmp/lists/partial" "$tmp/cache/archives/partial"
    : >"$tmp/sources.list"
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [ -r "$file" ] || continue
        grep -E '^deb[[:space:]]' "$file" | grep -F -- "$site" |
            sed 's/^deb/deb-src/' >>"$tmp/sources.list"
    done
    for file in /etc/apt/sources.list.d/*.sources; do
        [ -r "$file" ] || continue
        # stanzas that have binary packages of that site
        sed '/^#/d' "$file" |
            awk -v RS= -v site="$site" 'index($0, site) && /Types:.*deb/ {
                gsub(/Types:[^\n]*/, "Types: deb-src"); print $0 "\n"}' \
            >"$tmp/parts/$(basename "$file")"
    done
    [ -s "$tmp/sources.list" ] || grep -qs . "$tmp"/parts/*
}

apt_private() {
    apt-get -qq -o Dir::Etc::SourceList="$tmp/sources.list" \
        -o Dir::Etc::SourceParts="$tmp/parts" \
        -o Dir::State::Lists="$tmp/lists" -o Dir::Cache="$tmp/cache" \
        -o APT::Sandbox::User="$(id -un)" -o Acquire::Languages=none "$@"
}

from_distribution() {
    local package source
    for package in libucx-dev libucx0 ucx-utils; do
        source=$(dpkg-query -W -f '${source:Package}=${source:Version}' \
                 "$package" 2>/dev/null) && break
    done
    [ -n "$source" ] ||
        die "UCX $version is not from a package of this distribution: $by_hand"
    command -v dpkg-source >/dev/null ||
        die "dpkg-source is missing: apt-get install dpkg-dev"
    write_sources "$package" || die "apt has no package archive"
    echo "get-ucx-src: fetching the source package $source"
    apt_private update || die "apt-get update failed (see above)"
    (cd "$tmp" && apt_private source "$source") >"$tmp/log" 2>&1 || {
        cat "$tmp/log" >&2
        die "the archive has no $source (see above): $by_hand"
    }
}

if [ -z "$given" ]; then
    command -v apt-get >/dev/null || die "no apt-get here: $by_hand"
    from_distribution
fi

for dir in "$tmp"/*/; do
    [ -e "$dir/src/uct/base/uct_iface.h" ] || continue
    [ "$(tree_version "$dir")" = "$version" ] ||
        die "these are the sources of UCX $(tree_version "$dir")," \
            "but UCX $version is wanted"
    mv "$dir" "$dest" || die "can not write $dest"
    echo "get-ucx-src: UCX $version is in $dest"
    exit 0
done
die "no UCX sources in what was unpacked"
