/* SPDX-License-Identifier: BSD-3-Clause */
/* The index of the GID of a rail, see vqp_gid.h. */
#include "uct/vqp_gid.h"

#include "uct/vqp_path_log.h"

int uct_vqp_gid_look(uct_vqp_iface_t *iface, uct_vqp_rail_t *rail)
{
    uint8_t index = rail->gid.index;
    int was_gone  = rail->is_gid_gone;
    int has_moved;

    /* first: an event during the look asks for another one */
    (void)__atomic_exchange_n(&rail->is_gid_old, 0, __ATOMIC_ACQUIRE);
    if ((rail->port.link != VQP_IB_LINK_ETH) || uct_vqp_rail_is_broken(rail)) {
        return 0;
    }

    rail->is_gid_gone = vqp_ib_gid_find(rail->dev, &rail->port, &rail->gid,
                                        &index) != VQP_OK;
    has_moved         = index != rail->gid.index;
    if (has_moved) {
        rail->gid.index = index;
        vqp_ib_ud_set_gid_index(&rail->ud, index);
    }
    if (has_moved || (rail->is_gid_gone != was_gone)) {
        uct_vqp_log_gid(iface, rail, was_gone);
    }

    return has_moved;
}
