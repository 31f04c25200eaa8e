/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bonded ports of an mlx5 device (LAG). May call libibverbs and libmlx5.
 *
 * Such a device has one port for verbs, and two or more member ports. In mode affinity the
 * kernel assigns each queue pair to a member port, by turns within a context, and the UDP
 * source port has no effect on the choice. In mode hash the source port chooses.
 */
#ifndef VQP_IB_LAG_H
#define VQP_IB_LAG_H

#include "verbs/qp.h"

/* libmlx5 moves a queue pair only from the ports 1 and 2: it asks for the port before, and
 * knows no others. On a bond of more ports the turns of the kernel stay */
#define VQP_IB_LAG_MOVABLE 2

typedef enum {
    VQP_IB_LAG_NONE,    /* not a device that can be bonded */
    VQP_IB_LAG_HASH,    /* queue pairs are not assigned: by the hash, or no bond is active */
    VQP_IB_LAG_AFFINITY /* queue pairs are assigned */
} vqp_ib_lag_mode_t;

/* The member port of a queue pair, from 1 */
typedef struct vqp_ib_lag_port {
    uint8_t configured; /* that it is assigned to; 0: none */
    uint8_t active;     /* that it sends from, maybe another one while its own is down;
                           0: not known */
} vqp_ib_lag_port_t;

/**
 * Find out which mode a device has. A queue pair, connected to itself, is asked for its
 * member port: the kernel has assigned one or not. It does not tell the hash from a bond
 * that is not active. Takes some hundred us, with VQP_IB_LAG_NONE nothing. Any thread.
 *
 * @param [in] cq    Of the queue pair, which posts nothing.
 * @param [in] conn  How a port reaches itself; the QP number is set here.
 */
vqp_ib_lag_mode_t vqp_ib_lag_probe(const vqp_ib_dev_t *dev, struct ibv_cq *cq,
                                   uint16_t pkey_index, const vqp_ib_qp_conn_t *conn);

/**
 * Ask for the member port of a queue pair in RTS (a system call).
 *
 * @return VQP_OK; VQP_ERR_UNSUPPORTED if it has none; else an error, not logged.
 */
vqp_status_t vqp_ib_lag_query(const vqp_ib_dev_t *dev, const vqp_ib_qp_t *qp,
                              vqp_ib_lag_port_t *port);

/**
 * Assign a queue pair in RTS to a member port, and ask for it. Later changes of the state
 * may undo it.
 *
 * @param [in]  number  1 to VQP_IB_LAG_MOVABLE, and to the number of member ports.
 * @param [in]  level   Of the message that it failed.
 * @param [out] port    What it has now, as far as that is known; else 0.
 *
 * @return VQP_OK, or an error (logged): the queue pair works, from any member port.
 */
vqp_status_t vqp_ib_lag_pin(const vqp_ib_dev_t *dev, const vqp_ib_qp_t *qp,
                            uint8_t number, vqp_ib_log_level_t level,
                            vqp_ib_lag_port_t *port);

/**
 * Change the UDP source port of a queue pair in RTS: what it sends from now on is another
 * flow.
 *
 * @return VQP_OK; VQP_ERR_UNSUPPORTED: the device, or its library, can not;
 *         VQP_ERR_IO. Logged at level debug.
 */
vqp_status_t vqp_ib_lag_set_sport(const vqp_ib_dev_t *dev, const vqp_ib_qp_t *qp,
                                  uint16_t sport);

/** "none", "hash" or "affinity" */
const char *vqp_ib_lag_mode_name(vqp_ib_lag_mode_t mode);

#endif
