/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of rings that grow, see vqp_ring.h. */
#include "uct/vqp_ring.h"

#include "uct/vqp_mirror.h"

#include "core/mirror.h"
#include "core/rings.h"

#include <ucs/async/async.h>
#include <ucs/debug/log.h>
#include <ucs/sys/math.h>

#include <sys/mman.h>

/* Memory for a ring of many: none takes more than a part of what is free, so that
 * those that come later find some */
#define UCT_VQP_RING_SHARE 4

/* Of what the process may pin: connections need the rest, and fail without. Each rail pins
 * a ring apart */
#define UCT_VQP_RING_LIMIT_SHARE 8

void uct_vqp_rings_init(uct_vqp_iface_t *iface)
{
    size_t limit   = vqp_ib_mr_limit();
    size_t share   = limit / (UCT_VQP_RING_LIMIT_SHARE *
                              uct_vqp_iface_md(iface)->num_rails);
    size_t largest;

    if ((limit != SIZE_MAX) && (iface->set.max_mem > share)) {
        iface->set.max_mem = share;
        ucs_debug("rings grow by %zu bytes at most, as the limit on locked memory is %zu",
                  share, limit);
    }

    largest             = iface->set.max_mem / UCT_VQP_RING_SHARE;
    iface->set.ring_max = (largest < iface->set.ring_min) ? iface->set.ring_min :
                          ucs_min(iface->set.ring_max,
                                  (uint32_t)UCS_BIT(ucs_ilog2(ucs_min(largest, UCS_GBYTE))));
}

static int uct_vqp_ring_has_room(const uct_vqp_iface_t *iface, size_t size)
{
    size_t free_bytes = iface->set.max_mem - iface->ring_bytes;

    return size <= free_bytes / UCT_VQP_RING_SHARE;
}

/* Memory is not mandatory: what is not to be had is no error */
static int uct_vqp_ring_alloc(uct_vqp_iface_t *iface, uct_vqp_ring_t *ring,
                              size_t size, unsigned access)
{
    uct_vqp_md_t *md          = uct_vqp_iface_md(iface);
    vqp_ib_mr_params_t params = {
        .length    = size,
        .access    = access,
        .log_level = VQP_IB_LOG_DIAG
    };

    if (!uct_vqp_ring_has_room(iface, size)) {
        ucs_debug("a ring of %zu bytes exceeds its share of UCX_VQP_MAX_MEM: %zu of "
                  "%zu bytes are used", size, iface->ring_bytes, iface->set.max_mem);
        return 0;
    }

    params.address = mmap(NULL, size, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (params.address == MAP_FAILED) {
        ucs_diag("failed to map %zu bytes for a larger active message ring: %m", size);
        return 0;
    }

    if (vqp_ib_mr_reg(&ring->mr, md->dev_ptrs, md->num_rails, &params) != VQP_OK) {
        munmap(params.address, size);
        return 0;
    }

    ring->memory       = params.address;
    ring->size         = size;
    iface->ring_bytes += size;
    return 1;
}

static void uct_vqp_ring_free(uct_vqp_iface_t *iface, uct_vqp_ring_t *ring)
{
    if (ring->memory == NULL) {
        return;
    }

    (void)vqp_ib_mr_dereg(&ring->mr);
    munmap(ring->memory, ring->size);
    iface->ring_bytes -= ring->size;
    ring->memory       = NULL;
}

static void uct_vqp_ring_get(uct_vqp_t *vqp)
{
    uct_vqp_ring_t *ring = &vqp->rings[vqp->core.rings.next - 1];

    if (uct_vqp_ring_alloc(vqp->iface, ring, vqp_ring_wanted(&vqp->core),
                           VQP_IB_ACCESS_LOCAL_WRITE | VQP_IB_ACCESS_REMOTE_WRITE)) {
        ucs_debug("vqp %u: its ring grows to %zu bytes", vqp->number, ring->size);
        vqp_ring_made(&vqp->core, ring->memory, ring->mr.rkey, ring->mr.num_rails);
    } else {
        vqp_ring_made(&vqp->core, NULL, NULL, 0);
    }
}

static void uct_vqp_grown_mirror_get(uct_vqp_t *vqp)
{
    uct_vqp_ring_t *mirror = &vqp->mirrors[vqp->core.rings.tx_next - 1];

    if (uct_vqp_ring_alloc(vqp->iface, mirror, vqp_mirror_wanted(&vqp->core),
                           VQP_IB_ACCESS_LOCAL_WRITE)) {
        vqp_mirror_made(&vqp->core, mirror->memory, mirror->mr.lkey);
    } else {
        vqp_mirror_made(&vqp->core, NULL, NULL);
    }
}

static void uct_vqp_mirrors_put(uct_vqp_t *vqp, unsigned numbers)
{
    unsigned i;

    if (numbers & 1) {
        uct_vqp_mirror_put(vqp);
    }
    for (i = 0; i < VQP_RING_LAST; ++i) {
        if (numbers & UCS_BIT(i + 1)) {
            uct_vqp_ring_free(vqp->iface, &vqp->mirrors[i]);
        }
    }
}

void uct_vqp_handle_ring_event(uct_vqp_t *vqp, vqp_event_t event)
{
    uct_vqp_iface_t *iface = vqp->iface;

    /* the control plane destroys vqps, too */
    UCS_ASYNC_BLOCK(iface->super.worker->async);
    switch (event) {
    case VQP_EVENT_RING_GET:
        uct_vqp_ring_get(vqp);
        break;
    case VQP_EVENT_RING_PUT:
        uct_vqp_ring_free(iface, &vqp->rings[vqp->core.rings.put - 1]);
        break;
    case VQP_EVENT_MIRROR_GET:
        uct_vqp_grown_mirror_get(vqp);
        break;
    default:
        uct_vqp_mirrors_put(vqp, vqp_mirrors_put(&vqp->core));
        break;
    }
    UCS_ASYNC_UNBLOCK(iface->super.worker->async);
    uct_vqp_schedule(vqp); /* what the core sends about it */
}

void uct_vqp_rings_free(uct_vqp_t *vqp)
{
    unsigned i;

    uct_vqp_mirror_put(vqp);
    for (i = 0; i < VQP_RING_LAST; ++i) {
        uct_vqp_ring_free(vqp->iface, &vqp->rings[i]);
        uct_vqp_ring_free(vqp->iface, &vqp->mirrors[i]);
    }
}
