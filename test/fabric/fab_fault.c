/*
 * The faults in force: each hook's event against the rules of the script. May
 * call libc.
 */
#include "fab_fault.h"
#include "fab_config.h"
#include "fab_cq.h"
#include "fab_fault_time.h"
#include "fab_script.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Completions that are returned once more, as soon as there is room */
#define FAULT_MAX_AGAIN 64

/* A rule in force: its next run of hits is [next, next + count) */
typedef struct fault_state {
    uint64_t seen; /* matches so far */
    uint64_t next; /* from 1 */
} fault_state_t;

typedef struct fault_again {
    struct ibv_cq *cq;
    struct ibv_wc wc;
} fault_again_t;

int fab_fault_on;

/* All under the lock */
static struct {
    pthread_mutex_t  lock;
    int              count; /* rules */
    fab_fault_rule_t rules[FAB_SCRIPT_MAX_RULES];
    fault_state_t    states[FAB_SCRIPT_MAX_RULES];
    uint64_t         since; /* ns: when they came into force */
    uint64_t         seed;
    uint64_t         random;
    uint64_t         hits;
    uint64_t         calls[FAB_NUM_CALLS + 1];
    fault_again_t    again[FAULT_MAX_AGAIN];
    unsigned         num_again;
    unsigned         script;  /* counts scripts; atomic */
    unsigned         stalled; /* calls that wait in a rule; atomic */
} fault = {.lock = PTHREAD_MUTEX_INITIALIZER};

static __thread unsigned fault_stalls_here; /* see fab_fault_stalls_here() */

/* xorshift64*: never 0 */
static uint64_t fault_random(void)
{
    fault.random ^= fault.random >> 12;
    fault.random ^= fault.random << 25;
    fault.random ^= fault.random >> 27;
    return fault.random * 0x2545f4914f6cdd1dull;
}

/* The event is one that this rule is about: is it hit? */
static bool fault_hit(int i)
{
    const fab_fault_rule_t *rule = &fault.rules[i];
    fault_state_t *state         = &fault.states[i];
    uint64_t n                   = ++state->seen;

    if (rule->chance > 0) {
        if ((double)(fault_random() >> 11) >=
            rule->chance * (double)(1ull << 53)) {
            return false;
        }
    } else {
        if ((rule->every != 0) && (n >= state->next + rule->every)) {
            state->next += rule->every;
        }
        if ((n < state->next) || (n - state->next >= rule->count)) {
            return false;
        }
    }

    /* garbage is in successful completions too: it does not indicate an
     * error */
    fault.hits += (rule->kind != FAB_FAULT_GARBAGE);
    return true;
}

static bool fault_matches(uint32_t wanted, uint32_t value)
{
    return (wanted == FAB_SCRIPT_ANY) || (wanted == value);
}

static bool fault_qp_matches(const fab_fault_rule_t *rule, uint32_t dev,
                             uint32_t qpn)
{
    return fault_matches(rule->dev, dev) && fault_matches(rule->qpn, qpn);
}

/* Is it the time of a dark rule? From the clock of the fabric, so that it holds
 * for the virtual one too */
static bool fault_is_dark(const fab_fault_rule_t *rule)
{
    uint64_t passed = fab_now() - fault.since;

    if (passed < rule->at) {
        return false;
    }

    passed -= rule->at;
    return ((rule->every == 0) ? passed : (passed % rule->every)) < rule->until;
}

static bool fault_path_matches(const fab_fault_rule_t *rule, uint32_t path)
{
    if ((rule->path == FAB_SCRIPT_ANY) || (path == UINT32_MAX)) {
        return rule->path == FAB_SCRIPT_ANY;
    }

    return rule->path == ((rule->modulo == 0) ? path : (path % rule->modulo));
}

