/* SPDX-License-Identifier: BSD-3-Clause */
/* Flush and fence, of an endpoint and of the interface. */
#include "uct/vqp_desc.h"
#include "uct/vqp_ep.h"
#include "uct/vqp_pending.h"

#include "core/data/lost.h"

#include <ucs/debug/log.h>

static inline ucs_async_context_t *uct_vqp_flush_async(uct_vqp_iface_t *iface)
{
    return iface->super.worker->async;
}

/* Add a barrier that completes @a comp, or return NO_RESOURCE. The barrier of an
 * endpoint (@a is_own) fails with the connection, except after a cancel. */
static ucs_status_t
uct_vqp_flush_add(uct_vqp_t *vqp, int is_own, int ignore_failure,
                  uct_completion_t *comp)
{
    return vqp_flush(&vqp->core, is_own ? VQP_OP_BUFFER : 0, comp,
                     ignore_failure ? UCT_VQP_USER_FLUSH :
                                      UCT_VQP_USER_COMP) ?
                   UCS_OK : uct_vqp_no_resource(vqp);
}

/* Is there nothing to wait for? A completion takes the error of a loss to the user, too:
 * UCP flushes several lanes, and looks at the completions */
static int uct_vqp_is_flushed(vqp_t *core, int is_own, const uct_completion_t *comp)
{
    return !vqp_is_connected(core) ||
           (vqp_tx_is_flushed(&core->tx) &&
            ((comp == NULL) || !is_own || !(core->tx.lost & VQP_LOST_ENDPOINT)));
}

/* The flush of an endpoint, or the part of this connection in one of the interface. Of the
 * latter, losses are reported by uct_vqp_iface_take_lost() */
static ucs_status_t uct_vqp_flush(uct_vqp_t *vqp, int is_own,
                                  int ignore_failure, uct_completion_t *comp)
{
    vqp_t *core = &vqp->core;
    ucs_status_t status;
    int is_over;

    if (uct_vqp_is_flushed(core, is_own, comp)) {
        if (vqp_is_failed(core)) {
            return ignore_failure ? UCS_OK : uct_vqp_status(core->status);
        }

        return (is_own && vqp_tx_take_lost(&core->tx, VQP_LOST_ENDPOINT)) ?
                       uct_vqp_status(VQP_ERR_UNDECIDED) : UCS_OK;
    }

    uct_vqp_use(vqp);
    if (comp != NULL) {
        is_over = vqp_tx_is_flushed(&core->tx);
        status  = uct_vqp_flush_add(vqp, is_own, ignore_failure, comp);
        if (status != UCS_OK) {
            return status;
        }
        if (is_over) {
            uct_vqp_schedule_wake(vqp); /* no other completion will come */
        }
    } else if (!vqp_is_failed(core)) {
        vqp_tx_reclaim(&core->tx);
    }

    uct_vqp_tx_progress(vqp);
    return UCS_INPROGRESS;
}

/* Pending requests and the handshake precede a flush: it is refused until they have
 * ended. After a flush an endpoint has resources. */
static int uct_vqp_ep_holds_flush(const uct_vqp_ep_t *ep)
{
    const uct_vqp_t *vqp = ep->vqp;

    return ((ep->num_pending > 0) && (vqp->iface->pending_ep != ep)) ||
           (vqp->core.state == VQP_STATE_CONNECTING);
}

/* UCT_FLUSH_FLAG_REMOTE changes nothing: each flush waits until the peer's device has
 * executed what was posted before it (docs/ordering.md, 33) */
ucs_status_t uct_vqp_ep_flush(uct_ep_h tl_ep, unsigned flags,
                              uct_completion_t *comp)
{
    uct_vqp_ep_t *ep = ucs_derived_of(tl_ep, uct_vqp_ep_t);
    uct_vqp_t *vqp   = ep->vqp;
    int is_cancel    = !!(flags & UCT_FLUSH_FLAG_CANCEL);
    ucs_status_t status;

    if (ucs_test_all_flags(flags, UCT_FLUSH_FLAG_CANCEL | UCT_VQP_FLUSH_FLAG_REMOTE)) {
        ucs_error("vqp %u: a flush that cancels can not wait for the peer's memory",
                  vqp->number);
        return UCS_ERR_INVALID_PARAM;
    }

    if (is_cancel) {
        uct_vqp_ep_pending_purge(tl_ep, NULL, NULL);
        uct_vqp_cancel(vqp);
    } else if (uct_vqp_ep_holds_flush(ep)) {
        return uct_vqp_no_resource(vqp);
    }

    status = uct_vqp_flush(vqp, 1, is_cancel, comp);
    if (status == UCS_OK) {
        UCT_TL_EP_STAT_FLUSH(&ep->super);
    } else if (status == UCS_INPROGRESS) {
        UCT_TL_EP_STAT_FLUSH_WAIT(&ep->super);
    }

    return status;
}

ucs_status_t uct_vqp_ep_fence(uct_ep_h tl_ep, unsigned flags)
{
    uct_vqp_t *vqp = ucs_derived_of(tl_ep, uct_vqp_ep_t)->vqp;

    if (vqp_is_connected(&vqp->core)) {
        vqp_tx_fence(&vqp->core.tx);
    }

    UCT_TL_EP_STAT_FENCE(ucs_derived_of(tl_ep, uct_base_ep_t));
    return UCS_OK;
}

/* ---- the interface's flush and fence ---- */

/* An iface flush with a completion: one flush per connection; the last one
 * reports */
