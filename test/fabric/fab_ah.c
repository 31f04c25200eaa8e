/*
 * Address vectors and handles: whether they are good, where they lead, and how
 * to answer a datagram. May call libc, fab_gid.
 */
#include "fab_ud.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fab_config.h"
#include "fab_ctx.h"
#include "fab_fault.h"
#include "fab_gid.h"

void fab_route(uint32_t dev, const struct ibv_ah_attr *attr,
               uint32_t *peer_dev, uint32_t *peer_port)
{
    unsigned device = 0, port = 0;
    int ret;

    (void)dev;
    if (fab_config.link == FAB_LINK_INFINIBAND) {
        ret = fab_gid_find_lid(attr->dlid, &device, &port);
    } else {
        ret = fab_gid_find(&attr->grh.dgid, &device, &port);
    }

    *peer_dev  = (ret == 0) ? device : ~0u;
    *peer_port = port;
}

int fab_av_check(uint32_t dev, const struct ibv_ah_attr *attr)
{
    enum fab_gid_type type = FAB_GID_EMPTY;
    uint32_t peer_dev, peer_port;
    union ibv_gid gid;

    if ((attr->port_num == 0) || (attr->port_num > fab_config.ports) ||
        ((fab_config.link == FAB_LINK_ETHERNET) && !attr->is_global)) {
        return EINVAL;
    }

    if (attr->is_global &&
        ((fab_gid_get(dev, attr->port_num, attr->grh.sgid_index, &gid, &type) !=
          0) || (type == FAB_GID_EMPTY))) {
        return EINVAL;
    }

    if (fab_config.link == FAB_LINK_ETHERNET) {
        fab_route(dev, attr, &peer_dev, &peer_port);
        return (peer_dev == ~0u) ? EHOSTUNREACH : 0;
    }
    return 0;
}

struct ibv_ah *fab_ah_create(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    uint32_t dev = fab_context_dev(pd->context);
    struct fab_ah_handle *handle;
    enum fab_gid_type type;
    int ret, late;

    ret = fab_av_check(dev, attr);
    if (((ret == 0) || (ret == EHOSTUNREACH)) &&
        (fab_config.link == FAB_LINK_ETHERNET)) {
        late = fab_fault_resolve(dev); /* it has waited */
        ret  = (late != 0) ? late : ret;
    }
    if (ret != 0) {
        errno = ret;
        return NULL;
    }

    handle = calloc(1, sizeof(*handle));
    if (handle == NULL) {
        return NULL;
    }

    handle->ibv.context = pd->context;
    handle->ibv.pd      = pd;
    handle->attr        = *attr;
    (void)fab_gid_get(dev, attr->port_num, attr->grh.sgid_index, &handle->sgid,
                      &type);
    fab_route(dev, attr, &handle->dev, &handle->port);
    __atomic_fetch_add(&fab_pd_of(pd)->users, 1, __ATOMIC_RELAXED);
    return &handle->ibv;
}

int fab_ah_destroy(struct ibv_ah *ah)
{
    __atomic_fetch_sub(&fab_pd_of(ah->pd)->users, 1, __ATOMIC_RELAXED);
    free(fab_ah_of(ah));
    return 0;
}

/* Both addresses of a header: IPv6 and InfiniBand as they are; an IPv4 header
   is in the second half, and its addresses become mapped ones */
static void fab_grh_gids(const struct ibv_grh *grh, union ibv_gid *sgid,
                         union ibv_gid *dgid)
{
    const uint8_t *ipv4 = (const uint8_t*)grh + 20;

    if ((ntohl(grh->version_tclass_flow) >> 28) == 6) {
        *sgid = grh->sgid;
        *dgid = grh->dgid;
        return;
    }

    memset(sgid, 0, sizeof(*sgid));
    sgid->raw[10] = 0xff;
    sgid->raw[11] = 0xff;
    *dgid         = *sgid;
    memcpy(&sgid->raw[12], &ipv4[12], 4);
    memcpy(&dgid->raw[12], &ipv4[16], 4);
}

int fab_ah_attr_from_wc(struct ibv_context *context, uint8_t port_num,
                        struct ibv_wc *wc, struct ibv_grh *grh,
                        struct ibv_ah_attr *attr)
{
    uint32_t dev = fab_context_dev(context);
    enum fab_gid_type type;
    union ibv_gid own, gid;
    int i;

    memset(attr, 0, sizeof(*attr));
    attr->dlid     = wc->slid;
    attr->sl       = wc->sl;
    attr->port_num = port_num;
    if (!(wc->wc_flags & IBV_WC_GRH)) {
        return 0;
    }

    attr->is_global     = 1;
    attr->grh.hop_limit = 64;
    fab_grh_gids(grh, &attr->grh.dgid, &own);
    for (i = 0; fab_gid_get(dev, port_num, i, &gid, &type) == 0; ++i) {
        if ((type != FAB_GID_EMPTY) && (type != FAB_GID_ROCE_V1) &&
            !memcmp(&gid, &own, sizeof(gid))) {
            attr->grh.sgid_index = (uint8_t)i;
            return 0;
        }
    }

    errno = ENOENT;
    return -1;
}
