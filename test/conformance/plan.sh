# shellcheck shell=bash
# Which suites run in which configurations. Sourced by contrib/conformance.sh by
# way of lib.sh, and by selftest. The configuration of a run is a name
#   SUITE.DEVICES.PATHS.NOTIFY.COMP_ORDER.RAILS     uct.fabric.4.auto.any.1
# Both set:
#   top     the top of the sources      SEED    a number
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

# What a change must pass. UCT runs in the default configuration, and besides,
# each part takes as many configurations as its time allows: the seed chooses
# which, among those that --config names. On Soft-RoCE UCP's sample has tests with
# socket addresses: the address of a bond may be too long for RDMA CM.
plan_ci() {
    local others
    others=$(configurations | tail -n +2)
    configurations | head -n 1 | entries uct fabric
    shuffled 1 <<<"$others" | entries uct fabric | head -n 1
    configurations | shuffled 2 | entries ucp fabric TIME_BOX=75 | head -n 3
    configurations | shuffled 3 | entries uct rxe | head -n 1
    configurations | grep '\.1$' | shuffled 4 | entries ucp rxe SAMPLE=132 |
        head -n 1
}

# Everything. With --sample N, of UCP the default configuration whole and of each
# other one N tests, another part of the suite for each.
plan_all() {
    local suite name from=0
    for suite in uct ucp; do
        while read -r name; do
            if [ "$SAMPLE" = 0 ] || [ $suite = uct ] || [ "$name" = 4.auto.any.1 ]
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
