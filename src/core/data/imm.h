/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The 32-bit immediate that announces a frag: 24 bits fsn, 8 bits flags.
 * docs/protocol.md, "Immediates", has the table.
 */
#ifndef VQP_CORE_DATA_IMM_H
#define VQP_CORE_DATA_IMM_H

#include "core/seq.h"

enum {
    VQP_IMM_LAST    = 1u << 24, /* closes an AM record */
    VQP_IMM_WRAP    = 1u << 25, /* with LAST: the record is at ring offset 0 */
    VQP_IMM_CREDIT  = 1u << 26, /* a credit cell of this path was written */
    VQP_IMM_CONTROL = 1u << 27, /* with LAST: the record is for the core, not for the user */
    VQP_IMM_FLAGS   = VQP_IMM_LAST | VQP_IMM_WRAP | VQP_IMM_CREDIT | VQP_IMM_CONTROL
};

static inline uint32_t vqp_imm_fsn(uint32_t imm)
{
    return imm & VQP_FSN_MASK;
}

/** Flags that no version defines, or an invalid combination. */
static inline int vqp_imm_is_valid(uint32_t imm)
{
    uint32_t flags = imm & ~VQP_FSN_MASK;

    return ((flags & ~(uint32_t)VQP_IMM_FLAGS) == 0) &&
           (!(flags & (VQP_IMM_WRAP | VQP_IMM_CONTROL)) || (flags & VQP_IMM_LAST)) &&
           (!(flags & VQP_IMM_CREDIT) || (flags == VQP_IMM_CREDIT));
}

#endif
