/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control datagrams that two interfaces exchange over their UD queue
 * pairs: layout, encoding, and the validation of everything received.
 * Pure: libc only.
 *
 * All numbers are little endian. Reserved bytes are sent as zero and ignored.
 * A message starts with this header:
 *
 *    0  u32 magic          "VQPC"
 *    4  u8  version        VQP_WIRE_VERSION
 *    5  u8  type           vqp_wire_type_t
 *    6  u16 length         of the whole message, exactly what was received
 *    8  u32 features       VQP_WIRE_FEATURE_* of the sender
 *   12  u32 number         connection number, 1 .. VQP_WIRE_NUMBER_MAX
 *   16  u64 src_iface      interface id of the sender, not zero
 *   24  u64 dst_iface      interface id of the receiver, not zero
 *   32  u64 src_cookie     the sender's name of the connection
 *   40  u64 dst_cookie     the receiver's; zero: not known to the sender
 *   48  u16 flags          VQP_WIRE_FLAG_*
 *   50  u16 reserved
 *   52  u32 serial         BYE, BYE_ACK: which close of the closer it is;
 *                          PATH_*: epoch of the path; RST: highest used number,
 *                          with the flag that says so; else zero
 *   56
 *
 * BYE, BYE_ACK and RST end here. REQ and REP describe the sender's side of the
 * connection:
 *
 *   56  u64 ring_addr      AM ring of the sender, which its peer writes
 *   64  u64 cell_addr      credit cells, one per path
 *   72  u32 ring_size      bytes, a power of two
 *   76  u32 fsn_window     fsns, a power of two
 *   80  u32 first_fsn      24 bits: the first one that the sender will use
 *   84  u32 rx_depth       receives posted on each path
 *   88  u8  max_reads      READs and atomics on each path that it serves
 *   89  u8  num_rails      1 .. VQP_MAX_RAILS
 *   90  u8  num_paths      1 .. VQP_MAX_PATHS
 *   91  u8  max_paths      with ELASTIC: num_paths .. VQP_MAX_PATHS; zero: num_paths
 *   92  u16 key_layout     identifies the devices of its memory keys, and their
 *                          order; zero: one device
 *   94  u16 reserved
 *   96  u64 scratch_addr   VQP_SCRATCH_SIZE bytes for probes of paths; zero: none
 *  104  num_rails times:
 *        0  u32 ud_qpn     24 bits, control queue pair
 *        4  u16 lid        zero on Ethernet
 *        6  u8  mtu        1 .. 5: 256 .. 4096 bytes
 *        7  u8  link       vqp_link_t
 *        8  16  gid        network order, as on the wire
 *       24  u32 ring_rkey  of the AM ring and the credit cells
 *       28  u32 scratch_rkey
 *   then num_paths times:
 *        0  u32 qpn        24 bits
 *        4  u24 psn        first packet that the sender will send
 *        7  u8  rail       index into the rails
 *
 * PATH_DOWN requests that a path is given up. With the flag DRAINED it has the final
 * executed count of the sender, for the requests of the path's old epoch:
 *
 *   56  u8  path
 *   57  u8  source         vqp_source_t: what count counts
 *   58  u8  fails          times in a row that the path did not come up at the sender
 *   59  u8  rail           with DRAINED: 1 + the rail of the receiver that its next
 *                          queue pair is to be on; 0: any
 *   60  u32 count          24 bits: requests or packets executed since the queue
 *                          pairs were connected
 *   64  u32 imms           24 bits: immediates received, likewise
 *   68  u32 reserved
 *   72
 *
 * PATH_UP announces the path's new queue pair:
 *
 *   56  u8  path
 *   57  u8  rail           index into the rails of REQ or REP
 *   58  u8  first          1 + the rail that the path was on first; 0: as rail
 *   59  u8  reserved
 *   60  u32 qpn            24 bits
 *   64  u32 psn            24 bits
 *   68  u32 reserved
 *   72
 *
 * The longest message is REQ with 4 rails and 64 paths, 744 bytes: it fits an MTU
 * of 1024.
 */
