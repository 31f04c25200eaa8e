/*
 * Bonded ports, see fab_lag.h, as the driver and the library of mlx5 handle them: modes,
 * turns, states and errors are theirs. May call libc, fab_path.
 */
#include "fab_lag.h"

#include <errno.h>

#include "fab_config.h"
#include "fab_ctx.h"
#include "fab_path.h"

/* libmlx5 knows where two ports lead to */
#define LAG_KNOWN_PORTS 2

/* The kernel counts the queue pairs of a context, of all types */
static uint8_t fab_lag_next(const struct fab_qp *qp)
{
    struct fab_ctx *ctx = fab_ptr(struct fab_ctx, qp->ctx);
    uint32_t turn       = __atomic_fetch_add(&ctx->lag_turn, 1, __ATOMIC_RELAXED);

    return (uint8_t)(1 + (turn % fab_config.links));
}

void fab_lag_assign(struct fab_qp *qp, enum ibv_qp_state from,
                    enum ibv_qp_state to)
{
    int is_first = (from == IBV_QPS_RESET) && (to == IBV_QPS_INIT);
    int is_again = (from == IBV_QPS_RTR) && (to == IBV_QPS_RTS) &&
                   (fab_config.lag_reset == FAB_LAG_RESET_RTS);

    if (to == IBV_QPS_RESET) {
        qp->lag_port  = 0;
        qp->udp_sport = 0;
    } else if ((fab_config.lag == FAB_LAG_AFFINITY) && (is_first || is_again)) {
        qp->lag_port = fab_lag_next(qp);
        fab_path_route(qp);
    }
}

int fab_lag_query(struct ibv_qp *ibv, uint8_t *port_num, uint8_t *active_port_num)
{
    const struct fab_qp *qp = fab_qp_of(ibv);

    if (!fab_lag_is_on()) {
        return EOPNOTSUPP;
    }

    *port_num = __atomic_load_n(&qp->lag_port, __ATOMIC_RELAXED);
    if ((*port_num == 0) || (*port_num > LAG_KNOWN_PORTS)) {
        return EOPNOTSUPP;
    }

    *active_port_num = *port_num;
    return 0;
}

/* Change what chooses the link of a queue pair in RTS */
static int fab_lag_change(struct fab_qp *qp, uint8_t port_num, uint16_t udp_sport)
{
    int ret = 0;

    fab_lock_take(&qp->sq_lock);
    if ((qp->type != IBV_QPT_RC) || (qp->state != IBV_QPS_RTS)) {
        ret = EOPNOTSUPP;
    } else if (port_num != 0) {
        qp->lag_port = port_num;
    } else {
        qp->udp_sport = udp_sport;
    }
    fab_path_route(qp);
    fab_lock_drop(&qp->sq_lock);
    return ret;
}

int fab_lag_modify(struct ibv_qp *ibv, uint8_t port_num)
{
    struct fab_qp *qp = fab_qp_of(ibv);
    uint8_t now, active;

    /* the library asks for the port that it has before */
    if ((fab_config.lag != FAB_LAG_AFFINITY) ||
        (fab_lag_query(ibv, &now, &active) != 0)) {
        return EOPNOTSUPP;
    }
    if ((port_num == 0) || (port_num > fab_config.links)) {
        return EINVAL;
    }
    return fab_lag_change(qp, port_num, 0);
}

int fab_lag_modify_sport(struct ibv_qp *ibv, uint16_t udp_sport)
{
    return fab_lag_is_on() ? fab_lag_change(fab_qp_of(ibv), 0, udp_sport) :
                             EOPNOTSUPP;
}
