/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All differences between versions of rdma-core (32 and later are supported).
 * configure defines:
 *
 * VQP_IB_HAVE_DMABUF
 *     ibv_reg_dmabuf_mr(), from version 34 on.
 * VQP_IB_HAVE_SPEED_EX
 *     Speeds above NDR do not fit the 8-bit active_speed; newer versions have
 *     a second field, which is 0 when the kernel did not fill it.
 *
 * rdma-core may have been built without the provider of mlx5, and its header.
 */
#ifndef VQP_IB_COMPAT_H
#define VQP_IB_COMPAT_H

#include <infiniband/verbs.h>

#include <errno.h>

#ifdef __has_include
#if __has_include(<infiniband/mlx5dv.h>)
#include <infiniband/mlx5dv.h>
#define VQP_IB_HAVE_MLX5DV
#endif
#endif

struct mlx5dv_context;

/** Code of the port's speed per lane, a single bit */
static inline unsigned
vqp_ib_compat_port_speed(const struct ibv_port_attr *attr)
{
#ifdef VQP_IB_HAVE_SPEED_EX
    if (attr->active_speed_ex != 0) {
        return attr->active_speed_ex;
    }
#endif
    return attr->active_speed;
}

#ifdef VQP_IB_HAVE_DMABUF
#  pragma weak ibv_reg_dmabuf_mr /* a libibverbs that is older than the one of the build */
#endif

/** ibv_reg_dmabuf_mr(); NULL with EOPNOTSUPP where libibverbs has none */
static inline struct ibv_mr *
vqp_ib_compat_reg_dmabuf(struct ibv_pd *pd, uint64_t offset, size_t length,
                         uint64_t iova, int fd, int access)
{
#ifdef VQP_IB_HAVE_DMABUF
    if (ibv_reg_dmabuf_mr != NULL) {
        return ibv_reg_dmabuf_mr(pd, offset, length, iova, fd, access);
    }
#endif
    (void)pd;
    (void)offset;
    (void)length;
    (void)iova;
    (void)fd;
    (void)access;
    errno = EOPNOTSUPP;
    return NULL;
}

/** Member ports that an mlx5 device can bond, by mlx5dv_query_device(); 0: not known */
static inline unsigned
vqp_ib_compat_mlx5_ports(int (*query)(struct ibv_context*, struct mlx5dv_context*),
                         struct ibv_context *context)
{
#ifdef VQP_IB_HAVE_MLX5DV
    struct mlx5dv_context attr = {.comp_mask = MLX5DV_CONTEXT_MASK_NUM_LAG_PORTS};

    if ((query(context, &attr) == 0) &&
        (attr.comp_mask & MLX5DV_CONTEXT_MASK_NUM_LAG_PORTS)) {
        return attr.num_lag_ports;
    }
#endif
    (void)query;
    (void)context;
    return 0;
}

#endif
