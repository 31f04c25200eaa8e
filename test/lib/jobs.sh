# shellcheck shell=bash
# Runs jobs side by side, for scripts that have many. Sourced, never run; bash 5.
#
#   jobs_run [OPTION]... SLOTS RUN ENDED NAME...
#
# Calls "RUN SLOT NAME" for each NAME, in this order, each in a subshell of its
# own, at most SLOTS at a time. SLOT is a number from 0 to SLOTS - 1 that no other
# running job has. After a job's end calls "ENDED SLOT NAME STATUS SECONDS" in the
# calling shell; STATUS is the job's exit status. Returns when all have ended.
#
#   --in-order    ENDED is called in the order of the names
#   --while TEST  start the next job only while the command TEST succeeds
#
# RUN and ENDED are commands without arguments; ":" is one that does nothing.
#
#   jobs_stop
#
# Ends the running jobs with SIGTERM and waits for them; for a trap. The signal
# goes to RUN's subshell: a RUN that starts a long program replaces itself by it
# (exec), or traps the signal.
#
#   jobs_cpus    prints the CPUs that this process may run on, one per line
#   jobs_slots   prints how many jobs to run by default: the number of these
#                CPUs, at most two

jobs_pids=()    # of running jobs, by slot

jobs_cpus() {
    taskset -cp $$ | sed 's/.*: //' | tr , '\n' |
        while IFS=- read -r first last; do seq "$first" "${last:-$first}"; done
}

jobs_slots() {
    jobs_cpus | head -n 2 | wc -l
}

jobs_stop() {
    local pids=("${jobs_pids[@]}")
    # the last one may not be in the list yet: a trap runs between any two commands
    ! jobs -pr | grep -qx "${!:-none}" || pids+=("$!")
    [ ${#pids[@]} = 0 ] || {
        kill "${pids[@]}" 2>/dev/null
        wait "${pids[@]}" 2>/dev/null
    }
    jobs_pids=()
}

# RUN and ENDED see the variables of jobs_run: hence the prefix of their names
jobs_run() {
    local jobs_ordered='' jobs_while=true jobs_count jobs_run jobs_ended
    while [[ $1 == --* ]]; do
        case $1 in
            --in-order) jobs_ordered=yes ;;
            --while) jobs_while=$2; shift ;;
            *) echo "jobs_run: unknown option $1" >&2; return 2 ;;
        esac
        shift
    done
    jobs_count=$1 jobs_run=$2 jobs_ended=$3
    shift 3
    # by index of the name: arguments of ENDED; by slot: index, start
    local jobs_names=("$@") jobs_done=() jobs_index=() jobs_start=()
    local jobs_next=0 jobs_reported=0
    jobs_pids=()
    while :; do
        jobs_start_some
        [ ${#jobs_pids[@]} -gt 0 ] || return 0
        wait -n "${jobs_pids[@]}" 2>/dev/null
        jobs_reap
    done
}

# Starts jobs while there are names and free slots
jobs_start_some() {
    local slot
    for ((slot = 0; slot < jobs_count; ++slot)); do
        [ -z "${jobs_pids[slot]:-}" ] || continue
        [ "$jobs_next" -lt ${#jobs_names[@]} ] || return 0
        "$jobs_while" || {
            jobs_names=("${jobs_names[@]:0:jobs_next}")
            return 0
        }
        (
            trap - EXIT INT TERM HUP
            "$jobs_run" "$slot" "${jobs_names[jobs_next]}"
        ) &
        jobs_pids[slot]=$!
        jobs_index[slot]=$jobs_next
        jobs_start[slot]=$SECONDS
        jobs_next=$((jobs_next + 1))
    done
}

# Takes the status of each job that has ended, and calls ENDED
jobs_reap() {
    local slot status
    for slot in "${!jobs_pids[@]}"; do
        ! kill -0 "${jobs_pids[slot]}" 2>/dev/null || continue
        wait "${jobs_pids[slot]}" 2>/dev/null
        status=$?
        unset "jobs_pids[slot]"
        jobs_done[jobs_index[slot]]="$slot $status $((SECONDS - jobs_start[slot]))"
        [ -n "$jobs_ordered" ] || jobs_report "${jobs_index[slot]}"
    done
    [ -n "$jobs_ordered" ] || return 0
    while [ -n "${jobs_done[jobs_reported]:-}" ]; do
        jobs_report "$jobs_reported"
        jobs_reported=$((jobs_reported + 1))
    done
}

# jobs_report INDEX
jobs_report() {
    local slot status seconds
    read -r slot status seconds <<<"${jobs_done[$1]}"
    "$jobs_ended" "$slot" "${jobs_names[$1]}" "$status" "$seconds"
}
