/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory registration: one handle, one registration per rail.
 * May call libibverbs; reads the process's limits when one fails.
 */
#include "verbs/mr.h"

#include "verbs/compat.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* Bit of CAP_IPC_LOCK, which lifts the limit on locked memory */
#define VQP_IB_CAP_IPC_LOCK 14

#define VQP_IB_ACCESS_WRITES \
    (VQP_IB_ACCESS_LOCAL_WRITE | VQP_IB_ACCESS_REMOTE_WRITE | \
     VQP_IB_ACCESS_REMOTE_ATOMIC)

/* Verbs refuse remote writes to what can not be written locally */
static unsigned vqp_ib_mr_complete_access(unsigned access)
{
    if (access & (VQP_IB_ACCESS_REMOTE_WRITE | VQP_IB_ACCESS_REMOTE_ATOMIC)) {
        access |= VQP_IB_ACCESS_LOCAL_WRITE;
    }

    return access;
}

static unsigned vqp_ib_mr_ibv_access(unsigned access)
{
    unsigned ibv_access = 0;

    if (access & VQP_IB_ACCESS_LOCAL_WRITE) {
        ibv_access |= IBV_ACCESS_LOCAL_WRITE;
    }
    if (access & VQP_IB_ACCESS_REMOTE_WRITE) {
        ibv_access |= IBV_ACCESS_REMOTE_WRITE;
    }
    if (access & VQP_IB_ACCESS_REMOTE_READ) {
        ibv_access |= IBV_ACCESS_REMOTE_READ;
    }
    if (access & VQP_IB_ACCESS_REMOTE_ATOMIC) {
        ibv_access |= IBV_ACCESS_REMOTE_ATOMIC;
    }
    if (access & VQP_IB_ACCESS_RELAXED_ORDERING) {
        ibv_access |= IBV_ACCESS_RELAXED_ORDERING;
    }

    return ibv_access;
}

/* Whether the kernel honours CAP_IPC_LOCK of this process for pinned memory. It asks in
 * the first user namespace: in a rootless container the capability lifts nothing */
static int vqp_ib_mr_is_first_userns(void)
{
    static const char first[] = "user:[4026531837]"; /* constant of the kernel */
    char name[64];
    ssize_t length;

    length = readlink("/proc/self/ns/user", name, sizeof(name));
    return (length < 0) || ((length == sizeof(first) - 1) &&
                            !memcmp(name, first, sizeof(first) - 1));
}

/* Bytes that the process has pinned, and that it may pin; SIZE_MAX: nothing limits it */
static void vqp_ib_mr_pinned(unsigned long long *pinned, size_t *limit)
{
    int is_bound = 1;
    unsigned long long kib, caps;
    struct rlimit rlimit;
    char line[128];
    FILE *file;

    *pinned = 0;
    file    = fopen("/proc/self/status", "re");
    while ((file != NULL) && (fgets(line, sizeof(line), file) != NULL)) {
        if (sscanf(line, "VmPin: %llu kB", &kib) == 1) {
            *pinned = kib * 1024;
        } else if (sscanf(line, "CapEff: %llx", &caps) == 1) {
            is_bound = !(caps & (1ull << VQP_IB_CAP_IPC_LOCK)) ||
                       !vqp_ib_mr_is_first_userns();
        }
    }
    if (file != NULL) {
        fclose(file);
    }

    *limit = (is_bound && (getrlimit(RLIMIT_MEMLOCK, &rlimit) == 0) &&
              (rlimit.rlim_cur != RLIM_INFINITY)) ? (size_t)rlimit.rlim_cur : SIZE_MAX;
}

size_t vqp_ib_mr_limit(void)
{
    unsigned long long pinned;
    size_t limit;

    vqp_ib_mr_pinned(&pinned, &limit);
    return limit;
}

static vqp_status_t
vqp_ib_mr_explain_nomem(const vqp_ib_dev_t *dev,
                        const vqp_ib_mr_params_t *params)
{
    unsigned long long pinned;
    size_t limit;

    vqp_ib_mr_pinned(&pinned, &limit);
    if (pinned + params->length > limit) {
        vqp_ib_log(params->log_level,
                   "%s: failed to register %zu bytes: the limit on locked "
                   "memory (RLIMIT_MEMLOCK, ulimit -l) is %zu bytes, of which "
                   "%llu are in use", dev->name, params->length, limit, pinned);
        return VQP_ERR_EXCEEDS_LIMIT;
    }

    vqp_ib_log(params->log_level,
               "%s: failed to register %zu bytes at %p: %s (%llu bytes are "
               "pinned)", dev->name, params->length, params->address,
               strerror(ENOMEM), pinned);
    return VQP_ERR_NO_MEMORY;
}

/* Soft-RoCE returns ENOMEM for unmapped memory */
static int vqp_ib_mr_is_mapped(const vqp_ib_mr_params_t *params)
{
    uintptr_t address = (uintptr_t)params->address;
    uintptr_t begin   = address & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);

    return (msync((void*)begin, address + params->length - begin,
                  MS_ASYNC) == 0) || (errno != ENOMEM);
}

