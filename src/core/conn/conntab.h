/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of all connections of one interface: lookup, peers, timers, and pending
 * actions. A data structure: conn.c has the state machine of a connection, conndrive.c
 * passes in messages and time and hands out the actions.
 * Pure: libc only. Not thread-safe: the caller holds the interface's lock.
 *
 * A peer is identified by its interface id and all of its rails (GID or LID, and control
 * queue pair). So a sender that claims another's interface id is another peer.
 *
 * A number is never used twice with a peer that has a record. The record outlives the
 * last connection with its peer. Memory is bounded: the record is in one of the peer's
 * connections, and afterwards in one of `num_idle` entries, which are overwritten in turn
 * if none is free. A side whose record was overwritten begins at 1 again, and gets the
 * highest number from the other side.
 *
 * Loopback: the peer may be the interface itself. A connection then has a twin
 * of the same id and number, distinguished by cookies, and is never paired with
 * itself.
 */
#ifndef VQP_CORE_CONN_CONNTAB_H
#define VQP_CORE_CONN_CONNTAB_H

#include "core/conn/peer.h"
#include "core/conn/wire.h"

#define VQP_CONNTAB_NEVER UINT64_MAX
#define VQP_CONNTAB_LOOK  100000000ul /* ns between two checks of the timers, at most */
#define VQP_CONNTAB_LATE  100000000ul /* ns by which a check may be late: see
                                         vqp_conntab_tick() */

#define VQP_CONN_STATES(_) \
    _(NEW, "REQ not sent yet: too many REQs to this peer are unanswered") \
    _(REQ, "REQ sent, no answer received") \
    _(ASKED, "created for the REQ of a peer that is not proven yet") \
    _(PEER, "the peer is proven, the own queue pairs are being connected") \
    _(READY, "own queue pairs connected, waiting for those of the peer") \
    _(LIVE, "both sides are connected") \
    _(CLOSING, "BYE sent, not answered yet") \
    _(CLOSED, "ended: it is not in the table any more")

typedef enum {
#define VQP_CONN_STATE_ENUM(_name, _help) VQP_CONN_##_name,
    VQP_CONN_STATES(VQP_CONN_STATE_ENUM)
#undef VQP_CONN_STATE_ENUM
    VQP_CONN_STATE_LAST
} vqp_conn_state_t;

/* The last message of the peer before the connection was LIVE */
#define VQP_CONN_HEARD(_) \
    _(NOTHING, "none") \
    _(REQ, "a REQ") \
    _(REP, "a REP") \
    _(MISPLACED, "a REP from an address that is none of the peer's rails: dropped") \
    _(PROVE, "RST: the REQ is to be repeated with a proof") \
    _(LACKS, "RST: no queue pair or memory for this connection") \
    _(NUMBER_USED, "RST: the number of the connection was used before") \
    _(UNKNOWN, "RST: the interface or the connection does not exist there") \
    _(CLOSED, "RST: the interface is closed") \
    _(RESET, "RST: the side of the peer has ended")

typedef enum {
#define VQP_CONN_HEARD_ENUM(_name, _help) VQP_CONN_HEARD_##_name,
    VQP_CONN_HEARD(VQP_CONN_HEARD_ENUM)
#undef VQP_CONN_HEARD_ENUM
    VQP_CONN_HEARD_LAST
} vqp_conn_heard_t;

/** What was sent and what came back until the connection was LIVE: the reason why it was not.
 *  connnote.h writes it; the owner reads it when the connection has ended. */
typedef struct vqp_conn_notes {
    uint64_t began;   /* ns: the connection was created, or adopted in ASKED */
    uint64_t ended;   /* ns: it ended */
    uint16_t reqs;    /* sent; this and the next two stay at the largest number */
    uint16_t reps;    /* sent */
    uint16_t unsent;  /* of both: the owner could not send them */
    uint8_t  dest;    /* index of the peer's rail that the last of them was sent to... */
    uint8_t  rail;    /* ...and the own one */
    uint8_t  heard;   /* vqp_conn_heard_t */
    uint8_t  version; /* VQP_WIRE_VERSION of a datagram from one of the peer's rails, if it
                         is another one than here; or 0 */
    uint8_t  stopped; /* vqp_conn_state_t in which the connection ended */
} vqp_conn_notes_t;

struct vqp_conntab;

/** A control queue pair, and the local rail from which it is reached. */
typedef struct vqp_conn_dest {
    uint8_t  gid[VQP_GID_LEN]; /* zero: InfiniBand without GRH */
    uint32_t qpn;
    uint16_t lid;
    uint8_t  rail;             /* index of the local rail */
} vqp_conn_dest_t;

