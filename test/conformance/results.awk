# Reads the log of a batch, prints a line per test that began:
# "ok NAME (MS ms)", "skip NAME (REASON)", "FAIL NAME (REASON)".
function trimmed(text) {
    gsub(/^[[:space:]]+|[[:space:]]+$/, "", text)
    return text
}
function result(word, reason) {
    if (name != "")
        print word, name, "(" reason ")"
    name = ""
}
/^\[ RUN      \]/ {
    result("FAIL", "no result")
    name = last = $4
    skipped = failure = ""
    next
}
/^\[     SKIP \]/ {
    skipped = trimmed(substr($0, 14))
    more = skipped == ""
    if (!more && skipped !~ /^\(/)
        skipped = "(" skipped ")"
    next
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
/^@@ (hang|died) / { result("FAIL", substr($0, 9)) }
END { result("FAIL", "the machine ended") }
