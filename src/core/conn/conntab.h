/*
 * All connections of one interface: which there are, which peer they are with,
 * their timers, and the actions that wait to be handed out. A data structure:
 * conn.c decides what becomes of a connection, conndrive.c feeds messages and time
 * in and hands the actions out.
 * Pure: libc only. Not thread-safe: the caller holds the interface's lock.
 *
 * A peer is an interface id together with all rails (GID or LID, and control
 * queue pair) behind which it is: its identity. So one that claims another's
 * interface id is another peer.
 *
 * Numbers are never used twice with a peer whose record is there. A record
 * stays when the last connection with its peer has gone. Memory is bounded: a
 * record is in one of the peer's connections, and afterwards in one of
 * `num_idle` places, which are overwritten in turn when none is free. Whoever has lost a record
 * begins at 1 again, and gets the highest number from the other side.
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
#define VQP_CONNTAB_LOOK  100000000ul /* ns between two looks at the timers, at most */
#define VQP_CONNTAB_LATE  100000000ul /* ns by which a look may be late: see
                                         vqp_conntab_tick() */

#define VQP_CONN_STATES(_) \
    _(NEW, "too many REQs to this peer are unanswered: not sent yet") \
    _(REQ, "REQ sent, nothing heard of the peer") \
    _(ASKED, "made for a REQ of a peer that has not proven to hear us") \
    _(PEER, "the peer is known, own queue pairs are being connected") \
    _(READY, "own queue pairs connected, the peer's not yet known to be") \
    _(LIVE, "both sides are connected") \
    _(CLOSING, "BYE sent, not answered yet") \
    _(CLOSED, "it has ended: the table has forgotten it")

typedef enum {
#define VQP_CONN_STATE_ENUM(_name, _help) VQP_CONN_##_name,
    VQP_CONN_STATES(VQP_CONN_STATE_ENUM)
#undef VQP_CONN_STATE_ENUM
    VQP_CONN_STATE_LAST
} vqp_conn_state_t;

struct vqp_conntab;

/** A control queue pair, and the local rail from which it is reached. */
typedef struct vqp_conn_dest {
    uint8_t  gid[VQP_GID_LEN]; /* zero: InfiniBand without GRH */
    uint32_t qpn;
    uint16_t lid;
    uint8_t  rail;             /* index of the local rail */
} vqp_conn_dest_t;

