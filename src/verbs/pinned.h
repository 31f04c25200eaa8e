/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an interface and a connection pin with default options, for those that
 * compare it with a limit. Constants only.
 */
#ifndef VQP_IB_PINNED_H
#define VQP_IB_PINNED_H

/*
 * Bytes that count against the limit on locked memory, on each rail. docs/memory.md
 * derives them. src/uct asserts CONTROL and PROBES where it registers them, test/uct
 * measures CONN on devices that pin, and test/load/vqp_run.sh compares all with that page.
 * The _DRIVER ones are what the drivers of ConnectX allocate.
 */
#define VQP_IB_PINNED_CONTROL        1331200u /* buffers of control datagrams */
#define VQP_IB_PINNED_PROBES         8192u    /* for probes of paths, two registrations */
#define VQP_IB_PINNED_CONTROL_DRIVER 45056u   /* control queue pair, its CQ */
#define VQP_IB_PINNED_MIRRORS        131072u  /* four, from the first connection on */
#define VQP_IB_PINNED_MIRROR         32768u   /* of a connection, while it sends messages */
#define VQP_IB_PINNED_CONN           39936u   /* ring, credit cells, results */
#define VQP_IB_PINNED_QP_DRIVER      12288u   /* buffer of a queue pair */
#define VQP_IB_PINNED_CQ_DRIVER      11392u   /* its entries in CQs */

#define VQP_IB_PINNED_IFACE \
    (VQP_IB_PINNED_CONTROL + VQP_IB_PINNED_PROBES + VQP_IB_PINNED_CONTROL_DRIVER + \
     VQP_IB_PINNED_MIRRORS)

/* The mirrors of an interface take at most the limit divided by this. Connections need the
 * rest, and fail without */
#define VQP_IB_PINNED_MIRRORS_SHARE  4u

/* A connection with one path, before load and without a mirror */
#define VQP_IB_PINNED_PEER \
    (VQP_IB_PINNED_CONN + VQP_IB_PINNED_QP_DRIVER + VQP_IB_PINNED_CQ_DRIVER)

#endif
