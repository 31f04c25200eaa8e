/*
 * One connection: the state machine that pairs the queue pairs of two sides,
 * and parts them again. The struct is embedded in its owner, which allocates
 * it; all connections of an interface stand in one vqp_conntab_t.
 * Pure: libc only; time comes in as nanoseconds of any monotonic clock, work
 * leaves as actions, see @ref vqp_conntab_next_action.
 *
 * The handshake is symmetric. Each side repeats a REQ until it is LIVE; the
 * other answers a REQ with its own state. A REP is an answer and is never
 * answered itself, so nothing goes back and forth for ever.
 *
 *     active side                            passive side
 *     NEW -> REQ        -- REQ ------------> (create) PEER
 *                                            connect QPs: READY
 *     PEER <----------- REQ have_yours ----
 *     connect QPs: LIVE -- REP have_yours -> LIVE
 *
 * Simultaneous connects give both sides the same number: each takes the
 * other's REQ for the answer to its own.
 *
 * A side is "owned" while an endpoint uses it. Closing is half-closing:
 * vqp_conn_close() gives up the ownership, tells the peer (BYE, repeated until
 * answered), and the peer decides: when it does not use its side either, both
 * go; when it does, the closer stays LIVE, passive, and may be adopted again,
 * until the peer's BYE comes. A side that is closed before it is LIVE first
 * gets there, and then says BYE.
 *
 * No function here is thread-safe: the caller holds the interface's lock. None
 * calls back. After any of them the caller drains the actions.
 */
#ifndef VQP_CORE_CONN_H
#define VQP_CORE_CONN_H

#include "core/peer.h"
#include "core/wire.h"

#define VQP_CONN_STATES(_) \
    _(NEW, "too many REQs to this peer are unanswered: not sent yet") \
    _(REQ, "REQ sent, nothing heard of the peer") \
    _(PEER, "the peer is known, own queue pairs are being connected") \
    _(READY, "own queue pairs connected, the peer's not yet known to be") \
    _(LIVE, "both sides are connected") \
    _(CLOSING, "BYE sent, not answered yet") \
    _(CLOSED, "gone: a DESTROY action was or will be handed out") \
    _(FAILED, "failed under an endpoint, which has to close it")

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
    uint64_t              peer_cookie; /* zero: not known yet */
    uint64_t              peer_id;     /* interface id */
    uint32_t              number;
    uint32_t              retransmits; /* messages that were repeated */
    uint32_t              peer_features;
    uint8_t               state;       /* vqp_conn_state_t */
    uint8_t               owned;       /* an endpoint uses it */
    uint8_t               passive;     /* the peer created it */
    uint8_t               peer_closed; /* no endpoint uses the peer's side: it
                                          said so by a BYE, or by the RST at
                                          the end of its interface */

    /* What follows belongs to conn.c and conntab.c */
    uint8_t               want_close;  /* say BYE once LIVE */
    uint8_t               peer_ready;  /* have_yours has arrived */
    uint8_t               linked;      /* found by id and cookie */
    uint8_t               queued;      /* in the list of actions */
    uint8_t               timed;       /* in the list of timers */
    uint8_t               num_dests;
    uint8_t               ack_flags;   /* of the BYE_ACK to be sent */
    uint8_t               rst_flags;   /* of the RST to be sent */
    uint16_t              attempt;     /* messages repeated; selects the rail */
    uint32_t              todo;        /* pending actions, VQP_CONN_ACT_* */
    uint32_t              serial;      /* of the newest own BYE */
    uint32_t              peer_serial; /* of the newest BYE of the peer */
    int                   status;      /* vqp_status_t: why it failed */
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
    vqp_conn_dest_t       dests[VQP_MAX_RAILS];
} vqp_conn_t;

/** What a new connection needs to know. */
typedef struct vqp_conn_params {
    uint64_t              cookie;    /* random, not zero, new to the table */
    uint64_t              peer_id;
    const vqp_conn_dest_t *dests;    /* where REQs go to; copied */
    unsigned              num_dests; /* 1 .. VQP_MAX_RAILS */
    const vqp_wire_info_t *local;    /* must live as long as the connection */
} vqp_conn_params_t;

const char *vqp_conn_state_name(unsigned state);

/**
 * Create the active side of a new connection, owned by an endpoint, with the
 * next number of that peer. Try vqp_conntab_adopt() first. Sends a REQ.
 *
 * @return VQP_OK
 *         VQP_ERR_INVALID_PARAM: the cookie is zero or taken (draw another
 *         one), or the local info is not valid
 *         VQP_ERR_EXCEEDS_LIMIT: the numbers of this peer are used up.
 */
