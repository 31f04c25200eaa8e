/*
 * Memory domain: the devices of a bond of rails, registration on each of them,
 * and remote keys. May use UCX and the verbs layer.
 */
#ifndef UCT_VQP_MD_H
#define UCT_VQP_MD_H

#include "uct/compat.h"
#include "verbs/dev.h"
#include "verbs/mr.h"

#include <pthread.h>

typedef struct uct_vqp_md_config {
    uct_md_config_t super;
    int             relaxed_ordering; /* ucs_ternary_auto_value_t */
} uct_vqp_md_config_t;

typedef struct uct_vqp_md {
    uct_md_t        super;
    vqp_ib_dev_t    devs[VQP_MAX_RAILS]; /* one per rail */
    vqp_ib_dev_t   *dev_ptrs[VQP_MAX_RAILS];
    unsigned        num_rails;
    unsigned        num_async;   /* devices whose events are handled */
    int             relaxed_ordering;
    pthread_mutex_t lock;        /* guards ifaces */
    ucs_list_link_t ifaces;      /* interfaces that want the async events */
} uct_vqp_md_t;

/** A memory handle. */
typedef struct uct_vqp_mem {
    vqp_ib_mr_t mr;
} uct_vqp_mem_t;

/** What a uct_rkey_t points to: the peer's key for each of its rails. */
typedef struct uct_vqp_rkey {
    uint32_t rkeys[VQP_MAX_RAILS];
    uint8_t  num_rails;
} uct_vqp_rkey_t;

extern uct_component_t uct_vqp_component;

/** Status of the lower layers in UCX's words. */
ucs_status_t uct_vqp_status(vqp_status_t status);

/** Keys of a local buffer, by rail. @a memh may be of this domain only. */
static inline const uint32_t *uct_vqp_memh_lkeys(uct_mem_h memh)
{
    return ((const uct_vqp_mem_t*)memh)->mr.lkey;
}

/** Keys of remote memory, by the peer's rail. */
static inline const uint32_t *uct_vqp_rkey_array(uct_rkey_t rkey)
{
    return ((const uct_vqp_rkey_t*)rkey)->rkeys;
}

#endif
