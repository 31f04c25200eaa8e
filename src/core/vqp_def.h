/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The definition of a vqp: its states, configuration and data. Included by the parts of
 * the core that change a vqp; vqp.h has the functions for its owner. Pure: libc only.
 */
#ifndef VQP_CORE_VQP_DEF_H
#define VQP_CORE_VQP_DEF_H

#include "core/data/rx.h"

#define VQP_STATES(_) \
    _(CONNECTING, "no operation is accepted yet") \
    _(LIVE, "operations are accepted") \
    _(PEER_CLOSED, "the peer has ended in order; the next use fails the vqp") \
    _(FAILED, "nothing is accepted; what is in flight ends") \
    _(DRAINING, "both sides are done with it; it waits for its WRs")

typedef enum {
#define VQP_STATE_ENUM(_name, _help) VQP_STATE_##_name,
    VQP_STATES(VQP_STATE_ENUM)
#undef VQP_STATE_ENUM
    VQP_STATE_LAST
} vqp_state_t;

typedef enum {
    VQP_OWNER_NONE,   /* passive: the peer uses it */
    VQP_OWNER_OPEN,   /* an endpoint */
    VQP_OWNER_CLOSING /* the endpoint is gone, its ops are not */
} vqp_owner_t;

/** What the owner has to do, see vqp_next_event(). In the order in which it is handed out:
 *  what must precede all else, logs, the control plane, the user, queue pairs, the end. */
typedef enum {
    VQP_EVENT_NONE,
    VQP_EVENT_QPS,       /* it has failed: move all queue pairs to ERR, abort the
                            connection; then vqp_qps_failed(). Until then they may
                            use the memory of ops */
    VQP_EVENT_STATE,     /* log: vqp->logged -> vqp->state; then set logged */
    VQP_EVENT_BROKEN,    /* log: the peer has broken the protocol, vqp->broken */
    VQP_EVENT_FIRST_IMM, /* notify the control plane: the peer is connected */
    VQP_EVENT_RESUME,    /* resources may be available: give slots to vqp_tx_short_ring(),
                            then retry what was refused */
    VQP_EVENT_CLOSED,    /* the endpoint's ops are over: end the connection in
                            order, unless vqp_is_failed() */
    VQP_EVENT_PING,      /* vqp_conn_ping(), then vqp_alive_pinged() */
    VQP_EVENT_FAILED,    /* once: report vqp->status to the user unless
                            vqp->canceled */
    VQP_EVENT_PATHS,     /* never handed out: path->fo.todo of some path has one of
                            VQP_EVENT_PATH_* */
    VQP_EVENT_TIMER,     /* vqp_next_timeout() may be earlier than it was */
    VQP_EVENT_RING_PUT,  /* the peer does not write to ring rings.put any more: free it */
    VQP_EVENT_RING_GET,  /* make ring rings.next of vqp_ring_wanted() bytes; then
                            vqp_ring_made(). See rings.h */
    VQP_EVENT_MIRROR_PUT, /* nothing is in flight from these: free vqp_mirrors_put() */
    VQP_EVENT_MIRROR_GET, /* make mirror rings.tx_next of vqp_mirror_wanted() bytes; then
                            vqp_mirror_made() */
    VQP_EVENT_MIRROR_NEEDED, /* messages wait for the mirror of ring 0: make it; then
                            vqp_first_mirror_made(). See mirror.h */
    VQP_EVENT_RELEASE,   /* nothing is in flight: it may be destroyed */

    VQP_EVENT_PATH_STATE,   /* log: path->fo.logged -> fo.state; then set logged.
                               Of vqp->event_path, as all that follow */
    VQP_EVENT_PATH_QUIESCE, /* move its queue pair to ERR, and post one receive;
                               then vqp_path_quiesced() */
    VQP_EVENT_PATH_COUNT,   /* all is back: find out what was executed; then
                               vqp_path_counted() */
    VQP_EVENT_PATH_DESTROY, /* destroy its queue pair: the path is off */
    VQP_EVENT_PATH_REBUILD, /* destroy its queue pair, create another one; then
                               vqp_path_rebuilt(). It has none if the path is off */
    VQP_EVENT_PATH_CONNECT, /* connect it to path->fo.peer_*, post receives; then
                               vqp_path_connected() */
    VQP_EVENT_PATH_SEND,    /* send what vqp_path_message() gives */
    VQP_EVENT_PATH_REHASH   /* change the UDP source port of its queue pair, which is in
                               use; then vqp_path_rehashed() */
} vqp_event_t;

