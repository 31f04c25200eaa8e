/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Layout of wr_id: a CQE leads to its vqp, path and slot by array index. On an
 * error only wr_id, status, qp_num and vendor_err of a CQE are valid, so wr_id
 * has the direction and the tag of the queue pair, too. libc only.
 */
#ifndef VQP_IB_WRID_H
#define VQP_IB_WRID_H

#include <stdint.h>

/*
 *   bits  0-15  slot in the send queue (sends)
 *        16-31  qp_tag: identifies the queue pair of the path
 *        32-39  path
 *        40-62  vqp
 *           63  receive
 */
#define VQP_IB_WRID_RECV    (1ull << 63)
#define VQP_IB_WRID_VQP_MAX (1u << 23)

/* Path and queue pair: all but direction and slot */
#define VQP_IB_WRID_PATH    (~(VQP_IB_WRID_RECV | 0xffffull))

/** The wr_id of slot 0 of a queue pair. CQEs whose @a qp_tag is not that of the path are
 *  stale. */
static inline uint64_t vqp_ib_wrid(uint32_t vqp, uint8_t path, uint16_t qp_tag)
{
    return ((uint64_t)vqp << 40) | ((uint64_t)path << 32) |
           ((uint64_t)qp_tag << 16);
}

static inline uint32_t vqp_ib_wrid_vqp(uint64_t wrid)
{
    return (uint32_t)(wrid >> 40) & (VQP_IB_WRID_VQP_MAX - 1);
}

static inline uint8_t vqp_ib_wrid_path(uint64_t wrid)
{
    return (uint8_t)(wrid >> 32);
}

static inline uint16_t vqp_ib_wrid_slot(uint64_t wrid)
{
    return (uint16_t)wrid;
}

#endif