#ifndef VQP_CORE_CONN_WIRE_H
#define VQP_CORE_CONN_WIRE_H

#include "core/status.h"

#define VQP_WIRE_MAGIC       0x43505156u /* "VQPC" */
#define VQP_WIRE_VERSION     2
#define VQP_WIRE_HEADER_LEN  56
#define VQP_WIRE_INFO_LEN    48          /* without rails and paths */
#define VQP_WIRE_RAIL_LEN    32
#define VQP_WIRE_PATH_LEN    8
#define VQP_WIRE_MAX_LEN     1024        /* no message is longer */
#define VQP_WIRE_NUMBER_MAX  0x7fffffffu
#define VQP_WIRE_MAX_WINDOW  4096        /* fsns */
#define VQP_WIRE_MAX_RX_DEPTH 32768
#define VQP_WIRE_MIN_RING    4096
#define VQP_WIRE_MAX_RING    (1u << 30)
#define VQP_WIRE_SOURCES     3           /* vqp_source_t */
#define VQP_GID_LEN          16

/* Message types: value and name */
#define VQP_WIRE_TYPES(_) \
    _(REQ, 1)           /* request to connect */ \
    _(REP, 2)           /* answer to REQ; not answered itself */ \
    _(BYE, 3)           /* the side is closed; repeated until answered */ \
    _(BYE_ACK, 4)       /* answer to BYE: is the connection still used? */ \
    _(RST, 5)           /* the connection is unknown, or aborted */ \
    _(PATH_DOWN, 6)     /* the path is given up; repeated until answered */ \
    _(PATH_UP, 7)       /* the path's new queue pair; likewise */

typedef enum {
    VQP_WIRE_TYPE_NONE = 0, /* no message */
#define VQP_WIRE_TYPE_ENUM(_name, _value) VQP_WIRE_##_name = _value,
    VQP_WIRE_TYPES(VQP_WIRE_TYPE_ENUM)
#undef VQP_WIRE_TYPE_ENUM
    VQP_WIRE_TYPE_LAST
} vqp_wire_type_t;

/* REQ, REP, PATH_UP: the sender's queue pairs are connected to the receiver's,
 * with receives posted. PATH_DOWN: the sender has the receiver's count; with SILENT: the
 * receiver's question of this number is over at the sender, too */
#define VQP_WIRE_FLAG_HAVE_YOURS   0x1
/* BYE_ACK: an endpoint uses the sender's side and is not closing */
#define VQP_WIRE_FLAG_STILL_ACTIVE 0x2
/* RST: the sender's interface is closed, and no endpoint used this side: no data is lost */
#define VQP_WIRE_FLAG_ORDERLY      0x4
/* RST: the number in the REQ has been used; serial is the highest used one */
#define VQP_WIRE_FLAG_NUMBER_USED  0x8
/* PATH_DOWN: no packet of the old epoch can arrive any more; count is final */
#define VQP_WIRE_FLAG_DRAINED      0x10
/* PATH_DOWN, PATH_UP: an answer, which is never answered itself */
#define VQP_WIRE_FLAG_ANSWER       0x20
/* RST: repeat the REQ with this flag, and with src_cookie as its dst_cookie. This
 * proves that its sender receives what is sent to its rails */
#define VQP_WIRE_FLAG_PROVE        0x40
/* PATH_DOWN: the path works and is to be moved. With DRAINED, nothing of the sender is
 * in flight on it. The count is not valid */
#define VQP_WIRE_FLAG_LEAVING      0x80
/* PATH_DOWN: an answer which only shows that the sender's process exists. The state of
 * the path follows when it calls progress */
#define VQP_WIRE_FLAG_BUSY         0x100
/* PATH_DOWN: no completion comes on the path; the receiver may give it up. count is the
 * number of the question, not an executed count */
#define VQP_WIRE_FLAG_SILENT       0x200
/* PATH_DOWN, with SILENT: the question of this number is withdrawn. Answered by HAVE_YOURS,
 * or by a PATH_DOWN without SILENT */
