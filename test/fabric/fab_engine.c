/*
 * The engine: a heap of QPs by due time, worked off by a thread, and by
 * poll_cq. May call pthreads, fab_exec.
 */
#include "fab_engine.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "fab_exec.h"
#include "fab_late.h"
#include "fab_qp.h"

/* ns of the machine's time for which all threads sleep before virtual time skips: not
 * in the pauses of one that polls now and then */
#define FAB_ENGINE_SKIP 10000000

static struct fab_engine {
    pthread_mutex_t      lock;
    pthread_cond_t       cond;
    int                  running;
    uint32_t             num;
    uint32_t             size;
    struct fab_qp_handle **heap; /* the earliest first */
    uint64_t             next;   /* its due time, 0: none; read without lock */
    uint64_t             sleep;  /* the thread sleeps till then; 0: it is awake */
} fab_engine = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void fab_engine_put(uint32_t pos, struct fab_qp_handle *handle)
{
    fab_engine.heap[pos] = handle;
    handle->engine_pos   = pos;
}

static void fab_engine_up(uint32_t pos)
{
    struct fab_qp_handle *handle = fab_engine.heap[pos];
    uint32_t parent;

    while (pos > 0) {
        parent = (pos - 1) / 2;
        if (fab_engine.heap[parent]->engine_due <= handle->engine_due) {
            break;
        }
        fab_engine_put(pos, fab_engine.heap[parent]);
        pos = parent;
    }
    fab_engine_put(pos, handle);
}

static void fab_engine_down(uint32_t pos)
{
    struct fab_qp_handle *handle = fab_engine.heap[pos];
    uint32_t child;

    while ((child = (2 * pos) + 1) < fab_engine.num) {
        if (((child + 1) < fab_engine.num) &&
            (fab_engine.heap[child + 1]->engine_due <
             fab_engine.heap[child]->engine_due)) {
            ++child;
        }
        if (handle->engine_due <= fab_engine.heap[child]->engine_due) {
            break;
        }
        fab_engine_put(pos, fab_engine.heap[child]);
        pos = child;
    }
    fab_engine_put(pos, handle);
}

static void fab_engine_remove(struct fab_qp_handle *handle)
{
    uint32_t pos = handle->engine_pos;

    if (handle->engine_due == 0) {
        return;
    }

    handle->engine_due = 0;
    --fab_engine.num;
    if (pos != fab_engine.num) {
        fab_engine_put(pos, fab_engine.heap[fab_engine.num]);
        fab_engine_down(pos);
        fab_engine_up(pos);
    }
}

/* @return 0 if there is no memory for it */
static int fab_engine_insert(struct fab_qp_handle *handle, uint64_t due)
{
    struct fab_qp_handle **heap;
    uint32_t size;

    if (fab_engine.num == fab_engine.size) {
        size = (fab_engine.size == 0) ? 64 : (2 * fab_engine.size);
        heap = realloc(fab_engine.heap, size * sizeof(*heap));
        if (heap == NULL) {
            return 0;
        }
        fab_engine.heap = heap;
        fab_engine.size = size;
    }

    handle->engine_due = due;
    fab_engine_put(fab_engine.num++, handle);
    fab_engine_up(handle->engine_pos);
    return 1;
}

static void fab_engine_set_next(void)
{
    uint64_t next = (fab_engine.num == 0) ? 0 : fab_engine.heap[0]->engine_due;

    __atomic_store_n(&fab_engine.next, next, __ATOMIC_RELAXED);
}

/* Take the first one if it is due; with the lock held */
static struct fab_qp_handle *fab_engine_take(uint64_t now)
{
    struct fab_qp_handle *handle;

    if ((fab_engine.num == 0) || (fab_engine.heap[0]->engine_due > now)) {
        return NULL;
    }

    handle = fab_engine.heap[0];
    fab_engine_remove(handle);
    ++handle->engine_busy;
    fab_engine_set_next();
    return handle;
}

/* The thread is woken if it would sleep too long; with the lock held. While the
   heap is worked off that is only known at the end. */
static void fab_engine_wake(void)
{
    uint64_t next = fab_engine.next;

    if ((next != 0) && (next < fab_engine.sleep)) {
        fab_engine.sleep = 0; /* once is enough */
        pthread_cond_signal(&fab_engine.cond);
    }
}

/* An entry for this QP, not later than @a due; with the lock held */
static void fab_engine_add(struct fab_qp_handle *handle, uint64_t due)
{
    if ((handle->engine_due == 0) || (due < handle->engine_due)) {
        fab_engine_remove(handle);
        if (!fab_engine_insert(handle, due)) {
            fab_log("out of memory: a WR of QP 0x%x will not go on",
                    handle->qp->qpn);
        }
        fab_engine_set_next();
    }
}

/* It may be freed afterwards; otherwise only the heap refers to it */
static void fab_engine_late(struct fab_qp_handle *handle, uint64_t now)
{
    uint64_t due;

    handle->engine_busy = 0;
    due                 = fab_late_progress(handle, now);
    if (due != 0) {
        fab_engine_at(handle->qp, due);
    }
}

