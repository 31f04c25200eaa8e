/*
 * Memory registration: one handle, one registration per rail.
 * May call libibverbs; reads the process's limits when one fails.
 */
#include "verbs/mr.h"

#include <errno.h>
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

/* Bytes that the process has pinned, and whether the limit binds it */
static void vqp_ib_mr_pinned(unsigned long long *pinned, int *is_bound)
{
    unsigned long long kib, caps;
    char line[128];
    FILE *file;

    *pinned   = 0;
    *is_bound = 1;
    file      = fopen("/proc/self/status", "re");
    if (file == NULL) {
        return;
    }

    while (fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "VmPin: %llu kB", &kib) == 1) {
            *pinned = kib * 1024;
        } else if (sscanf(line, "CapEff: %llx", &caps) == 1) {
            *is_bound = !(caps & (1ull << VQP_IB_CAP_IPC_LOCK));
        }
    }

    fclose(file);
}

static vqp_status_t
vqp_ib_mr_explain_nomem(const vqp_ib_dev_t *dev,
                        const vqp_ib_mr_params_t *params)
{
    unsigned long long pinned;
    struct rlimit limit;
    int is_bound;

    vqp_ib_mr_pinned(&pinned, &is_bound);
    if (is_bound && (getrlimit(RLIMIT_MEMLOCK, &limit) == 0) &&
        (limit.rlim_cur != RLIM_INFINITY) &&
        (pinned + params->length > limit.rlim_cur)) {
        vqp_ib_log(params->log_level,
                   "%s: failed to register %zu bytes: the limit on locked "
                   "memory (RLIMIT_MEMLOCK, ulimit -l) is %llu bytes, of which "
                   "%llu are in use", dev->name, params->length,
                   (unsigned long long)limit.rlim_cur, pinned);
        return VQP_ERR_EXCEEDS_LIMIT;
    }

    vqp_ib_log(params->log_level,
               "%s: failed to register %zu bytes at %p: %s (%llu bytes are "
               "pinned)", dev->name, params->length, params->address,
               strerror(ENOMEM), pinned);
    return VQP_ERR_NO_MEMORY;
}

/* Soft-RoCE says ENOMEM to what is not mapped */
static int vqp_ib_mr_is_mapped(const vqp_ib_mr_params_t *params)
{
    uintptr_t address = (uintptr_t)params->address;
    uintptr_t begin   = address & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);

    return (msync((void*)begin, address + params->length - begin,
                  MS_ASYNC) == 0) || (errno != ENOMEM);
}

static vqp_status_t vqp_ib_mr_explain(const vqp_ib_dev_t *dev,
                                      const vqp_ib_mr_params_t *params,
                                      unsigned access, int err)
{
    const char *why;

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

/* Register on one device; errno as the result */
static int vqp_ib_mr_reg_rail(vqp_ib_mr_t *mr, vqp_ib_dev_t *dev,
                              unsigned rail, const vqp_ib_mr_params_t *params,
                              unsigned access)
{
    struct ibv_mr *ibv_mr;

    ibv_mr = ibv_reg_mr(dev->pd, params->address, params->length,
                        vqp_ib_mr_ibv_access(access));
    if (ibv_mr == NULL) {
        return (errno != 0) ? errno : EIO;
    }

    mr->mr[rail]   = ibv_mr;
    mr->lkey[rail] = ibv_mr->lkey;
    mr->rkey[rail] = ibv_mr->rkey;
    return 0;
}

vqp_status_t vqp_ib_mr_reg(vqp_ib_mr_t *mr, vqp_ib_dev_t *const *devs,
                           unsigned num_rails,
                           const vqp_ib_mr_params_t *params)
{
    unsigned required = vqp_ib_mr_complete_access(params->access);
    unsigned access   = vqp_ib_mr_complete_access(params->access |
                                                  params->optional);
    vqp_status_t status;
    unsigned rail;
    int err;

    vqp_assert((num_rails > 0) && (num_rails <= VQP_MAX_RAILS));
    memset(mr, 0, sizeof(*mr));

    for (rail = 0; rail < num_rails; ++rail) {
        status = vqp_ib_mr_check(devs[rail], params);
        if (status != VQP_OK) {
            goto err_dereg;
        }

        err = vqp_ib_mr_reg_rail(mr, devs[rail], rail, params, access);
        if ((err != 0) && (rail == 0) && (access != required) &&
            ((err == EFAULT) || (err == EACCES) || (err == EPERM))) {
            /* A read-only mapping; the first rail decides for all */
            access = required;
            err    = vqp_ib_mr_reg_rail(mr, devs[rail], rail, params, access);
        }

        if (err != 0) {
            status = vqp_ib_mr_explain(devs[rail], params, access, err);
            goto err_dereg;
        }

        mr->num_rails = (uint8_t)(rail + 1);
    }

    mr->access = (uint8_t)access;
    return VQP_OK;

err_dereg:
    vqp_ib_mr_dereg(mr);
    return status;
}

vqp_status_t vqp_ib_mr_dereg(vqp_ib_mr_t *mr)
{
    vqp_status_t status = VQP_OK;
    unsigned rail;
    int ret;

    for (rail = 0; rail < mr->num_rails; ++rail) {
        ret = ibv_dereg_mr(mr->mr[rail]);
        if (ret != 0) {
            vqp_ib_error("rail %u: ibv_dereg_mr(lkey 0x%x) failed: %s", rail,
                         mr->lkey[rail], strerror(ret));
            status = VQP_ERR_IO;
        }
    }

    mr->num_rails = 0;
    return status;
}
