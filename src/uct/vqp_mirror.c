/* SPDX-License-Identifier: BSD-3-Clause */
/* Mirrors of first rings, see vqp_mirror.h. */
#include "uct/vqp_mirror.h"

#include "uct/vqp_timers.h"

#include "verbs/pinned.h"

#include "core/mirror.h"

#include <ucs/async/async.h>
#include <ucs/debug/log.h>

#include <string.h>

#define UCT_VQP_MIRROR_RETRY 1000000000ul /* ns after a failure to get more memory */
#define UCT_VQP_MIRROR_LOOKS 8 /* connections that are looked at in one call */

void uct_vqp_mirrors_init(uct_vqp_mirrors_t *mirrors, uct_vqp_md_t *md, size_t size)
{
    size_t limit = vqp_ib_mr_limit();

    uct_vqp_slabs_init(&mirrors->slabs, md, 0, size);
    ucs_list_head_init(&mirrors->used);
    mirrors->next_try  = 0;
    mirrors->max_slabs = limit / (VQP_IB_PINNED_MIRRORS_SHARE * md->num_rails *
                                  UCT_VQP_SLAB_CHUNKS * size); /* each rail pins all */
}

void uct_vqp_mirrors_cleanup(uct_vqp_mirrors_t *mirrors)
{
    uct_vqp_slabs_cleanup(&mirrors->slabs);
}

ucs_status_t uct_vqp_mirrors_reserve(uct_vqp_mirrors_t *mirrors, vqp_ib_log_level_t level)
{
    return uct_vqp_slabs_reserve(&mirrors->slabs, level);
}

static int uct_vqp_mirrors_may_grow(const uct_vqp_mirrors_t *mirrors)
{
    return (mirrors->slabs.count < mirrors->max_slabs) &&
           (uct_vqp_now() >= mirrors->next_try); /* messages wait: do not ask the system again
                                                    and again */
}

/* New memory, or what was returned */
static int uct_vqp_mirror_alloc(uct_vqp_mirrors_t *mirrors, uct_vqp_chunk_t *chunk)
{
    if (!uct_vqp_slabs_has_chunk(&mirrors->slabs) && !uct_vqp_mirrors_may_grow(mirrors)) {
        return 0;
    }

    /* it is not mandatory: no error */
    if (uct_vqp_slabs_get(&mirrors->slabs, chunk, VQP_IB_LOG_DIAG) != UCS_OK) {
        mirrors->next_try = uct_vqp_now() + UCT_VQP_MIRROR_RETRY;
        return 0;
    }

    return 1;
}

/* The next ones that have a mirror. They are the last ones the next time.
 * @return how many */
static unsigned
uct_vqp_mirrors_turn(uct_vqp_mirrors_t *mirrors, uct_vqp_t *vqps[UCT_VQP_MIRROR_LOOKS])
{
    ucs_list_link_t *last = mirrors->used.prev;
    unsigned count        = 0;

    while ((count < UCT_VQP_MIRROR_LOOKS) && !ucs_list_is_empty(&mirrors->used) &&
           ((count == 0) || (&vqps[count - 1]->mirror.list != last))) {
        vqps[count] = ucs_list_extract_head(&mirrors->used, uct_vqp_t, mirror.list);
        ucs_list_add_tail(&mirrors->used, &vqps[count]->mirror.list);
        ++count;
    }
    return count;
}

/* It has lost its mirror, or has to come to have nothing in flight */
static void uct_vqp_mirror_run(uct_vqp_t *vqp)
{
    if (vqp->iface->in_progress) {
        uct_vqp_schedule(vqp);
    } else {
        uct_vqp_schedule_wake(vqp);
    }
}

/* That of a connection that has nothing in flight. If there is none, let one of them come to
 * that */
static int uct_vqp_mirror_take(uct_vqp_mirrors_t *mirrors, uct_vqp_chunk_t *chunk)
{
    uct_vqp_t *vqps[UCT_VQP_MIRROR_LOOKS];
    unsigned count = uct_vqp_mirrors_turn(mirrors, vqps);
    unsigned i;

    for (i = 0; i < count; ++i) {
        if (vqp_take_mirror(&vqps[i]->core)) {
            ucs_list_del(&vqps[i]->mirror.list);
            *chunk                     = vqps[i]->mirror.chunk;
            vqps[i]->mirror.chunk.slab = NULL;
            memset(chunk->local, 0, mirrors->slabs.local_size); /* it was for another peer */
            uct_vqp_mirror_run(vqps[i]);
            return 1;
        }
    }

    for (i = 0; i < count; ++i) {
        if (vqp_ask_for_mirror(&vqps[i]->core)) {
            uct_vqp_mirror_run(vqps[i]);
            break;
        }
    }
    return 0;
}

int uct_vqp_mirror_get(uct_vqp_t *vqp)
{
    uct_vqp_mirrors_t *mirrors = &vqp->iface->mirrors;
    uct_vqp_chunk_t *chunk     = &vqp->mirror.chunk;

    UCS_ASYNC_BLOCK(vqp->iface->super.worker->async);
    if ((chunk->slab == NULL) && /* else MIRROR_PUT was not handled yet */
        (uct_vqp_mirror_alloc(mirrors, chunk) || uct_vqp_mirror_take(mirrors, chunk))) {
        ucs_list_add_tail(&mirrors->used, &vqp->mirror.list);
    }
    if (chunk->slab != NULL) {
        vqp_first_mirror_made(&vqp->core, chunk->local, chunk->slab->mr.lkey);
    } else {
        if (!vqp->core.rings.is_needed) {
            ucs_debug("vqp %u: messages wait for memory to send from", vqp->number);
        }
        vqp_first_mirror_made(&vqp->core, NULL, NULL);
    }
    UCS_ASYNC_UNBLOCK(vqp->iface->super.worker->async);

    if (vqp_take_event(&vqp->core, VQP_EVENT_TIMER)) {
        uct_vqp_set_timer(vqp);
    }
    return !vqp_lacks_mirror(&vqp->core);
}

void uct_vqp_mirror_put(uct_vqp_t *vqp)
{
    if (vqp->mirror.chunk.slab != NULL) {
        ucs_list_del(&vqp->mirror.list);
        uct_vqp_slabs_put(&vqp->iface->mirrors.slabs, &vqp->mirror.chunk);
        vqp->mirror.chunk.slab = NULL;
    }
}
