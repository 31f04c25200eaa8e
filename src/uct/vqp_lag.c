/* SPDX-License-Identifier: BSD-3-Clause */
/* Paths on bonded ports, see vqp_lag.h. */
#include "uct/vqp_lag.h"

#include "core/conn/entropy.h"

#include <ucs/debug/log.h>

#define UCT_VQP_LAG_RANDOM 48 /* the bits of an interface id from here on are random */

void uct_vqp_lag_init(const uct_vqp_iface_t *iface, uct_vqp_rail_t *rail,
                      const vqp_ib_qp_conn_t *conn)
{
    vqp_ib_lag_mode_t mode = VQP_IB_LAG_NONE;

    rail->lag_mode  = VQP_IB_LAG_NONE;
    rail->lag_ports = 0;
    if ((rail->port.link != VQP_IB_LINK_ETH) || (iface->set.lag == UCT_VQP_LAG_HASH)) {
        return;
    }

    mode = vqp_ib_lag_probe(rail->dev, rail->cqs.cqs[0].cq, rail->pkey_index, conn);
    rail->lag_mode = (uint8_t)mode;
    if (mode == VQP_IB_LAG_NONE) {
        return;
    }

    if ((rail->dev->mlx5.num_ports <= VQP_IB_LAG_MOVABLE) &&
        ((iface->set.lag == UCT_VQP_LAG_AFFINITY) || (mode == VQP_IB_LAG_AFFINITY))) {
        rail->lag_ports = rail->dev->mlx5.num_ports;
    }

    /* vqp-run --check reads this line */
    ucs_diag("%s has %u member ports (LAG), mode %s: %s", rail->dev->name,
             rail->dev->mlx5.num_ports,
             (mode == VQP_IB_LAG_HASH) ? "hash, or not bonded" :
                                         vqp_ib_lag_mode_name(mode),
             (rail->lag_ports != 0) ? "each path is assigned to one" :
                                      "the device chooses the port of a path");
}

/* A path that is rebuilt has its port again; but the next one if it fails before it is up, for
 * the port may drop packets; then any. Both sides do so: if both took turns, a bad port of
 * one could always meet a bad port of the other. */
static unsigned uct_vqp_lag_shift(const uct_vqp_t *vqp, unsigned tries)
{
    return (tries <= 1) ? tries : vqp_entropy_label(vqp->conn.cookie, tries);
}

/* The paths of an endpoint take turns. The first path of each endpoint begins elsewhere, by
 * its number in the interface; and that of each interface, by chance: many endpoints have
 * one path, and many processes one endpoint. */
static uint8_t uct_vqp_lag_port(const uct_vqp_t *vqp, unsigned index)
{
    const uct_vqp_iface_t *iface = vqp->iface;
    const uct_vqp_rail_t *rail   = &iface->rails[vqp->paths[index].rail];
    uint64_t turn                = (iface->id >> UCT_VQP_LAG_RANDOM) + vqp->number +
                                   (index / iface->num_rails) +
                                   uct_vqp_lag_shift(vqp, vqp->ib_paths[index].lag_tries);

    return (uint8_t)(1 + (turn % rail->lag_ports));
}

/* One warning for each rail: all of its queue pairs may fail alike */
void uct_vqp_lag_pin(uct_vqp_t *vqp, unsigned index)
{
    uct_vqp_rail_t *rail = &vqp->iface->rails[vqp->paths[index].rail];
    vqp_ib_path_t *ib    = &vqp->ib_paths[index];
    uint8_t port;

    memset(&ib->lag, 0, sizeof(ib->lag));
    if (rail->lag_ports == 0) {
        return;
    }

    port = uct_vqp_lag_port(vqp, index);
    ++ib->lag_tries;
    if (vqp_ib_lag_pin(rail->dev, &ib->rc, port,
                       rail->lag_failed ? VQP_IB_LOG_DIAG : VQP_IB_LOG_WARN,
                       &ib->lag) != VQP_OK) {
        rail->lag_failed = 1;
        return;
    }

    ucs_debug("vqp %u: path %u is assigned to member port %u of %s, sends from port %u",
              vqp->number, index, ib->lag.configured, rail->dev->name, ib->lag.active);
}
