#!/bin/sh
# Makes configure and the Makefile.in's from configure.ac and Makefile.am.
# Needs autoconf, automake and libtool. Run it once after a clone.
set -e
cd "$(dirname "$0")"
for tool in autoreconf automake libtoolize; do
    command -v "$tool" >/dev/null || {
        echo "autogen.sh: '$tool' is missing; on Debian: apt-get install" \
             "autoconf automake libtool" >&2
        exit 1
    }
done
mkdir -p config/aux config/m4
exec autoreconf --install --force