/** How paths are given up and rebuilt; all times in ns. */
typedef struct vqp_failover_config {
    uint8_t  is_on;       /* both sides support it; else the vqp fails with a path */
    uint8_t  is_exact;    /* the vqp fails with VQP_ERR_UNDECIDED if it is unknown whether a
                             put or an atomic was executed */
    uint64_t retry_first; /* until a path message is first repeated; it doubles */
    uint64_t retry_max;
    uint64_t hold_first;  /* until a path is rebuilt for the second time; it doubles
                             if the path goes down again within 2 * hold_max */
    uint64_t hold_max;
    uint64_t outage;      /* without a path until the vqp fails */
    uint64_t silence;     /* of a path while others bring completions, until it is
                             given up; 0: never */
    uint64_t slow;        /* of a path at a fraction of the rate of others, until it is
                             moved; 0: never */
    uint64_t slow_first;  /* between two moves, of one path or of two; that of one path
                             doubles if it is slow again soon */
    uint64_t slow_max;
    uint8_t  rehash;      /* the owner may be able to change the flow of a queue pair that is
                             in use: a slow path needs no other one at first */
    uint8_t  num_rails;   /* of this side; 0: paths stay on their rails, since one of both
                             sides can not move them */
    uint8_t  decides;     /* this side decides to which rails paths move; else the peer */
    uint64_t elastic;     /* for which the rate of all paths is measured, to find out whether
                             one more pays; 0: none is added for that */
} vqp_failover_config_t;

#define VQP_RAILS_SOON    1 /* missed.due: paths have changed, begin to look */
#define VQP_RING_LAST     2 /* numbers of rings: 0 to 2 */
#define VQP_RING_NONE     UINT8_MAX
#define VQP_RING_KEYS_MAX 4 /* rails */

typedef enum {
    VQP_ELASTIC_STEADY,
    VQP_ELASTIC_ADDING, /* a path is being added */
    VQP_ELASTIC_TRIAL   /* it is UP: does it pay? */
} vqp_elastic_state_t;

/** What vqp_connect() needs beside the sender's configuration. */
typedef struct vqp_config {
    vqp_tx_config_t tx;
    vqp_op_t       *am_ops;     /* num_am_ops, a power of two */
    vqp_op_t       *rma_ops;    /* num_rma_ops, likewise */
    uint32_t        num_am_ops;
    uint32_t        num_rma_ops;
    uint32_t        num_paths;  /* in use, of those given to vqp_init() */
    uint32_t        num_connected; /* with failover: of these, that REQ and REP have. The
                                   others are off: see failover.h */
    uint32_t        min_paths;  /* likewise: this side adds paths until so many are in use,
                                   and drops none of them; 1 at least */
    uint32_t        depth;      /* of a path that is added. Paths with less are short: one
                                   that is added under load replaces each, see elastic.h */
    uint32_t        peer_rails; /* that the peer has */
    uint32_t        first_path; /* the one that the search begins at */
    uint32_t        peer_first_fsn;
    uint32_t        recv_batch; /* receives that are posted again together */
    uint8_t         am_ids;     /* AM ids are below this */
    uint8_t        *map;        /* fsn_window bytes */
    char           *ring;       /* tx.ring_size bytes, the peer writes them */
    uint8_t         rings_on;   /* both sides can change rings */
    uint32_t        ring_max;   /* bytes of the largest ring that this side makes, a power
                                   of two; with fsn_window at most VQP_RING_WINDOW_MAX */
    uint64_t        ring_idle;  /* ns without messages until it is given back, to twice that */
    char           *rx_cells;   /* VQP_CELL_STRIDE for each path, likewise */
    const struct vqp_wire_path *own_paths;  /* with failover: sent to the peer, */
    const struct vqp_wire_path *peer_paths; /* and received from it; copied */
    uint64_t        gap;        /* ns that an immediate may be missing while later ones
                                   have arrived; 0: for ever */
    uint64_t        probe;      /* ns without traffic until the peer of a vqp without an
                                   endpoint is probed; 0: never */
    uint64_t        down;       /* with failover: bits of the paths whose queue pairs are
                                   not connected, since no host answers to the address
                                   of the peer, or since it has failed. PATH_CONNECT
                                   comes for each of them when the vqp is live */
    vqp_failover_config_t failover;
} vqp_config_t;

