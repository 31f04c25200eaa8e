/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of libmlx5, see mlx5.h. */
#include "verbs/mlx5.h"
#include "verbs/compat.h"
#include "verbs/log.h"

#include <dlfcn.h>
#include <string.h>

/* The name of its ABI. libibverbs has loaded it, by another file name, if there is a device
 * of it. It is not loaded here: it would add itself to libibverbs' providers */
#define VQP_IB_MLX5_LIBRARY "libmlx5.so.1"

/* POSIX wants this conversion of an object's pointer to a function's to work */
#define VQP_IB_MLX5_FIND(_mlx5, _scope, _name) \
    do { \
        void *_found = dlsym(_scope, "mlx5dv_" #_name); \
        memcpy(&(_mlx5)->_name, &_found, sizeof(_found)); \
    } while (0)

int vqp_ib_mlx5_load(vqp_ib_mlx5_t *mlx5, const char *library)
{
    void *scope = RTLD_DEFAULT;

    memset(mlx5, 0, sizeof(*mlx5));
    if (library != NULL) {
        scope = mlx5->handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
        if (scope == NULL) {
            return 0;
        }
    }

    VQP_IB_MLX5_FIND(mlx5, scope, is_supported);
    VQP_IB_MLX5_FIND(mlx5, scope, query_device);
    VQP_IB_MLX5_FIND(mlx5, scope, query_qp_lag_port);
    VQP_IB_MLX5_FIND(mlx5, scope, modify_qp_lag_port);
    VQP_IB_MLX5_FIND(mlx5, scope, modify_qp_udp_sport);
    if ((mlx5->is_supported != NULL) && (mlx5->query_device != NULL) &&
        (mlx5->query_qp_lag_port != NULL) && (mlx5->modify_qp_lag_port != NULL)) {
        return 1;
    }

    vqp_ib_mlx5_close(mlx5);
    return 0;
}

/* The global scope comes first: a library that is preloaded has a say */
void vqp_ib_mlx5_open(vqp_ib_mlx5_t *mlx5, struct ibv_context *context)
{
    unsigned ports;

    if (!vqp_ib_mlx5_load(mlx5, NULL) && !vqp_ib_mlx5_load(mlx5, VQP_IB_MLX5_LIBRARY)) {
        return;
    }

    if (!mlx5->is_supported(context->device)) {
        vqp_ib_mlx5_close(mlx5);
        return;
    }

    /* Two are the least that can be bonded */
    ports           = vqp_ib_compat_mlx5_ports(mlx5->query_device, context);
    mlx5->num_ports = (ports >= 2) ? (uint8_t)ports : 0;
    vqp_ib_debug("%s: mlx5 device, %u ports can be bonded%s", context->device->name,
                 mlx5->num_ports, (mlx5->modify_qp_udp_sport == NULL) ?
                 "; source ports can not be changed" : "");
}

void vqp_ib_mlx5_close(vqp_ib_mlx5_t *mlx5)
{
    if (mlx5->handle != NULL) {
        dlclose(mlx5->handle);
    }
    memset(mlx5, 0, sizeof(*mlx5));
}
