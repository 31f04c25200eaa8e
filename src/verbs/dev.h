/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One RDMA device: found, opened, with its protection domain and limits.
 * May call libibverbs and read sysfs.
 */
#ifndef VQP_IB_DEV_H
#define VQP_IB_DEV_H

#include "verbs/log.h"
#include "verbs/mlx5.h"

#include <infiniband/verbs.h>

#define VQP_IB_NAME_MAX 64

/* What the device can do; taken from ibv_query_device, sanitized */
typedef struct vqp_ib_caps {
    uint64_t max_mr_size;      /* bytes of one registration */
    uint32_t max_qp;
    uint32_t max_qp_wr;        /* WRs of one send or receive queue */
    uint32_t max_sge;          /* of one send WR */
    uint32_t max_cq;
    uint32_t max_cqe;          /* CQEs of one CQ */
    uint32_t max_mr;
    uint32_t max_ah;
    uint16_t max_qp_rd_atom;   /* READs and atomics a QP serves at once */
    uint16_t max_init_rd_atom; /* READs and atomics a QP may have outstanding */
    uint8_t  atomic_hca;       /* 64-bit add and cswap, atomic among QPs of
                                  this device */
    uint8_t  atomic_glob;      /* and with the CPU too */
} vqp_ib_caps_t;

typedef struct vqp_ib_pci {
    uint16_t domain;
    uint8_t  bus;
    uint8_t  slot;
    uint8_t  function;
} vqp_ib_pci_t;

/* What is known of how a device counts what it executes */
enum {
    VQP_IB_SOURCE_NEW,    /* it was not tried */
    VQP_IB_SOURCE_SILENT, /* nothing came through */
    VQP_IB_SOURCE_KNOWN   /* plus a vqp_source_t */
};

typedef struct vqp_ib_dev {
    struct ibv_context *ctx;
    struct ibv_pd      *pd;
    char               name[VQP_IB_NAME_MAX]; /* such as mlx5_0 */
    char               id[VQP_IB_NAME_MAX + 24];
                                  /* name and node GUID: one per device and
                                     host, the same in all processes */
    uint64_t           node_guid;       /* host order */
    uint64_t           sys_image_guid;  /* host order; one per HCA */
    uint32_t           vendor_id;
    uint32_t           vendor_part_id;
    uint8_t            num_ports;       /* ports are 1..num_ports */
    uint8_t            has_pci;         /* pci below is valid */
    int                numa_node;       /* -1: unknown, or a virtual device */
    vqp_ib_pci_t       pci;
    uint8_t            is_broken;       /* it has failed for good; atomic */
    uint8_t            source;          /* VQP_IB_SOURCE_*, see probe.h; atomic */
    double             pci_bw;          /* bytes/s of its PCIe link;
                                           0: unknown */
    vqp_ib_caps_t      caps;
    vqp_ib_mlx5_t      mlx5;            /* calls for bonded ports, see lag.h */
} vqp_ib_dev_t;

typedef struct vqp_ib_dev_list {
    struct ibv_device **all;      /* what libibverbs gave */
    struct ibv_device **usable;   /* those of a transport with RC and UD */
    unsigned          count;      /* of usable */
} vqp_ib_dev_list_t;

/**
 * List the RDMA devices whose transport has RC and UD queue pairs. Others (iWARP, EFA,
 * usNIC) are left out, each with one line (diag) in a process. No device at all, or no
 * RDMA support in the kernel, is an empty list, not an error.
 * Any thread.
 *
 * @return VQP_OK; release with @ref vqp_ib_dev_list_free.
 *         VQP_ERR_IO, VQP_ERR_NO_MEMORY: logged, nothing to release.
 */
vqp_status_t vqp_ib_dev_list_get(vqp_ib_dev_list_t *list);

void vqp_ib_dev_list_free(vqp_ib_dev_list_t *list);

/** Name of the device at index < list->count; valid as long as the list */
const char *vqp_ib_dev_list_name(const vqp_ib_dev_list_t *list, unsigned index);

/**
 * Open the device with this name: context, protection domain, limits, place
 * in the machine. Its async event descriptor is made nonblocking.
 * Any thread; two opens of one device are independent of each other.
 *
 * @return VQP_OK, VQP_ERR_NO_DEVICE (no usable device has the name),
 *         VQP_ERR_IO, VQP_ERR_NO_MEMORY; errors are logged and leave nothing
 *         open.
 */
vqp_status_t vqp_ib_dev_open(vqp_ib_dev_t *dev, const char *name);

/**
 * Release the protection domain and the context. All objects created from them
 * must be destroyed before; otherwise the failing call is logged.
 */
void vqp_ib_dev_close(vqp_ib_dev_t *dev);

/**
 * Try whether programs may have UD queue pairs on the device: not on qedr, nor on hns of a
 * Kunpeng 920, which do not announce it. Creates one, and destroys it.
 *
 * @return 0: it refuses them, with a line (diag). 1: it has them, or another reason, as a
 *         lack of memory, prevented the try.
 */
int vqp_ib_dev_has_ud(const vqp_ib_dev_t *dev);

/** Descriptor that is readable when @ref vqp_ib_async_get has something */
static inline int vqp_ib_dev_async_fd(const vqp_ib_dev_t *dev)
{
    return dev->ctx->async_fd;
}

/** An event has said that the device has failed for good. Any thread. */
static inline void vqp_ib_dev_set_broken(vqp_ib_dev_t *dev)
{
    __atomic_store_n(&dev->is_broken, 1, __ATOMIC_RELEASE);
}

/** Has the device failed for good? Verbs on it fail. Any thread. */
static inline int vqp_ib_dev_is_broken(const vqp_ib_dev_t *dev)
{
    return __atomic_load_n(&dev->is_broken, __ATOMIC_ACQUIRE);
}

/**
 * Make fork() safe for registered memory, for old kernels. Call before the
 * first registration of the process. Failure is a debug message.
 */
void vqp_ib_fork_init(void);

#endif
