/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * GIDs of a port: reading the table, choosing an index.
 * May call libibverbs and read sysfs.
 */
#ifndef VQP_IB_GID_H
#define VQP_IB_GID_H

#include "verbs/port.h"

typedef enum {
    VQP_IB_GID_IB      = 0,
    VQP_IB_GID_ROCE_V1 = 1,
    VQP_IB_GID_ROCE_V2 = 2
} vqp_ib_gid_type_t;

/* As a wanted index: choose */
#define VQP_IB_GID_AUTO      (-1)
/* The index has 8 bits in an address vector */
#define VQP_IB_GID_INDEX_MAX UINT8_MAX
#define VQP_IB_GID_STR_MAX   48

typedef struct vqp_ib_gid {
    uint8_t           raw[16];
    uint8_t           index;
    uint8_t           is_ipv4;  /* ::ffff:a.b.c.d */
    vqp_ib_gid_type_t type;
    uint32_t          ifindex;  /* network interface; 0: unknown or none */
} vqp_ib_gid_t;

/**
 * Read one entry of the GID table. Any thread.
 *
 * @return VQP_OK; VQP_ERR_NO_DEVICE: the entry is empty or outside the table
 *         (not logged).
 */
vqp_status_t vqp_ib_gid_query(const vqp_ib_dev_t *dev,
                              const vqp_ib_port_t *port, unsigned index,
                              vqp_ib_gid_t *gid);

/**
 * Choose the GID that the port's QPs use as their source. Any thread.
 * InfiniBand: index 0. Ethernet: the first usable entry in the order RoCEv2
 * over IPv4, RoCEv2 over IPv6 with an address that is not link-local, RoCEv2
 * with a link-local one, RoCEv1 over IPv4, RoCEv1 over IPv6; usable means that
 * the device creates an address handle with it.
 *
 * @param wanted  Index to take as it is, or VQP_IB_GID_AUTO.
 * @return VQP_OK; VQP_ERR_NO_DEVICE: no such entry (logged, names the port).
 */
vqp_status_t vqp_ib_gid_select(const vqp_ib_dev_t *dev,
                               const vqp_ib_port_t *port, int wanted,
                               vqp_ib_gid_t *gid);

/**
 * Look for the index that a GID has now. One sweep over the table; any thread.
 *
 * @param gid    Its value and its type are compared. If its index still has it,
 *               this index is found.
 * @param index  Set if it is found.
 * @return VQP_OK; VQP_ERR_NO_DEVICE: no entry has this GID (not logged).
 */
vqp_status_t vqp_ib_gid_find(const vqp_ib_dev_t *dev, const vqp_ib_port_t *port,
                             const vqp_ib_gid_t *gid, uint8_t *index);

/** Print a GID as an IPv6 address into @a buf, which it returns */
const char *vqp_ib_gid_str(const uint8_t raw[16], char *buf, size_t size);

const char *vqp_ib_gid_type_str(vqp_ib_gid_type_t type);

#endif
