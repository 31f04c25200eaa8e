/* SPDX-License-Identifier: BSD-3-Clause */
/* Flows of paths, see vqp_flow.h. */
#include "uct/vqp_flow.h"

#include "core/conn/entropy.h"

#define UCT_VQP_REHASH_EPOCH 128u /* there are 2^14 flows, 256 for each path */

/* Each path is a flow: the label selects the UDP source port, and with it the link
 * of a LAG or ECMP group. The cookie differs by process, endpoint and side, so that
 * processes use different ports. A path that is rebuilt is another flow: it may have
 * failed because of the link. So is one whose port was changed meanwhile: its label is that
 * of an epoch far from its own. */
uint32_t uct_vqp_flow_label(const uct_vqp_t *vqp, unsigned index)
{
    const uct_vqp_settings_t *set = &vqp->iface->set;
    unsigned epoch = vqp->paths[index].fo.epoch +
                     (vqp->ib_paths[index].rehashed ? UCT_VQP_REHASH_EPOCH : 0);
    unsigned flow  = index + (epoch * VQP_MAX_PATHS);

    return (set->num_labels == 0) ?
           vqp_entropy_label(vqp->conn.cookie, flow) :
           set->labels[index % set->num_labels];
}

int uct_vqp_iface_can_rehash(const uct_vqp_iface_t *iface)
{
    unsigned i;

    for (i = 0; i < iface->num_rails; ++i) {
        if ((iface->rails[i].gid.type != VQP_IB_GID_ROCE_V2) ||
            (iface->rails[i].dev->mlx5.modify_qp_udp_sport == NULL)) {
            return 0;
        }
    }

    return 1;
}
