/*
 * The member ports of a bonded mlx5 device (LAG), with the options LAG and LINKS: each
 * member port is one of the links (fab_path.h). Calls fab_path.
 */
#ifndef FAB_LAG_H
#define FAB_LAG_H

#include "fab_qp.h"

/** Are the devices mlx5 devices with bonded ports? */
static inline int fab_lag_is_on(void)
{
    return fab_config.lag != FAB_LAG_OFF;
}

/** A queue pair has changed its state: in mode affinity it gets the next member port of
 *  its context in INIT, and with LAG_RESET again in RTS. With its locks held, in its
 *  process. */
void fab_lag_assign(struct fab_qp *qp, enum ibv_qp_state from,
                    enum ibv_qp_state to);

/* The calls of mlx5dv of that name without their prefix; their return values */
int fab_lag_query(struct ibv_qp *qp, uint8_t *port_num, uint8_t *active_port_num);
int fab_lag_modify(struct ibv_qp *qp, uint8_t port_num);
int fab_lag_modify_sport(struct ibv_qp *qp, uint16_t udp_sport);

#endif