typedef struct vqp_conn {
    uint64_t              cookie;      /* own name of the connection */
    uint64_t              peer_cookie; /* zero: the peer has not proven that it
                                          hears us, see conn.h */
    uint64_t              peer_id;     /* interface id */
    uint32_t              number;
    uint32_t              retransmits; /* messages that were repeated */
    uint32_t              peer_features;
    uint8_t               state;       /* vqp_conn_state_t */
    uint8_t               logged;      /* the state that the caller has logged */
    uint8_t               owned;       /* an endpoint uses it */
    uint8_t               passive;     /* the peer created it */
    uint8_t               peer_closed; /* no endpoint uses the peer's side: it
                                          said so by a BYE, or by the RST at
                                          the end of its interface */

    /* What follows belongs to conn.c and conntab.c */
    uint8_t               want_close;  /* say BYE once LIVE */
    uint8_t               peer_ready;  /* have_yours has arrived */
    uint8_t               qps_wait;    /* PEER: own queue pairs can not be connected
                                          yet */
    uint8_t               linked;      /* found by id and cookie */
    uint8_t               queued;      /* in the list of actions */
    uint8_t               timed;       /* in the list of timers */
    uint8_t               num_dests;
    uint8_t               unproven;    /* counted in tab->num_unproven */
    uint8_t               answers;     /* to the present request */
    uint8_t               answer_rail; /* of the peer: that the first of them
                                          went to */
    uint8_t               ack_flags;   /* of the BYE_ACK to be sent */
    uint8_t               rst_flags;   /* of the RST to be sent */
    uint8_t               rsts;        /* of it that were sent, to each rail one */
    uint16_t              attempt;     /* messages repeated; selects the rail */
    uint16_t              path_turn;   /* path messages sent; likewise */
    uint16_t              pings;       /* times that the peer was asked; likewise */
    uint8_t               has_witness; /* the last question had one */
    uint32_t              witness_turn; /* bucket of the last witness */
    uint32_t              todo;        /* pending actions, VQP_CONN_ACT_* */
    uint32_t              serial;      /* of the newest own BYE */
    uint32_t              peer_serial; /* of the newest BYE of the peer */
    int                   status;      /* vqp_status_t: why it has ended */
    uint64_t              identity;    /* of the peer: its id and its rails */
    uint64_t              asked_by;    /* cookie in the latest REQ that did not
                                          have the own one */
    uint64_t              proof;       /* what the peer wants to see in a REQ, or zero */
    uint64_t              heard;       /* ns: when the peer sent a message last */
    uint64_t              witness;     /* cookie of the connection that was asked last
                                          for this one, see connping.h; or 0 */
    uint64_t              witness_asked; /* ns: when */
    uint64_t              interval;    /* until the next repetition, ns */
    uint64_t              due;         /* time of the next repetition */
    uint64_t              give_up;     /* time when repeating ends */
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
    vqp_conn_dest_t       from;        /* sender of the latest request */
    vqp_conn_dest_t       heard_from;  /* sender of the latest message */
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
    _(adoptions, "connections of a peer that an endpoint took over") \
    _(sent, "control messages sent") \
    _(received, "control messages received") \
    _(retransmits, "control messages repeated for lack of an answer") \
    _(duplicates, "control messages that said nothing new") \
    _(stale, "control messages of a connection that is not there (any more)") \
    _(malformed, "control messages that are not valid") \
    _(unknown_type, "control messages of an unknown type or version") \
    _(unknown_feature, "control messages with a feature bit not known here") \
    _(ignored, "path messages of a connection that is not set up, ignored") \
    _(path_sent, "path messages sent") \
    _(pings, "peers that were silent, and witnesses, asked for an answer") \
    _(rst_sent, "resets sent") \
    _(rst_received, "resets of a known connection received") \
    _(timeouts, "connections that the peer did not answer in time") \
    _(overruns, "control messages dropped, actions had not been drained") \
    _(refused, "requests dropped, too many peers have not proven to hear us: " \
               "a proof was asked for") \
    _(proven, "requests that had this proof") \
    _(misplaced, "requests dropped, their sender is none of the rails in them") \
    _(renumbered, "connections whose number the peer had used before") \
    _(yields, "times that control messages were left for later, to let others in")

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
    uint64_t connect_timeout; /* ns without an answer to this connection, nor a first
                                 one to another of the peer, until END */
    uint64_t close_timeout;   /* ns from BYE to giving up on the answer */
    uint64_t secret[2];       /* random: the key of identities and proofs */
    uint32_t features;        /* VQP_WIRE_FEATURE_*, sent along */
    uint32_t max_unproven;    /* passive connections whose peer has not proven
                                 to hear us, >= 1 */
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
    uint32_t             idle_next;   /* the place to be overwritten next */
    uint32_t             num_conns;
    uint32_t             num_unproven; /* passive ones that exist and were made without
                                           a proof */
    vqp_peer_t           loop;        /* numbers of REQs to oneself */
    vqp_conn_t          *action_head;
    vqp_conn_t          *action_tail;
    vqp_conn_t          *timers;
    uint64_t             next_due;    /* no timer is due earlier */
    uint64_t             now;         /* newest time that was passed in */
    vqp_conn_t          *rx_conn;     /* its CONNECT_QPS, pending, needs rx */
    vqp_conn_t          *rx_path;     /* whose path message rx is, pending */
    uint8_t              rx_create;   /* CREATE_PASSIVE is pending */
    uint8_t              rx_rst;      /* a RST that belongs to no connection */
    uint8_t              rx_proven;   /* rx is a REQ with the proof it was asked for */
    vqp_conn_dest_t      rx_from;     /* the sender of rx */
    uint64_t             rx_identity; /* of the rails in rx, if it has any */
    vqp_conn_dest_t      rst_to;
    vqp_wire_header_t    rst;
    vqp_wire_msg_t       rx;
} vqp_conntab_t;

/** Bytes of memory that vqp_conntab_init() wants. */
size_t vqp_conntab_mem_size(const vqp_conntab_config_t *config);

/**
 * @param [in] mem  vqp_conntab_mem_size() bytes, aligned as by malloc, which
 *                  outlive the table; the caller frees them.
 *
 * @return VQP_OK, VQP_ERR_INVALID_PARAM when the configuration makes no sense.
 */
vqp_status_t vqp_conntab_init(vqp_conntab_t *tab,
                              const vqp_conntab_config_t *config, void *mem);

/** Has nothing of the peer arrived for a REQ that this side sent, or will? */
static inline int vqp_conn_is_unanswered(const vqp_conn_t *conn)
{
    return (conn->state == VQP_CONN_NEW) || (conn->state == VQP_CONN_REQ);
}

