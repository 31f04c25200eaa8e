#!/bin/bash
# version-check.sh: the version of configure.ac in all files that repeat it, and the
# version of the wire protocol in its documents. Prints what differs; status 1 then.
cd "$(dirname "$0")/.." || exit 2
bad=0

# same WHAT WANTED FOUND: found is another version, or none
same() {
    [ "$2" != "$3" ] || return 0
    bad=1
    echo "version-check: $1: '$3', not '$2'"
}

# first FILE PATTERN: what the group of an extended regular expression matches first
first() {
    sed -nE "/$2/{s/.*$2.*/\\1/p;q;}" "$1"
}

version=$(first configure.ac 'm4_define\(\[vqp_version\], \[([^]]*)\]\)')
[ -n "$version" ] || { echo "version-check: configure.ac has no version"; exit 1; }

same docs/install.md "$version" "$(first docs/install.md 'uct_vqp-([0-9.]+)\.tar\.gz')"
same contrib/uct_vqp.spec "$version" "$(first contrib/uct_vqp.spec '^Version: *(.*)')"
for file in contrib/packaging/*.eb; do
    same "$file" "$version" "$(first "$file" "^version = '([^']*)'")"
    same "the name of $file" "uct_vqp-$version" \
        "$(basename "$file" | grep -oE '^uct_vqp-[0-9.]+')"
    same "contrib/packaging/README.md" "${file##*/}" \
        "$(grep -oE 'uct_vqp-[0-9.]+[^])/ ]*\.eb' contrib/packaging/README.md | sort -u)"
done
file=contrib/packaging/spack/uct_vqp/package.py
same $file "$version" "$(first $file '^ *version\("([^"]*)"\)')"
same "$file, url" "$version" "$(first $file 'uct_vqp-([0-9.]+)\.tar\.gz')"

# a release, or ~dev of a later one
debian=$(first debian/changelog '^uct-vqp \(([^)]*)\)')
case $debian in
    *~dev*) newer=$(printf '%s\n' "$version" "${debian%%~*}" | sort -V | tail -n 1)
            same "debian/changelog, after $version" "$newer" "${debian%%~*}"
            [ "${debian%%~*}" != "$version" ] ||
                same debian/changelog "a version after $version" "$debian" ;;
    *) same debian/changelog "$version" "$debian" ;;
esac

# A release has a heading, a row and a distribution of its own; a development version has
# those of after the last release
case $debian in
    *~dev*) same "NEWS.md, first heading" "After $version (not yet released)" \
                "$(sed -nE '/^## /{s/^## (.*)/\1/p;q;}' NEWS.md)" ;;
    *) same "NEWS.md, first heading" "$version" \
           "$(sed -nE '/^## /{s/^## (.*)/\1/p;q;}' NEWS.md)"
       same "docs/release.md, last release" "$version" \
           "$(sed -nE 's/^\| ((after )?[0-9.]+) \| [0-9]+ \|.*/\1/p' docs/release.md | tail -n 1)"
       same "debian/changelog, distribution" unstable \
           "$(first debian/changelog '^uct-vqp \([^)]*\) ([^;]*);')" ;;
esac

wire=$(first src/core/conn/wire.h '^#define VQP_WIRE_VERSION *([0-9]+)')
same docs/protocol.md "${wire:-a version}" "$(first docs/protocol.md '\| version \| ([0-9]+);')"
same "docs/release.md, formats" "$wire" \
    "$(first docs/release.md '^\| control datagrams; .* \| ([0-9]+), byte 4')"
same "docs/release.md, last release" "$wire" \
    "$(grep -oE '^\| (after )?[0-9.]+ \| [0-9]+ \|' docs/release.md | tail -n 1 |
       grep -oE '[0-9]+ \|$' | grep -oE '[0-9]+')"
# shellcheck disable=SC2016 # `: of markdown
same "docs/release.md, features" \
    "$(sed -nE 's/^#define VQP_WIRE_FEATURE_([A-Z]+) .*/`\L\1`/p' src/core/conn/wire.h |
       paste -sd, | sed 's/,/, /g')" \
    "$(grep -oE '^\| (after )?[0-9.]+ \| [0-9]+ \| [^|]*' docs/release.md | tail -n 1 |
       sed -E 's/.*\| //; s/ $//')"

[ "$bad" = 0 ] && echo "version-check: ok, $version"
exit "$bad"