#define VQP_WIRE_FLAG_WITHDRAWN    0x400
/* PATH_DOWN: the sender does not rebuild the path. With LEAVING: it wants to use the path
 * no more. With DRAINED, to a receiver that adds the path: it refuses */
#define VQP_WIRE_FLAG_UNUSED       0x800
/* RST: no connection was created, since the sender has no queue pair, completion queue or
 * memory for one. The receiver may ask again, and fails if that lasts */
#define VQP_WIRE_FLAG_LACKS        0x1000

/* Features; unknown ones are counted and ignored.
 * SPRAY: the sender notifies of a message when it has polled the completions of all its
 * frags. If it does not call progress, later messages may arrive first: a missing
 * immediate does not show that a path has failed.
 * FAILOVER: the sender gives up single paths, and rebuilds them.
 * COUNTS: each device of the sender counts what it executes: a path may be given up
 * although it is unknown whether it works.
 * ELASTIC: the sender adds paths, up to max_paths, and drops them.
 * RAILS: a path that is rebuilt may be on another rail, of either side */
#define VQP_WIRE_FEATURE_SPRAY     0x1u
#define VQP_WIRE_FEATURE_FAILOVER  0x2u
#define VQP_WIRE_FEATURE_COUNTS    0x4u
#define VQP_WIRE_FEATURE_ELASTIC   0x8u
#define VQP_WIRE_FEATURE_RINGS     0x10u
#define VQP_WIRE_FEATURE_PACK      0x20u
#define VQP_WIRE_FEATURE_RAILS     0x40u
#define VQP_WIRE_FEATURES_KNOWN    (VQP_WIRE_FEATURE_SPRAY | \
                                    VQP_WIRE_FEATURE_FAILOVER | \
                                    VQP_WIRE_FEATURE_COUNTS | \
                                    VQP_WIRE_FEATURE_ELASTIC | \
                                    VQP_WIRE_FEATURE_RINGS | \
                                    VQP_WIRE_FEATURE_PACK | \
                                    VQP_WIRE_FEATURE_RAILS)

typedef enum {
    VQP_LINK_IB  = 1,
    VQP_LINK_ETH = 2
} vqp_link_t;

/** One rail of a peer: its address and keys. */
typedef struct vqp_wire_rail {
    uint32_t ud_qpn;    /* control queue pair, 24 bits */
    uint16_t lid;
    uint8_t  mtu;       /* 1 .. 5: 256 .. 4096 bytes */
    uint8_t  link;      /* vqp_link_t */
    uint8_t  gid[VQP_GID_LEN];
    uint32_t ring_rkey; /* network keys in host order, as verbs has them */
    uint32_t scratch_rkey;
} vqp_wire_rail_t;

/** One path of a peer. */
typedef struct vqp_wire_path {
    uint32_t qpn;  /* 24 bits */
    uint32_t psn;  /* 24 bits: first packet that the peer will send */
    uint8_t  rail; /* index into rails */
} vqp_wire_path_t;

/* Bytes of the memory that a peer may write at any time, which nobody reads: one packet
 * of the largest MTU */
#define VQP_SCRATCH_SIZE 4096u

/**
 * One side of a connection: the body of REQ and REP. A local one may be allocated with
 * less room for paths, see @ref vqp_wire_info_size.
 */
typedef struct vqp_wire_info {
    uint64_t        ring_addr;
    uint64_t        cell_addr;
    uint64_t        scratch_addr; /* 0: none */
    uint32_t        ring_size;  /* bytes, a power of two */
    uint32_t        fsn_window; /* a power of two, 2 .. VQP_WIRE_MAX_WINDOW */
    uint32_t        first_fsn;  /* 24 bits */
    uint32_t        rx_depth;   /* per path, 1 .. VQP_WIRE_MAX_RX_DEPTH */
    uint8_t         max_reads;  /* per path as responder; 0: serves none */
    uint8_t         num_rails;
    uint8_t         num_paths;
    uint8_t         max_paths;  /* with those that may be added; 0: num_paths */
    uint16_t        key_layout; /* of its remote keys */
    vqp_wire_rail_t rails[VQP_MAX_RAILS];
    vqp_wire_path_t paths[VQP_MAX_PATHS]; /* the last member */
} vqp_wire_info_t;

