/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which memory a domain can register: the host's, that of GPUs whose driver gives
 * RDMA devices its pages, and that of dmabuf descriptors. May use UCX and the verbs
 * layer.
 */
#ifndef UCT_VQP_MEMTYPE_H
#define UCT_VQP_MEMTYPE_H

#include "uct/compat.h"
#include "verbs/dev.h"

typedef struct uct_vqp_memtypes {
    uint64_t reg;         /* bits of ucs_memory_type_t: registered by address */
    int      is_all_host; /* no driver offers other addresses, whatever the setting is */
    int      has_dmabuf;  /* all devices register dmabuf descriptors */
} uct_vqp_memtypes_t;

/**
 * Find out what the devices of a domain can register. That a driver gives its pages
 * to RDMA devices is told by files which it makes (those that UCX's ib transports look
 * for); no GPU is asked.
 *
 * @param devs     The devices, one for each rail.
 * @param setting  UCX_VQP_GPU_DIRECT_RDMA: no, try or yes.
 * @return UCS_OK; UCS_ERR_UNSUPPORTED: yes, and there is nothing but host memory
 *         (logged).
 */
ucs_status_t uct_vqp_memtypes_init(uct_vqp_memtypes_t *types,
                                   vqp_ib_dev_t *const *devs, unsigned num_devs,
                                   ucs_ternary_auto_value_t setting);

#endif
