# shellcheck shell=bash
# Builds UCX's suites and runs tests of them in batches. Sourced by
# contrib/conformance.sh, which sets, beside its options:
#   top      the top of the sources      BUILD   the project's build tree
#   WORK     a directory for this run    SUITES  where UCX's suites are built
#   SUITE    uct|ucp                     ON      fabric|rxe
#   TL       vqp|rc_verbs                SEED LIMIT JOBS TIME_BOX RAILS DEVICES CONFIG
#   VERSION  of the UCX that BUILD is for, as in judge.sh
#   FAULTS   a script of the fabric, "cuts", or nothing
CONFORMANCE=$top/test/conformance
# shellcheck source-path=SCRIPTDIR source=judge.sh
. "$CONFORMANCE/judge.sh"
# shellcheck source-path=SCRIPTDIR source=plan.sh
. "$CONFORMANCE/plan.sh"
# shellcheck source-path=SCRIPTDIR source=../lib/jobs.sh
. "$top/test/lib/jobs.sh"

die() {
    echo "conformance: $*" >&2
    exit 2
}

# ---- building UCX's suites ----

# built_for NAME: what configure found of UCX
built_for() {
    sed -n "s/^$1 = //p" "$BUILD/Makefile"
}

# Sets source, UCX's sources, and stamp, a number for what the suites are made of: the
# recipe, the edits, the sources, the installed UCX, the compiler
suites_stamp() {
    source=$(built_for VQP_UCX_SRC)
    [ -e "$source/test/gtest/common/main.cc" ] ||
        die "no test suites in UCX's sources, '$source'"
    stamp=$({ cat "$CONFORMANCE"/{edit.sh,suites.mk} "$BUILD/ucx-config/config.h"
              (cd "$source" && find src test -type f -print0 | LC_ALL=C sort -z |
                  xargs -0 cksum)
              built_for VQP_UCX_PREFIX
              cksum <"$(ucx_module_dir)/libuct_ib.so.0"
              "${CXX:-g++}" --version | head -n 1; } | cksum | tr ' ' -)
}

# Where the suites are kept: they take minutes to build, and most changes leave them
# as they are. Those that were not used for two weeks are removed.
kept_suites() {
    local cache=${XDG_CACHE_HOME:-$HOME/.cache}/uct_vqp source stamp
    suites_stamp
    mkdir -p "$cache/suites-$stamp" && touch "$cache/suites-$stamp" || exit 2
    find "$cache" -maxdepth 1 -name 'suites-*' -mtime +14 -exec rm -rf {} +
    echo "$cache/suites-$stamp"
}

# Builds gtest_uct and gtest_ucp in $SUITES, once for each stamp
build_suites() {
    local source stamp libdir prefix own=()
    suites_stamp
    prefix=$(built_for VQP_UCX_PREFIX)
    [ "$prefix" = /usr ] || own=(UCXINC="$prefix/include"
                                 UCXLIB="$(built_for VQP_UCX_LIBDIR)")
    if [ "$stamp" = "$(cat "$SUITES/stamp" 2>/dev/null)" ]; then
        return
    fi
    [ -e "$SUITES/ucx" ] || [ -z "$(ls -A "$SUITES" 2>/dev/null)" ] ||
        die "$SUITES has something else than UCX's suites"
    echo "building UCX's suites from $source"
    rm -rf "$SUITES"
    mkdir -p "$SUITES/ucx" "$SUITES/config"
    # they use no GPU: the headers of its library need not be there
    sed '/^#define HAVE_\(CUDA\|ROCM\) /d' "$BUILD/ucx-config/config.h" \
        >"$SUITES/config/config.h" || exit 2
    cp -r "$source/src" "$source/test" "$SUITES/ucx" || exit 2
    "$CONFORMANCE/edit.sh" "$SUITES/ucx" || exit 2
    libdir=$(ucx_module_dir) || die "no libuct_ib.so.0 beside UCX's libraries"
    make -C "$SUITES" -f "$CONFORMANCE/suites.mk" -j"$(nproc)" \
        UCX="$SUITES/ucx" CONFIG="$SUITES/config" LIBDIR="$libdir" "${own[@]}" \
        >"$SUITES/log" 2>&1 </dev/null || {
        grep -A5 -m3 'rror' "$SUITES/log" >&2
        die "UCX's suites do not compile, see $SUITES/log"
    }
    rm -rf "$SUITES/o"
    echo "$stamp" >"$SUITES/stamp"
}

