/*
 * The functions of libmlx5 for bonded ports; see fab_verbs.h. With the option LAG each
 * device is an mlx5 device to them. Without it none is, as libmlx5 itself would say. All
 * other functions are libmlx5's, which knows no device of the fabric.
 */
#include "fab_verbs.h"

#ifdef __has_include
#if __has_include(<infiniband/mlx5dv.h>)
#include <infiniband/mlx5dv.h>
#define FAB_HAVE_MLX5DV
#endif
#endif

#ifdef FAB_HAVE_MLX5DV

#include "fab_device.h"
#include "fab_lag.h"

#include <errno.h>

bool mlx5dv_is_supported(struct ibv_device *device)
{
    (void)device;
    fab_init();
    return fab_lag_is_on();
}

int mlx5dv_query_device(struct ibv_context *context, struct mlx5dv_context *attr)
{
    uint64_t wanted = attr->comp_mask;
    int err         = fab_verbs_enter_on(context, FAB_CALL_QUERY_DEVICE);

    if ((err != 0) || !fab_lag_is_on()) {
        return (err != 0) ? err : EOPNOTSUPP;
    }

    attr->version   = 0;
    attr->flags     = MLX5DV_CONTEXT_FLAGS_CQE_V1;
    attr->comp_mask = wanted & MLX5DV_CONTEXT_MASK_NUM_LAG_PORTS;
    if (attr->comp_mask != 0) {
        attr->num_lag_ports = (uint8_t)fab_config.links;
    }
    return 0;
}

int mlx5dv_query_qp_lag_port(struct ibv_qp *qp, uint8_t *port_num,
                             uint8_t *active_port_num)
{
    int err = fab_verbs_enter_on(qp->context, FAB_CALL_QUERY_QP_LAG_PORT);

    return (err != 0) ? err : fab_lag_query(qp, port_num, active_port_num);
}

int mlx5dv_modify_qp_lag_port(struct ibv_qp *qp, uint8_t port_num)
{
    int err = fab_verbs_enter_on(qp->context, FAB_CALL_MODIFY_QP_LAG_PORT);

    return (err != 0) ? err : fab_lag_modify(qp, port_num);
}

int mlx5dv_modify_qp_udp_sport(struct ibv_qp *qp, uint16_t udp_sport)
{
    int err = fab_verbs_enter_on(qp->context, FAB_CALL_MODIFY_QP_UDP_SPORT);

    return (err != 0) ? err : fab_lag_modify_sport(qp, udp_sport);
}

#endif