typedef struct uct_vqp_iface_flush {
    uct_completion_t  super;
    uct_completion_t *user;
} uct_vqp_iface_flush_t;

static void uct_vqp_iface_flush_cb(uct_completion_t *comp)
{
    uct_vqp_iface_flush_t *flush = ucs_derived_of(comp, uct_vqp_iface_flush_t);
    uct_completion_t *user       = flush->user;
    ucs_status_t status          = comp->status;

    ucs_free(flush);
    uct_invoke_completion(user, status);
}

/* The result of both: an error, else whether something is under way */
static inline ucs_status_t uct_vqp_flush_join(ucs_status_t a, ucs_status_t b)
{
    return (UCS_STATUS_IS_ERR(a) || (b == UCS_OK)) ? a : b;
}

/* All connections are flushed, or will be: is it unknown of an atomic whether it was
 * executed? Barriers report what they wait for */
static ucs_status_t uct_vqp_iface_take_lost(uct_vqp_iface_t *iface)
{
    int is_lost = iface->lost;
    uct_vqp_t *vqp;

    iface->lost = 0;
    ucs_list_for_each(vqp, &iface->vqp_list, list) {
        is_lost |= vqp_tx_take_lost(&vqp->core.tx, VQP_LOST_INTERFACE) != 0;
    }

    return is_lost ? uct_vqp_status(VQP_ERR_UNDECIDED) : UCS_OK;
}

/* Flush each connection that has ops in flight */
static ucs_status_t
uct_vqp_iface_flush_all(uct_vqp_iface_t *iface, uct_completion_t *comp)
{
    ucs_status_t result = UCS_OK;
    ucs_status_t status;
    uct_vqp_t *vqp;

    UCS_ASYNC_BLOCK(uct_vqp_flush_async(iface));
    ucs_list_for_each(vqp, &iface->vqp_list, list) {
        if ((vqp->ep != NULL) && uct_vqp_ep_holds_flush(vqp->ep)) {
            result = uct_vqp_flush_join(result, UCS_INPROGRESS);
        }

        status = uct_vqp_flush(vqp, 0, 1, comp);
        if ((status == UCS_INPROGRESS) && (comp != NULL)) {
            ++comp->count;
        }
        result = uct_vqp_flush_join(result, status);
    }
    /* Without a completion the user calls again until nothing is under way */
    if ((comp != NULL) || (result == UCS_OK)) {
        result = uct_vqp_flush_join(uct_vqp_iface_take_lost(iface), result);
    }
    UCS_ASYNC_UNBLOCK(uct_vqp_flush_async(iface));
    return result;
}

/* Whether a connection can not accept a barrier now. A slot may come back only if something
 * in flight gets a completion */
static int uct_vqp_holds_flush(uct_vqp_t *vqp)
{
    if ((vqp->ep != NULL) && uct_vqp_ep_holds_flush(vqp->ep)) {
        return 1;
    }

    if (!vqp_is_connected(&vqp->core) || vqp_tx_may_barrier(&vqp->core.tx)) {
        return 0;
    }

    if (!vqp_is_failed(&vqp->core)) {
        vqp_tx_reclaim(&vqp->core.tx);
    }
    (void)uct_vqp_no_resource(vqp);
    return 1;
}

static int uct_vqp_iface_holds_flush(uct_vqp_iface_t *iface)
{
    int found = 0;
    uct_vqp_t *vqp;

    UCS_ASYNC_BLOCK(uct_vqp_flush_async(iface));
    ucs_list_for_each(vqp, &iface->vqp_list, list) {
        found |= uct_vqp_holds_flush(vqp);
    }
    UCS_ASYNC_UNBLOCK(uct_vqp_flush_async(iface));
    return found;
}

ucs_status_t uct_vqp_iface_flush(uct_iface_h tl_iface, unsigned flags,
                                 uct_completion_t *comp)
{
    uct_vqp_iface_t *iface = ucs_derived_of(tl_iface, uct_vqp_iface_t);
    uct_vqp_iface_flush_t *flush;
    ucs_status_t status;

    if (flags & UCT_FLUSH_FLAG_CANCEL) {
        ucs_error("vqp: an interface flush can not cancel");
        return UCS_ERR_UNSUPPORTED;
    }

    if (comp == NULL) {
        return uct_vqp_iface_flush_all(iface, NULL);
    }

    if (uct_vqp_iface_holds_flush(iface)) {
        return UCS_ERR_NO_RESOURCE;
    }

    flush = ucs_malloc(sizeof(*flush), "uct_vqp_iface_flush");
    if (flush == NULL) {
        ucs_error("failed to allocate a flush of an interface");
        return UCS_ERR_NO_MEMORY;
    }

    flush->super.func   = uct_vqp_iface_flush_cb;
    flush->super.count  = 1;
    flush->super.status = UCS_OK;
    flush->user         = comp;
    status              = uct_vqp_iface_flush_all(iface, &flush->super);
    if (UCS_STATUS_IS_ERR(status)) {
        /* flushes that were accepted can not be revoked */
        uct_completion_update_status(&flush->super, status);
    }

    if (--flush->super.count == 0) {
        ucs_free(flush);
        return status;
    }

    return UCS_INPROGRESS;
}

ucs_status_t uct_vqp_iface_fence(uct_iface_h tl_iface, unsigned flags)
{
    uct_vqp_iface_t *iface = ucs_derived_of(tl_iface, uct_vqp_iface_t);

    ++iface->fences;
    UCT_TL_IFACE_STAT_FENCE(&iface->super);
    return UCS_OK;
}
