/*
 * Timed mode: when WRs leave, arrive and are acknowledged. Each QP is a path
 * with a delay, a jitter and a rate of its own; the QPs of a port share its
 * rate. May call fab_exec, fab_qp.
 */
#include "fab_exec.h"

#include "fab_config.h"

static uint64_t fab_timed_random(uint64_t *state)
{
    uint64_t z;

    *state += 0x9e3779b97f4a7c15ULL;
    z       = *state;
    z       = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z       = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

/* ns that so many bytes take; headers are left out */
static uint64_t fab_timed_wire(uint64_t length, uint64_t mbps)
{
    return (mbps == 0) ? 0 : ((length * 8 * 1000) / mbps);
}

/* Take the port's time, @return when the sending begins: not before @a from,
 * when the queue pair has sent what is ahead. The port goes on with what other
 * queue pairs have until then: its own queue has no such gaps. */
static uint64_t fab_timed_port(struct fab_port *port, uint64_t from,
                               uint64_t length, uint64_t now)
{
    uint64_t mbps = (fab_config.port_mbps != 0) ?
                            fab_config.port_mbps :
                            fab_config_link_mbps(&fab_config);
    uint64_t busy = __atomic_load_n(&port->busy_till, __ATOMIC_RELAXED);
    uint64_t start;

    do {
        start = (busy > now) ? busy : now;
    } while (!__atomic_compare_exchange_n(&port->busy_till, &busy,
                                          start + fab_timed_wire(length, mbps),
                                          0, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    return (start > from) ? start : from;
}

/* Who sends the data: of a READ it is the peer */
static struct fab_port *fab_timed_source(const struct fab_qp *qp,
                                         const struct ibv_send_wr *wr)
{
    if ((wr->opcode == IBV_WR_RDMA_READ) && (qp->peer != 0)) {
        return &fab_world->devs[qp->peer_dev].ports[qp->peer_port - 1];
    }
    return &fab_world->devs[qp->dev].ports[qp->attr.port_num - 1];
}

void fab_exec_schedule(struct fab_qp *qp, struct fab_swr *swr, uint64_t now)
{
    struct fab_port *port = fab_timed_source(qp, &swr->wr);
    struct fab_sq *sq     = &qp->sq;
    uint64_t start        = (sq->wire_free > now) ? sq->wire_free : now;
    uint64_t jitter       = 0;
    uint64_t due;

    start         = fab_timed_port(port, start, swr->length, now);
    sq->wire_free = start + fab_timed_wire(swr->length, fab_config.path_mbps);
    if (fab_config.jitter != 0) {
        jitter = fab_timed_random(&sq->jitter) % (fab_config.jitter + 1);
    }

    /* RC: what left later arrives later */
    due           = sq->wire_free + fab_config.delay + jitter;
    swr->due_send = start;
    swr->due_exec = (due > sq->last_exec) ? due : sq->last_exec;
    sq->last_exec = swr->due_exec;
    if ((sq->due == 0) ||
        ((sq->exec == (sq->head - 1)) && (swr->due_exec < sq->due))) {
        sq->due = swr->due_exec;
    }
}

/* The acknowledged ones complete; @return nonzero if the QP has failed */
static int fab_timed_complete(struct fab_qp *qp, uint64_t now)
{
    struct fab_sq *sq = &qp->sq;
    struct fab_swr *swr;

    while (sq->done != sq->exec) {
        swr = fab_sq_slot(sq, sq->done);
        if (swr->due_ack > now) {
            return 0;
        }

        if (fab_wr_is_read(&swr->wr)) {
            --sq->reads;
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

/* Whether the next WR has to wait for READs before it */
static int fab_timed_blocked(const struct fab_qp *qp, const struct fab_swr *swr)
{
    uint32_t depth = qp->attr.max_rd_atomic;

    if ((swr->wr.send_flags & IBV_SEND_FENCE) && (qp->sq.reads > 0)) {
        return 1;
    }
    return fab_wr_is_read(&swr->wr) && (depth > 0) && (qp->sq.reads >= depth);
}

/* The next WR arrives at the peer; @return 0 if it has to be tried again */
static int fab_timed_arrive(struct fab_qp *qp, struct fab_swr *swr,
                            uint64_t now, struct fab_exec_result *result)
{
    struct fab_sq *sq         = &qp->sq;
    enum ibv_wc_status status;

    fab_exec_wr(qp, &swr->wr, swr->sge, swr->length, result);
    status = result->status;
    if (result->end != FAB_EXEC_DONE) {
        status = fab_exec_retry(qp, result);
        if (status == IBV_WC_SUCCESS) {
            swr->due_exec = sq->due;
            return 0;
        }
    }

    swr->executed = 1;
    swr->status   = (uint8_t)status;
    swr->due_ack  = (qp->type == IBV_QPT_UD) ? now : (now + fab_config.delay);
    sq->rnrs      = 0;
    sq->losses    = 0;
    sq->failed    = (status != IBV_WC_SUCCESS);
    if (fab_wr_is_read(&swr->wr)) {
        ++sq->reads;
    }
    ++sq->exec;
    return 1;
}

void fab_exec_timed(struct fab_qp *qp, uint64_t now,
                    struct fab_exec_result *result)
{
    struct fab_sq *sq = &qp->sq;
    struct fab_swr *swr;

    for (;;) {
        sq->due = 0;
        if (fab_timed_complete(qp, now) || (sq->done == sq->head)) {
            return;
        }

        /* due: the next ACK, or the next arrival, whatever is first */
        if (sq->done != sq->exec) {
            sq->due = fab_sq_slot(sq, sq->done)->due_ack;
        }
        if ((sq->exec == sq->head) || sq->failed ||
            (qp->state != IBV_QPS_RTS)) {
            return;
        }

        swr = fab_sq_slot(sq, sq->exec);
        if (fab_timed_blocked(qp, swr)) {
            return;
        }

        if ((swr->due_exec > now) || !fab_timed_arrive(qp, swr, now, result)) {
            if ((sq->due == 0) || (swr->due_exec < sq->due)) {
                sq->due = swr->due_exec;
            }
            return;
        }
    }
}
