#!/bin/sh
# No circle in the sources.  NAME.c, NAME.h and NAME_int.h are one unit.  A unit
# needs another one if it includes its header, or if it names, in front of a
# parenthesis, a function that only that one defines; a call through a pointer is
# not seen.  Prints what is in a circle, one "A -> B" a line; status 1 then.  Reads
# the sources alone.
#
#   circle-check.sh [FOLDER...]   src/core src/verbs src/uct src/tools
cd "$(dirname "$0")/.." || exit 2
[ $# -gt 0 ] || set -- src/core src/verbs src/uct src/tools

files=$(find "$@" -name '*.[ch]' | sort)
[ -n "$files" ] || exit 2
out=$(mktemp) || exit 2
trap 'rm -f "$out"' EXIT

# Twice over all files: what each defines, then what each needs. A definition
# begins in the first column, and so does its body. What needs nothing of what is
# left, or what nothing of it needs, is taken away until only circles are left.
# shellcheck disable=SC2086
awk '
    function unit_of(file) { sub(/(_int)?\.[ch]$/, "", file); sub(/^src\//, "", file); return file }
    function need(from, to) { if (from != to) { edge[from, to] = called } }
    FNR == 1 { pass += (seen[FILENAME]++ == 1) && !started++; name = "" }

    { # without comments
        if (is_comment && !sub(/^.*\*\//, "")) { next }
        gsub(/\/\*([^*]|\*+[^*\/])*\*+\//, "")
        gsub(/__attribute__\(\([^)]*(\([^)]*\))*[^)]*\)\)/, "")
        is_comment = sub(/\/\*.*$/, "")
    }
    pass == 0 && /^static/ && !/\(.*;$/ { is_static = FILENAME ~ /c$/ }
    pass == 0 && /^[a-z].*[a-z0-9_]+\(/ {
        match($0, /[A-Za-z0-9_]+\(/)
        name = substr($0, RSTART, RLENGTH - 1)
    }
    pass == 0 && /^{/ {
        if (name != "" && !is_static) { owner[name] = unit_of(FILENAME) }
        name = ""; is_static = 0
    }
    pass == 0 && (/^}/ || /;$/) { if (/^}/ || /^[a-z]/ || !/^ /) { is_static = 0 } }

    pass == 1 && /^ *# *include *"/ {
        split($0, part, "\"")
        called = "includes " part[2]
        file = FILENAME
        if (part[2] ~ /\//) { file = "" } else { sub(/[^\/]*$/, "", file) }
        need(unit_of(FILENAME), unit_of(file part[2]))
        next
    }
    pass == 1 && !/^[a-z]/ {
        line = $0
        while (match(line, /[A-Za-z_][A-Za-z0-9_]*\(/)) {
            called = substr(line, RSTART, RLENGTH - 1)
            if (called in owner) { need(unit_of(FILENAME), owner[called]) }
            line = substr(line, RSTART + RLENGTH)
        }
    }
    END {
        do {
            changed = 0
            split("", out); split("", into)
            for (e in edge) { split(e, part, SUBSEP); out[part[1]]; into[part[2]] }
            for (e in edge) {
                split(e, part, SUBSEP)
                if (!(part[2] in out) || !(part[1] in into)) { delete edge[e]; changed = 1 }
            }
        } while (changed)
        for (e in edge) { split(e, part, SUBSEP); print part[1] " -> " part[2] ": " edge[e]; bad = 1 }
        exit bad
    }' $files $files >"$out"
case $? in
0) echo "circle-check: ok" ;;
1) echo "circle-check: files that need each other:"
   sort "$out" | sed 's/^/  /'
   exit 1 ;;
*) echo "circle-check: awk failed" >&2
   exit 2 ;;
esac