/* A dmabuf is pinned by its driver: limits of the process do not count */
static vqp_status_t
vqp_ib_mr_explain_dmabuf(const vqp_ib_dev_t *dev,
                         const vqp_ib_mr_params_t *params, unsigned access,
                         int err)
{
    vqp_ib_log(params->log_level,
               "%s: failed to register %zu bytes at offset %llu of dmabuf "
               "descriptor %d, access 0x%x: %s", dev->name, params->length,
               (unsigned long long)params->dmabuf->offset, params->dmabuf->fd,
               access, strerror(err));
    return (err == EBADF) ? VQP_ERR_INVALID_PARAM : vqp_ib_errno_status(err);
}

static vqp_status_t vqp_ib_mr_explain(const vqp_ib_dev_t *dev,
                                      const vqp_ib_mr_params_t *params,
                                      unsigned access, int err)
{
    const char *why;

    if (params->dmabuf != NULL) {
        return vqp_ib_mr_explain_dmabuf(dev, params, access, err);
    }

    if ((err == ENOMEM) && !vqp_ib_mr_is_mapped(params)) {
        err = EFAULT;
    }

    switch (err) {
    case ENOMEM:
        return vqp_ib_mr_explain_nomem(dev, params);
    case EFAULT:
        why = (access & VQP_IB_ACCESS_WRITES) ?
              " (not mapped, not writable, or memory that can not be pinned)" :
              " (not mapped, or memory that can not be pinned)";
        break;
    default:
        why = "";
        break;
    }

    vqp_ib_log(params->log_level,
               "%s: failed to register %zu bytes at %p, access 0x%x: %s%s",
               dev->name, params->length, params->address, access,
               strerror(err), why);
    return vqp_ib_errno_status(err);
}

static vqp_status_t vqp_ib_mr_check(const vqp_ib_dev_t *dev,
                                    const vqp_ib_mr_params_t *params)
{
    if (params->length == 0) {
        vqp_ib_log(params->log_level,
                   "%s: failed to register memory at %p: its length is 0",
                   dev->name, params->address);
        return VQP_ERR_INVALID_PARAM;
    }

    if (params->length > dev->caps.max_mr_size) {
        vqp_ib_log(params->log_level,
                   "%s: failed to register %zu bytes: the device's limit is "
                   "%llu", dev->name, params->length,
                   (unsigned long long)dev->caps.max_mr_size);
        return VQP_ERR_INVALID_PARAM;
    }

    return VQP_OK;
}

/* The work for one rail, in a thread of its own or in the caller's */
typedef struct vqp_ib_mr_job {
    vqp_ib_mr_t              *mr;
    vqp_ib_dev_t             *dev;    /* NULL: deregister */
    unsigned                 rail;
    const vqp_ib_mr_params_t *params;
    unsigned                 access;
    int                      err;     /* an errno */
    int                      is_thread;
    pthread_t                thread;
} vqp_ib_mr_job_t;

static void vqp_ib_mr_reg_rail(vqp_ib_mr_job_t *job)
{
    const vqp_ib_mr_params_t *params = job->params;
    unsigned access                  = vqp_ib_mr_ibv_access(job->access);
    vqp_ib_mr_t *mr                  = job->mr;
    struct ibv_mr *ibv_mr;

    if (params->dmabuf == NULL) {
        ibv_mr = ibv_reg_mr(job->dev->pd, params->address, params->length,
                            access);
    } else {
        ibv_mr = vqp_ib_compat_reg_dmabuf(job->dev->pd, params->dmabuf->offset,
                                          params->length,
                                          (uintptr_t)params->address,
                                          params->dmabuf->fd, (int)access);
    }
    if (ibv_mr == NULL) {
        job->err = (errno != 0) ? errno : EIO;
        return;
    }

    mr->mr[job->rail]   = ibv_mr;
    mr->lkey[job->rail] = ibv_mr->lkey;
    mr->rkey[job->rail] = ibv_mr->rkey;
}

static void *vqp_ib_mr_do(void *arg)
{
    vqp_ib_mr_job_t *job = arg;

    if (job->dev != NULL) {
        vqp_ib_mr_reg_rail(job);
    } else if (job->mr->mr[job->rail] != NULL) {
        job->err = ibv_dereg_mr(job->mr->mr[job->rail]);
    }

    return NULL;
}

/* All rails in parallel: the first one in this thread, the others in threads that
 * take no signals. If a thread can not be created, its work is done here. */
static void vqp_ib_mr_do_parallel(vqp_ib_mr_job_t *jobs, unsigned count)
{
    sigset_t all, old;
    unsigned i;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    for (i = 1; i < count; ++i) {
        jobs[i].is_thread = pthread_create(&jobs[i].thread, NULL, vqp_ib_mr_do,
                                           &jobs[i]) == 0;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);

    for (i = 0; i < count; ++i) {
        if (!jobs[i].is_thread) {
            vqp_ib_mr_do(&jobs[i]);
        }
    }

    for (i = 1; i < count; ++i) {
        if (jobs[i].is_thread) {
            pthread_join(jobs[i].thread, NULL);
        }
    }
}

