/*
 * Faults that happen at a time, from a thread that sleeps in between. May call
 * libc and fab_control.
 */
#include "fab_fault_time.h"
#include "fab_config.h"
#include "fab_control.h"
#include "fab_world.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

/* A rule in force. ns of the monotonic clock, FAB_SCRIPT_NEVER: not at all */
typedef struct time_rule {
    fab_fault_rule_t rule;
    uint64_t         next; /* when it happens */
    uint64_t         up;   /* when the port that it took down comes back */
} time_rule_t;

/* All under the lock */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t  changed; /* other rules: for the thread */
    int             thread;  /* it runs */
    int             count;
    time_rule_t     rules[FAB_SCRIPT_MAX_RULES];
    uint64_t        hits;
} timed = {.lock = PTHREAD_MUTEX_INITIALIZER};

typedef struct time_act {
    fab_fault_kind_t kind;
    uint32_t         dev, qpn, port;
    int              up;
} time_act_t;

static void time_act(const time_act_t *act)
{
    int rc;

    if (act->kind == FAB_FAULT_QP) {
        rc = fab_control_qp_error(act->dev, act->qpn);
    } else {
        rc = fab_control_port(act->dev, act->port, act->up);
    }

    fab_verbose(1, "fault: %s%s: %s", fab_fault_kind_name(act->kind),
                act->up ? " up" : "", strerror(rc));
}

/* What this rule does now, if anything, and when it does something next */
static bool time_due(time_rule_t *timer, uint64_t now, time_act_t *act,
                     uint64_t *next)
{
    const fab_fault_rule_t *rule = &timer->rule;
    bool is_due                  = true;

    act->kind = rule->kind;
    act->dev  = rule->dev;
    act->qpn  = rule->qpn;
    act->port = rule->port;
    act->up   = 0;
    if (timer->up <= now) {
        act->up   = 1;
        timer->up = FAB_SCRIPT_NEVER;
    } else if (timer->next <= now) {
        ++timed.hits;
        if (rule->until != FAB_SCRIPT_NEVER) {
            timer->up = now + rule->until;
        }
        timer->next = (rule->every == 0) ? FAB_SCRIPT_NEVER :
                                           timer->next + rule->every;
    } else {
        is_due = false;
    }

    *next = (timer->up < timer->next) ? timer->up : timer->next;
    return is_due;
}

/* Does what is due. @return when it must be called again. */
static uint64_t time_run(void)
{
    uint64_t first = FAB_SCRIPT_NEVER;
    uint64_t next, now;
    time_act_t act;
    int i;

    for (i = 0; i < timed.count; ++i) {
        now = fab_now();
        if (time_due(&timed.rules[i], now, &act, &next)) {
            /* It completes requests: not under a lock of ours */
            pthread_mutex_unlock(&timed.lock);
            time_act(&act);
            pthread_mutex_lock(&timed.lock);
            next = now; /* the rules may be others: look again */
        }

        first = (next < first) ? next : first;
    }

    return first;
}

static void *time_thread(void *arg)
{
    struct timespec until;
    uint64_t next;

    (void)arg;
    pthread_mutex_lock(&timed.lock);
    for (;;) {
        next = time_run();
        if (next == FAB_SCRIPT_NEVER) {
            pthread_cond_wait(&timed.changed, &timed.lock);
        } else if (next > fab_now()) {
            until.tv_sec  = (time_t)(next / 1000000000u);
            until.tv_nsec = (long)(next % 1000000000u);
            pthread_cond_timedwait(&timed.changed, &timed.lock, &until);
        }
    }

    return NULL;
}

/* Under the lock. The thread takes no signals: they are the program's. */
static int time_start_thread(void)
{
    pthread_condattr_t clock;
    sigset_t all, old;
    pthread_t thread;
    int rc;

    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&timed.changed, &clock);
    pthread_condattr_destroy(&clock);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&thread, NULL, time_thread, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc == 0) {
        pthread_detach(thread);
        timed.thread = 1;
    }

    return rc;
}

/* The rules go: ports that they hold down come up. Under the lock. */
static void time_clear(void)
{
    uint32_t dev, port;

    while (timed.count > 0) {
        --timed.count;
        if (timed.rules[timed.count].up != FAB_SCRIPT_NEVER) {
            dev  = timed.rules[timed.count].rule.dev;
            port = timed.rules[timed.count].rule.port;
            pthread_mutex_unlock(&timed.lock);
            fab_control_port(dev, port, 1);
            pthread_mutex_lock(&timed.lock);
        }
    }
}

int fab_fault_time_set(const fab_fault_rule_t *rules, int count)
{
    uint64_t now = fab_now();
    time_rule_t *timer;
    int rc       = 0;
    int i;

    pthread_mutex_lock(&timed.lock);
    time_clear();
    timed.hits  = 0;
    for (i = 0; i < count; ++i) {
        if (rules[i].at != FAB_SCRIPT_NEVER) {
            timer       = &timed.rules[timed.count++];
            timer->rule = rules[i];
            timer->next = now + rules[i].at;
            timer->up   = FAB_SCRIPT_NEVER;
        }
    }

    if (timed.thread) {
        pthread_cond_signal(&timed.changed);
    } else if (timed.count > 0) {
        rc = time_start_thread();
    }
    pthread_mutex_unlock(&timed.lock);
    return rc;
}

uint64_t fab_fault_time_hits(void)
{
    uint64_t hits;

    pthread_mutex_lock(&timed.lock);
    hits = timed.hits;
    pthread_mutex_unlock(&timed.lock);
    return hits;
}