/** The executed count of a path's old epoch: the body of PATH_DOWN. */
typedef struct vqp_wire_path_down {
    uint8_t  path;
    uint8_t  source; /* vqp_source_t of path.h */
    uint8_t  fails;  /* in a row */
    uint8_t  rail;   /* 1 + that of the receiver's next queue pair; 0: any */
    uint32_t count;  /* 24 bits */
    uint32_t imms;   /* 24 bits */
} vqp_wire_path_down_t;

/** A path's new queue pair: the body of PATH_UP. */
typedef struct vqp_wire_path_up {
    uint8_t  path;
    uint8_t  rail;
    uint32_t qpn;
    uint32_t psn;
    uint8_t  first; /* 1 + the rail that the path was on first; 0: as rail */
} vqp_wire_path_up_t;

/** The header of each message. */
typedef struct vqp_wire_header {
    vqp_wire_type_t type;
    uint32_t        features;
    uint32_t        number;
    uint64_t        src_iface;
    uint64_t        dst_iface;
    uint64_t        src_cookie;
    uint64_t        dst_cookie;
    uint16_t        flags;
    uint32_t        serial;
} vqp_wire_header_t;

/** A decoded message. */
typedef struct vqp_wire_msg {
    vqp_wire_header_t        hdr;
    union {
        vqp_wire_info_t      info;      /* REQ, REP */
        vqp_wire_path_down_t path_down; /* PATH_DOWN */
        vqp_wire_path_up_t   path_up;   /* PATH_UP */
    };
} vqp_wire_msg_t;

/** Bytes of a vqp_wire_info_t that has room for @a num_paths paths only. */
static inline size_t vqp_wire_info_size(unsigned num_paths)
{
    return offsetof(vqp_wire_info_t, paths) +
           (num_paths * sizeof(vqp_wire_path_t));
}

/** Length of a REQ or REP with that many rails and paths. */
static inline size_t vqp_wire_info_len(unsigned num_rails, unsigned num_paths)
{
    return VQP_WIRE_HEADER_LEN + VQP_WIRE_INFO_LEN +
           (num_rails * VQP_WIRE_RAIL_LEN) + (num_paths * VQP_WIRE_PATH_LEN);
}

/** Bytes of payload of an MTU enum value. */
static inline unsigned vqp_wire_mtu_bytes(unsigned mtu)
{
    return 128u << mtu;
}

const char *vqp_wire_type_name(unsigned type);

/**
 * Validate @a info, as the decoder does. The owner of a local info calls it once, before
 * connecting.
 *
 * @return VQP_OK, or VQP_ERR_PROTOCOL.
 */
vqp_status_t vqp_wire_info_check(const vqp_wire_info_t *info);

/**
 * Write a message.
 *
 * @param [in]  hdr   Header; its type selects the body.
 * @param [in]  body  vqp_wire_info_t for REQ and REP, vqp_wire_path_down_t,
 *                    vqp_wire_path_up_t, or NULL; must be valid.
 * @param [out] buf   VQP_WIRE_MAX_LEN bytes.
 *
 * @return Length of the message in bytes.
 */
size_t vqp_wire_encode(const vqp_wire_header_t *hdr, const void *body,
                       void *buf);

/**
 * Read and validate a message. Reads nothing outside of the @a len bytes, and
 * fills in the body of @a msg only if the type has one.
 *
 * @return VQP_OK
 *         VQP_ERR_UNSUPPORTED: its magic is valid, its version or type is unknown
 *         VQP_ERR_PROTOCOL: it is malformed, or the magic is another one.
 */
vqp_status_t vqp_wire_decode(const void *buf, size_t len, vqp_wire_msg_t *msg);

/** The version of a message for which vqp_wire_decode() returns VQP_ERR_UNSUPPORTED. */
static inline unsigned vqp_wire_version(const void *buf)
{
    return ((const uint8_t*)buf)[4];
}

#endif
