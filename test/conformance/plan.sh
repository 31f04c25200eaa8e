# shellcheck shell=bash
# Which suites run in which configurations. Sourced by contrib/conformance.sh by
# way of lib.sh, and by selftest. The configuration of a run is a name
#   SUITE.DEVICES.PATHS.NOTIFY.COMP_ORDER.RAILS     uct.fabric.4.auto.any.1
# Both set:
#   top     the top of the sources      SEED    a number      TURN    a number
#   CONFIG  a shell pattern of such names       ON  fabric, rxe, or both: ''

# The seed of a commit: the first seven digits of its hash. The commit is
# VQP_COMMIT (as of `git describe --long`), else that of the repository. Without one,
# the seed is of the sources.
commit_seed() {
    local commit=${VQP_COMMIT:-}
    [ -n "$commit" ] ||
        commit=$(git -C "$top" describe --always --long --dirty 2>/dev/null)
    commit=${commit%-dirty}
    commit=${commit##*-g}
    [[ $commit =~ ^[0-9a-f]{7} ]] ||
        commit=$(find "$top"/{src,test,contrib} -name '*.[ch]*' -type f |
            LC_ALL=C sort | xargs cat | md5sum)
    echo $((16#${commit:0:7}))
}

# The turn of a commit: the number of commits up to it, so that the plans of successive
# ones come to all configurations. It is VQP_COMMIT_COUNT, else that of the repository.
# Without it, and where the history is not whole, the turn is the seed.
commit_turn() {
    local count=${VQP_COMMIT_COUNT:-}
    if [ -z "$count${VQP_COMMIT:-}" ] &&
        [ "$(git -C "$top" rev-parse --is-shallow-repository 2>&1)" = false ]
    then
        count=$(git -C "$top" rev-list --count HEAD 2>/dev/null)
    fi
    [[ $count =~ ^[0-9]+$ ]] || count=$SEED
    echo $((10#$count))
}

# rotated N: of lines, the N that the turn comes to. Their number is raised to a prime,
# with the first ones again at the end: so not only successive turns come to all lines,
# but also every second one, or every third. A prime number p of lines takes p / N turns.
rotated() {
    awk -v turn="$TURN" -v n="$1" '
        function is_prime(p, i) {
            for (i = 2; i * i <= p; ++i) {
                if (p % i == 0) {
                    return 0
                }
            }
            return 1
        }
        { line[NR - 1] = $0 }
        END {
            if (NR == 0) {
                exit
            }
            for (p = NR; !is_prime(p); ++p) {
            }
            for (i = 0; i < n; ++i) {
                at = ((turn % p) * n + i) % p % NR
                if (!(at in seen)) {
                    print line[at]
                }
                seen[at] = 1
            }
        }'
}

# spread SALT: lines in an order that is always the same, and another one for each
# number: those that are alike do not stand together
spread() {
    SEED=1 shuffled "$1"
}

# shuffled [SALT]: puts lines in an order that depends on the seed and on the
# number SALT only
shuffled() {
    awk -v seed="$SEED" -v salt="${1:-0}" '
        BEGIN { x = (seed * 7919 + salt * 104729 + 12345) % 2147483646 + 1 }
        { x = x * 16807 % 2147483647; print x, $0 }' | sort -n | cut -d' ' -f2-
}

# PATHS.NOTIFY.COMP_ORDER.RAILS, the default one first
configurations() {
    local notify order paths
    for paths in 4 1; do
        for notify in auto dqplb tail spray; do
            for order in any post; do
                echo "$paths.$notify.$order.1"
            done
        done
    done
    for notify in auto dqplb tail; do
        echo "4.$notify.any.2"
    done
}

# entries SUITE DEVICES [K=V]...: reads configurations, prints those that are
# wanted as entries of a plan: "NAME [K=V]..."
entries() {
    local name
    [[ -z $ON || $ON == "$2" ]] || return 0
    while read -r name; do
        name=$1.$2.$name
        # shellcheck disable=SC2053 # it is a pattern
        [[ $name != $CONFIG ]] || echo "$name ${*:3}"
    done
}

# What a change must pass: each configuration and seed of gate.list
plan_gate() {
    awk '/^#/ || /^ *$/ { next }
         { entry = $1 " SEED=" $2 }
         !(entry in seen) { seen[entry] = 1; print entry }' "$CONFORMANCE/gate.list"
}

# What a change must pass. Each part takes as many configurations as its time allows:
# the turn chooses which, among those that --config names. On Soft-RoCE UCP's sample has
# tests with socket addresses: the address of a bond may be too long for RDMA CM.
plan_ci() {
    configurations | spread 1 | entries uct fabric | rotated 1
    configurations | spread 2 | entries ucp fabric TIME_BOX=60 | rotated 2
    configurations | spread 3 | entries uct rxe SAMPLE=80 | rotated 1
    configurations | grep '\.1$' | spread 4 | entries ucp rxe SAMPLE=60 |
        rotated 1
}

# Everything. With --sample N, of UCP the default configuration whole and of each
# other one N tests, another part of the suite for each. With a time box, UCP shares it
# among the configurations.
plan_all() {
    local suite name from=0 box
    box=$((TIME_BOX / $(configurations | wc -l)))
    for suite in uct ucp; do
        while read -r name; do
            if [ $suite = ucp ] && [ "$TIME_BOX" != 0 ]; then
                entries $suite fabric TIME_BOX=$((box > 0 ? box : 1)) <<<"$name"
            elif [ "$SAMPLE" = 0 ] || [ $suite = uct ] || [ "$name" = 4.auto.any.1 ]
            then
                entries $suite fabric <<<"$name"
            else
                entries $suite fabric SAMPLE="$SAMPLE" FROM=$from <<<"$name"
                from=$((from + SAMPLE))
            fi
        done < <(configurations)
    done
    entries uct rxe <<<"4.auto.any.1"
    entries uct rxe <<<"4.auto.any.2"
    entries ucp rxe SAMPLE=$((SAMPLE > 0 ? SAMPLE : 132)) <<<"4.auto.any.1"
    # the fabric has no connection manager
    entries ucp rxe FILTER='*sockaddr*' <<<"4.auto.any.1.sockaddr"
}
