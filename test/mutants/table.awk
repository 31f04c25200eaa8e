# table.awk: reads the table of mutants from standard input. README.md describes the
# format. Files of src are found relative to the current directory.
#
#   mode=heads   prints the heads, one per line: NAME <tab> KEY <tab> VALUE. The key
#                "files" lists the files that the mutant changes
#   mode=check   checks the form of each entry, and that each old text occurs exactly
#                once in its file. Prints a FAIL line for each wrong entry, and then
#                "N passed, N failed, N skipped"
#   mode=apply   changes the files of src
#
# "only" lists the mutants to check or to apply, separated by spaces; it may be empty
# for "check", which then checks all. The exit status is 1 if something is wrong.
# "heads" and "apply" print what is wrong as FAIL lines, too.

BEGIN {
    split("defect suite units sim named hang", list, " ")
    for (i in list) {
        is_head[list[i]] = 1
    }
    form["suite"] = "^(core|fuzz|sim|verbs|uct) [^ ]"
    form["sim"]   = "^[a-z-]+ [0-9]+( [0-9]+( [^ ]+)?)?$"
    form["named"] = "^[0-9]+( [0-9]+)*$"
    form["hang"]  = "^yes$"
}

# ---- the entries: name, head and edits of each, numbered from 1 ----

function wrong(m, text) {
    problems[m] = problems[m] (problems[m] == "" ? "" : "; ") text
}

function begin_entry(    m) {
    m = ++mutants
    in_entry = 1
    if ($0 !~ /^mutant [a-z0-9-]+$/) {
        name[m] = "line-" NR
        is_stray[m] = 1
        wrong(m, "table line " NR " is not \"mutant NAME\"")
        return
    }
    name[m] = $2
    if (name[m] in number_of) {
        wrong(m, "there are several mutants of this name")
    } else if (name[m] < last_name) {
        wrong(m, "it is not in alphabetical order")
    }
    number_of[name[m]] = m
    last_name = name[m]
}

function begin_edit(m, path,    e) {
    e = ++edits[m]
    file[m, e] = path
    line[m, e] = NR
    olds[m, e] = news[m, e] = 0
    if (path !~ /^src\//) {
        wrong(m, "table line " NR " is not \"edit src/FILE\"")
    } else if (index(" " files[m] " ", " " path " ") == 0) {
        files[m] = files[m] (files[m] == "" ? "" : " ") path
    }
}

# The line's key is what precedes the first space
function add_head(m,    key, value) {
    key = $0
    sub(/ .*/, "", key)
    value = substr($0, length(key) + 2)
    if (key == "edit") {
        begin_edit(m, value)
    } else if (key == "mutant") {
        wrong(m, "table line " NR ": there is no blank line before \"mutant\"")
        begin_entry()
    } else if (!(key in is_head)) {
        wrong(m, "table line " NR ": unknown key \"" key "\"")
    } else if ((m, key) in head) {
        wrong(m, "there are several lines \"" key "\"")
    } else if ((value == "") || ((key in form) && (value !~ form[key]))) {
        wrong(m, "table line " NR ": no valid value of \"" key "\"")
    } else {
        head[m, key] = value
    }
}

# The old text comes before the new one
function add_text(m, sign, text,    e) {
    e = edits[m]
    if (!e) {
        wrong(m, "table line " NR ": text before the first \"edit\"")
    } else if (sign == "+") {
        new[m, e, ++news[m, e]] = text
    } else if (news[m, e]) {
        wrong(m, "table line " NR ": old text after new text")
    } else {
        old[m, e, ++olds[m, e]] = text
    }
}

/^#/       { next }
/^[ \t]*$/ { in_entry = 0; next }
!in_entry  { begin_entry(); next }
/^[-+]/    { add_text(mutants, substr($0, 1, 1), substr($0, 2)); next }
           { add_head(mutants) }

# What is wrong with the form of an entry, apart from what was found when it was read
function check_form(m,    e, i, same) {
    if (!((m, "defect") in head) || !((m, "suite") in head)) {
        wrong(m, "there is no \"" (((m, "defect") in head) ? "suite" : "defect") "\"")
    }
    if (!edits[m]) {
        wrong(m, "there is no \"edit\"")
    }
    for (e = 1; e <= edits[m]; e++) {
        same = (olds[m, e] == news[m, e])
        for (i = 1; same && (i <= olds[m, e]); i++) {
            same = ((old[m, e, i] "") == (new[m, e, i] ""))
        }
        if (!olds[m, e]) {
            wrong(m, file[m, e] ": there is no old text (table line " line[m, e] ")")
        } else if (same) {
            wrong(m, file[m, e] ": the new text is the old one" \
                     " (table line " line[m, e] ")")
        }
    }
}

