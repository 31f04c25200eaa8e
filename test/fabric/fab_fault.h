/*
 * Faults: a script of rules that say which call fails, which work request ends
 * in an error, what becomes of a completion, and when a queue pair or a port
 * goes down. From VQP_FABRIC_FAULTS, or at run time through fabric.h.
 *
 * The script: rules with ';' or a new line between them, '#' for a comment. A
 * rule is a kind and then KEY=VALUE pairs, with blanks between them.
 *
 *   call         a call of a verb fails
 *                verb=NAME    without "ibv_" or "mlx5dv_", one of FAB_CALLS; any
 *                             if left out
 *                errno=E      a name or a number; ENOMEM if left out
 *   resolve      the address of a peer does not resolve: ibv_create_ah fails, and
 *                ibv_modify_qp to RTR, of the device dev=, or any. Ethernet only
 *                errno=E      ETIMEDOUT if left out
 *                stall=TIME   of the machine's clock, that the call takes before; 0
 *                             if left out. Another script ends it
 *   chain        ibv_post_send accepts the first WRs of a chain and refuses the
 *                next one: *bad_wr is that one. Only chains of more WRs count
 *                after=K      so many are accepted; 0 if left out
 *                errno=E      as for call
 *   wr           a send ends in an error and its QP in ERR; the peer never sees
 *                it. For an error of the responder the peer goes to ERR too.
 *                status=S     of enum ibv_wc_status, without "IBV_WC_";
 *                             RETRY_EXC_ERR if left out
 *                op=O         of enum ibv_wr_opcode, without "IBV_WR_"; any
 *                part=N       of a write the peer has executed the first N
 *                             packets, but never the last one; 0 if left out
 *   unacked      the same, but the peer has executed it: the acknowledgement
 *                was lost, or the answer of a READ or an atomic, which does not
 *                reach the sender's memory. status= and op= as for wr
 *                more=K       the peer executes up to K further sends of the QP
 *                             as they are posted, and acknowledges none. The QP
 *                             fails with the K-th, or when its retries have run
 *                             out: this send with the status, the others
 *                             flushed. "all": by the retries only. 0 if left
 *                             out: the QP fails at once. RC only. A send that
 *                             waits for an answer that was lost (fence flag,
 *                             depth of READs) is not executed, nor those behind
 *   lose         a send gets no answer, this time, and is not executed: the
 *                QP's time-out and retries follow. Each attempt counts. op= as
 *                for wr. A datagram is sent with success, and does not arrive
 *   dark         sends get no answer at=TIME, for=TIME, as for lose; for ever if
 *                for= is left out. path=N or path=N/M as for rate: the sends of
 *                these RC QPs only; without path= and qpn= also datagrams
 *                link=N       those that take this one of LINKS, of each device
 *                over=N       RC sends of more than N bytes only, as on a link
 *                             whose MTU is too small
 *   rnr          a send that consumes a receive finds none, this time
 *   withhold     a completion that was there is never seen by ibv_poll_cq
 *   duplicate    ibv_poll_cq returns a completion twice
 *                dir=D        for both: send or recv; any if left out
 *                status=S     for both: of that status; any if left out
 *                xor=N        the second one has these bits of wr_id changed:
 *                             a completion that is not of this WR
 *                as=S         the second one has this status
 *   garbage      an error completion has garbage in all fields that the
 *                specification leaves undefined: all but wr_id, status, qp_num
 *                and vendor_err. status= as for withhold
 *   linger       a QP that goes to ERR by ibv_modify_qp, or with a send of its own, goes
 *                on executing what the peer sends, as with Soft-RoCE: its sends are
 *                flushed at once, its receives for=TIME later. That is the end of it.
 *                for= is needed. RC only
 *   qp           a QP goes to ERR, at=TIME. With path=N or path=N/M, as for
 *                rate: the connected RC QPs of this process with that number
 *   port         a port goes down, at=TIME, and up again, for=TIME; never if
 *                for= is left out; dev=, port=N (1)
 *   gids         (Ethernet) each GID of a port moves to its configured index plus
 *                to=N, at=TIME, and back, for=TIME; one beyond the end of the
 *                table is gone. Raises IBV_EVENT_GID_CHANGE; dev=, port=N (1).
 *                The old index is empty then, or has another GID, and what is
 *                sent with an address handle of before is lost. Queue pairs
 *                that are connected go on
 *   rate         (timed mode) paths of this process, or a port of the world,
 *                have another rate, at=TIME, to=Mb/s; with for=TIME only for
 *                so long, then the configured one. port=N, or path=N, or
 *                path=N/M: all with number N modulo M; dev=, qpn=; all if left
 *                out. Numbers are those of the lists of fabric-run --options:
 *                with LINKS those of links
 *   delay        the same for the delay, to=TIME
 *   kill         the process ends by SIGKILL: at=TIME, or when a send of its
 *                own is about to execute, counted as for wr (op=, dev=, qpn=).
 *                role=NAME  one that has this VQP_FABRIC_ROLE
 *                part=1     in the middle of it: the completion of the receive is
 *                           in the CQ, and the receive still in its queue
 *                proc=N     the one with this place in its world: the first to
 *                           come has 0, and a free place is taken again
 *                The script is one for all processes of a job: name one
 *
 * The kinds of a QP or a completion take dev=NAME and qpn=N, and are about any
 * device and QP if these are left out.
 * When: all but dark, qp, port, gids, rate and delay count what they match, in this
 * process.
 *   nth=N    the first that is hit; 1 if left out
 *   count=N  how many in a row are hit, from there on; 1 if left out, or "all"
 *   every=N  the next run of hits begins N after the last began
 *   p=X      instead: each is hit with this probability, by the seed
 * TIME is a number with ns, us, ms or s; it counts from the moment when the
 * script came into force. every=TIME repeats a rule.
 * Random numbers come from VQP_FABRIC_SEED; a seed=N rule of its own ("seed
 * value=7") overrides it.
 *
 *   call verb=reg_mr nth=3 errno=EINVAL; wr op=RDMA_READ nth=10
 *   chain after=2; unacked nth=50 more=5; duplicate xor=0x10000 as=WR_FLUSH_ERR
 *   rnr p=0.1; garbage count=all; port dev=fab0 at=5ms for=20ms
 *   rate at=500ms dev=fab1 port=1 to=5000; rate at=1s path=2/4 to=1000
 *   dark path=0/4 at=0s for=20ms every=50ms; qp path=1/4 at=1ms every=30ms
 *
 * Without a script, a hook is one load and one branch that is never taken.
 */