int fab_fault_call_on(enum fab_call call)
{
    const fab_fault_rule_t *rule;
    int error = 0;
    int i;

    pthread_mutex_lock(&fault.lock);
    ++fault.calls[call];
    ++fault.calls[FAB_NUM_CALLS];
    for (i = 0; (i < fault.count) && (error == 0); ++i) {
        rule = &fault.rules[i];
        if ((rule->kind == FAB_FAULT_CALL) &&
            fault_matches(rule->verb, call) && fault_hit(i)) {
            error = rule->error;
        }
    }

    pthread_mutex_unlock(&fault.lock);
    if (error != 0) {
        fab_verbose(1, "fault: ibv_%s fails: %s", fab_fault_call_name(call),
                    strerror(error));
    }

    return error;
}

/* Block the call for so long, or until another script is in force */
static void fault_stall(uint64_t ns, unsigned script)
{
    const useconds_t step = 1000; /* us */
    uint64_t left         = ns / 1000;

    ++fault_stalls_here;
    __atomic_fetch_add(&fault.stalled, 1, __ATOMIC_ACQ_REL);
    for (; (left > 0) &&
           (__atomic_load_n(&fault.script, __ATOMIC_ACQUIRE) == script);
         left -= (left < step) ? left : step) {
        usleep((left < step) ? (useconds_t)left : step);
    }
    __atomic_fetch_sub(&fault.stalled, 1, __ATOMIC_ACQ_REL);
}

unsigned fab_fault_stalled(void)
{
    return __atomic_load_n(&fault.stalled, __ATOMIC_ACQUIRE);
}

unsigned fab_fault_stalls_here(void)
{
    return fault_stalls_here;
}

int fab_fault_resolve_on(uint32_t dev)
{
    uint64_t stall = 0;
    int error      = 0;
    unsigned script;
    int i;

    pthread_mutex_lock(&fault.lock);
    for (i = 0; (i < fault.count) && (error == 0); ++i) {
        if ((fault.rules[i].kind == FAB_FAULT_RESOLVE) &&
            fault_matches(fault.rules[i].dev, dev) && fault_hit(i)) {
            error = fault.rules[i].error;
            stall = fault.rules[i].stall;
        }
    }

    script = fault.script;
    pthread_mutex_unlock(&fault.lock);
    if (error != 0) {
        fault_stall(stall, script);
        fab_verbose(1, "fault: fab%u: an address does not resolve: %s", dev,
                    strerror(error));
    }

    return error;
}

uint64_t fab_fault_linger_on(uint32_t dev, uint32_t qpn)
{
    uint64_t time = 0;
    int i;

    pthread_mutex_lock(&fault.lock);
    for (i = 0; (i < fault.count) && (time == 0); ++i) {
        if ((fault.rules[i].kind == FAB_FAULT_LINGER) &&
            fault_qp_matches(&fault.rules[i], dev, qpn) && fault_hit(i)) {
            time = fault.rules[i].until;
        }
    }

    pthread_mutex_unlock(&fault.lock);
    if (time != 0) {
        fab_verbose(1, "fault: fab%u qp 0x%x: goes on executing in ERR", dev, qpn);
    }

    return time;
}

static bool fault_is_longer(const struct ibv_send_wr *wr, uint64_t than)
{
    for (; (wr != NULL) && (than > 0); wr = wr->next) {
        --than;
    }

    return wr != NULL;
}

struct ibv_send_wr *fab_fault_chain_on(uint32_t dev, uint32_t qpn,
                                       struct ibv_send_wr *wr, int *error)
{
    const fab_fault_rule_t *rule = NULL;
    uint64_t after;
    int i;

    pthread_mutex_lock(&fault.lock);
    for (i = 0; (i < fault.count) && (rule == NULL); ++i) {
        if ((fault.rules[i].kind == FAB_FAULT_CHAIN) &&
            fault_qp_matches(&fault.rules[i], dev, qpn) &&
            fault_is_longer(wr, fault.rules[i].amount) && fault_hit(i)) {
            rule   = &fault.rules[i];
            *error = rule->error;
            for (after = rule->amount; after > 0; --after) {
                wr = wr->next;
            }
        }
    }