ucx_module_dir() {
    local dir
    for dir in $(built_for VQP_UCX_LIBDIR) \
               /usr/lib/*-linux-gnu /usr/lib64 /usr/lib; do
        if [ -e "$dir/ucx/libuct_ib.so.0" ]; then
            echo "$dir/ucx"
            return
        fi
    done
    return 1
}

# ---- where tests run ----

# Seconds for one test
limit() {
    local limit=120
    [ "$ON" = fabric ] || limit=1200 # a guest may get little of its CPU
    echo $((${LIMIT:-$limit} * ${CHECK_PATIENCE:-1}))
}

# The variables with which both transports run
test_environment() {
    local environment=(UCX_HANDLE_ERRORS=bt UCX_LOG_LEVEL=warn LC_ALL=C
        UCX_WARN_UNUSED_ENV_VARS=n UCX_SOCKADDR_TLS_PRIORITY=rdmacm
        CONFORMANCE_LIMIT="$(limit)")
    if [ "$TL" = vqp ]; then
        # UCP's perf cases take the transports of the environment
        environment+=(UCX_TLS=vqp)
        # peer_failure_multiple reads it as a number; 128 is auto's without failover
        environment+=("UCX_VQP_TX_QUEUE_LEN=${UCX_VQP_TX_QUEUE_LEN:-128}")
        [ "$RAILS" = 1 ] || environment+=("UCX_VQP_RAILS=$(rails)")
        # in a guest with one CPU the driver and the processes take turns: a path is
        # often silent for longer than on a network, and tests that call progress for
        # one side only do not survive what follows
        [ "$ON" = fabric ] || environment+=(UCX_VQP_PATH_TIMEOUT=inf)
        # so that the retries of a path end while a test runs; a warning, such as of a path
        # that is down, fails a test
        [ -z "$FAULTS" ] || environment+=(UCX_VQP_TIMEOUT=5ms
            UCX_VQP_RETRY_COUNT=3 UCX_LOG_LEVEL=error
            "UCX_VQP_MIN_PATHS=${UCX_VQP_MIN_PATHS:-${UCX_VQP_NUM_PATHS:-4}}"
            "UCX_VQP_STATS_FILE=$WORK/stats")
    else
        # the last two since UCX 1.18: addresses need no route of the network, and no
        # fence waits for an answer, which devices do not give
        environment+=(UCX_TLS="rc_v,self" UCX_IB_GID_INDEX=1
            UCX_UD_VERBS_ETH_DGID_CHECK=n UCX_IB_ROCE_REACHABILITY_MODE=all
            UCX_FENCE_MODE=weak)
    fi
    echo "${environment[@]}"
}

# The devices that fabric-run and test/rxe/run make, bonded
rails() {
    local name=fab rail
    [ "$ON" = fabric ] || name=rxe
    for ((rail = 0; rail < RAILS; ++rail)); do
        echo "$name$rail:1"
    done | paste -sd,
}

# The script of --faults. Of a connection with four paths one fails every 30 ms, in
# turn; one gets no answers for a fifth of the time, and now and then none does.
fault_script() {
    local path
    if [ "$FAULTS" != cuts ]; then
        echo "$FAULTS"
        return
    fi
    for path in 0 1 2 3; do
        echo "qp path=$path/4 at=$((5 + 30 * path))ms every=120ms"
    done
    echo "dark path=2/4 at=5ms for=10ms every=50ms"
    echo "dark at=70ms for=5ms every=300ms"
}

# counter NAME: its sum over the interfaces that were closed
counter() {
    sed 's/"control".*//' "$WORK/stats" 2>/dev/null | grep -oE "\"$1\":[0-9]+" |
        awk -F: '{ sum += $2 } END { print sum + 0 }'
}

