# shellcheck shell=bash
# From the results of the test programs to verdicts. Sourced by
# contrib/conformance.sh by way of lib.sh, and by selftest, which sets:
#   CONFORMANCE  this directory, with SUITE.list and SUITE.rc_verbs
#   WORK         a directory for this run
#   SUITE        uct|ucp      ON  fabric|rxe      TL  vqp|rc_verbs
#   FILTER       '*' when all tests were wanted
#   FAULTS       not empty when paths were cut
#   VERSION      of UCX: 1.22

# The UCX that SUITE.rc_verbs is of
BASELINE_VERSION=1.13

# The names by which vqp has the tests of rc_verbs
as_vqp() {
    sed -E 's,^(rc_verbs|ib|rc)/,vqp/,'
}

# The entries of SUITE.list that hold here, one per test: "NAME WORD REASON".
# NAME/0-3 stands for NAME/0 to NAME/3. An invalid line is an entry with the
# word "wrong".
listed() {
    awk -v on="$ON" -v cuts="${FAULTS:+yes}" -v version="$VERSION" '
    function number(text, part) {
        split(text, part, ".")
        return part[1] * 1000 + part[2]
    }
    # MEDIUM<1.16, MEDIUM>=1.16 or MEDIUM=1.16: whether it holds for this UCX; sets medium
    function holds(entry, bound, before) {
        medium = entry
        if (!match(entry, /(<|>=|=)1\.[0-9]+$/))
            return 1
        bound = substr(entry, RSTART)
        medium = substr(entry, 1, RSTART - 1)
        if (sub(/^=/, "", bound))
            return number(version) == number(bound)
        before = sub(/^</, "", bound)
        sub(/^>=/, "", bound)
        return before == (number(version) < number(bound))
    }
    /^#/ || /^ *$/ { next }
    $2 !~ /^(any|fabric|rxe|cuts)((<|>=|=)1\.[0-9]+)?$/ || NF < 4 || \
    $3 !~ /^(skip|absent|fails[?]?|none[?]?|violations)$/ || \
    ($3 ~ /^fails/ && !/ fails[?]? +"[^"]+" +[^ ]/) || \
    ($3 == "violations" && $4 !~ /^[a-z_]+[?]?:$/) {
        print $1, "wrong", "line " FNR " of the list"
        next
    }
    !holds($2) { next }
    medium == "any" || medium == on || (medium == "cuts" && cuts) {
        name = $1; word = $3
        sub(/^[^ ]+ +[^ ]+ +[^ ]+ +/, "")
        if (match(name, /\/[0-9]+-[0-9]+$/)) {
            split(substr(name, RSTART + 1), range, "-")
            name = substr(name, 1, RSTART)
            for (i = range[1]; i <= range[2]; ++i)
                print name i, word, $0
        } else {
            print name, word, $0
        }
    }' "$CONFORMANCE/$SUITE.list"
}

# Names of the tests that rc_verbs skips on these devices, as "NAME skip". With another
# UCX than BASELINE_VERSION, rc_verbs has run what vqp did not pass, and failures are
# named, too: "NAME FAIL".
baseline() {
    if [ "$VERSION" = "$BASELINE_VERSION" ]; then
        awk -v on="$ON" '/^[^#]/ && ($2 == "any" || $2 == on) { print $1, "skip" }' \
            "$CONFORMANCE/$SUITE.rc_verbs"
    elif [ "$TL" = vqp ]; then
        awk '$1 == "skip" || $1 == "FAIL" { print $2, $1 }' "$WORK/beside/results" |
            as_vqp
    fi
}