    pthread_mutex_unlock(&fault.lock);
    if (rule == NULL) {
        return NULL;
    }

    fab_verbose(1, "fault: fab%u qp 0x%x: refuses wr_id 0x%llx of a chain: %s",
                dev, qpn, (unsigned long long)wr->wr_id, strerror(*error));
    return wr;
}

static bool fault_consumes_recv(enum ibv_wr_opcode op)
{
    return (op == IBV_WR_SEND) || (op == IBV_WR_SEND_WITH_IMM) ||
           (op == IBV_WR_RDMA_WRITE_WITH_IMM);
}

static uint32_t fault_amount(const fab_fault_rule_t *rule)
{
    return (rule->amount > UINT32_MAX) ? UINT32_MAX : (uint32_t)rule->amount;
}

/* Does a dark rule keep the send away now? */
static bool fault_darkens(const fab_fault_rule_t *rule, const fab_fault_send_t *send)
{
    return fault_path_matches(rule, send->path) && fault_is_dark(rule) &&
           ((rule->link == FAB_SCRIPT_ANY) || (rule->link == send->link)) &&
           ((rule->amount == 0) ||
            ((send->path != UINT32_MAX) && (send->length > rule->amount)));
}

static bool fault_send_matches(const fab_fault_rule_t *rule,
                               const fab_fault_send_t *send)
{
    return fault_qp_matches(rule, send->dev, send->qpn) &&
           fault_matches(rule->opcode, send->op);
}

bool fab_fault_wr_on(const fab_fault_send_t *send, fab_wr_fault_t *result)
{
    fab_fault_kind_t kind = FAB_NUM_FAULT_KINDS;
    bool hit              = false;
    const fab_fault_rule_t *rule;
    int i;

    pthread_mutex_lock(&fault.lock);
    for (i = 0; (i < fault.count) && !hit; ++i) {
        rule = &fault.rules[i];
        kind = rule->kind;
        switch (kind) {
        case FAB_FAULT_WR:
            result->kind = FAB_WR_FAULT_FAIL;
            result->part = fault_amount(rule);
            break;
        case FAB_FAULT_UNACKED:
            result->kind = FAB_WR_FAULT_UNACKED;
            result->more = fault_amount(rule);
            break;
        case FAB_FAULT_LOSE:
            result->kind = FAB_WR_FAULT_LOST;
            break;
        case FAB_FAULT_DARK:
            if (!fault_darkens(rule, send)) {
                continue;
            }
            result->kind = FAB_WR_FAULT_LOST;
            break;
        case FAB_FAULT_RNR:
            if (!fault_consumes_recv(send->op)) {
                continue;
            }
            result->kind = FAB_WR_FAULT_RNR;
            break;
        case FAB_FAULT_KILL:
            if ((rule->at == FAB_SCRIPT_NEVER) &&
                fault_send_matches(rule, send) && fault_hit(i)) {
                fab_fault_kill(rule, fault_amount(rule));
            }
            continue;
        default:
            continue;
        }

        result->status = (enum ibv_wc_status)rule->status;
        hit            = fault_send_matches(rule, send) && fault_hit(i);
    }

    pthread_mutex_unlock(&fault.lock);
    if (hit) {
        fab_verbose(1, "fault: fab%u qp 0x%x: %s a send", send->dev, send->qpn,
                    fab_fault_kind_name(kind));
    }

    return hit;
}

