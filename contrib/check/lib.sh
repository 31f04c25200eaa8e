# shellcheck shell=bash
# Functions of check.sh and its steps: one line per case, and the counts of all
# cases. Sourced, never run.
#
# From check.sh, in the environment:
#   CHECK_DIR    where everything is built
#   CHECK_SRC    the copy of the tree
#   CHECK_UCX    UCX's sources
#   CHECK_JOBS   processes that a build may use
#   CHECK_CPU    the CPU for processes that need a fixed one (a guest's kernel)
#   CHECK_RXE    yes, or why there are no Soft-RoCE devices
#   CHECK_STEP   the step that runs, or nothing
#   CHECK_SEED   of what a step of --all draws
#   CHECK_MINUTES  for all that explores in --all
#   CHECK_WITH_UCX  the prefix of another UCX than the distribution's, or nothing
#   CHECK_MUST   yes when a missing tool is a failure, and not a skip

# result ok|FAIL|skip NAME [REASON]: a line, and one more of that kind
result() {
    case $1 in
        ok) count 1 0 0 ;;
        FAIL) count 0 1 0; failure <<<"$2${3:+ ($3)}" ;;
        skip) count 0 0 1 ;;
    esac
    printf '%-4s %s%s\n' "$1" "$2" "${3:+ ($3)}"
}

# failure: records lines of standard input as failures of the step
failure() {
    sed "s/^/${CHECK_STEP:--}\t/" >>"$CHECK_DIR/failures"
}

# count PASSED FAILED SKIPPED: steps run side by side, and all add to one file
count() {
    echo "$1 $2 $3" >>"$CHECK_DIR/counts"
}

# note NAME: records these lines of a suite's standard input:
# "# retried: CASE (REASON)" and "# expected failure: CASE (REASON)"
note() {
    sed -nE "s/^# (retried|expected failure): (.*)/\\1 $1: \\2/p" \
        >>"$CHECK_DIR/notes"
}

# log_of NAME: the file for what a case prints
log_of() {
    echo "$CHECK_DIR/log/${1//[ \/:]/_}.log"
}

# tail_of LOG [LINES]: the end of a log, for readers of a report without the file
tail_of() {
    tail -n "${2:-25}" "$1" | cut -c 1-200 | sed 's/^/    /'
}

# run NAME COMMAND...: one case; its output is in a log, shown when it fails
run() {
    local name=$1 log start
    shift
    log=$(log_of "$name")
    start=$SECONDS
    if "$@" >"$log" 2>&1 </dev/null; then
        result ok "$name" "$((SECONDS - start)) s"
        return 0
    fi
    result FAIL "$name" "see $log"
    tail_of "$log"
    return 1
}

# suite NAME COMMAND...: a command that prints "ok|FAIL|skip CASE (REASON)" for
# its cases and ends with "N passed, N failed, N skipped". Its lines are passed
# through, with what explains them ("# ..." or indented), its counts added.
suite() {
    local name=$1 log start status counts passed failed skipped
    shift
    log=$(log_of "$name")
    start=$SECONDS
    "$@" >"$log" 2>&1 </dev/null
    status=$?
    counts=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$log" |
             tail -n 1)
    grep -E '^(ok|FAIL|skip) |^(#|    )' "$log" | cut -c 1-200
    note "$name" <"$log"
    if [ -z "$counts" ]; then
        result FAIL "$name: it ended early" "status $status, see $log"
        tail_of "$log"
        return 1
    fi
    read -r passed _ failed _ skipped _ <<<"$counts"
    count "$passed" "$failed" "$skipped"
    echo "---- $name: $counts, $((SECONDS - start)) s"
    sed -n "s/^FAIL /$name: /p" "$log" | failure
    if [ "$failed" != 0 ]; then
        grep -qE '^(#|    )' "$log" || tail_of "$log"
    elif [ $((passed + skipped)) = 0 ]; then
        result FAIL "$name: it ran nothing" "see $log"
        tail_of "$log"
    elif [ $status != 0 ]; then
        result FAIL "$name: its status is $status" "see $log"
        tail_of "$log"
    else
        return 0
    fi
    return 1
}

# gtest NAME COMMAND...: a program of googletest tests. Each test counts; those
# that did not pass have a line.
gtest() {
    local name=$1 log start status passed test
    shift
    log=$(log_of "$name")
    start=$SECONDS
    "$@" >"$log" 2>&1 </dev/null
    status=$?
    # a word of its own at the front of each line that ends a test; a program
    # under test may have begun the line
    passed=$(grep -cE '\[ +OK \] .* \([0-9]+ ms\)$' "$log")
    count "$passed" 0 0
    note "$name" <"$log"
    while read -r test; do
        result skip "$name: $test" "$(sed -n "\,RUN  *\] $test\$,,/ SKIPPED /p" \
            "$log" | grep -vE '^\[|: Skipped$|^$' | head -n 1)"
    done < <(sed -nE 's/.*\[  SKIPPED \] ([^ ,]+)(,.*)? \([0-9]+ ms\)$/\1/p' "$log")
    while read -r test; do
        result FAIL "$name: $test" "see $log"
        sed -n "\,RUN  *\] $test\$,,\,FAILED  *\] $test,p" "$log" >"$log.part"
        tail_of "$log.part"
    done < <(sed -nE 's/.*\[  FAILED  \] ([^ ,]+)(,.*)? \([0-9]+ ms\)$/\1/p' "$log")
    if ! grep -qE '^\[=+\] [0-9]+ tests? from .* ran\.' "$log"; then
        result FAIL "$name: it ended early" "status $status, see $log"
        tail_of "$log"
    elif [ "$status" != 0 ] && ! grep -q '^\[  FAILED  \]' "$log"; then
        # what was found at the end, or by a sanitizer beside the tests
        result FAIL "$name: its status is $status" "see $log"
        grep -nE 'fabric: |ERROR: |WARNING: |SUMMARY: |runtime error' "$log" |
            head -n 10 | cut -c 1-200 | sed 's/^/    /'
        tail_of "$log" 40
    elif [ "$passed" = 0 ]; then
        result FAIL "$name: no test passed" "see $log"
    else
        echo "ok   $name ($passed tests, $((SECONDS - start)) s)"
    fi
}