#ifndef FAB_FAULT_H
#define FAB_FAULT_H

#include <infiniband/verbs.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Verbs that can fail. Those that return a pointer return NULL, with errno. */
#define FAB_CALLS(_X) \
    _X(GET_DEVICE_LIST, get_device_list) \
    _X(OPEN_DEVICE, open_device) \
    _X(CLOSE_DEVICE, close_device) \
    _X(QUERY_DEVICE, query_device) \
    _X(QUERY_PORT, query_port) \
    _X(QUERY_GID, query_gid) \
    _X(QUERY_PKEY, query_pkey) \
    _X(GET_ASYNC_EVENT, get_async_event) \
    _X(ALLOC_PD, alloc_pd) \
    _X(DEALLOC_PD, dealloc_pd) \
    _X(REG_MR, reg_mr) \
    _X(DEREG_MR, dereg_mr) \
    _X(CREATE_COMP_CHANNEL, create_comp_channel) \
    _X(DESTROY_COMP_CHANNEL, destroy_comp_channel) \
    _X(GET_CQ_EVENT, get_cq_event) \
    _X(CREATE_CQ, create_cq) \
    _X(RESIZE_CQ, resize_cq) \
    _X(DESTROY_CQ, destroy_cq) \
    _X(REQ_NOTIFY_CQ, req_notify_cq) \
    _X(POLL_CQ, poll_cq) \
    _X(CREATE_SRQ, create_srq) \
    _X(MODIFY_SRQ, modify_srq) \
    _X(QUERY_SRQ, query_srq) \
    _X(DESTROY_SRQ, destroy_srq) \
    _X(POST_SRQ_RECV, post_srq_recv) \
    _X(CREATE_QP, create_qp) \
    _X(MODIFY_QP, modify_qp) \
    _X(QUERY_QP, query_qp) \
    _X(DESTROY_QP, destroy_qp) \
    _X(POST_SEND, post_send) \
    _X(POST_RECV, post_recv) \
    _X(CREATE_AH, create_ah) \
    _X(DESTROY_AH, destroy_ah) \
    _X(QUERY_QP_LAG_PORT, query_qp_lag_port) \
    _X(MODIFY_QP_LAG_PORT, modify_qp_lag_port) \
    _X(MODIFY_QP_UDP_SPORT, modify_qp_udp_sport)

#define FAB_CALL_ENUM(_upper, _lower) FAB_CALL_##_upper,
enum fab_call {
    FAB_CALLS(FAB_CALL_ENUM)
    FAB_NUM_CALLS
};
#undef FAB_CALL_ENUM

typedef enum fab_wr_fault_kind {
    FAB_WR_FAULT_FAIL,    /* ends with the status, not executed, but for... */
    FAB_WR_FAULT_UNACKED, /* executed whole, then ends with the status */
    FAB_WR_FAULT_RNR,     /* the responder answers with an RNR NAK */
    FAB_WR_FAULT_LOST     /* no answer */
} fab_wr_fault_kind_t;

typedef struct fab_wr_fault {
    fab_wr_fault_kind_t kind;
    enum ibv_wc_status  status;
    uint32_t            part; /* FAIL: ... so many packets of a write */
    uint32_t            more; /* UNACKED: so many further WRs are executed */
} fab_wr_fault_t;

/** A send that is about to execute. */
typedef struct fab_fault_send {
    uint32_t           dev;    /* index of the device of the QP */
    uint32_t           qpn;
    uint32_t           path;   /* its number; UINT32_MAX: it has none */
    uint32_t           link;   /* that it takes; UINT32_MAX: none */
    enum ibv_wr_opcode op;
    uint32_t           length; /* bytes */
} fab_fault_send_t;