typedef struct vqp_conn {
    uint64_t              cookie;      /* identifies this side */
    uint64_t              peer_cookie; /* identifies the peer's side; zero: the peer
                                          is not proven, see conn.h */
    uint64_t              peer_id;     /* interface id */
    uint32_t              number;
    uint32_t              retransmits; /* messages that were repeated */
    uint32_t              peer_features;
    uint8_t               state;       /* vqp_conn_state_t */
    uint8_t               logged;      /* the state that the caller has logged */
    uint8_t               owned;       /* an endpoint uses it */
    uint8_t               passive;     /* the peer created it */
    uint8_t               peer_closed; /* no endpoint uses the peer's side: a BYE
                                          arrived, or the RST at the end of its
                                          interface */
    vqp_conn_notes_t      notes;

    /* Private to src/core/conn */
    uint8_t               want_close;  /* send BYE once LIVE */
    uint8_t               peer_ready;  /* have_yours has arrived */
    uint8_t               qps_wait;    /* PEER: own queue pairs can not be connected
                                          yet */
    uint8_t               linked;      /* found by id and cookie */
    uint8_t               queued;      /* in the list of actions */
    uint8_t               timed;       /* in the list of timers */
    uint8_t               num_dests;
    uint8_t               unproven;    /* counted in tab->num_unproven */
    uint8_t               answers;     /* sent for the current request */
    uint8_t               answer_rail; /* of the peer: destination of the first of
                                          them */
    uint8_t               ack_flags;   /* of the BYE_ACK to be sent */
    uint8_t               rst_flags;   /* of the RST to be sent */
    uint8_t               rsts;        /* copies of it sent, one to each rail */
    uint16_t              attempt;     /* messages repeated; selects the rail */
    uint16_t              path_turn;   /* path messages sent; selects the rails */
    uint16_t              pings;       /* pings sent to the peer; selects the rails */
    uint8_t               has_witness; /* the last ping went to a witness too */
    uint16_t              lacks_reqs;  /* notes.reqs at lacks_since */
    uint32_t              witness_turn; /* bucket of the last witness */
    uint32_t              todo;        /* pending actions, VQP_CONN_ACT_* */
    uint32_t              serial;      /* of the newest own BYE */
    uint32_t              peer_serial; /* of the newest BYE of the peer */
    int                   status;      /* vqp_status_t: the reason why it has ended */
    uint64_t              identity;    /* of the peer, vqp_conntab_identity() */
    uint64_t              asked_by;    /* cookie of the sender of the latest REQ
                                          without the own cookie */
    uint64_t              proof;       /* that the peer requires in a REQ, or zero */
    uint64_t              last_rx;     /* ns: last message of the peer */
    uint64_t              witness;     /* cookie of the connection that was pinged last
                                          as a witness, see connping.h; or 0 */
    uint64_t              witness_pinged; /* ns: when */
    uint64_t              interval;    /* ns until the next repetition */
    uint64_t              due;         /* ns: next repetition */
    uint64_t              give_up;     /* ns: time-out */
    uint64_t              lacks_since; /* ns: since then the peer lacks what it needs to
                                          answer; or 0 */
    const vqp_wire_info_t *local;
    struct vqp_conntab    *tab;
    vqp_peer_t            *peer;
    struct vqp_conn       *peer_next;
    struct vqp_conn       *peer_prev;
    struct vqp_conn       *cookie_next;
    struct vqp_conn       *action_next;
    struct vqp_conn       *timer_next;
    struct vqp_conn       *timer_prev;
    vqp_peer_t            slot;        /* room for the record of the peer */
    vqp_conn_dest_t       from;        /* source of the latest request */
    vqp_conn_dest_t       last_rx_from; /* source of the latest message */
    vqp_conn_dest_t       dests[VQP_MAX_RAILS]; /* all rails of the peer */
} vqp_conn_t;

/* Pending actions, handed out lowest bit first */
enum {
    VQP_CONN_ACT_STATE       = 1u << 0,
    VQP_CONN_ACT_CONNECT_QPS = 1u << 1,
    VQP_CONN_ACT_REQ         = 1u << 2,
    VQP_CONN_ACT_REP         = 1u << 3,
    VQP_CONN_ACT_BYE_ACK     = 1u << 4,
    VQP_CONN_ACT_BYE         = 1u << 5,
    VQP_CONN_ACT_RST         = 1u << 6,
    VQP_CONN_ACT_LIVE        = 1u << 7,
    VQP_CONN_ACT_END         = 1u << 8
};

