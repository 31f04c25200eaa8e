/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses that are resolved in threads, see resolve.h. May call libibverbs. */
#include "verbs/resolve.h"
#include "verbs/gid.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* ms. A peer in the same network answers within a fraction of one, but the thread may
 * wait for a CPU. The caller may hold the lock of the worker: traffic on other paths
 * waits so long, once a second */
#define VQP_IB_RESOLVE_WAIT       50
#define VQP_IB_RESOLVE_WAIT_SHORT 2

/* ms, between answers for an address: good ones are used again, failed ones rest */
#define VQP_IB_RESOLVE_PAUSE 1000

/* bytes; with room for the thread-local data of the program */
#define VQP_IB_RESOLVE_STACK (1 << 20)

vqp_status_t vqp_ib_resolver_init(vqp_ib_resolver_t *resolver,
                                  const vqp_ib_dev_t *dev, int is_eth)
{
    memset(resolver, 0, sizeof(*resolver));
    resolver->dev      = dev;
    resolver->is_eth   = is_eth;
    resolver->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (resolver->event_fd < 0) {
        vqp_ib_error("%s: eventfd() failed: %s", dev->name, strerror(errno));
        return VQP_ERR_IO;
    }

    return VQP_OK;
}

void vqp_ib_resolver_cleanup(vqp_ib_resolver_t *resolver)
{
    unsigned i;

    for (i = 0; i < VQP_IB_RESOLVE_ADDRS; ++i) {
        if (resolver->jobs[i].state == VQP_IB_RESOLVE_RUNS) {
            pthread_join(resolver->jobs[i].thread, NULL);
        }
    }

    close(resolver->event_fd);
}

static uint64_t vqp_ib_resolve_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return ((uint64_t)now.tv_sec * 1000) + ((uint64_t)now.tv_nsec / 1000000);
}

/* The handle is not kept: it is for the kernel to have the answer. @return an errno */
static int vqp_ib_resolve_try(const vqp_ib_resolve_job_t *job)
{
    struct ibv_ah_attr attr;
    struct ibv_ah *ah;

    vqp_ib_av_fill(&job->av, &attr);
    ah = ibv_create_ah(job->resolver->dev->pd, &attr);
    if (ah == NULL) {
        return ((errno != 0) && (errno != EINPROGRESS)) ? errno : EIO;
    }

    (void)ibv_destroy_ah(ah);
    return 0;
}

static void *vqp_ib_resolve_run(void *arg)
{
    vqp_ib_resolve_job_t *job = arg;
    int event_fd              = job->resolver->event_fd;
    uint64_t one              = 1;

    __atomic_store_n(&job->err, vqp_ib_resolve_try(job), __ATOMIC_RELEASE);
    if (write(event_fd, &one, sizeof(one)) < 0) {
        return NULL; /* EAGAIN: it is readable */
    }

    return NULL;
}

static int vqp_ib_resolve_is_at_it(const vqp_ib_resolve_job_t *job)
{
    return __atomic_load_n(&job->err, __ATOMIC_ACQUIRE) == EINPROGRESS;
}

static int vqp_ib_resolve_is_same(const vqp_ib_av_t *a, const vqp_ib_av_t *b)
{
    return (a->port == b->port) && (a->sgid_index == b->sgid_index) &&
           !memcmp(a->dgid, b->dgid, sizeof(a->dgid));
}

/* Start the thread, which takes no signals. @return 0: there is none */
static int vqp_ib_resolve_start(vqp_ib_resolver_t *resolver,
                                vqp_ib_resolve_job_t *job, const vqp_ib_av_t *av)
{
    pthread_attr_t attr;
    sigset_t all, old;
    int ret;

    if (pthread_attr_init(&attr) != 0) {
        return 0;
    }

    job->resolver = resolver;
    job->av       = *av;
    job->err      = EINPROGRESS;
    (void)pthread_attr_setstacksize(&attr, VQP_IB_RESOLVE_STACK);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    ret = pthread_create(&job->thread, &attr, vqp_ib_resolve_run, job);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    if (ret == 0) {
        job->state = VQP_IB_RESOLVE_RUNS;
    }

    return ret == 0;
}

/* The thread has ended */
static void vqp_ib_resolve_take(vqp_ib_resolver_t *resolver,
                                vqp_ib_resolve_job_t *job, uint64_t now)
{
    char gid[VQP_IB_GID_STR_MAX];

    pthread_join(job->thread, NULL);
    job->since = now;
    if (vqp_ib_errno_status(job->err) != VQP_ERR_UNREACHABLE) {
        job->state = VQP_IB_RESOLVE_GOOD; /* or the next call has the error */
        return;
    }

    job->state = VQP_IB_RESOLVE_FAILED;
    if (!job->failed) {
        vqp_ib_diag("%s:%u: the address of a peer, %s (GID index %u), does not "
                    "resolve: ibv_create_ah() failed: %s", resolver->dev->name,
                    job->av.port,
                    vqp_ib_gid_str(job->av.dgid, gid, sizeof(gid)),
                    job->av.sgid_index, strerror(job->err));
    }
}