# Prints verdicts, a line each: "ok|FAIL|skip|xfail NAME (REASON)". xfail is a
# failure that is listed, with the message that is listed. Of $WORK:
#   results   of the programs, see results.awk
#   due       the names of the tests that were to run
#   wanted    the names that this transport has, as far as the filter goes
#   rc_verbs  those that rc_verbs has, in vqp's names
# Each test that was due has one result. A skip that is not rc_verbs' own is a
# failure unless it is listed. A failure that rc_verbs has, too, is expected. The result of a listed test must be the listed
# one, except for tests that were not due.
judge() {
    listed >"$WORK/listed"
    baseline >"$WORK/baseline"
    awk -v tl="$TL" -v all="$([ "$FILTER" != '*' ] || echo yes)" \
        -f "$CONFORMANCE/judge.awk" "$WORK/listed" "$WORK/baseline" \
        "$WORK/rc_verbs" "$WORK/wanted" "$WORK/due" "$WORK/results" |
        sort -k 2,2
}

# "N passed, N failed, N skipped" of a file of verdicts
counts() {
    awk '{ ++count[$1] }
         END { printf "%d passed, %d failed, %d skipped\n",
                      count["ok"], count["FAIL"], count["skip"] }' "$1"
}

# Passed, failed, expected failures and skipped, as four numbers
tallies() {
    awk '{ ++count[$1] }
         END { print count["ok"] + 0, count["FAIL"] + 0, count["xfail"] + 0,
                     count["skip"] + 0 }' "$1"
}

# Whether the verdicts in a file are those of a run in which all was well:
# nothing failed, and something ran
good() {
    grep -qE '^(ok|skip) ' "$1" && ! grep -qvE '^(ok|skip|xfail) ' "$1"
}

# From files of verdicts and of retries: a line for each expected failure, and for
# each test that had a second try
notes() {
    sed -n 's/^xfail /# expected failure: /p' "$1"
    sed 's/^/# retried: /' "$2"
}

# The number of each of both
notes_counts() {
    echo "retried: $(wc -l <"$2"), expected failures: $(grep -c '^xfail ' "$1")"
}

# explained VERDICTS LOG...: the failures, each with what its log says of it: errors and
# warnings of UCX, failures of gtest, and where it hung. A report that comes without the
# logs has to tell the cause.
explained() {
    local name verdict
    grep '^FAIL ' "$1" | while read -r verdict; do
        echo "$verdict"
        read -r _ name _ <<<"$verdict"
        awk -v name="$name" '
            FNR == 1 { inside = failing = 0 }
            /^\[ RUN      \]/ { inside = $4 == name; failing = 0; next }
            !inside { next }
            /^\[  FAILED  \]|^\[       OK \]/ { inside = 0; next }
            /: Failure$/ { failing = 4 }
            failing-- > 0 || / (ERROR|WARN|DIAG|FATAL) |Assertion|^@@|^#[0-9]|^Thread/ {
                if (++count <= 24)
                    print "    " substr($0, 1, 180)
            }
            END {
                if (count > 24)
                    print "    (" count - 24 " more lines)"
            }' "${@:2}" 2>/dev/null
    done
}

# Keeps in SUITE.rc_verbs what rc_verbs skipped on these devices, for judge, and
# what other runs found of tests that did not run now, and on other devices.
# "NAME any" is a skip on either.
record() {
    local list=$CONFORMANCE/$SUITE.rc_verbs
    {
        echo "# Tests that rc_verbs skips itself, and on which devices. Made by" \
             "contrib/conformance.sh --tl rc_verbs --record"
        awk -v on="$ON" '
            function has(name, medium) {
                return media[name] == "any" || media[name] == medium
            }
            function set(name, fabric, rxe) {
                media[name] = fabric && rxe ? "any" : \
                              fabric ? "fabric" : rxe ? "rxe" : ""
            }
            /^#/ { next }
            FNR == NR { media[$1] = $2; next }
            {
                sub(/^(rc_verbs|ib|rc)\//, "vqp/", $2)
                set($2, on == "fabric" ? $1 == "skip" : has($2, "fabric"),
                        on == "rxe" ? $1 == "skip" : has($2, "rxe"))
            }
            END {
                for (name in media)
                    if (media[name] != "")
                        print name, media[name]
            }' "$list" "$WORK/results" | sort
    } >"$WORK/record"
    cat "$WORK/record" >"$list"
}
