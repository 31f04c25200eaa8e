/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls of libmlx5, the provider of ConnectX devices, that libibverbs does not have. May
 * call libdl. Nothing links with libmlx5, and nothing loads it: a process that has opened
 * an mlx5 device has its provider, and the calls are looked up there.
 */
#ifndef VQP_IB_MLX5_H
#define VQP_IB_MLX5_H

#include <infiniband/verbs.h>
#include <stdbool.h>

struct mlx5dv_context;

/* The functions are mlx5dv_NAME(), and return 0 or an errno value */
typedef struct vqp_ib_mlx5 {
    void    *handle;   /* of dlopen(), or NULL */
    uint8_t num_ports; /* member ports of a bond that the device can have; 0: none */
    bool    (*is_supported)(struct ibv_device *device);
    int     (*query_device)(struct ibv_context *context, struct mlx5dv_context *attr);
    int     (*query_qp_lag_port)(struct ibv_qp *qp, uint8_t *port, uint8_t *active);
    int     (*modify_qp_lag_port)(struct ibv_qp *qp, uint8_t port);
    int     (*modify_qp_udp_sport)(struct ibv_qp *qp, uint16_t port);
                       /* NULL: older than version 34 of rdma-core */
} vqp_ib_mlx5_t;

/**
 * Look up the calls, and ask what the device has. All is 0 if it is not an mlx5 device. Any
 * thread.
 */
void vqp_ib_mlx5_open(vqp_ib_mlx5_t *mlx5, struct ibv_context *context);

/** Release the library. */
void vqp_ib_mlx5_close(vqp_ib_mlx5_t *mlx5);

/**
 * Look up the calls only.
 *
 * @param [in] library  In this library, if the process has it; NULL: in the global scope.
 * @return 1 if all are there but for modify_qp_udp_sport, which may be NULL; else 0.
 */
int vqp_ib_mlx5_load(vqp_ib_mlx5_t *mlx5, const char *library);

#endif