typedef struct vqp {
    vqp_tx_t     tx;
    vqp_rx_t     rx;
    vqp_path_t  *paths;
    uint32_t     num_paths;    /* created; tx.paths.count are in use */
    uint32_t     recv_batch;
    uint32_t     events;       /* those that are due: 1 << vqp_event_t */
    uint8_t      connected;    /* tx and rx are valid: vqp_is_connected() */
    uint8_t      state;        /* vqp_state_t */
    uint8_t      logged;       /* the state that was last logged */
    uint8_t      owner;        /* vqp_owner_t */
    uint8_t      refused;      /* an op was refused since the last RESUME */
    uint8_t      canceled;     /* by the user, who gets no report */
    uint8_t      qps_failed;   /* all queue pairs are in ERR, or destroyed */
    uint8_t      qps_lost;     /* but some may not: see vqp_path_lost() */
    uint8_t      conn_over;    /* the connection has ended */
    uint8_t      am_queued;    /* am_credit is in an AM that was not dispatched */
    uint8_t      am_ids;
    uint8_t      event_path;   /* of the last VQP_EVENT_PATH_* */
    uint8_t      in_outage;    /* no path is UP, since outage_since */
    uint8_t      lacks_rail;   /* an atomic waits for a rail, since lacks_since */
    vqp_status_t status;       /* if failed */
    vqp_credit_t am_credit;
    struct {
        const char *what;
        unsigned    path;
    } broken;                  /* how the peer has broken the protocol */
    struct {
        uint64_t limit;        /* ns; 0: none */
        uint64_t due;          /* ns: of the next look; UINT64_MAX: none is missing */
        uint64_t failed;       /* ns: so long one was missing when the vqp failed for it;
                                  else 0 */
        uint32_t base;         /* fsn that was expected at the last look without a gap */
        uint8_t  is_unseen;    /* the next immediate that is ahead starts the looks */
    } gap;                     /* missing immediates */
    struct {
        uint64_t limit;        /* ns; 0: none */
        uint64_t due;          /* ns: of the next look, while no endpoint uses it */
        uint64_t activity;     /* ams_rx + ops at the last look */
        uint64_t since;        /* ns: last look that saw activity */
    } idle;                    /* a vqp without traffic */
    uint64_t     outage_since; /* ns, plus time that does not count */
    uint64_t     acked_at;     /* ns: last acknowledgement while something is in flight
                                  or no path is UP, plus time that does not count; 0:
                                  nothing is waited for. failover.outage counts from it */
    uint64_t     all_down;     /* ns: since then no path is UP; 0: some is */
    vqp_turn_t   needed_turn;  /* of the next path, while no path is UP, see turns.h */
    uint64_t     path_received; /* ns: last path message of the peer, or begin of the
                                   outage */
    uint64_t     lacks_since;  /* ns */
    uint64_t     timed_at;     /* ns: last vqp_on_time() */
    struct {
        uint64_t due;          /* ns: next look; UINT64_MAX: none */
        uint64_t looked;       /* ns: last look; 0: none yet */
        uint64_t limit;        /* ns for which a path may be silent: failover.silence or
                                  more */
        uint32_t quiet_looks;  /* looks in a row with all paths stalled, at most 6 */
    } silence;                 /* see silence.h */
    uint8_t      peer_rails;   /* that the peer has */
    uint8_t      min_paths;    /* that are to be in use */
    uint16_t     depth;        /* of a path that is not short */
    uint64_t     slow_next;    /* ns: no path is moved before, see slow.h */
    uint64_t     back_due;     /* ns: atomics lack a rail: time at which a path goes back to
                                  it, see move.h; UINT64_MAX: none */
    struct {
        uint64_t due;          /* ns: next look; VQP_RAILS_SOON; UINT64_MAX: none */
        uint64_t wait;         /* ns: until the one after it */
    } missed;                  /* a rail of this side that no path uses, see rails.h */
    uint32_t     good_rails;   /* bits: rails of this side on which queue pairs can be
                                  connected. The owner sets it when vqp_wants_rails() */
    struct {
        uint64_t since;        /* ns: last sign of life of the peer, which is waited
                                  for; 0: it is not */
        uint64_t due;          /* ns: next ping; UINT64_MAX: none */
        uint64_t interval;     /* ns from the next ping to the one after it */
        uint64_t pinged;       /* ns: last ping; 0: none yet */
        uint64_t progress;     /* completions of all paths until since */
        uint8_t  host_only;    /* pings in a row that only the host has answered */
        uint8_t  rc_timeout;   /* RC has given up a path since then */
        uint8_t  expedited;    /* and the next ping was moved forward */
        uint8_t  is_dead;      /* the vqp has failed because the peer is dead */
    } alive;                   /* see alive.h */
    struct {
        uint64_t due;          /* ns: next look; UINT64_MAX: none */
        uint64_t looked;       /* ns: last look */
        uint64_t confirmed;    /* bytes confirmed until then */
        uint64_t frags;        /* of operations, posted until then */
        uint64_t used;         /* ns: the look that has found the last one; 0: no look yet */
        uint64_t full;         /* ns of the measurement */
        uint64_t bytes;        /* confirmed in these */
        uint64_t load;         /* bytes in flight at these looks, at least */
        uint64_t tried;        /* the load of the trials that count; 0: of none */
        uint64_t rate;         /* without the path on trial: bytes in 2^20 ns */
        uint64_t next;         /* ns: no trial before */
        uint64_t wait;         /* ns from the last of some trials until then */
        uint64_t asked;        /* ns: last request to drop a short path */
        uint8_t  state;        /* vqp_elastic_state_t */
        uint8_t  was_full;     /* the paths were full at the last look */
        uint8_t  looks;        /* at which they were, in a row, whatever time between them */
        uint8_t  requested;    /* to drop paths, as none was used */
        uint8_t  path;         /* on trial */
        uint8_t  swaps;        /* it replaces a short one */
        uint8_t  asks;         /* requests in a row to drop that */
        uint8_t  num;          /* paths that took frags before */
        uint8_t  tries;        /* trials in a row that have failed */
        uint8_t  wanted;       /* paths that have paid for themselves */
    } elastic;                 /* see elastic.h */
    struct {
        uint32_t max;          /* bytes of the largest ring and mirror of this side */
        uint8_t  is_on;        /* both sides can change rings */
        uint8_t  send;         /* records that are due: 1 << vqp_ring_type_t */
        uint8_t  rx;           /* number of the ring that the peer writes to */
        uint8_t  next;         /* is made, or offered; VQP_RING_NONE: none, as below */
        uint8_t  is_offered;   /* next was offered */
        uint8_t  old;          /* the peer may still write to it */
        uint8_t  put;          /* of VQP_EVENT_RING_PUT */
        uint8_t  tx;           /* number of the peer's ring that this side writes to */
        uint8_t  tx_next;      /* the peer has offered it */
        uint8_t  is_wanted;    /* the peer may offer one */
        uint8_t  tx_old;       /* records in it are in flight */
        uint8_t  tx_put;       /* of VQP_EVENT_MIRROR_PUT: 1 << number */
        uint8_t  is_needed;    /* the mirror of ring 0: it could not be made */
        uint8_t  record_waits; /* a control record that is due lacks only that */
        uint8_t  is_asked_for; /* it: 1; 2, if a look has seen that */
        uint8_t  release;      /* of the RELEASE that is due */
        char    *first;        /* ring 0 */
        struct {
            char    *base;
            uint32_t size;
            uint8_t  num_rkeys;
            uint32_t rkeys[VQP_RING_KEYS_MAX];
        } offer;               /* ring next */
        vqp_tx_ring_t tx_ring; /* of tx_next */
        uint32_t rkeys[2][VQP_RING_KEYS_MAX]; /* of the peer's rings 1 and 2 */
        uint64_t ams;          /* stats.ams_rx at the last look */
        uint64_t looked;       /* ns: last look; 0: none yet */
        uint64_t due;          /* ns: next look; UINT64_MAX: none */
        uint64_t mirror_due;   /* ns: next look at the mirror of ring 0; likewise */
        uint32_t head;         /* tx.fc.ring_head at that look */
        uint64_t idle;         /* ns from one look to the next */
    } rings;                   /* see rings.h, mirror.h */
    vqp_failover_config_t failover;
    vqp_stats_t  stats;
} vqp_t;

