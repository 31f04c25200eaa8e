/*
 * API violations: rules of the specification for the caller that hardware does
 * not check, or checks late. The hooks record the queue pairs, completion
 * queues and work requests of this process, from posts and polls. Each
 * violation is reported in a line that names the object and the rule.
 *
 * VQP_FABRIC_VIOLATIONS: off; warn: a line each, and a count at the end; fail:
 * the same, and the process ends with status 86; abort: at the first one.
 * While it is off, a hook is one load and one branch, and nothing is recorded.
 * When it is switched on later, only objects created after that are watched.
 *
 * Not watched: memory of requests of a queue pair in ERR, receives of an SRQ,
 * and the sends of a UD queue pair when it is destroyed: unsignaled ones have
 * no completion there.
 *
 * Locking: books of one QP have one lock; a signal handler may be inside
 * another QP's.
 */
#ifndef FAB_VIOLATIONS_H
#define FAB_VIOLATIONS_H

#include "fab_config.h"

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAB_VIOLATIONS_EXIT_STATUS 86

/* Name of the rule, and what is against it */
#define FAB_RULES(_X) \
    _X(SQ_DEPTH, sq_depth, "more sends posted than the send queue holds") \
    _X(RQ_DEPTH, rq_depth, "more receives posted than the queue holds") \
    _X(LOCAL_KEY, local_key, "an lkey, address or length that is not valid") \
    _X(REMOTE_KEY, remote_key, "an rkey, address or length that is not valid") \
    _X(CHANGED, changed, "source of a send changed before its completion") \
    _X(UNMAPPED, unmapped, "source of a send unmapped before its completion") \
    _X(DEREG, dereg, "memory of posted requests deregistered") \
    _X(QP_LEFT, qp_left, "QP destroyed before its completions were polled") \
    _X(EVENTS, events, "destroyed with events that were not acknowledged") \
    _X(CQ_SLOTS, cq_slots, "more requests posted than the CQ has slots for") \
    _X(CQ_OVERRUN, cq_overrun, "a completion found the CQ full")

#define FAB_RULE_ENUM(_upper, _lower, _text) FAB_RULE_##_upper,
enum fab_rule {
    FAB_RULES(FAB_RULE_ENUM)
    FAB_NUM_RULES
};
#undef FAB_RULE_ENUM

/* Set by fab_violations_set only */
extern enum fab_violations_level fab_violations_level;

#define fab_violations_on() \
    (__builtin_expect(fab_violations_level, FAB_VIOLATIONS_OFF) != \
     FAB_VIOLATIONS_OFF)

/**
 * @param level  off, warn, fail or abort. @return 0 or EINVAL: nothing changes.
 */
int fab_violations_set(const char *level);

/**
 * Report a violation that the fabric itself detects (keys, overruns). Does
 * nothing while violations are off.
 *
 * @param device  Name of the device.
 * @param object  "qp", "cq", "srq" or "mr", and its number.
 * @param format  The details, without a full stop.
 */
void fab_violations_report(enum fab_rule rule, const char *device,
                           const char *object, uint32_t number,
                           const char *format, ...)
        __attribute__((format(printf, 5, 6)));

/* Violations against a rule, by its name, or all if NULL; the last one's line */
uint64_t fab_violations_count(const char *rule);
void fab_violations_reset(void);
void fab_violations_last(char *text, size_t size);

/*
 * The hooks, below. Each is called by the verb of its name, in the process of
 * the caller, only if fab_violations_on().
 */

/* After success; @a cap is what was granted */
void fab_violations_create_qp(const struct ibv_qp *qp,
                              const struct ibv_qp_cap *cap, bool sq_sig_all);

/* After success of a change to this state: RESET forgets what was posted */
void fab_violations_modify_qp(const struct ibv_qp *qp, enum ibv_qp_state state);

/* Before it is destroyed, when that can not fail any more */
void fab_violations_destroy_qp(const struct ibv_qp *qp);

/* Before the WRs are checked */
void fab_violations_post_send(const struct ibv_qp *qp,
                              const struct ibv_send_wr *wr);
void fab_violations_post_recv(const struct ibv_qp *qp,
                              const struct ibv_recv_wr *wr);

/* The post failed: this WR and what follows it were not accepted */
void fab_violations_unpost_send(const struct ibv_qp *qp,
                                const struct ibv_send_wr *bad_wr);
void fab_violations_unpost_recv(const struct ibv_qp *qp,
                                const struct ibv_recv_wr *bad_wr);

/* Completions taken from the CQ, before faults modify them */
void fab_violations_polled(const struct ibv_cq *cq, const struct ibv_wc *wc,
                           int count);

/* After success; @a cqe is what was granted */
void fab_violations_create_cq(const struct ibv_cq *cq, int cqe);
void fab_violations_resize_cq(const struct ibv_cq *cq, int cqe);

/* Before it is destroyed, when that can not fail any more: events delivered
 * but not acknowledged, of completions and asynchronous ones */
void fab_violations_destroy_cq(const struct ibv_cq *cq,
                               unsigned unacknowledged);

/* Before it is deregistered */
void fab_violations_dereg_mr(const struct ibv_mr *mr);

/* Completions of a QP that were polled; 0 if it is not watched */
uint64_t fab_violations_cqes(const char *device, uint32_t qpn);

#endif