# What faults did. Where no path went down and came back, the run proves nothing.
cuts_done() {
    echo "# path_downs $(counter path_downs), path_ups $(counter path_ups)," \
        "silences $(counter silences), replayed $(counter replayed)," \
        "undecided $(counter undecided)"
    [ "$(counter path_downs)" -gt 0 ] && [ "$(counter path_ups)" -gt 0 ] ||
        echo "FAIL ${WORK##*/} (no path went down and came back)" \
            >>"$WORK/verdicts"
}

# on_devices SLOT DIR SECONDS COMMAND...: where the devices are, with write
# access to DIR
on_devices() {
    local slot=$1 dir=$2 seconds=$3 wrapper=() arm=() environment
    shift 3
    read -ra environment <<<"$(test_environment)"
    if [ "$TL" = vqp ]; then
        wrapper=("$BUILD/contrib/vqp-run")
    else
        arm=(-o ARM=event) # stock UCX counts on it: see test/fabric/README.md
    fi
    if [ "$ON" = rxe ]; then
        exec "$top/test/rxe/run" --devices "${DEVICES:-$RAILS}" --mem 3072 --timeout "$seconds" \
            --cpu "${CPUS[slot % ${#CPUS[@]}]}" --rw "$dir" -- \
            env "${environment[@]}" "${wrapper[@]}" "$@"
    else
        exec "$top/contrib/fabric-run" --build "$BUILD" --devices "${DEVICES:-$RAILS}" \
            --violations warn -o VIOLATION_LINES=10k "${arm[@]}" \
            --faults "$([ "$TL" != vqp ] || fault_script)" \
            --timeout "$seconds" -- \
            env "${environment[@]}" "${wrapper[@]}" "$@"
    fi
}

# ---- which tests ----

# gate_names ENTRY SEED: the tests of gate.list for that configuration and seed
gate_names() {
    awk -v entry="$1" -v seed="$2" '$1 == entry && $2 == seed { print $3 }' \
        "$CONFORMANCE/gate.list"
}

# tried_with_faults: names without those that are listed as not tried then
tried_with_faults() {
    if [ -n "$FAULTS" ]; then
        awk 'NR == FNR { if ($2 ~ /^none/) none[$1]; next } !($1 in none)' \
            <(listed; echo) -
    else
        cat
    fi
}

# Prints the names of all tests of a transport, as they are for it. rc_verbs has
# the memory domain ib in UCT, and the name rc in UCP.
list_names() {
    local filter
    case $SUITE.$1 in
        uct.rc_verbs) filter='rc_verbs/*:ib/test_md*:ib/test_mem*:ib/test_cuda*' ;;
        ucp.rc_verbs) filter='rc/*' ;;
        *) filter="$1/*" ;;
    esac
    mkdir -p "$WORK/list"
    (on_devices 0 "$WORK/list" 120 "$SUITES/gtest_$SUITE" --gtest_list_tests \
        --gtest_filter="$filter") >"$WORK/list/$1" 2>"$WORK/list/error" || {
        tail -n 5 "$WORK/list/error" >&2
        die "the tests of $1 can not be listed on $ON"
    }
    awk '/^[^ ]+\.$/ { group = $1; next }
         /^  / && group != "" { print group $1 }' "$WORK/list/$1"
}

# Filters names by the shell patterns in $1, separated by colons
matching() {
    local name pattern patterns
    IFS=: read -ra patterns <<<"$1"
    while read -r name; do
        for pattern in "${patterns[@]}"; do
            # shellcheck disable=SC2053 # it is a pattern
            if [[ $name == $pattern ]]; then
                echo "$name"
                break
            fi
        done
    done
}

# window FROM COUNT: that many lines from line FROM (0 is the first) on, and from
# the first again when they end; no line twice
window() {
    awk -v from="$1" -v count="$2" '{ line[NR - 1] = $0 }
        END {
            for (i = 0; i < count && i < NR; ++i)
                print line[(from + i) % NR]
        }'
}

# ---- running ----