/* One rail after the other, up to the first failure: for small memory */
static void vqp_ib_mr_do_serial(vqp_ib_mr_job_t *jobs, unsigned count)
{
    unsigned i;

    for (i = 0; i < count; ++i) {
        vqp_ib_mr_do(&jobs[i]);
        if ((jobs[i].dev != NULL) && (jobs[i].err != 0)) {
            return;
        }
    }
}

/* Register on all rails or on none; 0, or the errno of the rail that failed */
static int vqp_ib_mr_reg_all(vqp_ib_mr_t *mr, vqp_ib_dev_t *const *devs,
                             unsigned num_rails,
                             const vqp_ib_mr_params_t *params, unsigned access,
                             unsigned *failed)
{
    vqp_ib_mr_job_t jobs[VQP_MAX_RAILS];
    unsigned i;

    memset(mr, 0, sizeof(*mr));
    memset(jobs, 0, sizeof(jobs));
    for (i = 0; i < num_rails; ++i) {
        /* A broken device gets no key: no path on it is used */
        jobs[i].mr     = mr;
        jobs[i].dev    = vqp_ib_dev_is_broken(devs[i]) ? NULL : devs[i];
        jobs[i].rail   = i;
        jobs[i].params = params;
        jobs[i].access = access;
    }

    mr->num_rails   = (uint8_t)num_rails;
    mr->access      = (uint8_t)access;
    mr->is_parallel = (num_rails > 1) && (params->parallel != 0) &&
                      (params->length >= params->parallel);
    if (mr->is_parallel) {
        vqp_ib_mr_do_parallel(jobs, num_rails);
    } else {
        vqp_ib_mr_do_serial(jobs, num_rails);
    }

    for (i = 0; i < num_rails; ++i) {
        if (jobs[i].err != 0) {
            vqp_ib_mr_dereg(mr);
            *failed = i;
            return jobs[i].err;
        }
    }

    return 0;
}

vqp_status_t vqp_ib_mr_reg(vqp_ib_mr_t *mr, vqp_ib_dev_t *const *devs,
                           unsigned num_rails,
                           const vqp_ib_mr_params_t *params)
{
    unsigned required = vqp_ib_mr_complete_access(params->access);
    unsigned access   = vqp_ib_mr_complete_access(params->access |
                                                  params->optional);
    unsigned failed   = 0;
    unsigned broken   = 0;
    vqp_status_t status;
    unsigned rail;
    int err;

    vqp_assert((num_rails > 0) && (num_rails <= VQP_MAX_RAILS));
    mr->num_rails = 0;
    for (rail = 0; rail < num_rails; ++rail) {
        broken += vqp_ib_dev_is_broken(devs[rail]);
        status = vqp_ib_mr_check(devs[rail], params);
        if (status != VQP_OK) {
            return status;
        }
    }

    err = (broken == num_rails) ? EIO :
                  vqp_ib_mr_reg_all(mr, devs, num_rails, params, access, &failed);
    if ((access != required) &&
        ((err == EFAULT) || (err == EACCES) || (err == EPERM))) {
        /* A read-only mapping: for all rails */
        access = required;
        err    = vqp_ib_mr_reg_all(mr, devs, num_rails, params, access, &failed);
    }

    return (err == 0) ? VQP_OK :
                        vqp_ib_mr_explain(devs[failed], params, access, err);
}

vqp_status_t vqp_ib_mr_dereg(vqp_ib_mr_t *mr)
{
    vqp_ib_mr_job_t jobs[VQP_MAX_RAILS];
    vqp_status_t status = VQP_OK;
    unsigned rail;

    memset(jobs, 0, sizeof(jobs));
    for (rail = 0; rail < mr->num_rails; ++rail) {
        jobs[rail].mr   = mr;
        jobs[rail].rail = rail;
    }

    if (mr->is_parallel) {
        vqp_ib_mr_do_parallel(jobs, mr->num_rails);
    } else {
        vqp_ib_mr_do_serial(jobs, mr->num_rails);
    }

    for (rail = 0; rail < mr->num_rails; ++rail) {
        if (jobs[rail].err != 0) {
            vqp_ib_error("rail %u: ibv_dereg_mr(lkey 0x%x) failed: %s", rail,
                         mr->lkey[rail], strerror(jobs[rail].err));
            status = VQP_ERR_IO;
        }
    }

    mr->num_rails = 0;
    return status;
}

/* A kernel and a driver that know dmabufs look at the descriptor first: that of
 * nothing is EBADF to them */
int vqp_ib_mr_has_dmabuf(const vqp_ib_dev_t *dev)
{
    struct ibv_mr *ibv_mr;

    ibv_mr = vqp_ib_compat_reg_dmabuf(dev->pd, 0, (size_t)sysconf(_SC_PAGESIZE),
                                      0, -1, IBV_ACCESS_LOCAL_WRITE);
    if (ibv_mr != NULL) {
        (void)ibv_dereg_mr(ibv_mr);
        return 0;
    }

    return errno == EBADF;
}
