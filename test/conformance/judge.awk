# The verdicts of judge.sh, from the files of a run, in this order: listed,
# baseline, rc_verbs, wanted, due, results. tl is the transport; all is "yes"
# when all tests were wanted.
function rest() { return substr($0, length($1 $2) + 3) }
function reason() { return substr(rest(), 2, length(rest()) - 2) }
function verdict(kind, name, why) { print kind, name, "(" why ")" }

# A result that stands as it is, or against the list
function judged() {
    if ($1 == "skip" && baseline[$2] != "skip")
        verdict("FAIL", $2, "rc_verbs does not skip it: " reason())
    else if ($1 == "FAIL" && baseline[$2] == "FAIL")
        verdict("xfail", $2, "rc_verbs fails, too: " reason())
    else
        print
}
function against(kind) { verdict("FAIL", $2, "listed as one that " kind) }

FILENAME ~ /\/listed$/ {
    if ($2 == "violations") {
        # with a question mark: it may do it, or not
        at_times[$1] = sub(/\?:$/, ":", $3)
        expected[$1] = $3
        next
    }
    if ($1 in word)
        twice[$1] = 1
    # with a question mark: by chance it can
    by_chance[$1] = sub(/\?$/, "", $2)
    word[$1] = $2
    why[$1] = rest()
    # "MESSAGE" REASON
    if ($2 ~ /^fails/ && match(why[$1], /"[^"]+"/)) {
        message[$1] = substr(why[$1], RSTART + 1, RLENGTH - 2)
        why[$1] = substr(why[$1], RSTART + RLENGTH + 1)
    }
    next
}
FILENAME ~ /\/baseline$/ { baseline[$1] = $2; next }
FILENAME ~ /\/rc_verbs$/ { theirs[$1] = 1; next }
FILENAME ~ /\/wanted$/ { ours[$1] = 1; next }
FILENAME ~ /\/due$/ { due[$1] = 1; next }

# an API violation; the result of the test follows
$1 == "violation" {
    if ($3 == "(" expected[$2])
        misused[$2] = 1
    else if (!($2 in violated))
        violated[$2] = reason()
    next
}
{ ++results[$2] }
results[$2] > 1 { verdict("FAIL", $2, "more than one result"); next }
!($2 in due) { verdict("FAIL", $2, "it was not to run"); next }
tl != "vqp" { print; next }
$1 != "FAIL" && ($2 in violated) {
    verdict("FAIL", $2, "violations: " violated[$2])
    next
}
$1 == "ok" && ($2 in expected) && !at_times[$2] && !($2 in misused) {
    against("misuses verbs, and it does not")
    next
}
word[$2] == "none" {
    if ($1 == "ok" && by_chance[$2])
        print
    else if ($1 == "ok")
        against("can not run, and it passes")
    else
        verdict("skip", $2, why[$2])
    next
}
# nobody may crash or hang
word[$2] == "fails" && !/ \((hang|died)/ {
    if ($1 == "ok" && by_chance[$2])
        print
    else if ($1 != "FAIL")
        against("fails, and: " $1)
    else if (index($0, message[$2]))
        verdict("xfail", $2, why[$2] ": " reason())
    else
        verdict("FAIL", $2, "not as listed: " reason())
    next
}
word[$2] == "skip" {
    if ($1 == "skip")
        verdict("skip", $2, why[$2])
    else if ($1 == "ok")
        against("is skipped, and it passes")
    else
        print
    next
}
{ judged() }

END {
    for (name in due)
        if (!(name in results))
            verdict("FAIL", name, "no result")
    if (tl != "vqp")
        exit
    for (name in word) {
        here = (name in ours) || (name in theirs)
        if (word[name] == "wrong")
            verdict("FAIL", name, "not understood: " why[name])
        else if (name in twice)
            verdict("FAIL", name, "listed twice")
        else if (all && !here)
            verdict("FAIL", name, "listed, and there is no such test")
        else if (word[name] == "absent" && (name in ours))
            verdict("FAIL", name, "listed as absent, and vqp has it")
        else if (word[name] == "absent" ? here : \
                 word[name] == "none" && here && !(name in due))
            verdict("skip", name, why[name])
    }
    for (name in expected)
        if (all && !(name in ours))
            verdict("FAIL", name, "listed, and there is no such test")
    for (name in theirs)
        if (!(name in ours) && word[name] !~ /^(absent|none)$/)
            verdict("FAIL", name, "only rc_verbs has this test")
}
