/* SPDX-License-Identifier: BSD-3-Clause */
/* Samples of the latency of paths, see vqp_sample.h. */
#include "uct/vqp_sample.h"

void uct_vqp_iface_start_sampling(uct_vqp_iface_t *iface)
{
    iface->todo |= UCT_VQP_TODO_SAMPLE;
}

void uct_vqp_iface_stop_sampling(uct_vqp_iface_t *iface)
{
    iface->todo        &= ~(uint32_t)UCT_VQP_TODO_SAMPLE;
    iface->sampler.path = NULL;
}

void uct_vqp_sample(uct_vqp_t *vqp, const vqp_batch_t *batch)
{
    uct_vqp_iface_t *iface = vqp->iface;

    if (vqp_sampler_begin(&iface->sampler, &vqp->core.tx, batch, uct_vqp_now())) {
        iface->sampled = vqp;
    }
}

/* A vqp that has no memory for samples was created before there was telemetry */
void uct_vqp_iface_look_at_sample(uct_vqp_iface_t *iface)
{
    const vqp_path_t *path = iface->sampler.path;
    uct_vqp_t *vqp         = iface->scheduled;

    if (path == NULL) {
        if ((vqp != NULL) && (vqp->latency != NULL) && vqp_is_connected(&vqp->core)) {
            vqp_sampler_choose(&iface->sampler, &vqp->core.tx);
        }
    } else if (vqp_sampler_look(&iface->sampler)) {
        vqp_latency_add(&iface->sampled->latency[path->index],
                        uct_vqp_now() - iface->sampler.since);
    }
}

void uct_vqp_end_sample(uct_vqp_t *vqp)
{
    if (vqp->iface->sampled == vqp) {
        vqp->iface->sampler.path = NULL;
    }
}