/* Counters: name and help */
#define VQP_CONNTAB_COUNTERS(_) \
    _(connects, "connections created for an endpoint") \
    _(accepts, "connections created for a peer") \
    _(adoptions, "connections of a peer that an endpoint adopted") \
    _(sent, "control datagrams sent") \
    _(received, "control datagrams received") \
    _(retransmits, "control datagrams repeated for lack of an answer") \
    _(duplicates, "control datagrams without new information") \
    _(stale, "control datagrams of a connection that does not exist (any more)") \
    _(malformed, "control datagrams that are not valid") \
    _(unknown_type, "control datagrams of an unknown type or version") \
    _(unknown_feature, "control datagrams with a feature bit not known here") \
    _(ignored, "path messages of a connection that is not set up, ignored") \
    _(path_sent, "path messages sent") \
    _(pings, "pings to peers that were silent, and to witnesses") \
    _(rst_sent, "resets sent") \
    _(rst_received, "resets of a known connection received") \
    _(timeouts, "connections that the peer did not answer in time") \
    _(overruns, "control datagrams dropped, actions had not been drained") \
    _(refused, "requests dropped, too many peers are not proven: a proof was " \
               "requested") \
    _(proven, "requests that had this proof") \
    _(misplaced, "requests dropped, their source is none of the rails in them") \
    _(renumbered, "connections whose number the peer had used before") \
    _(yields, "times that control datagrams were left for later, to let others in")

typedef struct vqp_conntab_stats {
#define VQP_CONNTAB_COUNTER_FIELD(_name, _help) uint64_t _name;
    VQP_CONNTAB_COUNTERS(VQP_CONNTAB_COUNTER_FIELD)
#undef VQP_CONNTAB_COUNTER_FIELD
} vqp_conntab_stats_t;

typedef struct vqp_conntab_config {
    uint64_t iface_id;        /* own, random, not zero */
    uint64_t retry_first;     /* ns until a message is first repeated; it
                                 doubles (plus up to a quarter, by cookie) */
    uint64_t retry_max;       /* ns, upper limit of the above */
    uint64_t connect_timeout; /* ns to END without an answer, neither to this
                                 connection nor a first one to another of the peer */
    uint64_t close_timeout;   /* ns from BYE to giving up on the answer */
    uint64_t secret[2];       /* random: the key of identities and proofs */
    uint32_t features;        /* VQP_WIRE_FEATURE_*, sent along */
    uint32_t max_unproven;    /* passive connections whose peer is not proven, >= 1 */
    uint8_t  num_rails;       /* local rails that can send */
    uint8_t  log_states;      /* hand out STATE actions */
    uint8_t  hash_order;      /* log2 of the buckets of each hash, <= 24 */
    uint32_t num_idle;        /* peers remembered without a connection, >= 1 */
} vqp_conntab_config_t;

typedef struct vqp_conntab {
    vqp_conntab_config_t config;
    vqp_conntab_stats_t  stats;
    vqp_peer_t         **peers;       /* hash by identity */
    vqp_conn_t         **cookies;     /* hash by own cookie */
    vqp_peer_t          *idle;        /* num_idle records */
    vqp_peer_t          *idle_free;   /* those without a peer, a list */
    uint32_t             idle_next;   /* the record to be overwritten next */
    uint32_t             num_conns;
    uint32_t             num_unproven; /* passive connections that were created without
                                           a proof, and not freed or proven yet */
    vqp_peer_t           loop;        /* numbers of REQs to oneself */
    vqp_conn_t          *action_head;
    vqp_conn_t          *action_tail;
    vqp_conn_t          *timers;
    uint64_t             next_due;    /* no timer is due earlier */
    uint64_t             now;         /* newest time that was passed in */
    uint64_t             note_due;    /* of datagrams of another version, see connnote.h */
    uint64_t             witness_since; /* time from which... */
    uint32_t             witness_looks; /* ...so many connections were looked at, see
                                           connping.c */
    vqp_conn_t          *rx_conn;     /* its CONNECT_QPS, pending, needs rx */
    vqp_conn_t          *rx_path;     /* whose path message rx is, pending */
    uint8_t              rx_create;   /* CREATE_PASSIVE is pending */
    uint8_t              rx_rst;      /* a RST that belongs to no connection */
    uint8_t              rx_proven;   /* rx is a REQ with a valid proof */
    vqp_conn_dest_t      rx_from;     /* the source of rx */
    uint64_t             rx_identity; /* of the rails in rx, if it has any */
    vqp_conn_dest_t      rst_to;
    vqp_wire_header_t    rst;
    vqp_wire_msg_t       rx;
} vqp_conntab_t;

/** Bytes of memory that vqp_conntab_init() needs. */
size_t vqp_conntab_mem_size(const vqp_conntab_config_t *config);

/**
 * Initialize an empty table.
 *
 * @param [in] mem  vqp_conntab_mem_size() bytes, aligned as by malloc, which
 *                  outlive the table; the caller frees them.
 *
 * @return VQP_OK, VQP_ERR_INVALID_PARAM if the configuration is not valid.
 */
vqp_status_t vqp_conntab_init(vqp_conntab_t *tab,
                              const vqp_conntab_config_t *config, void *mem);

