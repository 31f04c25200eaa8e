/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Address vector: how packets reach a port of a peer.
 */
#include "verbs/av.h"

#include <string.h>

void vqp_ib_av_fill(const vqp_ib_av_t *av, struct ibv_ah_attr *attr)
{
    memset(attr, 0, sizeof(*attr));
    attr->port_num = av->port;
    attr->dlid     = av->dlid;
    attr->sl       = av->sl;
    if (!av->is_global) {
        return;
    }

    attr->is_global         = 1;
    attr->grh.sgid_index    = av->sgid_index;
    attr->grh.flow_label    = av->flow_label;
    attr->grh.hop_limit     = av->hop_limit;
    attr->grh.traffic_class = av->tclass;
    memcpy(attr->grh.dgid.raw, av->dgid, sizeof(av->dgid));
}
