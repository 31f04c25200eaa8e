/*
 * The vqps whose paths have timers: one is not UP, or frags are in flight and may be
 * silent. Progress runs the timers, see vqp_paths.h; of an interface with a sleeper
 * the timer of the control plane wakes it for that.
 */
#ifndef UCT_VQP_WATCH_H
#define UCT_VQP_WATCH_H

#include "uct/vqp_def.h"

/** Have progress run the timers of the paths, if there are any. The worker's thread. */
void uct_vqp_watch_paths(uct_vqp_t *vqp);

/** Have the next progress call run the timers: a vqp that is watched can not be
 *  released before. The worker's thread. */
void uct_vqp_iface_watch_now(uct_vqp_iface_t *iface);

/** The first of the vqps that are watched, or NULL; none is watched any more. The
 *  worker's thread. */
uct_vqp_t *uct_vqp_iface_take_watched(uct_vqp_iface_t *iface);

/** Is any vqp watched? Any thread. */
static inline int uct_vqp_iface_is_watching(const uct_vqp_iface_t *iface)
{
    return __atomic_load_n(&iface->watched, __ATOMIC_RELAXED) != NULL;
}

#endif
