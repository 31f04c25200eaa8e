/*
 * Timed mode: when WRs leave, arrive and are acknowledged. Each QP is a path
 * with a delay, a jitter and a rate of its own; the QPs of a port share its
 * rate, a WR each in turn. May call fab_exec, fab_qp, fab_path.
 *
 * A WR leaves when the one before it has left, not when it is posted: so QPs
 * with much to send do not keep others from the port, and a change of a rate
 * is felt by all that waits. The engine calls for one departure at a time, the
 * earliest of all QPs first, and what it is late for has its time all the same:
 * so rates hold on a busy machine.
 */
#include "fab_exec.h"

#include "fab_config.h"
#include "fab_path.h"

/* ns that so many bytes take; headers are left out */
static uint64_t fab_timed_wire(uint64_t length, uint64_t mbps)
{
    return (mbps == 0) ? 0 : ((length * 8 * 1000) / mbps);
}

static uint64_t fab_timed_max(uint64_t a, uint64_t b)
{
    return (a > b) ? a : b;
}

/* Reserve a wire from when it is free, @return when the sending begins */
static uint64_t fab_timed_reserve(uint64_t *busy_till, uint64_t mbps,
                                  uint64_t from, uint64_t length)
{
    uint64_t wire = fab_timed_wire(length, mbps);
    uint64_t busy = __atomic_load_n(busy_till, __ATOMIC_RELAXED);
    uint64_t start;

    do {
        start = fab_timed_max(busy, from);
    } while (!__atomic_compare_exchange_n(busy_till, &busy, start + wire, 0,
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return start;
}

static uint64_t fab_timed_port(struct fab_port *port, uint64_t from,
                               uint64_t length)
{
    return fab_timed_reserve(&port->busy_till, fab_path_port_mbps(port), from,
                             length);
}

/* When what leaves the port at @a from has left the queue pair: it has a wire of its
   own, or one of LINKS, which others take too */
static uint64_t fab_timed_way(struct fab_qp *qp, uint64_t from, uint64_t length)
{
    struct fab_wire *link = fab_path_wire(qp);
    uint64_t mbps         = qp->sq.mbps;

    if (link != NULL) {
        mbps = __atomic_load_n(&link->mbps, __ATOMIC_RELAXED);
        from = fab_timed_reserve(&link->busy_till, mbps, from, length);
    }
    return from + fab_timed_wire(length, mbps);
}

static struct fab_port *fab_timed_here(const struct fab_qp *qp)
{
    return &fab_world->devs[qp->dev].ports[qp->attr.port_num - 1];
}

/* The peer's port; the own one without a peer */
static struct fab_port *fab_timed_there(const struct fab_qp *qp)
{
    return (qp->peer == 0) ?
                   fab_timed_here(qp) :
                   &fab_world->devs[qp->peer_dev].ports[qp->peer_port - 1];
}

static uint64_t fab_timed_delay(const struct fab_qp *qp,
                                const struct fab_port *from)
{
    return qp->sq.delay + __atomic_load_n(&from->delay, __ATOMIC_RELAXED);
}

/* Whether the next WR to leave has to wait for READs before it */
static int fab_timed_blocked(const struct fab_qp *qp, const struct fab_swr *swr)
{
    uint32_t depth = qp->attr.max_rd_atomic;

    if ((swr->wr.send_flags & IBV_SEND_FENCE) && (qp->sq.reads > 0)) {
        return 1;
    }
    return fab_wr_is_read(&swr->wr) && (depth > 0) && (qp->sq.reads >= depth);
}

/* When the next WR can leave. @return UINT64_MAX: not before something else
   has happened */
static uint64_t fab_timed_ready(const struct fab_qp *qp)
{
    const struct fab_sq *sq   = &qp->sq;
    const struct fab_swr *swr = fab_sq_slot(sq, sq->sent);

    if ((sq->sent == sq->head) || (qp->state != IBV_QPS_RTS) ||
        fab_timed_blocked(qp, swr)) {
        return UINT64_MAX;
    }
    return fab_timed_max(sq->wire_free, swr->posted);
}

/* The next WR leaves, and its times are known. Data of a READ comes from the
   peer's port. */
static void fab_timed_depart(struct fab_qp *qp, uint64_t ready)
{
    struct fab_sq *sq     = &qp->sq;
    struct fab_swr *swr   = fab_sq_slot(sq, sq->sent);
    struct fab_port *from = (swr->wr.opcode == IBV_WR_RDMA_READ) ?
                                    fab_timed_there(qp) : fab_timed_here(qp);
    uint64_t jitter       = 0;
    uint64_t due;

    swr->due_send = fab_timed_port(from, ready, swr->length);
    sq->wire_free = fab_timed_way(qp, swr->due_send, swr->length);
    if (sq->jitter != 0) {
        jitter = fab_path_random(&sq->random) % (sq->jitter + 1);
    }

    /* RC: what left later arrives later. The slower of the two wires counts. */
    due = fab_timed_max(sq->wire_free,
                        swr->due_send +
                        fab_timed_wire(swr->length, fab_path_port_mbps(from)));
    due          += fab_timed_delay(qp, fab_timed_here(qp)) + jitter;
    swr->due_exec = fab_timed_max(due, sq->last_exec);
    sq->last_exec = swr->due_exec;
    if (fab_wr_is_read(&swr->wr)) {
        ++sq->reads;
    }
    ++sq->sent;
}

/* When there is something to do next; 0: never */
static uint64_t fab_timed_due(const struct fab_qp *qp)
{
    const struct fab_sq *sq = &qp->sq;
    uint64_t due            = UINT64_MAX;
    uint64_t ready;

    if (sq->done == sq->head) {
        return 0;
    }

    if (sq->done != sq->exec) {
        due = fab_sq_slot(sq, sq->done)->due_ack;
    }
    if (!sq->failed && (qp->state == IBV_QPS_RTS)) {
        if ((sq->exec != sq->sent) &&
            (fab_sq_slot(sq, sq->exec)->due_exec < due)) {
            due = fab_sq_slot(sq, sq->exec)->due_exec;
        }
        ready = fab_timed_ready(qp);
        due   = (ready < due) ? ready : due;
    }
    return due;
}

void fab_exec_schedule(struct fab_qp *qp, struct fab_swr *swr, uint64_t now)
{
    uint64_t ready;

    swr->posted = now;
    ready       = fab_timed_ready(qp);
    if (ready <= now) {
        fab_timed_depart(qp, ready);
    }
    qp->sq.due = fab_timed_due(qp);
}

/* An acknowledged READ: what waited for it waits no longer */
static void fab_timed_read_done(struct fab_qp *qp, uint64_t at)
{
    struct fab_sq *sq = &qp->sq;

    if ((sq->sent != sq->head) &&
        fab_timed_blocked(qp, fab_sq_slot(sq, sq->sent))) {
        sq->wire_free = fab_timed_max(sq->wire_free, at);
    }
    --sq->reads;
}

/* Whether the acknowledgement meets a port that is down: it comes again with
   the next retry, until there is none */
static int fab_timed_ack_lost(struct fab_qp *qp, struct fab_swr *swr)
{
    struct fab_exec_result result = {.end = FAB_EXEC_LOST};
    struct fab_sq *sq             = &qp->sq;
    uint32_t losses               = sq->losses;
    uint64_t due                  = sq->due;
    enum ibv_wc_status status;

    if ((qp->type != IBV_QPT_RC) || (swr->status != IBV_WC_SUCCESS) ||
        !(fab_exec_is_down(fab_timed_here(qp)) ||
          fab_exec_is_down(fab_timed_there(qp)))) {
        sq->ack_losses = 0;
        return 0;
    }

    sq->losses     = sq->ack_losses;
    status         = fab_exec_retry(qp, &result);
    sq->ack_losses = sq->losses;
    sq->losses     = losses;
    if (status != IBV_WC_SUCCESS) {
        swr->status    = (uint8_t)status;
        sq->ack_losses = 0;
        sq->due        = due;
        return 0;
    }

    swr->due_ack = sq->due;
    sq->due      = due;
    return 1;
}

/* The acknowledged ones complete; @return nonzero if the QP has failed */
static int fab_timed_complete(struct fab_qp *qp, uint64_t now)
{
    struct fab_sq *sq = &qp->sq;
    struct fab_swr *swr;

    while (sq->done != sq->exec) {
        swr = fab_sq_slot(sq, sq->done);
        if ((swr->due_ack > now) || fab_timed_ack_lost(qp, swr)) {
            return 0;
        }

        if (fab_wr_is_read(&swr->wr)) {
            if ((swr->wr.opcode == IBV_WR_RDMA_READ) &&
                (swr->status == IBV_WC_SUCCESS)) {
                fab_exec_read_late(qp, &swr->wr, swr->sge, swr->length);
            }
            fab_timed_read_done(qp, swr->due_ack);
        }
        fab_qp_complete_send(qp, &swr->wr, sq->done, swr->length,
                             (enum ibv_wc_status)swr->status);
        ++sq->done;
        if (swr->status != IBV_WC_SUCCESS) {
            fab_qp_fail_locked(qp);
            return 1;
        }
    }
    return 0;
}

/* The same while acknowledgements are lost: when the last one that may has
   arrived, the first of them gets its status */
static int fab_timed_arrive_unacked(struct fab_qp *qp, struct fab_swr *swr,
                                    struct fab_exec_result *result)
{
    struct fab_sq *sq = &qp->sq;

    fab_exec_unanswered(qp, &swr->wr, swr->sge, swr->length, result);
    if ((result->end == FAB_EXEC_DONE) &&
        (result->status == IBV_WC_SUCCESS)) {
        swr->executed = 1;
        swr->status   = IBV_WC_SUCCESS;
        swr->due_ack  = UINT64_MAX;
        ++sq->exec;
        --sq->unacked_left;
    } else {
        sq->unacked_left = 0;
    }

    if (sq->unacked_left == 0) {
        sq->failed = 1;
        fab_sq_slot(sq, sq->unacked_index)->due_ack =
                swr->due_exec + fab_timed_delay(qp, fab_timed_there(qp));
    }
    return sq->unacked_left > 0;
}

/* The next WR arrives at the peer; @return 0 if it has to be tried again */
static int fab_timed_arrive(struct fab_qp *qp, struct fab_swr *swr,
                            struct fab_exec_result *result)
{
    struct fab_sq *sq = &qp->sq;
    enum ibv_wc_status status;

    if (sq->unacked) {
        return fab_timed_arrive_unacked(qp, swr, result);
    }

    fab_exec_wr(qp, &swr->wr, swr->sge, swr->length, result);
    status = result->status;
    if (result->end == FAB_EXEC_UNACKED) {
        swr->executed = 1;
        swr->status   = (uint8_t)sq->unacked_status;
        swr->due_ack  = fab_exec_unacked_due(qp);
        sq->rnrs      = 0;
        sq->losses    = 0;
        ++sq->exec;
        return 1;
    }
    if (result->end != FAB_EXEC_DONE) {
        status = fab_exec_retry(qp, result);
        if (status == IBV_WC_SUCCESS) {
            swr->due_exec = sq->due;
            return 0;
        }
    }

    swr->executed = 1;
    swr->status   = (uint8_t)status;
    swr->due_ack  = (qp->type == IBV_QPT_UD) ?
                            swr->due_exec :
                            (swr->due_exec +
                             fab_timed_delay(qp, fab_timed_there(qp)));
    sq->rnrs      = 0;
    sq->losses    = 0;
    sq->failed    = (status != IBV_WC_SUCCESS);
    ++sq->exec;
    return 1;
}

void fab_exec_timed(struct fab_qp *qp, uint64_t now,
                    struct fab_exec_result *result)
{
    struct fab_sq *sq = &qp->sq;
    struct fab_swr *swr;
    uint64_t ready;

    sq->due = 0;
    if (fab_timed_complete(qp, now)) {
        return;
    }

    ready = fab_timed_ready(qp);
    if (!sq->failed && (ready <= now)) {
        fab_timed_depart(qp, ready);
    }
    while (!sq->failed && (qp->state == IBV_QPS_RTS) &&
           (sq->exec != sq->sent)) {
        swr = fab_sq_slot(sq, sq->exec);
        if ((swr->due_exec > now) || !fab_timed_arrive(qp, swr, result)) {
            break;
        }
    }
    sq->due = fab_timed_due(qp);
}
