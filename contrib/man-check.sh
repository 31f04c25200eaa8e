#!/bin/bash
# man-check.sh: the man pages. Each renders without a warning of groff. vqp-run(1) and
# vqp-top(1) have each option of the program's --help, and no other. Each UCX_VQP_ option of the pages is in
# docs/config.md, with the same default. Prints what is wrong; status 1 then.
cd "$(dirname "$0")/.." || exit 2
bad=0

# rule TEXT FOUND: what was found is wrong
rule() {
    [ -n "$2" ] || return 0
    bad=1
    printf 'man-check: %s:\n' "$1"
    printf '%s\n' "$2" | sed 's/^/  /'
}

# options: the long options in the text of a man page or of vqp-run
options() {
    sed 's/\\-/-/g' | grep -oE '(^|[^-[:alnum:]])--[a-z]+' | grep -oE -- '--[a-z]+' |
        sort -u
}

for page in man/*.[17]; do
    rule "$page: warnings of groff" \
        "$(LC_ALL=C.UTF-8 groff -ww -man -Tutf8 -z "$page" 2>&1)"
    rule "$page: not in Makefile.am" \
        "$(grep -qE "(^|[[:space:]])$page([[:space:]]|$)" Makefile.am || echo "$page")"
    names=$(sed 's/\\-/-/g' "$page" | grep -oE 'UCX_VQP_[A-Z][A-Z_]*[A-Z]' | sort -u)
    rule "$page: options that docs/config.md does not have" \
        "$(for name in $names; do
               grep -q "^| \`$name\` |" docs/config.md || echo "$name"
           done)"
done

# default NAME: that of docs/config.md, in the units of the page
default() {
    sed -nE "s/^\| \`$1\` \| \`([^\`]*)\` .*/\1/p" docs/config.md | awk '
        /^ *$/ { print "empty"; next }
        /^[0-9.]+us$/ { us = $0 + 0
                        if (us >= 1000000) { print us / 1000000 "s"; next }
                        if (us >= 1000) { print us / 1000 "ms"; next } }
        { print tolower($0) }'
}

pairs=$(grep -ohE 'UCX_VQP_[A-Z_]+ " \([^)]*\)' man/uct_vqp.7 | sed 's/ " (/ /; s/)//')
rule "man/uct_vqp.7 has no defaults" "$([ -n "$pairs" ] || echo 'UCX_VQP_X (...)')"
rule "defaults of man/uct_vqp.7 that docs/config.md does not have" \
    "$(while read -r name value; do
           [ "$value" = "$(default "$name")" ] ||
               echo "$name: $value, not $(default "$name")"
       done <<<"$pairs")"

# compare PROGRAM SOURCE USAGE: its summary, and its page
compare() {
    local page
    page=$(sed -n '/^\.SH OPTIONS/,/^\.SH EXIT/p' "man/$1.1" | options)
    rule "$1 --help has no options" "$([ -n "$3" ] || echo "$2")"
    rule "options of $1 --help (<) and man/$1.1 (>) differ" \
        "$(diff <(echo "$3") <(echo "$page") | grep '^[<>]')"
}

# the summary of the program ends at EOF, its part about MPI has options of mpirun
compare vqp-run contrib/vqp-run.in \
    "$(sed -n '/^usage() {/,/^Environment:/p' contrib/vqp-run.in | options)"
compare vqp-top src/tools/vqp_top.c \
    "$(sed -n '/Usage: vqp-top/,/^$/p' src/tools/vqp_top.c | options)"

[ "$bad" = 0 ] && echo "man-check: ok"
exit "$bad"
