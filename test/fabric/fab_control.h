/*
 * Behind fabric.h: what a test, or a fault that happens at a time, does to the
 * fabric, and what it counts.
 */
#ifndef FAB_CONTROL_H
#define FAB_CONTROL_H

#include "fabric.h"

/* Objects of this process that are counted */
enum fab_object {
    FAB_OBJ_CONTEXT,
    FAB_OBJ_PD,
    FAB_OBJ_MR,
    FAB_OBJ_CHANNEL,
    FAB_OBJ_CQ,
    FAB_OBJ_SRQ,
    FAB_OBJ_QP,
    FAB_OBJ_AH,
    FAB_NUM_OBJS
};

extern unsigned fab_control_objects[FAB_NUM_OBJS];

/* One was created (1) or destroyed (-1) */
static inline void fab_control_count(enum fab_object object, int change)
{
    __atomic_fetch_add(&fab_control_objects[object], (unsigned)change,
                       __ATOMIC_RELAXED);
}

/**
 * QPs of this process go to ERR, and what they hold is flushed. Takes the
 * locks of QPs and CQs.
 *
 * @param dev  Index, or UINT32_MAX: any. @param qpn  The same.
 * @return 0, ENODEV, or ENOENT if there is no such QP.
 */
int fab_control_qp_error(uint32_t dev, uint32_t qpn);

/**
 * A port goes down, or up, in the whole world.
 *
 * @param dev   Index, or UINT32_MAX: all of them.
 * @param port  From 1.
 * @return 0, ENODEV or EINVAL.
 */
int fab_control_port(uint32_t dev, uint32_t port, int up);

/**
 * The GIDs of a port have another index: see fab_port_move_gids().
 *
 * @param dev  As above.
 * @return 0, ENODEV or EINVAL.
 */
int fab_control_gids(uint32_t dev, uint32_t port, uint64_t moved);

#endif
