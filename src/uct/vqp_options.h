/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interface's configuration: the options UCX_VQP_*, and the settings that
 * follow from them on a device. The help texts in vqp_options.c are the manual.
 */
#ifndef UCT_VQP_OPTIONS_H
#define UCT_VQP_OPTIONS_H

#include "uct/compat.h"
#include "core/status.h"
#include "core/data/tx.h"
#include "verbs/gid.h"

#include <ucs/sys/string.h>

typedef struct uct_vqp_iface_config {
    uct_iface_config_t       super;
    unsigned long            num_paths;    /* or UCS_ULUNITS_AUTO */
    unsigned long            min_paths;    /* likewise */
    int                      notify;       /* vqp_notify_t */
    char                    *sched;
    int                      comp_order;   /* 1 = post */
    int                      am_order;     /* 1 = all */
    size_t                   frag_size;
    size_t                   min_frag;
    size_t                   path_bytes;
    size_t                   ring_size;
    size_t                   ring_min;     /* or UCS_MEMUNITS_AUTO */
    size_t                   max_mem;
    unsigned                 fsn_window;
    unsigned                 max_ops;
    unsigned long            tx_queue_len; /* or UCS_ULUNITS_AUTO */
    unsigned                 tx_moderation;
    size_t                   tx_min_inline;
    unsigned                 tx_min_sge;
    unsigned                 rx_batch;
    unsigned                 poll_max;
    size_t                   seg_size;
    uct_iface_mpool_config_t tx_mp;
    unsigned long            gid_index;    /* or UCS_ULUNITS_AUTO */
    unsigned long            traffic_class; /* likewise */
    unsigned long            sl;           /* likewise */
    unsigned                 hop_limit;
    ucs_config_names_array_t path_entropy;
    int                      lag;          /* UCT_VQP_LAG_* */
    unsigned long            pkey;         /* or UCS_HEXUNITS_AUTO */
    int                      path_mtu;
    double                   timeout;
    unsigned                 retry_count;
    double                   rnr_timeout;
    unsigned                 rnr_retry_count;
    unsigned                 read_depth;
    double                   connect_timeout;
    double                   probe_interval;
    double                   gap_timeout;
    int                      failover;
    ucs_time_t               path_timeout; /* or UCS_TIME_AUTO, UCS_TIME_INFINITY */
    ucs_time_t               slow_path;    /* likewise */
    int                      rail_moves;
    double                   outage_timeout;
    int                      trace;
    char                    *stats_file;
    char                    *telemetry;
} uct_vqp_iface_config_t;

/** GID_INDEX as vqp_ib_gid_select() takes it; its range is checked by the interface */
static inline int uct_vqp_config_gid_index(const uct_vqp_iface_config_t *config)
{
    return (config->gid_index > VQP_IB_GID_INDEX_MAX) ? VQP_IB_GID_AUTO :
                                                        (int)config->gid_index;
}

extern ucs_config_field_t uct_vqp_iface_config_table[];

#define UCT_VQP_AUTO UINT64_MAX

/** UCX_VQP_LAG */
enum {
    UCT_VQP_LAG_AUTO,
    UCT_VQP_LAG_HASH,
    UCT_VQP_LAG_AFFINITY,
    UCT_VQP_LAG_LAST
};

/** Values that follow from the configuration, checked and rounded. */
typedef struct uct_vqp_settings {
    uint32_t num_paths;
    uint32_t min_paths;    /* of these, that an endpoint begins with */
    uint32_t ring_min;     /* bytes of the ring that an endpoint begins with, power of two */
    uint32_t ring_max;     /* of the largest one, likewise */
    size_t   max_mem;      /* bytes of all rings and mirrors that are larger */
    uint32_t fsn_window;   /* power of two */
    uint32_t num_ops;      /* of each op ring, power of two */
    uint32_t first_ops;    /* of these, before the ring has been full */
    uint32_t send_depth;   /* of each path... */
    uint32_t first_depth;  /* ...but those that an endpoint begins with */
    uint32_t recv_credit;  /* outstanding immediates of a peer, per path */
    uint32_t recv_depth;   /* receives posted per path */
    uint32_t rx_batch;
    uint32_t poll_max;
    uint32_t tx_moderation;
    uint32_t seg_size;
    uint32_t am_max_hdr;
    uint8_t  min_shift;
    uint8_t  frag_shift;
    uint8_t  single_shift; /* the same while one path is in use */
    uint8_t  max_shift;    /* of the longest message of all rails: the limit of the
                              device for the two above */
    uint8_t  notify;
    uint8_t  sched;        /* vqp_sched_t */
    uint8_t  comp_post;
    uint8_t  order_all;
    uint8_t  lag;          /* UCT_VQP_LAG_* */
    uint8_t  trace;
    uint8_t  failover;
    uint8_t  exact;        /* failover as far as nothing is executed twice */
    uint8_t  rail_moves;   /* paths may move to other rails */
    uint8_t  timeout;      /* 4.096 us << n */
    uint8_t  rnr_timer;    /* code of the InfiniBand table */
    uint8_t  retry_count;
    uint8_t  rnr_retry;
    uint8_t  sl;
    uint8_t  tclass;
    uint8_t  hop_limit;
    uint32_t num_labels;   /* 0: each path gets its own */
    uint32_t labels[VQP_MAX_PATHS]; /* of path i: labels[i % num_labels] */
    uint64_t path_bytes;
    uint64_t single_bytes; /* the same while one path is in use */
    uint8_t  cap_growth;   /* both may be doubled as often, see pathcap.h */
    uint64_t connect_timeout; /* ns */
    uint64_t probe_interval;  /* ns, 0 = never */
    uint64_t gap_timeout;     /* ns, 0 = never */
    uint64_t outage_timeout;  /* ns */
    uint64_t path_timeout;    /* ns, 0 = never, UCT_VQP_AUTO */
    uint64_t slow_path;       /* ns, 0 = never */
} uct_vqp_settings_t;

/** Entries for the frags in flight on a path with that send queue, a power of two. */
uint32_t uct_vqp_inflight(uint32_t send_depth);

/** Slots of a send queue that the frags of a path do not take: the drain nop has one. With
 *  failover the place of another one is for the probe of its next queue pair, beside the
 *  frags that wait for their replay. */
static inline uint32_t uct_vqp_spare_slots(const uct_vqp_settings_t *set)
{
    return 1u + set->failover;
}

/**
 * Check the configuration. Each error is logged and names its option.
 *
 * @param [in] num_rails  Of the interface: an endpoint begins with a path for each.
 * @return UCS_OK or UCS_ERR_INVALID_PARAM.
 */
ucs_status_t uct_vqp_settings_init(uct_vqp_settings_t *set,
                                   const uct_vqp_iface_config_t *config,
                                   unsigned num_rails);

#endif
