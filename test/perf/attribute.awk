# Reads a callgrind.out file and prints who executed how many instructions:
#
#   tool       the benchmark
#   provider   the verbs library's device: the fabric, or librxe
#   copy       what the provider has libc do: it moves the data
#   transport  all else: UCX and the transport
#
# What the C library does counts for who called it.  Then, for -v top=1, lines
# "f GROUP FUNCTION COST".  Callgrind names an object, file or function in full
# once, and by its number "(N)" from then on.

function name_of(table, text,    id) {
    id = text
    sub(/\).*/, ")", id)
    if (text ~ /\) /) {
        sub(/^\([0-9]+\) /, "", text)
        names[table, id] = text
    }
    return names[table, id]
}

function group_of(object) {
    if (object ~ /libvqp_fabric|librxe/) return "provider"
    if (object ~ /perftest$|\/cost$/) return "tool"
    if (object ~ /\/(libc|libpthread|ld-linux[^/]*|ld|libm)[-.][^\/]*$/)
        return "libc"
    return "transport"
}

/^ob=/  { object = name_of("ob", substr($0, 4)); callee = object; next }
/^fn=/  { fun = name_of("fn", substr($0, 4)); next }
/^cob=/ { callee = name_of("ob", substr($0, 5)); next }
/^cfn=/ { called = name_of("fn", substr($0, 5)); next }
/^c?f[ile]=/ { next }
/^calls=/ {
    is_call = 1
    next
}
/^([0-9+-]|\*)/ {
    group = group_of(object)
    if (is_call) {
        if (group != "libc" && group_of(callee) == "libc" &&
            called !~ /start_main|below main/)
            sum[(group == "provider") ? "copy" : group] += $2
        is_call = 0
        callee = object
        next
    }
    if (group != "libc") sum[group] += $2
    self[group " " fun] += $2
}

END {
    for (group in sum) print group, sum[group]
    if (top)
        for (key in self) print "f", key, self[key]
}
