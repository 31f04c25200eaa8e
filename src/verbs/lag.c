/* SPDX-License-Identifier: BSD-3-Clause */
/* Bonded ports, see lag.h. */
#include "verbs/lag.h"

#include <errno.h>
#include <string.h>

const char *vqp_ib_lag_mode_name(vqp_ib_lag_mode_t mode)
{
    switch (mode) {
    case VQP_IB_LAG_HASH:
        return "hash";
    case VQP_IB_LAG_AFFINITY:
        return "affinity";
    default:
        return "none";
    }
}

/* The calls return an errno value, those of some versions -1 */
static int vqp_ib_lag_errno(int ret)
{
    return (ret < 0) ? errno : ret;
}

static vqp_status_t vqp_ib_lag_status(int err)
{
    return ((err == EOPNOTSUPP) || (err == ENOSYS)) ? VQP_ERR_UNSUPPORTED : VQP_ERR_IO;
}

vqp_status_t vqp_ib_lag_query(const vqp_ib_dev_t *dev, const vqp_ib_qp_t *qp,
                              vqp_ib_lag_port_t *port)
{
    vqp_ib_lag_port_t found = {0, 0};
    int err;

    memset(port, 0, sizeof(*port));
    if (dev->mlx5.num_ports == 0) {
        return VQP_ERR_UNSUPPORTED;
    }

    /* libmlx5 says of the ports after the second one that it does not support them. It
     * does so since it knows no active one, when it has returned the configured one */
    err = vqp_ib_lag_errno(dev->mlx5.query_qp_lag_port(qp->qp, &found.configured,
                                                       &found.active));
    if ((err != 0) && ((err != EOPNOTSUPP) || (found.configured == 0))) {
        vqp_ib_debug("%s: mlx5dv_query_qp_lag_port(QP 0x%x) failed: %s", dev->name,
                     qp->qpn, strerror(err));
        return vqp_ib_lag_status(err);
    }

    port->configured = found.configured;
    port->active     = (err == 0) ? found.active : 0;
    return (found.configured == 0) ? VQP_ERR_UNSUPPORTED : VQP_OK;
}

vqp_status_t vqp_ib_lag_pin(const vqp_ib_dev_t *dev, const vqp_ib_qp_t *qp,
                            uint8_t number, vqp_ib_log_level_t level,
                            vqp_ib_lag_port_t *port)
{
    vqp_status_t status;
    int err;

    vqp_assert((number >= 1) && (number <= dev->mlx5.num_ports));
    memset(port, 0, sizeof(*port));
    err = vqp_ib_lag_errno(dev->mlx5.modify_qp_lag_port(qp->qp, number));
    if (err != 0) {
        vqp_ib_log(level, "%s: QP 0x%x can not be assigned to member port %u of %u: %s. It "
                   "sends from the one that the device chooses", dev->name, qp->qpn,
                   number, dev->mlx5.num_ports, strerror(err));
        return vqp_ib_lag_status(err);
    }

    status = vqp_ib_lag_query(dev, qp, port);
    if (status != VQP_OK) {
        port->configured = number; /* it was accepted, and can not be read */
    } else if (port->configured != number) {
        vqp_ib_log(level, "%s: QP 0x%x was assigned to member port %u of %u, and has port "
                   "%u", dev->name, qp->qpn, number, dev->mlx5.num_ports,
                   port->configured);
        return VQP_ERR_IO;
    }

    return VQP_OK;
}

vqp_status_t vqp_ib_lag_set_sport(const vqp_ib_dev_t *dev, const vqp_ib_qp_t *qp,
                                  uint16_t sport)
{
    int err;

    if (dev->mlx5.modify_qp_udp_sport == NULL) {
        return VQP_ERR_UNSUPPORTED;
    }

    err = vqp_ib_lag_errno(dev->mlx5.modify_qp_udp_sport(qp->qp, sport));
    vqp_ib_debug("%s: UDP source port %u of QP 0x%x: %s", dev->name, sport, qp->qpn,
                 (err == 0) ? "set" : strerror(err));
    return (err == 0) ? VQP_OK : vqp_ib_lag_status(err);
}

/* ---- the mode ---- */

static vqp_status_t vqp_ib_lag_connect(vqp_ib_qp_t *qp, uint16_t pkey_index,
                                       const vqp_ib_qp_conn_t *conn)
{
    vqp_ib_qp_conn_t own = *conn;
    vqp_status_t status;

    own.dest_qpn = qp->qpn;
    status       = vqp_ib_qp_to_init(qp, conn->av.port, pkey_index);
    if (status == VQP_OK) {
        status = vqp_ib_qp_to_rtr(qp, &own);
    }

    return (status == VQP_OK) ? vqp_ib_qp_to_rts(qp, &own) : status;
}

vqp_ib_lag_mode_t vqp_ib_lag_probe(const vqp_ib_dev_t *dev, struct ibv_cq *cq,
                                   uint16_t pkey_index, const vqp_ib_qp_conn_t *conn)
{
    vqp_ib_qp_params_t params = {.send_depth = 1, .recv_depth = 1, .max_send_sge = 1,
                                 .level = VQP_IB_LOG_DIAG};
    vqp_ib_lag_mode_t mode    = VQP_IB_LAG_HASH;
    vqp_ib_lag_port_t port;
    vqp_ib_qp_t qp;

    if (dev->mlx5.num_ports == 0) {
        return VQP_IB_LAG_NONE;
    }

    if (vqp_ib_qp_create(&qp, dev, cq, &params) != VQP_OK) {
        return VQP_IB_LAG_HASH;
    }

    if ((vqp_ib_lag_connect(&qp, pkey_index, conn) == VQP_OK) &&
        (vqp_ib_lag_query(dev, &qp, &port) == VQP_OK)) {
        mode = VQP_IB_LAG_AFFINITY;
    }

    vqp_ib_qp_destroy(&qp);
    vqp_ib_debug("%s: %u member ports, mode %s", dev->name, dev->mlx5.num_ports,
                 vqp_ib_lag_mode_name(mode));
    return mode;
}