function check_units(m,    list, count, i, path, text) {
    count = split(head[m, "units"], list, " ")
    for (i = 1; i <= count; i++) {
        path = (list[i] ~ /\//) ? list[i] : ("test/core/" list[i])
        if ((getline text < path) < 0) {
            wrong(m, path ": there is no such file")
        }
        close(path)
    }
}

# ---- where the old texts are ----

# Reads a file once. places[path, TEXT] lists the lines that have this text
function load(path,    text, status) {
    if (path in lines) {
        return lines[path] >= 0
    }
    lines[path] = 0
    while ((status = (getline text < path)) > 0) {
        source[path, ++lines[path]] = text
        places[path, text] = places[path, text] " " lines[path]
    }
    close(path)
    if (status < 0) {
        lines[path] = -1
    }
    return status == 0
}

# How often the old text of an edit occurs, as whole lines; sets found[m, e] to the
# line at which it begins
function occurrences(m, e,    path, list, count, i, k, times) {
    path  = file[m, e]
    count = split(places[path, old[m, e, 1]], list, " ")
    for (i = 1; i <= count; i++) {
        for (k = 2; k <= olds[m, e]; k++) {
            if (!((path, list[i] + k - 1) in source) ||
                ((source[path, list[i] + k - 1] "") != (old[m, e, k] ""))) {
                break
            }
        }
        if (k > olds[m, e]) {
            times++
            found[m, e] = list[i] + 0
        }
    }
    return times + 0
}

# Each old text has to occur exactly once, and edits must not overlap
function check_edits(m,    e, k, path, times, taken) {
    for (e = 1; e <= edits[m]; e++) {
        path = file[m, e]
        if (!olds[m, e]) {
            continue
        } else if (!load(path)) {
            wrong(m, path ": there is no such file")
            continue
        }
        times = occurrences(m, e)
        if (times != 1) {
            wrong(m, path ": the old text occurs " times \
                     " times (table line " line[m, e] ")")
            continue
        }
        for (k = 0; k < olds[m, e]; k++) {
            if ((path, found[m, e] + k) in taken) {
                wrong(m, path ": two edits change line " (found[m, e] + k))
            }
            taken[path, found[m, e] + k] = 1
        }
    }
}

# ---- the modes ----

function print_heads(m,    key) {
    for (key in is_head) {
        if ((m, key) in head) {
            print name[m] "\t" key "\t" head[m, key]
        }
    }
    print name[m] "\tfiles\t" files[m]
}

# Writes the files of a mutant that check_edits found nothing wrong with
function apply(m,    list, count, i, e, k, n, path, edit_at) {
    for (e = 1; e <= edits[m]; e++) {
        edit_at[file[m, e], found[m, e]] = e
    }
    count = split(files[m], list, " ")
    for (i = 1; i <= count; i++) {
        path = list[i]
        printf "" >path
        for (k = 1; k <= lines[path]; k++) {
            if (!((path, k) in edit_at)) {
                print source[path, k] >path
                continue
            }
            e = edit_at[path, k]
            for (n = 1; n <= news[m, e]; n++) {
                print new[m, e, n] >path
            }
            k += olds[m, e] - 1
        }
        close(path)
    }
}

END {
    wanted = split(only, list, " ")
    for (i = 1; i <= wanted; i++) {
        is_wanted[list[i]] = 1
        if (!(list[i] in number_of)) {
            print "FAIL " list[i] " (there is no such mutant)"
            failed++
        }
    }
    for (m = 1; m <= mutants; m++) {
        if (wanted && !(name[m] in is_wanted)) {
            skipped++
            continue
        }
        if (!is_stray[m]) {
            check_form(m)
        }
        if (mode != "heads") {
            check_edits(m)
        }
        if (mode == "check") {
            check_units(m)
        }
        if (problems[m] != "") {
            print "FAIL " name[m] " (" problems[m] ")"
            failed++
            continue
        }
        passed++
        if (mode == "heads") {
            print_heads(m)
        } else if (mode == "apply") {
            apply(m)
        }
    }
    if (mode == "check") {
        printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
    }
    exit (failed > 0)
}
