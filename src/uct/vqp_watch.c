/* The vqps whose paths have timers, see vqp_watch.h. */
#include "uct/vqp_watch.h"

#include "core/failover/failover.h"

static void uct_vqp_iface_set_watched(uct_vqp_iface_t *iface, uct_vqp_t *vqp)
{
    __atomic_store_n(&iface->watched, vqp, __ATOMIC_RELAXED);
}

void uct_vqp_watch_paths(uct_vqp_t *vqp)
{
    uct_vqp_iface_t *iface = vqp->iface;
    uint64_t next          = vqp_path_next_timeout(&vqp->core);

    if (next == UINT64_MAX) {
        return;
    }

    iface->path_due = ucs_min(iface->path_due, ucs_max(next, iface->path_pause));
    if (!vqp->is_watched) {
        vqp->is_watched   = 1;
        vqp->watched_next = iface->watched;
        uct_vqp_iface_set_watched(iface, vqp);
        iface->todo      |= UCT_VQP_TODO_PATHS | UCT_VQP_TODO_TIMER;
    }
}

void uct_vqp_iface_watch_now(uct_vqp_iface_t *iface)
{
    iface->path_due   = 0;
    iface->path_calls = 0;
}

uct_vqp_t *uct_vqp_iface_take_watched(uct_vqp_iface_t *iface)
{
    uct_vqp_t *vqp = iface->watched;

    uct_vqp_iface_set_watched(iface, NULL);
    iface->todo    &= ~(uint32_t)UCT_VQP_TODO_PATHS;
    iface->path_due = UINT64_MAX;
    return vqp;
}