/** Where a peer's REQ or REP says that its rails are. @return Their number. */
unsigned vqp_conntab_rails(const vqp_conntab_t *tab,
                           const vqp_wire_info_t *info, vqp_conn_dest_t *dests);

/** Is @a addr, as a datagram has it, that control queue pair? */
int vqp_conntab_is_rail(const vqp_conn_dest_t *rail,
                        const vqp_conn_dest_t *addr);

/** What a peer is known by, never zero: its interface id and its rails. */
uint64_t vqp_conntab_identity(const vqp_conntab_t *tab, uint64_t iface_id,
                              const vqp_conn_dest_t *rails, unsigned num);

/**
 * What the sender of a REQ has to send back as a proof that it receives what is sent
 * to its rails; never zero. Nothing is stored for it.
 *
 * @param identity  Of its interface and rails.
 */
uint64_t vqp_conntab_proof(const vqp_conntab_t *tab, uint64_t identity,
                           const vqp_wire_header_t *req);

/** The record of a peer, or NULL. */
const vqp_peer_t *vqp_conntab_find_peer(const vqp_conntab_t *tab,
                                        uint64_t identity);

/** Is there a connection of that cookie? */
vqp_conn_t *vqp_conntab_find_cookie(const vqp_conntab_t *tab, uint64_t cookie);

/**
 * The connection that a REQ asks for which does not know the own cookie.
 *
 * @param [out] taken  Another connection, of another incarnation, has the
 *                     number. May be NULL.
 */
vqp_conn_t *vqp_conntab_find_number(const vqp_conntab_t *tab, uint64_t identity,
                                    uint32_t number, uint64_t peer_cookie,
                                    int *taken);

/**
 * Enter a connection, under its cookie and identity.
 *
 * @param [in] number  The number in the peer's REQ, which counts as used when
 *                     the peer has proven that it hears us, see
 *                     vqp_conntab_proven(); or zero for the next one of the
 *                     peer, which counts as used at once.
 *
 * @return VQP_OK; VQP_ERR_EXCEEDS_LIMIT: no number is left.
 */
vqp_status_t vqp_conntab_link(vqp_conntab_t *tab, vqp_conn_t *conn,
                              uint32_t number);

/**
 * Give a connection the next number, and one above @a above.
 *
 * @return VQP_OK; VQP_ERR_EXCEEDS_LIMIT: none is left, the old one stays.
 */
vqp_status_t vqp_conntab_renumber(vqp_conntab_t *tab, vqp_conn_t *conn,
                                  uint32_t above);

/** The peer has proven that it hears us: its number counts as used. */
void vqp_conntab_proven(vqp_conntab_t *tab, vqp_conn_t *conn);

/** It does not count as unproven any more. No-op if it does not. */
void vqp_conntab_uncount(vqp_conntab_t *tab, vqp_conn_t *conn);

/** Forget a connection, and its timer. Its actions stay. No-op if unlinked. */
void vqp_conntab_unlink(vqp_conntab_t *tab, vqp_conn_t *conn);

/** Add to conn->todo and see that it is handed out. */
void vqp_conntab_post(vqp_conntab_t *tab, vqp_conn_t *conn, unsigned todo);

/** Take pending actions back. */
void vqp_conntab_cancel(vqp_conntab_t *tab, vqp_conn_t *conn, unsigned todo);

/** The first connection in the queue of actions has none left. */
void vqp_conntab_unqueue(vqp_conntab_t *tab);

/** Let conn->due, just set, be looked at; or stop that. */
void vqp_conntab_start_timer(vqp_conntab_t *tab, vqp_conn_t *conn);
void vqp_conntab_stop_timer(vqp_conntab_t *tab, vqp_conn_t *conn);

static inline void vqp_conntab_set_now(vqp_conntab_t *tab, uint64_t now)
{
    if (now > tab->now) {
        tab->now = now;
    }
}

/**
 * Look at the timers in VQP_CONNTAB_LOOK at the latest: who looks later was stopped, which
 * a look at the end of a long time would not show.
 */
static inline void vqp_conntab_restart_timer(vqp_conntab_t *tab)
{
    tab->next_due = tab->now + VQP_CONNTAB_LOOK;
}

/** A message of the peer, which has proven who it is, came in. */
static inline void vqp_conn_note_heard(vqp_conn_t *conn)
{
    conn->heard      = conn->tab->now;
    conn->heard_from = conn->tab->rx_from;
}

#endif
