/*
 * Moving data. In one process by memmove; between two the kernel copies
 * (process_vm_readv and process_vm_writev), with no part of the other process.
 * Memory of a GPU is copied by libcuda, in one process only. May call libc, fab_mr,
 * fab_cuda.
 */
#include "fab_copy.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "fab_config.h"
#include "fab_cuda.h"
#include "fab_world.h"

enum fab_mr_error fab_vec_add_key(struct fab_vec *vec, uint32_t key,
                                  uint32_t dev, uint32_t pd, uint64_t iova,
                                  uint64_t length, uint32_t access)
{
    enum fab_mr_error why;
    struct fab_mr *mr;
    uint64_t addr;

    mr = fab_mr_pin(key, dev, pd, vec->proc, iova, length, access, &addr, &why);
    if (mr != NULL) {
        vec->mrs[vec->num_mrs++] = mr;
        vec->has_cuda          |= mr->is_cuda;
        fab_vec_add(vec, addr, length);
    }
    return why;
}

enum fab_mr_error fab_vec_add_sges(struct fab_vec *vec, uint32_t dev,
                                   uint32_t pd, const struct ibv_sge *sge,
                                   int num_sge, uint32_t access, int *bad)
{
    enum fab_mr_error why;
    int i;

    for (i = 0; i < num_sge; ++i) {
        if (sge[i].length == 0) {
            continue; /* hardware does not check its key either */
        }

        why = fab_vec_add_key(vec, sge[i].lkey, dev, pd, sge[i].addr,
                              sge[i].length, access);
        if (why != FAB_MR_OK) {
            *bad = i;
            return why;
        }
    }
    return FAB_MR_OK;
}

static int fab_copy_here(const struct fab_vec *dst, const struct fab_vec *src,
                         uint64_t length)
{
    int has_cuda     = dst->has_cuda || src->has_cuda;
    uint64_t dst_pos = 0, src_pos = 0, n;
    int d = 0, s = 0;
    const void *from;
    void *to;

    while (length > 0) {
        n = dst->piece[d].length - dst_pos;
        if (n > (src->piece[s].length - src_pos)) {
            n = src->piece[s].length - src_pos;
        }
        if (n > length) {
            n = length;
        }

        to   = (void*)(uintptr_t)(dst->piece[d].addr + dst_pos);
        from = (const void*)(uintptr_t)(src->piece[s].addr + src_pos);
        if (!has_cuda) {
            memmove(to, from, n);
        } else if (fab_cuda_copy(to, from, n) != 0) {
            return EFAULT;
        }
        length  -= n;
        dst_pos += n;
        src_pos += n;
        if (dst_pos == dst->piece[d].length) {
            dst_pos = 0;
            ++d;
        }
        if (src_pos == src->piece[s].length) {
            src_pos = 0;
            ++s;
        }
    }
    return 0;
}

/* What is left of a list after @a skip bytes, at most @a length of them */
static unsigned long fab_copy_iov(const struct fab_vec *vec, uint64_t skip,
                                  uint64_t length, struct iovec *iov)
{
    unsigned long num = 0;
    uint64_t n;
    int i;

    for (i = 0; (i < vec->num) && (length > 0); ++i) {
        if (skip >= vec->piece[i].length) {
            skip -= vec->piece[i].length;
            continue;
        }

        n = vec->piece[i].length - skip;
        n = (n > length) ? length : n;
        iov[num].iov_base = (void*)(uintptr_t)(vec->piece[i].addr + skip);
        iov[num].iov_len  = n;
        length           -= n;
        skip              = 0;
        ++num;
    }
    return num;
}

/* The kernel copies at most 2 GiB at a time, and less before a bad page */
static int fab_copy_across(const struct fab_vec *dst, const struct fab_vec *src,
                           uint64_t length)
{
    int is_write             = (src->proc == fab_world_self);
    const struct fab_vec *my = is_write ? src : dst;
    const struct fab_vec *his = is_write ? dst : src;
    struct iovec local[FAB_MAX_SGE + 1], remote[FAB_MAX_SGE + 1];
    pid_t pid = (pid_t)fab_world->procs[his->proc].pid;
    unsigned long num_local, num_remote;
    uint64_t done = 0;
    ssize_t n;

    while (done < length) {
        num_local  = fab_copy_iov(my, done, length - done, local);
        num_remote = fab_copy_iov(his, done, length - done, remote);
        if (is_write) {
            n = process_vm_writev(pid, local, num_local, remote, num_remote, 0);
        } else {
            n = process_vm_readv(pid, local, num_local, remote, num_remote, 0);
        }
        if (n <= 0) {
            if ((n < 0) && (errno != ESRCH) && (errno != EFAULT)) {
                fab_log("memory of process %d: %s", (int)pid, strerror(errno));
            }
            return ((n < 0) && (errno == ESRCH)) ? ESRCH : EFAULT;
        }
        done += (uint64_t)n;
    }
    return 0;
}

int fab_copy(const struct fab_vec *dst, const struct fab_vec *src,
             uint64_t length)
{
    if (length == 0) {
        return 0;
    }

    if (dst->has_cuda || src->has_cuda) {
        if (dst->proc == src->proc) {
            return fab_copy_here(dst, src, length);
        }
        fab_log("memory of a real GPU can not be copied between processes");
        return EFAULT;
    }

    /* after the post the memory may be unmapped with its key still valid: the
     * kernel returns an error, where an own copy would crash */
    if ((dst->proc == src->proc) && (fab_config.mode == FAB_MODE_IMMEDIATE)) {
        return fab_copy_here(dst, src, length);
    }
    return fab_copy_across(dst, src, length);
}
