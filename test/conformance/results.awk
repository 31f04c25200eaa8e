# Reads the log of a batch, prints a line per test that began:
# "ok NAME (MS ms)", "skip NAME (REASON)", "FAIL NAME (REASON)". Before that of a
# test in which the fabric reported API violations, the first one of each rule:
# "violation NAME (RULE: REPORT)".
function trimmed(text) {
    gsub(/^[[:space:]]+|[[:space:]]+$/, "", text)
    return text
}
function result(word, reason) {
    if (name != "")
        says[name] = word " " name " (" reason ")"
    name = ""
}
# A report at the end of a process belongs to its last test
function reported(rule, text) {
    if (last == "" || (last, rule) in violation)
        return
    violation[last, rule] = 1
    reports[last] = reports[last] \
        "violation " last " (" rule ": " substr(text, 1, 300) ")\n"
}
/^\[ RUN      \]/ {
    result("FAIL", "no result")
    name = last = $4
    if (!(name in says))
        order[++count] = name
    else
        twice[name] = 1
    skipped = failure = ""
    more = 0
    next
}
/^\[     SKIP \]/ {
    skipped = trimmed(substr($0, 14))
    more = skipped == ""
    if (!more && skipped !~ /^\(/)
        skipped = "(" skipped ")"
    next
}
# the fabric prints the first lines of a rule only, and at the end of a process
# how many there were
/fabric: violations: [0-9]+ in total/ {
    match($0, /[0-9]+ in total/)
    if (substr($0, RSTART) + 0 > violations)
        reported("more", substr($0, RSTART) + 0 - violations " more")
    violations = 0
    next
}
/fabric: violations: / {
    ++violations
    text = substr($0, index($0, "violations: ") + length("violations: "))
    # DEVICE OBJECT NUMBER: RULE: WHAT IT IS: PARTICULARS
    split(text, part, ": ")
    reported(part[2], text)
    next
}
/(ERROR|WARNING): [A-Z][A-Za-z]*Sanitizer: |: runtime error: / {
    if (last != "" && !(last in sanitizer))
        sanitizer[last] = substr(trimmed($0), 1, 300)
}
# a reason may stand on the lines after
more && skipped == "" && !/^\[/ {
    skipped = "(" trimmed($0) ")"
    next
}
# what gtest says of the first failure, five lines at most
/: Failure$/ && failure == "" { failing = 5; next }
/^\[/ || /^$/ { failing = 0 }
failing > 0 {
    failure = failure (failure == "" ? "" : " ") trimmed($0)
    --failing
}
/^\[       OK \]/ && $4 == name {
    if (skipped != "" || more)
        result("skip", substr(skipped, 2, length(skipped) - 2))
    else
        result("ok", substr($(NF - 1), 2) " ms")
    more = 0
}
/^\[  FAILED  \]/ && name != "" && index($0, name) && / ms\)$/ {
    result("FAIL", failure == "" ? "see the log" : substr(failure, 1, 300))
    more = 0
}
/^@@ died after/ { name = last }
/^@@ (hang|died)/ { result("FAIL", substr($0, 4)) }
END {
    result("FAIL", "the machine ended")
    for (i = 1; i <= count; ++i) {
        name = order[i]
        printf "%s", reports[name]
        if (name in twice)
            print "FAIL", name, "(it ran twice)"
        else if (name in sanitizer)
            print "FAIL", name, "(sanitizer: " sanitizer[name] ")"
        else
            print says[name]
    }
}
