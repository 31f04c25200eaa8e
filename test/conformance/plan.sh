# shellcheck shell=bash
# Which suites run in which configurations. Sourced by contrib/conformance.sh by
# way of lib.sh, and by selftest. The configuration of a run is a name
#   SUITE.DEVICES.PATHS.NOTIFY.COMP_ORDER.RAILS     uct.fabric.4.auto.any.1
# PATHS is a fixed number of paths, or auto: as many as pay, by the default options.
# Both set:
#   CONFORMANCE  this directory     SEED, SAMPLE, TIME_BOX  numbers
#   CONFIG  a shell pattern of such names       ON  fabric, rxe, or both: ''

# shuffled: puts lines in an order that depends on the seed only
shuffled() {
    awk -v seed="$SEED" '
        BEGIN { x = (seed * 7919 + 12345) % 2147483646 + 1 }
        { x = x * 16807 % 2147483647; print x, $0 }' | sort -n | cut -d' ' -f2-
}

# PATHS.NOTIFY.COMP_ORDER.RAILS, the default one first
configurations() {
    local notify order paths
    for paths in auto 4 1; do
        for notify in auto dqplb tail spray; do
            for order in any post; do
                echo "$paths.$notify.$order.1"
            done
        done
    done
    for paths in auto 4; do
        for notify in auto dqplb tail; do
            echo "$paths.$notify.any.2"
        done
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
    local name rest
    awk '/^#/ || /^ *$/ { next }
         { entry = $1 " SEED=" $2 }
         !(entry in seen) { seen[entry] = 1; print entry }' "$CONFORMANCE/gate.list" |
        while read -r name rest; do
            # shellcheck disable=SC2053 # it is a pattern
            [[ $name != $CONFIG || $name != *.${ON:-*}.*.*.*.* ]] || echo "$name $rest"
        done
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
            elif [ "$SAMPLE" = 0 ] || [ $suite = uct ] || [ "$name" = auto.auto.any.1 ]
            then
                entries $suite fabric <<<"$name"
            else
                entries $suite fabric SAMPLE="$SAMPLE" FROM=$from <<<"$name"
                from=$((from + SAMPLE))
            fi
        done < <(configurations)
    done
    entries uct rxe <<<"auto.auto.any.1"
    entries uct rxe <<<"auto.auto.any.2"
    entries ucp rxe SAMPLE=$((SAMPLE > 0 ? SAMPLE : 132)) <<<"auto.auto.any.1"
    # the seed draws one of the others; UCP's with one rail, since the address of a bond
    # may be too long for RDMA CM
    configurations | grep -v '^auto\.auto\.any' | shuffled | head -n 1 | entries uct rxe
    configurations | grep '\.1$' | tail -n +2 | shuffled | head -n 1 |
        entries ucp rxe SAMPLE=$((SAMPLE > 0 ? SAMPLE : 132))
    # the fabric has no connection manager
    entries ucp rxe FILTER='*sockaddr*' <<<"auto.auto.any.1.sockaddr"
}