/* The first rule of this kind that a completion hits, or NULL */
static const fab_fault_rule_t *fault_cqe(fab_fault_kind_t kind, uint32_t dev,
                                         const struct ibv_wc *wc)
{
    const fab_fault_rule_t *rule;
    enum fab_fault_dir dir;
    int i;

    /* The opcode of an error is undefined: the fabric knows it all the same
       before it is spoilt */
    dir = (wc->opcode & IBV_WC_RECV) ? FAB_FAULT_DIR_RECV : FAB_FAULT_DIR_SEND;
    for (i = 0; i < fault.count; ++i) {
        rule = &fault.rules[i];
        if ((rule->kind == kind) &&
            fault_qp_matches(rule, dev, wc->qp_num) &&
            fault_matches(rule->status, wc->status) &&
            ((rule->dir == FAB_FAULT_DIR_ANY) || (rule->dir == dir)) &&
            fault_hit(i)) {
            fab_verbose(1, "fault: fab%u qp 0x%x: %s, wr_id 0x%llx", dev,
                        wc->qp_num, fab_fault_kind_name(kind),
                        (unsigned long long)wc->wr_id);
            return rule;
        }
    }

    return NULL;
}

/* Numbers that a caller that believes them will stumble over */
static void fault_spoil(struct ibv_wc *wc)
{
    static const enum ibv_wc_opcode opcodes[] = {
        IBV_WC_SEND,      IBV_WC_RDMA_WRITE, IBV_WC_RDMA_READ,
        IBV_WC_FETCH_ADD, IBV_WC_RECV,       IBV_WC_RECV_RDMA_WITH_IMM
    };
    uint64_t bits = fault_random();

    wc->opcode         = opcodes[bits % 6];
    wc->byte_len       = (uint32_t)(bits >> 8);
    wc->imm_data       = (uint32_t)(bits >> 16);
    wc->src_qp         = (uint32_t)(bits >> 24) & 0xffffff;
    wc->wc_flags       = (unsigned)(bits >> 32) &
                         (IBV_WC_GRH | IBV_WC_WITH_IMM);
    wc->pkey_index     = (uint16_t)(bits >> 36);
    wc->slid           = (uint16_t)(bits >> 40);
    wc->sl             = (uint8_t)(bits >> 44);
    wc->dlid_path_bits = (uint8_t)(bits >> 52);
}

/* Completions of this CQ that are to be returned once more */
static int fault_take_again(struct ibv_cq *cq, struct ibv_wc *wc, int count,
                            int max)
{
    unsigned i = 0;

    while ((i < fault.num_again) && (count < max)) {
        if (fault.again[i].cq != cq) {
            ++i;
            continue;
        }

        wc[count++]    = fault.again[i].wc;
        fault.again[i] = fault.again[--fault.num_again];
    }

    return count;
}

/* There is room for one more; if it is to come again, as what? */
static void fault_duplicate(struct ibv_cq *cq, uint32_t dev,
                            const struct ibv_wc *wc)
{
    const fab_fault_rule_t *rule = fault_cqe(FAB_FAULT_DUPLICATE, dev, wc);
    fault_again_t *again         = &fault.again[fault.num_again];

    if (rule == NULL) {
        return;
    }

    ++fault.num_again;
    again->cq        = cq;
    again->wc        = *wc;
    again->wc.wr_id ^= rule->bits;
    if (rule->as != FAB_SCRIPT_ANY) {
        again->wc.status = (enum ibv_wc_status)rule->as;
        if (rule->as != IBV_WC_SUCCESS) {
            fault_spoil(&again->wc);
        }
    }
}

int fab_fault_polled_on(struct ibv_cq *cq, struct ibv_wc *wc, int count,
                        int max)
{
    uint32_t dev = fab_cq_of(cq)->dev;
    int kept     = 0;
    int i;

    if (count < 0) {
        return count;
    }

    pthread_mutex_lock(&fault.lock);
    for (i = 0; i < count; ++i) {
        if (fault_cqe(FAB_FAULT_WITHHOLD, dev, &wc[i]) != NULL) {
            continue;
        }
        wc[kept] = wc[i];
        if (fault.num_again < FAULT_MAX_AGAIN) {
            fault_duplicate(cq, dev, &wc[kept]);
        }
        if ((wc[kept].status != IBV_WC_SUCCESS) &&
            (fault_cqe(FAB_FAULT_GARBAGE, dev, &wc[kept]) != NULL)) {
            fault_spoil(&wc[kept]);
        }
        ++kept;
    }

    count = fault_take_again(cq, wc, kept, max);
    pthread_mutex_unlock(&fault.lock);
    return count;
}

