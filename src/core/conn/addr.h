/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The two addresses of an interface: the device address (its ports) and the interface
 * address (its id and its control queue pairs); and whether one device reaches another.
 * Pure: libc only.
 *
 * Device address, little endian:
 *
 *    0  u8  kind          bits 0-2, vqp_addr_kind_t; others are of later formats
 *           rails less 1  bits 3-4
 *           pkey          bit 5: it follows; else 0xffff
 *           local         bit 6: all prefixes are fe80::/64, and omitted
 *           1             bit 7
 *    1  u16 pkey          if it is another than 0xffff
 *       per rail:
 *        u16 lid          InfiniBand only
 *        gid              16 bytes, or the last 8 if prefixes are omitted;
 *                         RoCEv2 over IPv4: the last 4
 *        u64 prefix       InfiniBand without a GID, if it is not omitted
 *
 * that is 5 bytes for one RoCEv2/IPv4 rail, 11 for an InfiniBand rail with a GID.
 * The handshake has the GIDs of further rails too. They are in the address so that the
 * first REQ can be sent to each of them.
 *
 * Interface address: the device address, then
 *
 *        u40              upper part of the interface id, not zero
 *        u24 per rail     control queue pair
 *
 * The lower 24 bits of the id are a hash of the first rail's address: see
 * vqp_iface_id(). An interface address contains the device address, since a
 * connection manager passes a device address of its own. It has to be short for
 * this use: 13 bytes for one RoCEv2/IPv4 rail.
 */
#ifndef VQP_CORE_CONN_ADDR_H
#define VQP_CORE_CONN_ADDR_H

#include "core/conn/wire.h"

#define VQP_DEV_ADDR_MAX_LEN (3 + (VQP_MAX_RAILS * 18))
#define VQP_IFACE_ADDR_MAX_LEN (VQP_DEV_ADDR_MAX_LEN + 5 + (VQP_MAX_RAILS * 3))
#define VQP_ADDR_LOCAL_PREFIX 0xfe80000000000000ull

typedef enum {
    VQP_GID_IB          = 1,
    VQP_GID_ROCE_V1     = 2,
    VQP_GID_ROCE_V2_IP4 = 3, /* routable, ::ffff:a.b.c.d */
    VQP_GID_ROCE_V2_IP6 = 4
} vqp_gid_type_t;

/* Link layer, GID type, and whether there is a GID */
typedef enum {
    VQP_ADDR_IB          = 1,
    VQP_ADDR_IB_GID      = 2,
    VQP_ADDR_ROCE_V1     = 3,
    VQP_ADDR_ROCE_V2_IP4 = 4,
    VQP_ADDR_ROCE_V2_IP6 = 5
} vqp_addr_kind_t;

typedef struct vqp_dev_addr_rail {
    uint16_t lid;           /* InfiniBand */
    uint8_t  gid[VQP_GID_LEN];
    uint64_t subnet_prefix; /* InfiniBand; host order of the GID's first half */
} vqp_dev_addr_rail_t;

typedef struct vqp_dev_addr {
    uint8_t             link;     /* vqp_link_t */
    uint8_t             gid_type; /* vqp_gid_type_t */
    uint8_t             has_gid;  /* the gid fields are valid; always on Ethernet, on
                                     InfiniBand if GRH is to be used. If not, only
                                     the prefix is packed */
    uint8_t             num_rails;
    uint16_t            pkey;
    vqp_dev_addr_rail_t rails[VQP_MAX_RAILS];
} vqp_dev_addr_t;

typedef struct vqp_iface_addr {
    vqp_dev_addr_t dev;
    uint64_t       id;                    /* vqp_iface_id() */
    uint32_t       ud_qpn[VQP_MAX_RAILS]; /* 24 bits, dev.num_rails of them */
} vqp_iface_addr_t;

/**
 * The id of an interface.
 *
 * @param [in] dev     Its device address, which differs between hosts.
 * @param [in] unique  40 bits, not zero, which no other interface of that device has or
 *                     had recently.
 */
uint64_t vqp_iface_id(const vqp_dev_addr_t *dev, uint64_t unique);

/** Length of the packed form in bytes. */
size_t vqp_dev_addr_len(const vqp_dev_addr_t *addr);
size_t vqp_iface_addr_len(const vqp_dev_addr_t *dev);

/**
 * Pack a valid address.
 *
 * @param [out] buf  vqp_*_addr_len() bytes; no alignment needed.
 *
 * @return Bytes written.
 */
size_t vqp_dev_addr_pack(const vqp_dev_addr_t *addr, void *buf);
size_t vqp_iface_addr_pack(const vqp_iface_addr_t *addr, void *buf);

/**
 * Unpack and validate an address.
 *
 * @param [in] len  Bytes that may be read; or SIZE_MAX if the caller has no length and
 *                  trusts the source of the address, which has its own length.
 *
 * @return VQP_OK, VQP_ERR_UNSUPPORTED (another version), VQP_ERR_PROTOCOL.
 */
vqp_status_t vqp_dev_addr_unpack(const void *buf, size_t len,
                                 vqp_dev_addr_t *addr);
vqp_status_t vqp_iface_addr_unpack(const void *buf, size_t len,
                                   vqp_iface_addr_t *addr);

/**
 * Can the local device reach the remote one? They must have the same link layer and GID
 * type, and on InfiniBand the same subnet prefix. On Ethernet any GID is accepted: RoCEv2
 * packets are routed, and a RoCEv1 GID does not contain its broadcast domain. The
 * partition keys must be equal, and at most one of them that of a limited member.
 *
 * @param [out] why   The reason, as text for a log line; empty if reachable.
 *                    May be NULL.
 * @param [in]  size  Bytes of @a why.
 *
 * @return 1 or 0.
 */
int vqp_dev_addr_reachable(const vqp_dev_addr_t *local,
                           const vqp_dev_addr_t *remote, char *why,
                           size_t size);

#endif