/** Is a REQ of this side unanswered, or not sent yet? */
static inline int vqp_conn_is_unanswered(const vqp_conn_t *conn)
{
    return (conn->state == VQP_CONN_NEW) || (conn->state == VQP_CONN_REQ);
}

/** The rails of a peer, from its REQ or REP. @return Their number. */
unsigned vqp_conntab_rails(const vqp_conntab_t *tab,
                           const vqp_wire_info_t *info, vqp_conn_dest_t *dests);

/** Is @a addr, the source of a datagram, that control queue pair? */
int vqp_conntab_is_rail(const vqp_conn_dest_t *rail,
                        const vqp_conn_dest_t *addr);

/** A hash that identifies a peer by its interface id and its rails; never zero. */
uint64_t vqp_conntab_identity(const vqp_conntab_t *tab, uint64_t iface_id,
                              const vqp_conn_dest_t *rails, unsigned num);

/**
 * The value that the sender of a REQ has to send back as a proof that it receives messages
 * at its rails; never zero. Nothing is stored for it.
 *
 * @param [in] identity  vqp_conntab_identity() of the sender.
 */
uint64_t vqp_conntab_proof(const vqp_conntab_t *tab, uint64_t identity,
                           const vqp_wire_header_t *req);

/** The record of a peer, or NULL. */
const vqp_peer_t *vqp_conntab_find_peer(const vqp_conntab_t *tab,
                                        uint64_t identity);

/** The connection with that own cookie, or NULL. */
vqp_conn_t *vqp_conntab_find_cookie(const vqp_conntab_t *tab, uint64_t cookie);

/**
 * The connection of a REQ without the own cookie, by its number; or NULL.
 *
 * @param [out] taken  The number belongs to another connection of that peer, whose
 *                     cookie differs. May be NULL.
 */
vqp_conn_t *vqp_conntab_find_number(const vqp_conntab_t *tab, uint64_t identity,
                                    uint32_t number, uint64_t peer_cookie,
                                    int *taken);

/**
 * Insert a connection, by its cookie and identity.
 *
 * @param [in] number  The number in the peer's REQ, which counts as used once the
 *                     peer is proven, see vqp_conntab_proven(); or zero for the next
 *                     number of the peer, which counts as used at once.
 *
 * @return VQP_OK; VQP_ERR_EXCEEDS_LIMIT: no number is left.
 */
vqp_status_t vqp_conntab_link(vqp_conntab_t *tab, vqp_conn_t *conn,
                              uint32_t number);

/**
 * Give a connection the next number that is above @a above.
 *
 * @return VQP_OK; VQP_ERR_EXCEEDS_LIMIT: none is left, the number is unchanged.
 */
vqp_status_t vqp_conntab_renumber(vqp_conntab_t *tab, vqp_conn_t *conn,
                                  uint32_t above);

/** The peer of the connection is proven: its number counts as used. */
void vqp_conntab_proven(vqp_conntab_t *tab, vqp_conn_t *conn);

/** Do not count the connection as unproven any more. No-op if it is not counted. */
void vqp_conntab_uncount(vqp_conntab_t *tab, vqp_conn_t *conn);

/** Remove a connection and its timer. Its actions stay. No-op if it is not linked. */
void vqp_conntab_unlink(vqp_conntab_t *tab, vqp_conn_t *conn);

/** Add pending actions, VQP_CONN_ACT_*. */
void vqp_conntab_post(vqp_conntab_t *tab, vqp_conn_t *conn, unsigned todo);

/** Remove pending actions. */
void vqp_conntab_cancel(vqp_conntab_t *tab, vqp_conn_t *conn, unsigned todo);

/** Remove the first connection from the queue of actions: it has none left. */
void vqp_conntab_unqueue(vqp_conntab_t *tab);

/** Start or update the timer, which expires at conn->due; or stop it. */
void vqp_conntab_start_timer(vqp_conntab_t *tab, vqp_conn_t *conn);
void vqp_conntab_stop_timer(vqp_conntab_t *tab, vqp_conn_t *conn);

static inline void vqp_conntab_set_now(vqp_conntab_t *tab, uint64_t now)
{
    if (now > tab->now) {
        tab->now = now;
    }
}

/**
 * Request the next check of the timers within VQP_CONNTAB_LOOK. If it comes much later the
 * process was stopped meanwhile, see vqp_conntab_tick().
 */
static inline void vqp_conntab_restart_timer(vqp_conntab_t *tab)
{
    tab->next_due = tab->now + VQP_CONNTAB_LOOK;
}

/** Note a message of the peer, which is proven. */
static inline void vqp_conn_note_rx(vqp_conn_t *conn)
{
    conn->last_rx      = conn->tab->now;
    conn->last_rx_from = conn->tab->rx_from;
}

#endif