# Those that use queue pairs by the hundred wear out the kernel of a guest
is_heavy() {
    [[ $1 == */uct_cancel_test.* || $1 == */test_uct_ep.* ||
       $1 == */*.stress_connect* ]]
}

# Makes $WORK/batch/N/tests of the names in a file
make_batches() {
    local size=15 batch=1000 count=0 heavy=2000 name to
    if [ "$ON" = fabric ]; then
        # a batch that has begun ends, however full the time box is
        size=$((TIME_BOX > 0 ? 20 : 40))
    fi
    rm -rf "$WORK/batch"
    while read -r name; do
        if [ "$ON" = rxe ] && is_heavy "$name"; then
            heavy=$((heavy + 1))
            to=$heavy
        else
            to=$((batch + count / size))
            count=$((count + 1))
        fi
        mkdir -p "$WORK/batch/$to"
        echo "$name" >>"$WORK/batch/$to/tests"
    done <"$1"
}

# run_once SLOT DIR NAME...: one machine runs tests; DIR/now has the results of
# as many as it came to, of one at least; STATUS is the machine's
run_once() {
    local slot=$1 dir=$2
    shift 2
    printf '%s\n' "$@" >"$dir/names"
    : >"$dir/log"
    (on_devices "$slot" "$dir" $(($(limit) * 3 + 120 + 20 * $#)) \
        "$CONFORMANCE/batch" "$dir" "$SUITES/gtest_$SUITE" -s "$SEED") \
        >"$dir/output" 2>&1 </dev/null
    STATUS=$?
    awk -f "$CONFORMANCE/results.awk" "$dir/log" >"$dir/now"
    [ -s "$dir/now" ] || echo "FAIL $1 (it never began: status $STATUS," \
        "$(tail -n 1 "$dir/output"))" >"$dir/now"
    cat "$dir/log" >>"$dir/all.log"
}

# run_batch SLOT DIR: until each of DIR/tests has a result in DIR/results. A
# test that a guest died in, or whose process called abort() in a guest, gets a
# second try, alone in a fresh guest: a guest may fail by itself, and where it gets
# too little of the processor, RC gives up, and UCX aborts. A process that ends in
# another way is a failure at once. DIR/retried has the tests, and how they ended.
run_batch() {
    local slot=$1 dir=$2 left again=() died how
    local ended='^FAIL ([^ ]*) \((the machine ended|died: .* status 134)\)$'
    mapfile -t left <"$dir/tests"
    while [ ${#left[@]} -gt 0 ] && [ -d "$dir" ] && [ ! -e "$dir/stop" ]; do
        run_once "$slot" "$dir" "${left[@]}"
        mapfile -t left < <(printf '%s\n' "${left[@]}" |
                            grep -vxFf <(awk '{ print $2 }' "$dir/now"))
        if [ "$ON" = rxe ]; then
            while read -r died how; do
                again+=("$died")
                echo "$died ($how; its guest ended with status $STATUS:" \
                    "$(tail -n 1 "$dir/output"))" >>"$dir/retried"
            done < <(sed -nE "s/$ended/\1 \2/p" "$dir/now")
            sed -i -E "/$ended/d" "$dir/now"
        fi
        cat "$dir/now" >>"$dir/results"
    done
    for died in "${again[@]}"; do
        run_once "$slot" "$dir" "$died"
        cat "$dir/now" >>"$dir/results"
    done
}

# begin_batch SLOT DIR
# shellcheck disable=SC2317 # jobs_run calls it
begin_batch() {
    # shellcheck disable=SC2163 # assignments
    [ ${#BATCH_OPTIONS[@]} = 0 ] || export "${BATCH_OPTIONS[@]}"
    : >"$2/begun"
    run_batch "$@"
}

# shellcheck disable=SC2317 # jobs_run calls it
time_is_left() {
    [ "$TIME_BOX" = 0 ] || [ "$SECONDS" -lt "$BOX_END" ]
}

# run_batches [K=V]...: the batches, JOBS side by side, until the time box is
# full, with these variables
run_batches() {
    BATCH_OPTIONS=("$@") BOX_END=$((SECONDS + TIME_BOX))
    jobs_run --while time_is_left "$JOBS" begin_batch : "$WORK"/batch/*
}

# The tests that batches have begun with: each must have a result
due() {
    local dir
    for dir in "$WORK"/batch/*; do
        [ ! -e "$dir/begun" ] || cat "$dir/tests"
    done
}