/* All that is due, and only that; with the lock held, dropped inside */
static void fab_engine_run(uint64_t now)
{
    struct fab_qp_handle *handle;
    uint64_t due;

    while ((handle = fab_engine_take(now)) != NULL) {
        pthread_mutex_unlock(&fab_engine.lock);
        if (fab_late_is(handle)) {
            fab_engine_late(handle, now);
            pthread_mutex_lock(&fab_engine.lock);
            continue;
        }

        due = fab_exec_progress(handle->qp, now);
        pthread_mutex_lock(&fab_engine.lock);
        if (due != 0) {
            fab_engine_add(handle, due);
        }
        --handle->engine_busy;
    }
}

/* Virtual time stands still while no thread polls or posts. A thread that
 * sleeps for a completion gets it after some time. Otherwise those that poll do all
 * the work, so that it is done at the same virtual time in each run. With the lock
 * held, dropped inside. */
static void fab_engine_skip(uint64_t next)
{
    const struct timespec ts = {.tv_nsec = FAB_ENGINE_SKIP};
    uint64_t now             = fab_now();
    bool idle;

    pthread_mutex_unlock(&fab_engine.lock);
    nanosleep(&ts, NULL);
    idle = fab_clock_is_idle();
    pthread_mutex_lock(&fab_engine.lock);
    if (idle && (fab_now() == now)) {
        fab_clock_skip(next);
        fab_engine_run(fab_now());
    }
}

static void *fab_engine_thread(void *arg)
{
    struct timespec ts;
    uint64_t next;

    (void)arg;
    pthread_mutex_lock(&fab_engine.lock);
    for (;;) {
        if (fab_config.clock != FAB_CLOCK_VIRTUAL) {
            fab_engine_run(fab_now());
        }
        next             = fab_engine.next;
        fab_engine.sleep = (next == 0) ? UINT64_MAX : next;
        if (fab_engine.sleep == UINT64_MAX) {
            pthread_cond_wait(&fab_engine.cond, &fab_engine.lock);
        } else if (fab_config.clock == FAB_CLOCK_VIRTUAL) {
            fab_engine_skip(next);
        } else {
            ts.tv_sec  = (time_t)(next / 1000000000ULL);
            ts.tv_nsec = (long)(next % 1000000000ULL);
            pthread_cond_timedwait(&fab_engine.cond, &fab_engine.lock, &ts);
        }
        fab_engine.sleep = 0;
    }
    return NULL;
}

/* With all signals blocked: they are the program's. With the lock held. */
static void fab_engine_start(void)
{
    pthread_condattr_t cond_attr;
    sigset_t all, old;
    pthread_t thread;

    pthread_condattr_init(&cond_attr);
    pthread_condattr_setclock(&cond_attr, CLOCK_MONOTONIC);
    pthread_cond_init(&fab_engine.cond, &cond_attr);
    pthread_condattr_destroy(&cond_attr);

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    if (pthread_create(&thread, NULL, fab_engine_thread, NULL) == 0) {
        pthread_detach(thread);
        fab_engine.running = 1;
    } else {
        fab_log("no thread for the engine: only poll_cq goes on with WRs");
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void fab_engine_at(struct fab_qp *qp, uint64_t due)
{
    pthread_mutex_lock(&fab_engine.lock);
    if (!fab_engine.running) {
        fab_engine_start();
    }

    fab_engine_add((struct fab_qp_handle*)(uintptr_t)qp->user, due);
    fab_engine_wake();
    pthread_mutex_unlock(&fab_engine.lock);
}

void fab_engine_poll(void)
{
    uint64_t next = __atomic_load_n(&fab_engine.next, __ATOMIC_RELAXED);
    uint64_t now;

    fab_clock_on_poll();
    if (__builtin_expect(next == 0, 1)) {
        return;
    }

    now = fab_now();
    if ((next <= now) && (pthread_mutex_trylock(&fab_engine.lock) == 0)) {
        fab_engine_run(now);
        fab_engine_wake();
        pthread_mutex_unlock(&fab_engine.lock);
    }
}

void fab_engine_forget(struct fab_qp *qp)
{
    struct fab_qp_handle *handle = (struct fab_qp_handle*)(uintptr_t)qp->user;

    pthread_mutex_lock(&fab_engine.lock);
    for (;;) {
        fab_engine_remove(handle);
        fab_engine_set_next();
        if (handle->engine_busy == 0) {
            break;
        }
        pthread_mutex_unlock(&fab_engine.lock);
        sched_yield();
        pthread_mutex_lock(&fab_engine.lock);
    }
    pthread_mutex_unlock(&fab_engine.lock);
}

void fab_engine_forked(void)
{
    fab_engine.running = 0;
    fab_engine.num     = 0;
    fab_engine.next    = 0;
    fab_engine.sleep   = 0;
    pthread_mutex_init(&fab_engine.lock, NULL);
}
