/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What happens to paths and connections, for an administrator. The first fault of a link, an
 * outage, a path with a low share, a peer that is not accepted, a GID that is gone and lost
 * atomics are warnings, at most one of each kind in a while for an interface; the rest is at
 * level diag.
 */
#ifndef UCT_VQP_PATH_LOG_H
#define UCT_VQP_PATH_LOG_H

#include "uct/vqp_def.h"

/* ns between two warnings of an interface of the same kind, at least */
#define UCT_VQP_WARN_INTERVAL     10000000000ul
#define UCT_VQP_WARN_LOW_INTERVAL 60000000000ul /* a low share lasts */

/** The level of a line that says what users should know. A port that fails takes down the
 *  paths of many endpoints: one of them is a warning.
 *
 * @param [in,out] warned  ns: last warning of this kind, 0: none.
 * @param [in] interval    ns, UCT_VQP_WARN_INTERVAL or that of the kind. */
ucs_log_level_t uct_vqp_warn_level(uint64_t *warned, uint64_t interval);

/** VQP_EVENT_PATH_STATE: log the change, and set path->fo.logged. The worker's thread. */
void uct_vqp_log_path(uct_vqp_t *vqp, vqp_path_t *path);

/** Log that the path has moved to another rail, from @a old. The worker's thread. */
void uct_vqp_log_rail(uct_vqp_t *vqp, const vqp_path_t *path, unsigned old);

/** Log that the path leads to another rail of the peer, if that is new. */
void uct_vqp_log_peer_rail(const uct_vqp_t *vqp, vqp_path_t *path);

/** Log that a peer's request to connect is not served now, since a queue pair or memory is
 *  missing; it repeats the request. Under the async block. */
void uct_vqp_log_not_accepted(uct_vqp_iface_t *iface, uint64_t peer_id, ucs_status_t status);

/** Log that the table of a port does not have the GID of the rail any more, or at which
 *  index it has it now. Under the async block. */
void uct_vqp_log_gid(uct_vqp_iface_t *iface, uct_vqp_rail_t *rail, int was_gone);

/** Log that an outage lasts for long, or is over, if that is new. The worker's thread. */
void uct_vqp_log_outage(uct_vqp_t *vqp);

#endif
