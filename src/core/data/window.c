/* SPDX-License-Identifier: BSD-3-Clause */
/* The reorder window, see window.h. Pure: libc only. */
#include "core/data/window.h"

#include "core/cover.h"

#include <string.h>

void vqp_window_init(vqp_window_t *win, uint8_t *map, uint32_t size,
                     uint32_t first)
{
    vqp_assert((size & (size - 1)) == 0);

    win->base    = first & VQP_FSN_MASK;
    win->mask    = size - 1;
    win->ahead   = 0;
    win->ooo_max = 0;
    win->map     = map;
    memset(map, 0, size);
}

vqp_status_t vqp_window_insert(vqp_window_t *win, uint32_t imm)
{
    int32_t diff = vqp_fsn_diff(vqp_imm_fsn(imm), win->base);
    uint8_t *slot;

    if (!vqp_imm_is_valid(imm) || (diff > (int32_t)win->mask) ||
        (diff < -(int32_t)(win->mask + 1))) {
        vqp_cover_if(vqp_imm_is_valid(imm), WINDOW_OUTSIDE);
        vqp_cover_if(!vqp_imm_is_valid(imm), WINDOW_MALFORMED);
        return VQP_ERR_PROTOCOL;
    }

    slot = &win->map[vqp_imm_fsn(imm) & win->mask];
    if ((diff < 0) || (*slot != 0)) {
        vqp_cover_if(diff < 0, WINDOW_LATE);
        vqp_cover_if(diff >= 0, WINDOW_TWICE);
        return VQP_INPROGRESS;
    }

    vqp_cover_if(diff > 0, WINDOW_AHEAD);
    vqp_cover_if(diff == (int32_t)win->mask, WINDOW_EDGE);
    vqp_cover_if(vqp_imm_fsn(imm) < win->base, WINDOW_WRAP);
    *slot = VQP_WINDOW_PRESENT | (uint8_t)(imm >> VQP_FSN_BITS);
    __atomic_store_n(&win->ahead, win->ahead + 1, __ATOMIC_RELAXED);
    win->ooo_max = vqp_max(win->ooo_max, (uint32_t)diff);
    return VQP_OK;
}
