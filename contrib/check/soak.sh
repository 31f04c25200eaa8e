# shellcheck shell=bash
# Processes that talk, on the software fabric: order at scale, and a random mix
# of everything for a quarter of the time.

order() {
    local mode=$1
    shift
    run "order, $mode, $*" on_fabric gcc --violations fail --mode "$mode" \
        -o DELAY=20us -o JITTER=300us -- "$CHECK_DIR/gcc/test/soak/vqp_soak" \
        order "$@"
}
order immediate --senders 100 --batches 1000 --sizes small
order timed --senders 100 --batches 1000 --sizes small
order timed --senders 1000 --batches 20

suite soak "$CHECK_SRC/test/soak/run" --build "$CHECK_DIR/gcc" --seconds 6 \
    --minutes $(((CHECK_MINUTES + 3) / 4)) --seed "$CHECK_SEED"
