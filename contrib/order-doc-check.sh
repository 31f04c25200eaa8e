#!/bin/bash
# The sentences of docs/ordering.md and their tests: each row of its tables has
# a number, a sentence, and tests that exist. A test is
#   `suite.name`    of googletest, in test/core or test/uct
#   `sim` (a, b)    checkers of the simulator: fail("a", ...) in test/sim
#   `netem_name`    a case in test/rxe/suite
#   `order_all`     a setting that such a test is run with
#   as N            those of sentence N
# Prints what is wrong as LINE: TEXT; status 1 then.
# shellcheck disable=SC2016 # backquotes of the page, not of the shell
cd "$(dirname "$0")/.." || exit 2
page=docs/ordering.md
bad=0
rows=0
next=1

wrong() {
    echo "order-doc-check: $page:$1"
    bad=1
}

# Names of all tests of googletest, one per line, as suite.name
gtests=$(sed -nE 's/^TEST(_F|_P)?\(([a-z0-9_]+), ([a-z0-9_]+)\).*/\2.\3/p' \
             test/core/*.cc test/uct/*.cc)

# known LINE TEST
known() {
    case $2 in
        netem_*) grep -qE "^ *add .*\<$2\>|^$2\(\)" test/rxe/suite/*.sh ;;
        *.*) grep -qxF "$2" <<<"$gtests" ;;
        *) grep -qF "{\"$2\"," test/uct/*.cc ;;
    esac || wrong "$1: there is no test $2"
}

while IFS='|' read -r line number _ tests _; do
    line=${line%:}
    number=${number// /}
    rows=$((rows + 1))
    if [ "$number" != $((next - 1))a ]; then # 27a follows 27
        [ "$number" = $next ] || wrong "$line: sentence $number follows $((next - 1))"
        next=$((${number%a} + 1))
    fi
    found=0
    while read -r test; do
        known "$line" "$test"
        found=1
    done < <(grep -oE '`[a-z0-9_.]+`' <<<"$tests" | tr -d '`' | grep -vx sim)
    while read -r name; do
        grep -qF "fail(\"$name\"" test/sim/*.cc ||
            wrong "$line: the simulator has no checker $name"
        found=1
    done < <(grep -oE '`sim` \([a-z, -]+\)' <<<"$tests" |
             sed 's/.*(//; s/)//' | tr -s ', ' '\n')
    if [[ $tests =~ as\ ([0-9]+) ]] && [ "${BASH_REMATCH[1]}" -lt $next ] &&
            [ "${BASH_REMATCH[1]}" != "$number" ]
    then
        found=1
    fi
    [ $found = 1 ] || wrong "$line: sentence $number has no test"
done < <(grep -nE '^\| [0-9]+a? \|' $page)

[ $rows -ge 30 ] || wrong "0: only $rows sentences"
[ $bad = 0 ] && echo "order-doc-check: ok, $rows sentences"
exit $bad
