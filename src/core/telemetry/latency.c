/* SPDX-License-Identifier: BSD-3-Clause */
/* Samples of the latency of paths, see latency.h. Pure: libc only. */
#include "core/telemetry/latency.h"

/* Turns from the path that is next to that of the frag */
static unsigned vqp_sampler_turns(const vqp_sampler_t *sampler, const vqp_tx_t *tx,
                                  const vqp_frag_t *frag)
{
    unsigned next  = sampler->last + 1u;
    unsigned index = frag->path->index;

    return (index >= next) ? index - next : index + tx->paths.count - next;
}

static const vqp_frag_t *
vqp_sampler_select(const vqp_sampler_t *sampler, const vqp_tx_t *tx,
                   const vqp_batch_t *batch)
{
    const vqp_frag_t *chosen = NULL;
    const vqp_frag_t *frag;
    unsigned i;

    for (i = 0; i < batch->count; ++i) {
        frag = &batch->frags[i];
        if ((frag->flags & VQP_FRAG_SIGNALED) &&
            ((chosen == NULL) || (vqp_sampler_turns(sampler, tx, frag) <
                                  vqp_sampler_turns(sampler, tx, chosen)))) {
            chosen = frag;
        }
    }

    return chosen;
}

void vqp_sampler_choose(vqp_sampler_t *sampler, vqp_tx_t *tx)
{
    if (tx->failed) {
        return;
    }

    if (sampler->skip > 0) {
        --sampler->skip;
        return;
    }

    sampler->skip = VQP_LATENCY_SKIP - 1;
    tx->slow     |= VQP_TX_SAMPLE;
}

int vqp_sampler_begin(vqp_sampler_t *sampler, vqp_tx_t *tx, const vqp_batch_t *batch,
                      uint64_t now)
{
    const vqp_frag_t *chosen = vqp_sampler_select(sampler, tx, batch);

    if ((chosen == NULL) || ((vqp_sampler_turns(sampler, tx, chosen) > 0) &&
                             (sampler->tries++ < VQP_LATENCY_TRIES))) {
        return 0;
    }

    sampler->tries = 0;
    tx->slow &= ~(uint32_t)VQP_TX_SAMPLE;
    if ((sampler->path != NULL) || tx->failed) {
        return 0; /* another sender was earlier; or no completion may come */
    }

    sampler->path   = chosen->path;
    sampler->last   = chosen->path->index;
    sampler->slot   = chosen->slot;
    sampler->qp_tag = chosen->path->qp_tag;
    sampler->since  = now;
    return 1;
}

int vqp_sampler_look(vqp_sampler_t *sampler)
{
    const vqp_path_t *path = sampler->path;

    if ((path->qp_tag != sampler->qp_tag) || (path->fo.state == VQP_PATH_SILENT) ||
        !vqp_path_has_traffic(path)) {
        sampler->path = NULL;
        return 0;
    }

    if ((int16_t)(path->head - sampler->slot) <= 0) {
        return 0;
    }

    sampler->path = NULL;
    return 1;
}

void vqp_latency_add(vqp_latency_t *latency, uint64_t ns)
{
    uint64_t usec   = (ns + 999) / 1000;
    unsigned bucket = 0;

    while ((bucket < VQP_LATENCY_BUCKETS - 1) && (usec > (1ul << bucket))) {
        ++bucket;
    }

    ++latency->buckets[bucket];
    latency->sum += (ns + 500) / 1000;
}
