/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The index of the GID of a rail. A port that goes down and up, or a network that is
 * configured again, may give the GID another one. Peers know the rail by the value:
 * another value is not adopted. All functions: under the async block.
 */
#ifndef UCT_VQP_GID_H
#define UCT_VQP_GID_H

#include "uct/vqp_iface.h"

/**
 * Look for the GID in the table of the port. New queue pairs and address handles use the
 * index that is found. If the table does not have the GID, the rail stays as it is.
 *
 * @return Whether the index is another one.
 */
int uct_vqp_gid_look(uct_vqp_iface_t *iface, uct_vqp_rail_t *rail);

/** Look for it if it may have moved since the last look. To be called before the index is
 *  used. */
static inline void uct_vqp_gid_refresh(uct_vqp_iface_t *iface, uct_vqp_rail_t *rail)
{
    if (vqp_unlikely(__atomic_load_n(&rail->is_gid_old, __ATOMIC_RELAXED))) {
        (void)uct_vqp_gid_look(iface, rail);
    }
}

/** It may have moved. Any thread. */
static inline void uct_vqp_gid_set_old(uct_vqp_rail_t *rail)
{
    __atomic_store_n(&rail->is_gid_old, 1, __ATOMIC_RELEASE);
}

#endif