void fab_fault_cq_gone(const struct ibv_cq *cq)
{
    unsigned i = 0;

    pthread_mutex_lock(&fault.lock);
    while (i < fault.num_again) {
        if (fault.again[i].cq == cq) {
            fault.again[i] = fault.again[--fault.num_again];
        } else {
            ++i;
        }
    }
    pthread_mutex_unlock(&fault.lock);
}

/* ---- the script ---- */

/* Under the lock: these rules are in force, from now on */
static void fault_install(const fab_fault_rule_t *rules, int count)
{
    int i;

    memset(fault.states, 0, sizeof(fault.states));
    memset(fault.calls, 0, sizeof(fault.calls));
    memcpy(fault.rules, rules, (size_t)count * sizeof(*rules));
    fault.count     = count;
    fault.since     = fab_now();
    fault.hits      = 0;
    fault.num_again = 0;
    fault.random    = fault.seed;
    for (i = 0; i < count; ++i) {
        fault.states[i].next = rules[i].nth;
        if (rules[i].kind == FAB_FAULT_SEED) {
            fault.random = rules[i].value;
        }
    }

    fault.random = (fault.random + 1) * 0x9e3779b97f4a7c15ull;
    fault.random = (fault.random == 0) ? 1 : fault.random;
    __atomic_fetch_add(&fault.script, 1, __ATOMIC_ACQ_REL);
    __atomic_store_n(&fab_fault_on, count > 0, __ATOMIC_RELEASE);
}

int fab_fault_set(const char *script, char *error, size_t size)
{
    fab_fault_rule_t rules[FAB_SCRIPT_MAX_RULES];
    int count = fab_script_parse((script == NULL) ? "" : script, rules, error,
                                 size);
    int rc;

    if (count < 0) {
        return -1;
    }

    pthread_mutex_lock(&fault.lock);
    fault_install(rules, count);
    pthread_mutex_unlock(&fault.lock);
    rc = fab_fault_time_set(rules, count);
    if ((rc != 0) && (error != NULL)) {
        snprintf(error, size, "no thread: %s", strerror(rc));
    }

    return (rc == 0) ? 0 : -1;
}

int fab_fault_do(const char *script, char *error, size_t size)
{
    fab_fault_rule_t rules[FAB_SCRIPT_MAX_RULES];
    int count = fab_script_parse_now(script, rules, error, size);
    int rc, i;

    for (i = 0; i < count; ++i) {
        rc = fab_fault_time_act(&rules[i], false);
        if (rc != 0) {
            if (error != NULL) {
                snprintf(error, size, "%s: %s",
                         fab_fault_kind_name(rules[i].kind), strerror(rc));
            }
            return -1;
        }
    }

    return (count < 0) ? -1 : 0;
}

void fab_fault_init(const char *script, uint64_t seed)
{
    char error[128];

    fault.seed = seed;
    if (fab_fault_set(script, error, sizeof(error)) != 0) {
        fab_log("VQP_FABRIC_FAULTS: %s", error);
        _exit(2);
    }
}

uint64_t fab_fault_hits(void)
{
    uint64_t hits;

    pthread_mutex_lock(&fault.lock);
    hits = fault.hits;
    pthread_mutex_unlock(&fault.lock);
    return hits + fab_fault_time_hits();
}

uint64_t fab_fault_calls(enum fab_call call)
{
    uint64_t calls;

    pthread_mutex_lock(&fault.lock);
    calls = fault.calls[call];
    pthread_mutex_unlock(&fault.lock);
    return calls;
}