/* An answer that an address has failed is kept for a second. Without it the address would
 * count as new, and with many such addresses some would never be reported. */
static int vqp_ib_resolve_is_kept(const vqp_ib_resolve_job_t *job, uint64_t now)
{
    return (job->state == VQP_IB_RESOLVE_FAILED) &&
           (now - job->since < VQP_IB_RESOLVE_PAUSE);
}

/* The job of an address, or NULL. *other: one that is free, or the oldest answer that
 * is not kept, or NULL. Counts the threads, and those for addresses that have failed. */
static vqp_ib_resolve_job_t *
vqp_ib_resolve_find(vqp_ib_resolver_t *resolver, const vqp_ib_av_t *av,
                    uint64_t now, vqp_ib_resolve_job_t **other,
                    unsigned *threads, unsigned *failed)
{
    vqp_ib_resolve_job_t *same = NULL;
    vqp_ib_resolve_job_t *job;
    unsigned i;

    *other   = NULL;
    *threads = *failed = 0;
    for (i = 0; i < VQP_IB_RESOLVE_ADDRS; ++i) {
        job = &resolver->jobs[i];
        if ((job->state == VQP_IB_RESOLVE_RUNS) && !vqp_ib_resolve_is_at_it(job)) {
            vqp_ib_resolve_take(resolver, job, now);
        }

        if (job->state == VQP_IB_RESOLVE_RUNS) {
            ++*threads;
            *failed += job->failed;
        } else if (!vqp_ib_resolve_is_kept(job, now) &&
                   ((*other == NULL) || (job->since < (*other)->since))) {
            *other = job; /* since is 0 in a free one */
        }

        if ((job->state != VQP_IB_RESOLVE_FREE) &&
            vqp_ib_resolve_is_same(&job->av, av)) {
            same = job;
        }
    }

    return same;
}

/* Wait for the answer to a first question */
static void vqp_ib_resolve_wait(vqp_ib_resolver_t *resolver,
                                const vqp_ib_resolve_job_t *job, uint64_t now)
{
    struct pollfd pfd = {.fd = resolver->event_fd, .events = POLLIN};
    int is_short      = now < resolver->no_wait;
    uint64_t end      = now + (is_short ? VQP_IB_RESOLVE_WAIT_SHORT :
                                          VQP_IB_RESOLVE_WAIT);
    uint64_t count;

    while (vqp_ib_resolve_is_at_it(job) && (now < end)) {
        (void)poll(&pfd, 1, (int)(end - now));
        if (read(resolver->event_fd, &count, sizeof(count)) < 0) {
            count = 0; /* a signal, or the end of the time */
        }
        now = vqp_ib_resolve_now();
    }

    if (vqp_ib_resolve_is_at_it(job) && !is_short) {
        resolver->no_wait = now + VQP_IB_RESOLVE_PAUSE;
    }
}

static vqp_status_t vqp_ib_resolve_answer(const vqp_ib_resolve_job_t *job)
{
    return (job->state == VQP_IB_RESOLVE_GOOD) ? VQP_OK :
           ((job->state == VQP_IB_RESOLVE_FAILED) || job->failed) ?
                                                 VQP_ERR_UNREACHABLE :
                                                 VQP_INPROGRESS;
}

vqp_status_t vqp_ib_resolve(vqp_ib_resolver_t *resolver, const vqp_ib_av_t *av)
{
    int is_failed = 0;
    vqp_ib_resolve_job_t *job, *other;
    unsigned threads, failed;
    uint64_t now;

    if (!resolver->is_eth || !av->is_global) {
        return VQP_OK;
    }

    now = vqp_ib_resolve_now();
    job = vqp_ib_resolve_find(resolver, av, now, &other, &threads, &failed);
    if (job == NULL) {
        job = other;
    } else if ((job->state == VQP_IB_RESOLVE_RUNS) ||
               (now - job->since < VQP_IB_RESOLVE_PAUSE)) {
        return vqp_ib_resolve_answer(job);
    } else {
        is_failed = job->state == VQP_IB_RESOLVE_FAILED;
    }

    if ((job == NULL) || (threads == VQP_IB_RESOLVE_THREADS) ||
        (is_failed && (failed >= VQP_IB_RESOLVE_THREADS / 2))) {
        return is_failed ? VQP_ERR_UNREACHABLE : VQP_INPROGRESS;
    }

    job->failed = (uint8_t)is_failed;
    if (!vqp_ib_resolve_start(resolver, job, av)) {
        return VQP_OK; /* the call that follows waits */
    }

    if (!is_failed) {
        vqp_ib_resolve_wait(resolver, job, now);
        if (!vqp_ib_resolve_is_at_it(job)) {
            vqp_ib_resolve_take(resolver, job, vqp_ib_resolve_now());
        }
    }

    return vqp_ib_resolve_answer(job);
}
