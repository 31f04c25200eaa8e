/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory domain: the devices of a bond of rails, registration on each of them,
 * and remote keys. May use UCX and the verbs layer.
 */
#ifndef UCT_VQP_MD_H
#define UCT_VQP_MD_H

#include "uct/compat.h"
#include "uct/vqp_mem.h"
#include "uct/vqp_memtype.h"
#include "uct/vqp_rcache.h"
#include "verbs/dev.h"

#include <pthread.h>

typedef struct uct_vqp_md_config {
    uct_md_config_t super;
    int             relaxed_ordering; /* ucs_ternary_auto_value_t */
    char           *rails;            /* UCX_VQP_RAILS, see core/conn/bond.h */
    size_t          reg_parallel;     /* bytes */
    int             gpu_direct;       /* ucs_ternary_auto_value_t */
    uct_vqp_rcache_config_t rcache;
} uct_vqp_md_config_t;

#define UCT_VQP_DEV_MAX_PORTS 16u

typedef struct uct_vqp_md {
    uct_md_t        super;
    vqp_ib_dev_t    devs[VQP_MAX_RAILS]; /* one per rail */
    vqp_ib_dev_t   *dev_ptrs[VQP_MAX_RAILS];
    uint8_t         ports[VQP_MAX_RAILS]; /* of a bond; 0: any, no bond */
    unsigned        num_rails;
    unsigned        num_async;   /* devices whose events are handled... */
    uint8_t         detached[VQP_MAX_RAILS]; /* ...but for those that are gone */
    uint64_t        bonded;      /* bits: ports of devs[0] that are in bonds */
    uint16_t        key_layout;  /* of remote keys: which devices; 0: one */
    uct_vqp_reg_t   reg;
    uct_vqp_memtypes_t memtypes; /* what can be registered */
    uct_vqp_rcache_t rcache;
    pthread_mutex_t lock;        /* guards ifaces and detached */
    ucs_list_link_t ifaces;      /* interfaces that get the async events */
} uct_vqp_md_t;

/** Target of a uct_rkey_t: the peer's key for each of its rails. */
typedef struct uct_vqp_rkey {
    uint32_t rkeys[VQP_MAX_RAILS];
    uint32_t layout;   /* uct_vqp_layout_id() of the memory domain it is from */
    uint8_t  amo_rail; /* rail that executes all atomics to this memory */
} uct_vqp_rkey_t;

/** Identifies the rails of a bond: keys of another bond do not fit it. */
static inline uint32_t uct_vqp_layout_id(unsigned num_rails, uint16_t layout)
{
    return ((uint32_t)num_rails << 16) | layout;
}

extern uct_component_t uct_vqp_component;
extern uct_md_ops_t uct_vqp_md_ops;

/** Parts of the component and of the operations; they are in two files. */
void uct_vqp_md_close(uct_md_h tl_md);
ucs_status_t uct_vqp_rkey_unpack(uct_component_t *component, const void *buffer,
                                 UCT_VQP_RKEY_UNPACK_PARAMS uct_rkey_t *rkey_p,
                                 void **handle_p);
ucs_status_t uct_vqp_rkey_release(uct_component_t *component, uct_rkey_t rkey,
                                  void *handle);
ucs_status_t uct_vqp_rkey_ptr(uct_component_t *component, uct_rkey_t rkey,
                              void *handle, uint64_t remote_address,
                              void **local_address_p);

/** The active ports of the domain's device that are in no bond, or the bond. */
ucs_status_t
uct_vqp_query_tl_devices(uct_md_h tl_md, uct_tl_device_resource_t **devices_p,
                         unsigned *num_devices_p);

/** Order remote keys by what they contain: keys that were unpacked twice are equal. */
ucs_status_t uct_vqp_rkey_compare(uct_component_t *component, uct_rkey_t rkey1,
                                  uct_rkey_t rkey2,
                                  const uct_vqp_rkey_compare_params_t *params,
                                  int *result);

/** Convert a status of the lower layers to UCX's. */
ucs_status_t uct_vqp_status(vqp_status_t status);

/** Keys of a local buffer, by rail. @a memh may be of this domain only. */
static inline const uint32_t *uct_vqp_memh_lkeys(uct_mem_h memh)
{
    return ((const uct_vqp_mem_t*)memh)->mr.lkey;
}

static inline const uct_vqp_rkey_t *uct_vqp_rkey(uct_rkey_t rkey)
{
    return (const uct_vqp_rkey_t*)rkey;
}

#endif