static inline void vqp_set_event(vqp_t *vqp, vqp_event_t event)
{
    vqp->events |= 1u << event;
}

static inline void vqp_clear_event(vqp_t *vqp, vqp_event_t event)
{
    vqp->events &= ~(1u << event);
}

static inline int vqp_has_event(const vqp_t *vqp, vqp_event_t event)
{
    return (vqp->events >> event) & 1;
}

/** Go to another state; the owner logs the change. */
static inline void vqp_set_state(vqp_t *vqp, vqp_state_t state)
{
    vqp->state = (uint8_t)state;
    vqp_set_event(vqp, VQP_EVENT_STATE);
}

/** Are sender and receiver valid? Any thread; they are initialized completely then. */
static inline int vqp_is_connected(const vqp_t *vqp)
{
    return __atomic_load_n(&vqp->connected, __ATOMIC_ACQUIRE);
}

static inline int vqp_is_failed(const vqp_t *vqp)
{
    return vqp->state >= VQP_STATE_FAILED;
}

/** Does no error of the endpoint tell the user that the vqp has failed? Then a flush of
 *  the interface has to report what was lost. */
static inline int vqp_fails_quietly(const vqp_t *vqp)
{
    return vqp->canceled || (vqp->owner != VQP_OWNER_OPEN);
}

/** The peer has ended in order: errors of what the user does not wait for are quiet. The
 *  next use fails, not an endpoint that waits for nothing. */
static inline int vqp_ends_quietly(const vqp_t *vqp, const vqp_path_t *path)
{
    return (vqp->state == VQP_STATE_PEER_CLOSED) && (path->fo.state <= VQP_PATH_SILENT);
}

/** The status of the connection after a completion with @a status. A flush does not tell
 *  why the device has moved the queue pair to ERR: it may have refused a request of the
 *  peer, and only the peer gets the reason. */
static inline vqp_status_t vqp_conn_status(vqp_status_t status)
{
    return (status == VQP_ERR_CANCELED) ? VQP_ERR_RESET : status;
}

#endif