/* Nonzero while a script with rules is in force. Read by the hooks only. */
extern int fab_fault_on; /* atomic */

static inline int fab_fault_is_on(void)
{
    return __builtin_expect(__atomic_load_n(&fab_fault_on, __ATOMIC_RELAXED), 0);
}

/* The part of this thread's message at which a kill rule ends the process: 0: none */
extern __thread uint32_t fab_fault_kill_part;

/* The parts of the hooks that run while it is */
int fab_fault_call_on(enum fab_call call);
int fab_fault_resolve_on(uint32_t dev);
struct ibv_send_wr *fab_fault_chain_on(uint32_t dev, uint32_t qpn,
                                       struct ibv_send_wr *wr, int *error);
uint64_t fab_fault_linger_on(uint32_t dev, uint32_t qpn);
bool fab_fault_wr_on(const fab_fault_send_t *send, fab_wr_fault_t *fault);
int fab_fault_polled_on(struct ibv_cq *cq, struct ibv_wc *wc, int count,
                        int max);

/**
 * Asked at the start of each verb.
 *
 * @return 0, or the errno with which the call fails, having done nothing.
 */
static inline int fab_fault_call(enum fab_call call)
{
    return fab_fault_is_on() ? fab_fault_call_on(call) : 0;
}

/**
 * Asked when the address of a peer is resolved. May block.
 *
 * @return 0, or the errno of what does not resolve.
 */
static inline int fab_fault_resolve(uint32_t dev)
{
    return fab_fault_is_on() ? fab_fault_resolve_on(dev) : 0;
}

/**
 * Asked when a QP is moved to ERR.
 *
 * @return ns for which it goes on executing.
 */
static inline uint64_t fab_fault_linger(uint32_t dev, uint32_t qpn)
{
    return fab_fault_is_on() ? fab_fault_linger_on(dev, qpn) : 0;
}

/**
 * Asked for each chain of sends.
 *
 * @param wr     Its first WR.
 * @param error  Set to the errno, if one is refused.
 * @return The WR that is refused, with all behind it; NULL: none.
 */
static inline struct ibv_send_wr *
fab_fault_chain(uint32_t dev, uint32_t qpn, struct ibv_send_wr *wr, int *error)
{
    return fab_fault_is_on() ?
                   fab_fault_chain_on(dev, qpn, wr, error) : NULL;
}

/**
 * Asked when a send is about to execute: also again when it was put back, for
 * an RNR NAK for example. For FAB_WR_FAULT_RNR only if the send consumes a
 * receive.
 *
 * @param fault  Set if the answer is true.
 * @return Whether something is wrong with it.
 */
static inline bool fab_fault_wr(const fab_fault_send_t *send, fab_wr_fault_t *fault)
{
    return fab_fault_is_on() && fab_fault_wr_on(send, fault);
}

/** Told in the middle of a message: a kill rule with part=1 ends the process. */
static inline void fab_fault_middle(void)
{
    if (__builtin_expect(fab_fault_kill_part != 0, 0)) {
        raise(SIGKILL);
    }
}

/**
 * Told what ibv_poll_cq is about to return; it may take completions out, add
 * some, or spoil their undefined fields. Called for each poll, also with
 * @a count 0, in the process that polls, without locks held.
 *
 * @param max  Room in @a wc.
 * @return How many ibv_poll_cq returns now.
 */
static inline int fab_fault_polled(struct ibv_cq *cq, struct ibv_wc *wc,
                                   int count, int max)
{
    return fab_fault_is_on() ?
                   fab_fault_polled_on(cq, wc, count, max) : count;
}

/**
 * The script of VQP_FABRIC_FAULTS comes into force; called once, at the first
 * use of the fabric in a process. A script that is wrong ends the process with
 * a message: a test must not run without its faults.
 */
void fab_fault_init(const char *script, uint64_t seed);

/**
 * A script replaces the one in force. NULL or empty: none.
 *
 * @return 0, or -1 with the reason in @a error: the old one stays then.
 */
int fab_fault_set(const char *script, char *error, size_t size);

/**
 * Do what the rules of a kind with a time say, now and once; at=, for= and
 * every= are not looked at. The script in force stays. at= may be left out.
 *
 * @return 0, or -1 with the reason in @a error; rules before it are done then.
 */
int fab_fault_do(const char *script, char *error, size_t size);

/* Faults made, without garbage, and calls of one verb (FAB_NUM_CALLS: of all), since the script
 * came into force; calls are counted only while one with rules is. */
uint64_t fab_fault_hits(void);

/** Calls that a rule with stall= holds up now. */
unsigned fab_fault_stalled(void);

/** Calls of this thread that such a rule has held up, since the thread began. */
unsigned fab_fault_stalls_here(void);

uint64_t fab_fault_calls(enum fab_call call);

/* Names of verbs are without "ibv_"; FAB_NUM_CALLS if there is no such verb */
enum fab_call fab_fault_call_by_name(const char *name);
const char *fab_fault_call_name(enum fab_call call);

/* A CQ is about to be destroyed: forget its completions */
void fab_fault_cq_gone(const struct ibv_cq *cq);

#endif
