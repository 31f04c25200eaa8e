/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interface: a worker's view of a device. Holds the vcq (one progress
 * function over the rails' completion queues), all vqps, and the control plane.
 *
 * Threads: the worker's thread owns all state of the data path. UCX's async
 * context (a thread; or the worker's own, in mode "poll") owns the connection
 * table and the UD queue pairs; access to these requires the worker's async
 * block. The async side sets up a vqp's data path when it connects it, and does
 * not write to it afterwards: it adds an event (uct_vqp_t::cm_events) and sets `events`,
 * and progress handles it.
 */
#ifndef UCT_VQP_IFACE_H
#define UCT_VQP_IFACE_H

#include "uct/compat.h"
#include "uct/vqp_md.h"
#include "uct/vqp_options.h"
#include "uct/vqp_scratch.h"
#include "uct/vqp_slab.h"

#include "core/conn/addr.h"
#include "core/conn/conndrive.h"
#include "core/telemetry/latency.h"
#include "core/timers.h"
#include "core/turns.h"
#include "uct/vqp_random.h"
#include "verbs/async.h"
#include "verbs/cqpool.h"
#include "verbs/gid.h"
#include "verbs/port.h"
#include "verbs/post.h"
#include "verbs/ud.h"

#include <ucs/async/async.h>
#include <ucs/datastruct/arbiter.h>
#include <ucs/datastruct/list.h>
#include <ucs/datastruct/string_buffer.h>

struct uct_vqp;
struct uct_vqp_ep;

/** One HCA port that the interface uses. */
typedef struct uct_vqp_rail {
    vqp_ib_dev_t    *dev;
    vqp_ib_port_t    port;
    vqp_ib_gid_t     gid;
    vqp_dev_addr_rail_t addr;
    uint16_t         pkey_index;
    uint16_t         pkey;
    uint8_t          mtu;          /* enum ibv_mtu */
    uint8_t          tclass;
    uint8_t          max_reads;    /* as requester, per path */
    uint8_t          serve_reads;  /* as responder, per path */
    uint8_t          source;       /* vqp_source_t: of executed counts */
    uint8_t          is_broken;    /* its device or a completion queue has failed for
                                      good; atomic */
    uint8_t          is_given_up;  /* broken, and no path on it is used any more */
    uint8_t          arm_failures; /* in succession */
    uint8_t          ud_ignored;   /* control datagrams are not waited for any more */
    uint8_t          is_gid_old;   /* its index may have changed: to be looked for;
                                      atomic */
    uint8_t          is_gid_gone;  /* the table had no such GID at the last look... */
    uint8_t          gid_level;    /* ...and this was logged at this level */
    uint8_t          lag_mode;     /* vqp_ib_lag_mode_t of its device */
    uint8_t          lag_ports;    /* member ports that paths are assigned to; 0: none is */
    uint8_t          lag_failed;   /* and this has failed: it was logged */
    uint8_t          is_active;    /* its port, at... */
    uint64_t         checked;      /* ...this time, in ns; 0: not known */
    unsigned         polled_cqs;   /* of its pool, in uct_vqp_iface_t::cqs */
    vqp_ib_cq_pool_t cqs;
    vqp_ib_resolver_t resolver;    /* under the async block */
    vqp_ib_ud_t      ud;
} uct_vqp_rail_t;

enum {
    UCT_VQP_EVENT_CM     = 1 << 0, /* vqps with cm_events in cm_list */
    UCT_VQP_EVENT_TICK   = 1 << 1, /* the periodic check is due */
    UCT_VQP_EVENT_PORT   = 1 << 2, /* a port went down or up, or its GIDs changed */
    UCT_VQP_EVENT_QP     = 1 << 3, /* a QP is broken: see bad_qpn */
    UCT_VQP_EVENT_LOCAL  = 1 << 4, /* progress has to continue */
    UCT_VQP_EVENT_DEVICE = 1 << 5  /* a rail is broken */
};

/* What a progress call has to look at, beside completions and events */
enum {
    UCT_VQP_TODO_WCS    = 1 << 0, /* completions that were polled and not handled */
    UCT_VQP_TODO_RATE   = 1 << 1, /* paths are measured: read the clock */
    UCT_VQP_TODO_TIMERS = 1 << 2, /* a timer is due soon */
    UCT_VQP_TODO_WAKE   = 1 << 3, /* earlier than the ones before: a sleeper has to be
                                     woken for it */
    UCT_VQP_TODO_HELD   = 1 << 4, /* a message waits for others, unless none comes */
    UCT_VQP_TODO_SAMPLE = 1 << 5  /* there is telemetry: sample the latency */
};

#define UCT_VQP_TIMER_SOON 1200000000ul /* ns; more than the period of UCT_VQP_EVENT_TICK */
#define UCT_VQP_BAD_QPNS   16
#define UCT_VQP_MAX_POLL   64
#define UCT_VQP_RATING     100000000ul /* ns without a measured frag, then measuring
                                          stops */
#define UCT_VQP_DEFER      100000ul    /* ns between dispatches of ops that wait for
                                          a busy path */
#define UCT_VQP_REBUILD_TIME 10000000ul /* ns in which at most... */
#define UCT_VQP_REBUILDS   32u      /* ...so many queue pairs are rebuilt */
#define UCT_VQP_MAX_REPORTED 64     /* messages and completions reported, then a call
                                       of progress handles no further completion */
#define UCT_VQP_CHUNK      256 /* vqps per second-level table */

/** Mirrors of first rings, see vqp_mirror.h. */
typedef struct uct_vqp_mirrors {
    uct_vqp_slabs_t      slabs;
    ucs_list_link_t      used;         /* vqps that have one */
    size_t               max_slabs;    /* at most; one is there in any case */
    uint64_t             next_try;     /* ns: to get more memory, after a failure */
} uct_vqp_mirrors_t;

typedef struct uct_vqp_iface {
    uct_base_iface_t     super;
    /* used by every progress call */
    uint32_t             events;       /* UCT_VQP_EVENT_*, atomic */
    unsigned             num_rails;
    unsigned             num_cqs;      /* CQs of all rails, to be polled */
    unsigned             next_cq;      /* first */
    uint32_t             todo;         /* UCT_VQP_TODO_* */
    vqp_ib_cq_t         *cqs[VQP_MAX_RAILS * VQP_IB_CQ_POOL_MAX];
    uct_vqp_rail_t       rails[VQP_MAX_RAILS];
    struct uct_vqp      *scheduled;    /* vqps to be run by progress */
    struct uct_vqp      *deferred;     /* vqps whose dispatch waits for a busy
                                          path, or for more messages */
    vqp_timers_t         timers;       /* of vqps, see vqp_timers.h */
    uint64_t             timer_due;    /* ns: of the first one; atomic */
    uint64_t             timer_clock;  /* ns: when the clock was last read for them */
    uint32_t             timer_skip;   /* calls from then to the next reading */
    uint32_t             timer_calls;  /* of these, still to come */
    vqp_sampler_t        sampler;      /* of the latency, for telemetry */
    struct uct_vqp      *sampled;      /* whose work request it is, or was last */
    vqp_turns_t          turns;        /* of paths that want a new queue pair */
    uint64_t             warned_path;  /* ns: last warning of a path that is down, */
    uint64_t             warned_rail;  /* of one that moves to another rail, */
    uint64_t             warned_outage; /* of an outage, */
    uint64_t             warned_low;   /* of a path with a low share, */
    uint64_t             warned_accept; /* of a request to connect that failed here, */
    uint64_t             warned_gid;   /* of a GID that the port does not have any more, */
    uint64_t             warned_lost;  /* and of atomics that may be lost; 0: none */
    struct uct_vqp    ***vqps;         /* two-level, by vqp number */
    unsigned             num_deferred_wcs; /* completions that were polled */
    unsigned             next_deferred_wc;
    unsigned             in_progress;
    unsigned             reported;     /* return value of this progress call */
    unsigned             max_reported; /* then it handles no further completion */
    unsigned             fences;       /* iface_fence calls */
    int                  lost;         /* the next flush reports a loss (core/data/lost.h)
                                          of a connection that was released */
    struct {
        unsigned         paths;        /* given up by the last events, not counted since */
        unsigned         wcs;          /* completions that their queue pairs hold */
    } flush;
    uint8_t              may_sleep;    /* the user has event_fd */
    uint64_t             rated;        /* ns: last measurement of a path */
    uint64_t             polled;       /* ns: end of the last empty poll, while
                                          paths are measured */
    uint64_t             looked;       /* ns: end of the last one, likewise */
    uint8_t              unlooked;     /* a poll since then that had completions, whose
                                          end nobody has read from the clock */
    uint64_t             seen;         /* ns: end of the empty poll before */
    uint64_t             deferred_at;  /* ns: last run of deferred */
    struct uct_vqp_ep   *pending_ep;   /* owner of the pending request that runs */
    uct_vqp_settings_t   set;
    ucs_arbiter_t        arbiter;
    ucs_mpool_t          tx_mp;        /* bounce slots, registered */
    uint8_t              tx_mp_empty;  /* a put or get was refused a slot */
    size_t               am_max_short;
    size_t               am_max_bcopy;
    size_t               am_max_zcopy;
    size_t               am_max_one_frag; /* payload of the longest AM of one frag */
    size_t               max_iov;
    size_t               inline_max;

    /* control plane, under the async block */
    vqp_conntab_t        conntab;
    void                *conntab_mem;
    uint64_t             id;
    uct_vqp_random_t     random;       /* numbers that peers get */
    struct uct_vqp      *cm_list;      /* vqps with events for progress */
    int                  cm_timer;     /* id, or 0: none */
    uint64_t             cm_period;    /* ns, of it */
    int                  cm_fd;        /* eventfd: datagrams remain to be handled */
    int                  tick_timer;
    uint64_t             last_tick;    /* ns */
    uint8_t              is_closing;
    uint16_t             qp_tag;       /* of the next queue pair of a path */
    uct_vqp_slabs_t      slabs;
    uct_vqp_mirrors_t    mirrors;
    size_t               ring_bytes;   /* of rings and mirrors that have grown */
    uct_vqp_scratch_t    scratch;      /* with failover */
    ucs_list_link_t      vqp_list;     /* all vqps */
    unsigned             num_vqps;
    uint8_t              is_in_vfs; /* somebody has read its nodes */
    uint32_t             next_vqp;     /* start of the search for a free number */
    uint32_t             bad_qpn[UCT_VQP_BAD_QPNS]; /* uct_vqp_qp_id */
    volatile uint32_t    num_bad_qpn;

    ucs_list_link_t      md_list;      /* in uct_vqp_md_t::ifaces */
    ucs_list_link_t      status_list;  /* of all interfaces, for vqp_status() */
    int                  event_fd;     /* control plane -> sleeper */
    int                  epoll_fd;     /* returned by event_fd_get */
    char                *stats_file;   /* or NULL */
    ucs_string_buffer_t  vqp_stats;    /* JSON of released vqps */
    vqp_stats_t          stats;        /* of released vqps */
    vqp_path_stats_t     path_stats[VQP_MAX_PATHS];
    struct uct_vqp_telemetry *telemetry; /* or NULL */
    struct ibv_wc        deferred_wcs[UCT_VQP_MAX_POLL];
    vqp_batch_t          batch;        /* scratch of uct_vqp_tx_progress() */
} uct_vqp_iface_t;

extern uct_tl_t UCT_TL_NAME(vqp);

/** Device events of a rail. UCX's async thread, under the MD's lock. */
void uct_vqp_iface_async_event(uct_vqp_iface_t *iface, unsigned rail,
                               const vqp_ib_async_t *event);

/** Set @a events and wake a sleeper. Any thread. */
void uct_vqp_iface_signal(uct_vqp_iface_t *iface, uint32_t events);

/** The vcq: see vqp_progress.c. */
unsigned uct_vqp_iface_progress(uct_iface_h tl_iface);

/** Have progress poll all CQs that the rails' pools have now. Async block. */
void uct_vqp_iface_add_cqs(uct_vqp_iface_t *iface);

/** The rail has failed for good: progress has to give it up. Any thread. */
void uct_vqp_iface_rail_broken(uct_vqp_iface_t *iface, unsigned rail);

/** A poll failed (logged). Its completions are lost: after several failures in a row none will
 *  come, and the rails of the queue are broken. Called by progress. */
void uct_vqp_poll_failed(uct_vqp_iface_t *iface, vqp_ib_cq_t *cq);

/** Is a timer due before @a time? Any thread. */
static inline int
uct_vqp_iface_has_timer(const uct_vqp_iface_t *iface, uint64_t time)
{
    return __atomic_load_n(&iface->timer_due, __ATOMIC_RELAXED) <= time;
}

/** Has the rail failed for good? Any thread. */
static inline int uct_vqp_rail_is_broken(const uct_vqp_rail_t *rail)
{
    return __atomic_load_n(&rail->is_broken, __ATOMIC_ACQUIRE);
}

/** Does one of these rails, a bit for each, work still? Any thread. */
int uct_vqp_iface_has_rail(const uct_vqp_iface_t *iface, uint64_t rails);

/** Wait for no completion of a broken rail any more. The worker's thread. */
void uct_vqp_iface_stop_rail(uct_vqp_iface_t *iface, unsigned rail);

/** Number of CQs that may be polled. Any thread: all below it are complete. */
static inline unsigned uct_vqp_iface_num_cqs(const uct_vqp_iface_t *iface)
{
    return __atomic_load_n(&iface->num_cqs, __ATOMIC_ACQUIRE);
}

/** Whether an event is set. Any thread. Handling it provides the ordering. */
static inline int uct_vqp_iface_has_events(const uct_vqp_iface_t *iface)
{
    return __atomic_load_n(&iface->events, __ATOMIC_RELAXED) != 0;
}

/** event_arm, event_fd_get */
ucs_status_t uct_vqp_iface_event_arm(uct_iface_h tl_iface, unsigned events);
ucs_status_t uct_vqp_iface_event_fd_get(uct_iface_h tl_iface, int *fd_p);
ucs_status_t uct_vqp_iface_event_init(uct_vqp_iface_t *iface);
void uct_vqp_iface_event_cleanup(uct_vqp_iface_t *iface);

/** A sleeper is not woken by completions of the rail any more. */
void uct_vqp_iface_event_stop_rail(uct_vqp_iface_t *iface, unsigned rail);

/** Drain what @ref uct_vqp_iface_signal wrote. Call it before reading the events: a
 *  later signal makes the descriptor readable again. */
void uct_vqp_iface_event_clear(uct_vqp_iface_t *iface);

/**
 * Query a port and create its completion queues.
 *
 * @return UCS_OK; an error (logged) if the port is down, or does not fit the
 *         configuration.
 */
ucs_status_t uct_vqp_rail_init(uct_vqp_iface_t *iface, uct_vqp_rail_t *rail,
                               vqp_ib_dev_t *dev, uint8_t port_num,
                               const uct_vqp_iface_config_t *config);

/** Does each device of the interface count what it executes? 0 without failover, or if one
 *  of them does not. */
int uct_vqp_iface_counts(const uct_vqp_iface_t *iface);

/** What executed requests are counted by on the rail: "psn" or "imm"; "-" without
 *  failover. */
const char *uct_vqp_rail_source(const uct_vqp_iface_t *iface, unsigned rail);

/**
 * Is the port of a rail active? Asked for each path that is rebuilt: the answer may be
 * 10 ms old. The worker's thread.
 */
int uct_vqp_rail_is_active(uct_vqp_rail_t *rail);

/** Create a trial queue pair on the rail. Lowers inline_max and max_iov of the
 *  interface to what it is granted. */
ucs_status_t uct_vqp_probe_qp(uct_vqp_iface_t *iface, uct_vqp_rail_t *rail,
                              const uct_vqp_iface_config_t *config);

/** Set the limits of active messages, from the settings and the trial. */
void uct_vqp_iface_init_limits(uct_vqp_iface_t *iface);

/* Attributes and addresses: UCT's operations */
ucs_status_t uct_vqp_iface_query(uct_iface_h tl_iface, uct_iface_attr_t *attr);
/** The device address of this interface, not packed. */
void uct_vqp_local_dev_addr(const uct_vqp_iface_t *iface, vqp_dev_addr_t *addr);
ucs_status_t uct_vqp_iface_get_device_address(uct_iface_h tl_iface,
                                              uct_device_addr_t *buf);
ucs_status_t uct_vqp_iface_get_address(uct_iface_h tl_iface,
                                       uct_iface_addr_t *buf);
int uct_vqp_iface_is_reachable(const uct_iface_h tl_iface,
                               const uct_device_addr_t *dev_buf,
                               const uct_iface_addr_t *iface_buf);
int uct_vqp_iface_is_reachable_v2(const uct_iface_h tl_iface,
                                  const uct_iface_is_reachable_params_t *params);

/** What UCP compares transports and protocols by, for one kind of operation. */
ucs_status_t uct_vqp_iface_estimate_perf(uct_iface_h tl_iface, uct_perf_attr_t *attr);

/** Monotonic time in ns, never 0. */
uint64_t uct_vqp_now(void);

static inline struct uct_vqp *
uct_vqp_iface_find(uct_vqp_iface_t *iface, uint32_t number)
{
    struct uct_vqp **chunk = iface->vqps[number / UCT_VQP_CHUNK];

    return vqp_unlikely(chunk == NULL) ? NULL : chunk[number % UCT_VQP_CHUNK];
}

static inline uct_vqp_md_t *uct_vqp_iface_md(uct_vqp_iface_t *iface)
{
    return ucs_derived_of(iface->super.md, uct_vqp_md_t);
}

#endif
