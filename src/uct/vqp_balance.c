/* SPDX-License-Identifier: BSD-3-Clause */
/* Shares of the paths, see vqp_balance.h. */
#include "uct/vqp_balance.h"

#include "uct/vqp.h"
#include "uct/vqp_flow.h"
#include "uct/vqp_path_log.h"

#include "core/conn/entropy.h"
#include "core/failover/elastic.h"

#include <ucs/debug/log.h>
#include <ucs/debug/memtrack_int.h>

/* Is there something to compare? What was begun goes on, with one path, too: it has no low
 * share then. The file has the rate of each path */
static int uct_vqp_is_compared(const uct_vqp_t *vqp)
{
    return vqp_is_connected(&vqp->core) &&
           ((vqp->core.tx.paths.usable > 1) || (vqp->balance != NULL) ||
            (vqp->iface->telemetry != NULL));
}

/* If it is new that the path is low */
static void uct_vqp_log_low(uct_vqp_t *vqp, unsigned index)
{
    vqp_balance_t *balance     = &vqp->balance[index];
    const uct_vqp_rail_t *rail = &vqp->iface->rails[vqp->paths[index].rail];
    ucs_log_level_t level; /* ucs_log() evaluates it twice */

    if (balance->is_low && !balance->logged) {
        level = uct_vqp_warn_level(&vqp->iface->warned_low, UCT_VQP_WARN_LOW_INTERVAL);
        ucs_log(level, "vqp %u to iface 0x%" PRIx64 ": path %u (%s:%u, UDP source port "
                "%u) has had less than half of its share for %.0f s: now %.1f MB/s of "
                "%.1f MB/s", vqp->number, vqp->conn.peer_id, index, rail->dev->name,
                rail->port.num, vqp_entropy_port(uct_vqp_flow_label(vqp, index)),
                (double)balance->low * 1e-9, (double)balance->rate * 1e-6,
                (double)balance->share * 1e-6);
        balance->logged = 1;
    }
}

/* The port rates, in MB/s */
static void uct_vqp_weights(const uct_vqp_iface_t *iface, uint32_t *weights)
{
    unsigned i;

    for (i = 0; i < iface->num_rails; ++i) {
        weights[i] = (uint32_t)ucs_max(iface->rails[i].port.bandwidth * 1e-6, 1.0);
    }
}

static void
uct_vqp_look_at_balance(uct_vqp_t *vqp, const uint32_t *weights, uint64_t now)
{
    unsigned num = vqp->core.tx.paths.count;
    unsigned i;

    if (vqp->balance == NULL) {
        vqp->balance = ucs_calloc(vqp->core.num_paths, sizeof(*vqp->balance),
                                  "uct_vqp_balance");
        if (vqp->balance == NULL) {
            return; /* the next look tries it again */
        }
    }

    vqp_balance_look(vqp->balance, vqp->paths, num, weights, vqp->balanced, now,
                     vqp_elastic_is_spread(&vqp->core));
    vqp->balanced = now;
    for (i = 0; i < num; ++i) {
        uct_vqp_log_low(vqp, i);
    }
}

void uct_vqp_iface_look_at_balance(uct_vqp_iface_t *iface, uint64_t now)
{
    uint32_t weights[VQP_MAX_RAILS];
    uct_vqp_t *vqp;

    uct_vqp_weights(iface, weights);
    ucs_list_for_each(vqp, &iface->vqp_list, list) {
        if (uct_vqp_is_compared(vqp)) {
            uct_vqp_look_at_balance(vqp, weights, now);
        }
    }
}