# The tests of a `make check`, one result each
harvest() {
    local prefix=$1 dir=$2 trs name reason
    for trs in "$dir"/*.trs "$dir"/*/*.trs "$dir"/*/*/*.trs; do
        [ -e "$trs" ] || continue
        name=${trs#"$dir"/}
        name=${name%.trs}
        [[ $name != contrib/* ]] || continue # a step of its own
        reason=$(tail -n 3 "${trs%.trs}.log" |
                 grep -v '^\(PASS\|FAIL\|SKIP\) ' | tail -n 1)
        case $(sed -n 's/^:test-result: *//p' "$trs") in
            PASS*) result ok "$prefix: $name" ;;
            SKIP*) result skip "$prefix: $name" "${reason#skip: }" ;;
            *) result FAIL "$prefix: $name" "see ${trs%.trs}.log"
               tail_of "${trs%.trs}.log" ;;
        esac
    done
}

# configured NAME CONFIGURE-ARGUMENT...: a build tree, unless --again finds it. All C++
# is tests: to optimize it costs more than it saves. sh starts faster than the bash that
# configure and libtool choose.
configured() {
    local name=$1
    shift
    [ "$CHECK_AGAIN" = no ] || [ ! -e "$CHECK_DIR/$name/config.status" ] || return 0
    mkdir -p "$CHECK_DIR/$name"
    run "$name: configure" env -C "$CHECK_DIR/$name" CONFIG_SHELL=/bin/sh \
        /bin/sh "$CHECK_SRC/configure" \
        --enable-werror --with-ucx-src="$CHECK_UCX" CXXFLAGS=-g1 \
        ${CHECK_WITH_UCX:+--with-ucx="$CHECK_WITH_UCX"} "$@"
}

# made NAME TARGET...: in a build tree
made() {
    run "$1: make" make -C "$CHECK_DIR/$1" -s -j"$CHECK_JOBS" "${@:2}"
}

# build NAME CONFIGURE-ARGUMENT...: out of tree; status 0 when built
build() {
    configured "$@" && made "$1"
}

# tests NAME [MAKE-ARGUMENT]...: runs the tests of make check in a build, whose
# programs are there
tests() {
    local name=$1 log status
    log=$(log_of "$1: make check")
    shift
    rm -f "$CHECK_DIR/$name"/*.trs "$CHECK_DIR/$name"/*/*.trs "$CHECK_DIR/$name"/*/*/*.trs
    make -C "$CHECK_DIR/$name" -s -j"$CHECK_JOBS" check-TESTS \
        check_PROGRAMS='' check_LTLIBRARIES='' "$@" \
        >"$log" 2>&1 </dev/null
    status=$?
    harvest "$name" "$CHECK_DIR/$name"
    # a test that failed has its line; this is a make that did not run them all
    if [ $status != 0 ] && ! grep -qE '^# (FAIL|ERROR): +[1-9]' "$log"; then
        result FAIL "$name: make check" "status $status, see $log"
        tail_of "$log"
    fi
}

# processor_time: seconds that this shell and what it waited for have used
processor_time() {
    awk -v hertz="$(getconf CLK_TCK)" \
        '{ printf "%d\n", ($14 + $15 + $16 + $17) / hertz }' /proc/$$/stat
}

# on_fabric BUILD [OPTION]... -- COMMAND...: on the software fabric of a build
on_fabric() {
    local build=$1
    shift
    "$CHECK_SRC/contrib/fabric-run" --build "$CHECK_DIR/$build" --timeout 900 "$@"
}

# need NAME PACKAGE TOOL...: checks the tools that NAME needs. A missing one is a
# skip where nothing may be installed, else a failure
need() {
    local name=$1 package=$2 tool
    shift 2
    for tool in "$@"; do
        type -P "$tool" >/dev/null && continue
        if [ "$CHECK_MUST" = yes ]; then
            result FAIL "$name" "$tool is missing, of package $package"
        else
            result skip "$name" "$tool of package $package is not installed"
        fi
        return 1
    done
}

# other_kernel: does this distribution lack the kernel of the virtual machine, which
# Debian 12 has?
other_kernel() {
    [[ $CHECK_RXE == *"apt has no "* ]] &&
        ! grep -q '^VERSION_CODENAME=bookworm' /etc/os-release
}

# need_rxe NAME: are there Soft-RoCE devices?
need_rxe() {
    [ "$CHECK_RXE" != yes ] || return 0
    if [ "$CHECK_MUST" = yes ] && ! other_kernel; then
        result FAIL "$1" "$CHECK_RXE"
    else
        result skip "$1" "$CHECK_RXE"
    fi
    return 1
}

# asan_environment: of the address and undefined behavior sanitizers
asan_environment() {
    export LSAN_OPTIONS=suppressions=$CHECK_SRC/contrib/check/lsan.supp
    LSAN_OPTIONS+=:print_suppressions=0
    export UBSAN_OPTIONS=print_stacktrace=1
    export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0
}