vqp_status_t vqp_conn_connect(struct vqp_conntab *tab, vqp_conn_t *conn,
                              const vqp_conn_params_t *params, uint64_t now);

/**
 * Create the passive side of a connection that a peer asks for, in answer to
 * a CREATE_PASSIVE action. CONNECT_QPS follows.
 *
 * @param [in] params  peer_id and dests are ignored: @a req has them.
 * @param [in] req     The REQ from the action.
 *
 * @return VQP_OK
 *         VQP_ERR_CANCELED: not needed any more, free it
 *         VQP_ERR_INVALID_PARAM: as in @ref vqp_conn_connect.
 */
vqp_status_t vqp_conn_accept(struct vqp_conntab *tab, vqp_conn_t *conn,
                             const vqp_conn_params_t *params,
                             const vqp_wire_msg_t *req, uint64_t now);

/**
 * In answer to CONNECT_QPS: own queue pairs are in RTS, with receives posted.
 * Sends have_yours. If they can not be connected: vqp_conn_fail().
 */
void vqp_conn_qps_ready(vqp_conn_t *conn, uint64_t now);

/**
 * An immediate arrived on one of the connection's queue pairs, which proves
 * that the peer's side is connected. Cheap when it is known already.
 */
void vqp_conn_first_imm(vqp_conn_t *conn, uint64_t now);

/**
 * The endpoint that owns the connection goes, and all its operations are
 * confirmed, with what the peer needs to deliver them. DESTROY follows, at
 * once (FAILED) or when the peer is done with its side too; until then the
 * connection goes on receiving.
 */
void vqp_conn_close(vqp_conn_t *conn, uint64_t now);

/**
 * End both sides at once, owned or not: tells the peer once, and DESTROY
 * follows. For operations that can not be confirmed, and for the end of the
 * interface: a peer whose endpoint still uses the connection then sees it fail
 * with VQP_ERR_RESET, and conn->peer_closed says that it lost nothing.
 */
void vqp_conn_abort(vqp_conn_t *conn, uint64_t now);

/**
 * The connection's queue pairs have failed, or it can not be connected. Tells
 * the peer once; FAILED follows when an endpoint owns it, else DESTROY.
 */
void vqp_conn_fail(vqp_conn_t *conn, vqp_status_t status, uint64_t now);

/**
 * Forget the connection at once and silently: to undo a create that failed,
 * before its actions were drained. It may be freed.
 */
void vqp_conn_drop(vqp_conn_t *conn);

static inline int vqp_conn_is_live(const vqp_conn_t *conn)
{
    return conn->state == VQP_CONN_LIVE;
}

/*
 * What follows is between conn.c and conntab.c.
 */

/* Pending actions, handed out lowest bit first */
enum {
    VQP_CONN_ACT_CONNECT_QPS = 1u << 0,
    VQP_CONN_ACT_REQ         = 1u << 1,
    VQP_CONN_ACT_REP         = 1u << 2,
    VQP_CONN_ACT_BYE_ACK     = 1u << 3,
    VQP_CONN_ACT_BYE         = 1u << 4,
    VQP_CONN_ACT_RST         = 1u << 5,
    VQP_CONN_ACT_LIVE        = 1u << 6,
    VQP_CONN_ACT_PEER_CLOSED = 1u << 7,
    VQP_CONN_ACT_FAILED      = 1u << 8,
    VQP_CONN_ACT_DESTROY     = 1u << 9
};

/** Has nothing of the peer arrived for a REQ that this side sent, or will? */
static inline int vqp_conn_is_unanswered(const vqp_conn_t *conn)
{
    return (conn->state == VQP_CONN_NEW) || (conn->state == VQP_CONN_REQ);
}

/** NEW -> REQ: few enough others are unanswered now. */
void vqp_conn_start(vqp_conn_t *conn);

/** A message whose ids, number and cookies are this connection's. */
void vqp_conn_recv(vqp_conn_t *conn, const vqp_wire_msg_t *msg);

/** Its timer is due: repeat, or give up. */
void vqp_conn_expire(vqp_conn_t *conn);

/**
 * Fill the header of a message of this connection.
 *
 * @param [in] todo  One of VQP_CONN_ACT_REQ .. VQP_CONN_ACT_RST.
 */
void vqp_conn_header(const vqp_conn_t *conn, unsigned todo,
                     vqp_wire_header_t *hdr);

#endif
