/*
 * Faults that happen at a time, from a thread that sleeps in between. May call
 * libc, fab_control and fab_path.
 */
#include "fab_fault_time.h"
#include "fab_config.h"
#include "fab_control.h"
#include "fab_path.h"
#include "fab_world.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

/* A rule in force. ns of the monotonic clock, FAB_SCRIPT_NEVER: not at all */
typedef struct time_rule {
    fab_fault_rule_t rule;
    uint64_t         next; /* when it happens */
    uint64_t         undo; /* when what it did ends */
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

static int time_qp(const fab_fault_rule_t *rule)
{
    const struct fab_path_select select = {
        .dev    = rule->dev,
        .qpn    = rule->qpn,
        .number = rule->path,
        .modulo = rule->modulo
    };

    return (rule->path == FAB_SCRIPT_ANY) ?
                   fab_control_qp_error(rule->dev, rule->qpn) :
                   fab_path_break(&select);
}

static int time_change(const fab_fault_rule_t *rule, bool undo)
{
    const struct fab_path_select select = {
        .dev    = rule->dev,
        .qpn    = rule->qpn,
        .number = rule->path,
        .modulo = rule->modulo,
        .port   = rule->port
    };

    return fab_path_change(&select, (rule->kind == FAB_FAULT_RATE) ?
                                    FAB_PATH_MBPS : FAB_PATH_DELAY,
                           undo ? NULL : &rule->value);
}

__thread uint32_t fab_fault_kill_part;

void fab_fault_kill(const fab_fault_rule_t *rule, uint32_t part)
{
    if (((rule->proc == FAB_SCRIPT_ANY) || (rule->proc == fab_world_self)) &&
        ((*rule->role == '\0') || !strcmp(rule->role, fab_config.role))) {
        fab_verbose(1, "fault: kill: process %u, '%s'", fab_world_self,
                    fab_config.role);
        fab_fault_kill_part = part;
        if (part == 0) {
            raise(SIGKILL);
        }
    }
}

int fab_fault_time_act(const fab_fault_rule_t *rule, bool undo)
{
    int rc = 0;

    if (rule->kind == FAB_FAULT_KILL) {
        fab_fault_kill(rule, 0);
    } else if (rule->kind == FAB_FAULT_QP) {
        rc = time_qp(rule);
    } else if (rule->kind == FAB_FAULT_PORT) {
        rc = fab_control_port(rule->dev, rule->port, undo);
    } else if (rule->kind == FAB_FAULT_GIDS) {
        rc = fab_control_gids(rule->dev, rule->port, undo ? 0 : rule->value);
    } else {
        rc = time_change(rule, undo);
    }

    fab_verbose(1, "fault: %s%s: %s", fab_fault_kind_name(rule->kind),
                undo ? " ends" : "", strerror(rc));
    return rc;
}

/* What this rule does now, if anything, and when it does something next */
static bool time_due(time_rule_t *timer, uint64_t now, bool *undo,
                     uint64_t *next)
{
    const fab_fault_rule_t *rule = &timer->rule;
    bool is_due                  = true;

    *undo = false;
    if (timer->undo <= now) {
        *undo       = true;
        timer->undo = FAB_SCRIPT_NEVER;
    } else if (timer->next <= now) {
        ++timed.hits;
        if (rule->until != FAB_SCRIPT_NEVER) {
            timer->undo = now + rule->until;
        }
        timer->next = (rule->every == 0) ? FAB_SCRIPT_NEVER :
                                           timer->next + rule->every;
    } else {
        is_due = false;
    }

    *next = (timer->undo < timer->next) ? timer->undo : timer->next;
    return is_due;
}

/* Does what is due. @return when it must be called again. */
static uint64_t time_run(void)
{
    uint64_t first = FAB_SCRIPT_NEVER;
    fab_fault_rule_t rule;
    uint64_t next, now;
    bool undo;
    int i;

    for (i = 0; i < timed.count; ++i) {
        now = fab_now();
        if (time_due(&timed.rules[i], now, &undo, &next)) {
            /* It completes requests: not under a lock of ours */
            rule = timed.rules[i].rule;
            pthread_mutex_unlock(&timed.lock);
            (void)fab_fault_time_act(&rule, undo);
            pthread_mutex_lock(&timed.lock);
            next = now; /* the rules may have changed: check again */
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

/* The rules go: what they did for some time ends now. Under the lock. */
static void time_clear(void)
{
    fab_fault_rule_t rule;

    while (timed.count > 0) {
        --timed.count;
        if (timed.rules[timed.count].undo != FAB_SCRIPT_NEVER) {
            rule = timed.rules[timed.count].rule;
            pthread_mutex_unlock(&timed.lock);
            (void)fab_fault_time_act(&rule, true);
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
        /* dark rules are asked for each send */
        if ((rules[i].at != FAB_SCRIPT_NEVER) &&
            (rules[i].kind != FAB_FAULT_DARK)) {
            timer       = &timed.rules[timed.count++];
            timer->rule = rules[i];
            timer->next = now + rules[i].at;
            timer->undo = FAB_SCRIPT_NEVER;
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
