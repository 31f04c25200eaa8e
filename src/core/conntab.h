/*
 * All connections of one interface: finds the one that a message belongs to,
 * answers what belongs to none, decides which connection a new endpoint gets,
 * runs the timers, and hands out the work.
 * Pure: libc only. Not thread-safe: the caller holds the interface's lock.
 *
 * How it is driven:
 *
 *     new endpoint    conn = vqp_conntab_adopt(); if NULL: vqp_conn_connect()
 *     datagram        vqp_conntab_recv()
 *     timer           vqp_conntab_tick(), set to vqp_conntab_next_timeout()
 *     after each      while (vqp_conntab_next_action(tab, &action)) { ... }
 *
 * Which connection: an endpoint adopts the passive connection of its peer that
 * has the lowest number, is owned by no endpoint, and is connecting or LIVE;
 * else it creates one with 1 + the highest number seen in either direction.
 * Numbers are never used twice between two interfaces. To know that, a record
 * for each peer stays when its last connection has gone. Memory is bounded:
 * a record lives in one of the peer's connections, and afterwards in one of
 * `num_idle` places, where the oldest is overwritten. The highest number of
 * all overwritten ones is kept, and a new record starts above it.
 *
 * Loopback: the peer may be the interface itself. A connection then has a twin
 * of the same id and number, told apart by cookies, and is never paired with
 * itself.
 */
#ifndef VQP_CORE_CONNTAB_H
#define VQP_CORE_CONNTAB_H

#include "core/conn.h"

#define VQP_CONNTAB_NEVER UINT64_MAX

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
    _(ignored, "path control messages, reserved, ignored") \
    _(rst_sent, "resets sent") \
    _(rst_received, "resets of a known connection received") \
    _(timeouts, "connections that the peer did not answer in time") \
    _(overruns, "control messages dropped, actions had not been drained")

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
    uint64_t connect_timeout; /* ns from create to FAILED */
    uint64_t close_timeout;   /* ns from BYE to giving up on the answer */
    uint32_t features;        /* VQP_WIRE_FEATURE_*, sent along */
    uint8_t  num_rails;       /* local rails that can send */
    uint8_t  hash_order;      /* log2 of the buckets of each hash, <= 24 */
    uint32_t num_idle;        /* peers remembered without a connection, >= 1 */
} vqp_conntab_config_t;

#define VQP_CONNTAB_ACTIONS(_) \
    _(CREATE_PASSIVE) \
    _(CONNECT_QPS) \
    _(SEND) \
    _(LIVE) \
    _(PEER_CLOSED) \
    _(FAILED) \
    _(DESTROY)

/**
 * What the caller has to do. `peer` is valid until the next vqp_conntab_recv().
 *
 * CREATE_PASSIVE  peer: allocate a vqp with queue pairs and call
 *                 vqp_conn_accept(), or vqp_conntab_refuse(); when neither
 *                 (short of memory), the peer asks again.
 * CONNECT_QPS     conn, peer->info: move the queue pairs to RTR and RTS, then
 *                 vqp_conn_qps_ready() or vqp_conn_fail().
 * SEND            to, data, len, msg_type; conn or NULL: send the datagram.
 *                 Where that fails it counts as lost.
 * LIVE            conn: operations may be posted.
 * PEER_CLOSED     conn, owned: the peer's endpoint has gone; its passive side
 *                 still receives. For information.
 * FAILED          conn, owned, status: deliver what its queue pairs have
 *                 received, call the error handler; the endpoint calls
 *                 vqp_conn_close() or vqp_conn_abort() some time.
 * DESTROY         conn, status: the table has forgotten it. Deliver what its
 *                 queue pairs have received, then free both. VQP_OK: closed by
 *                 both sides.
 */
typedef enum {
#define VQP_CONNTAB_ACTION_ENUM(_name) VQP_CONNTAB_##_name,
    VQP_CONNTAB_ACTIONS(VQP_CONNTAB_ACTION_ENUM)
#undef VQP_CONNTAB_ACTION_ENUM
    VQP_CONNTAB_ACTION_LAST
} vqp_conntab_action_type_t;

typedef struct vqp_conntab_action {
    vqp_conntab_action_type_t type;
    vqp_status_t              status;
    vqp_conn_t               *conn;
    const vqp_wire_msg_t     *peer;
    vqp_conn_dest_t           to;
    vqp_wire_type_t           msg_type;
    size_t                    len;
    uint8_t                   data[VQP_WIRE_MAX_LEN];
} vqp_conntab_action_t;

typedef struct vqp_conntab {
    vqp_conntab_config_t config;
    vqp_conntab_stats_t  stats;
    vqp_peer_t         **peers;       /* hash by interface id */
    vqp_conn_t         **cookies;     /* hash by own cookie */
    vqp_peer_t          *idle;        /* num_idle records, a ring */
    uint32_t             idle_next;   /* the place to be overwritten next */
    uint32_t             lost;        /* highest number of those overwritten */
    uint32_t             num_conns;
    vqp_peer_t           loop;        /* numbers of REQs to oneself */
    vqp_conn_t          *action_head;
    vqp_conn_t          *action_tail;
    vqp_conn_t          *timers;
    uint64_t             next_due;    /* no timer is due earlier */
    uint64_t             now;         /* newest time that was told */
    vqp_conn_t          *rx_conn;     /* its CONNECT_QPS, pending, needs rx */
    uint8_t              rx_create;   /* CREATE_PASSIVE is pending */
    uint8_t              rx_rst;      /* a RST that belongs to no connection */
    vqp_conn_dest_t      rx_from;     /* the sender of rx */
    vqp_conn_dest_t      rst_to;
    vqp_wire_header_t    rst;
    vqp_wire_msg_t       rx;
} vqp_conntab_t;

const char *vqp_conntab_action_name(unsigned type);

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

/**
 * Take over a passive connection of that peer for an endpoint, see above.
 *
 * @return The connection, now owned, connecting or LIVE (no LIVE action comes
 *         then); NULL when there is none.
 */
vqp_conn_t *vqp_conntab_adopt(vqp_conntab_t *tab, uint64_t peer_id);

/**
 * Handle one datagram. Everything received is validated.
 *
 * @param [in] from  Where it came from, and the local rail it came in on.
 *
 * @return VQP_OK: it was handled, or is of no interest
 *         VQP_ERR_UNSUPPORTED, VQP_ERR_PROTOCOL: as vqp_wire_decode()
 *         VQP_ERR_RESET: it belongs to no connection, a RST answers it
 *         VQP_ERR_NO_RESOURCE: dropped, the actions were not drained
 *         All of it is counted; the caller need not react.
 */
vqp_status_t vqp_conntab_recv(vqp_conntab_t *tab, const vqp_conn_dest_t *from,
                              const void *data, size_t len, uint64_t now);

/**
 * In answer to CREATE_PASSIVE: this peer can not be served (its rails do not
 * fit, say). A RST tells it.
 */
void vqp_conntab_refuse(vqp_conntab_t *tab, const vqp_wire_msg_t *req);

/**
 * Time at which vqp_conntab_tick() wants to be called: no timer is due
 * earlier. It may be too early, never too late. VQP_CONNTAB_NEVER: no timer.
 */
uint64_t vqp_conntab_next_timeout(const vqp_conntab_t *tab);

/** Do what is due at @a now. */
void vqp_conntab_tick(vqp_conntab_t *tab, uint64_t now);

/**
 * Take the next action. The caller may call any function of this header and of
 * conn.h, except vqp_conntab_recv(), before it takes the next one.
 *
 * @return 1, or 0 when there is none.
 */
int vqp_conntab_next_action(vqp_conntab_t *tab, vqp_conntab_action_t *action);

/*
 * What follows is between conn.c, conntab.c and conndrive.c.
 */

/** The record of a peer, or NULL. */
const vqp_peer_t *vqp_conntab_find_peer(const vqp_conntab_t *tab, uint64_t id);

/** Is there a connection of that cookie? */
vqp_conn_t *vqp_conntab_find_cookie(const vqp_conntab_t *tab, uint64_t cookie);

/**
 * The connection that a REQ asks for which does not know the own cookie.
 *
 * @param [out] taken  Another connection, of another incarnation, has the
 *                     number. May be NULL.
 */
vqp_conn_t *vqp_conntab_find_number(const vqp_conntab_t *tab, uint64_t peer_id,
                                    uint32_t number, uint64_t peer_cookie,
                                    int *taken);

/**
 * Enter a connection, under conn->cookie and conn->peer_id.
 *
 * @param [in] number  Its number, or zero for the next one of the peer.
 *
 * @return VQP_OK; VQP_ERR_EXCEEDS_LIMIT: no number is left.
 */
vqp_status_t vqp_conntab_link(vqp_conntab_t *tab, vqp_conn_t *conn,
                              uint32_t number);

/** Forget a connection, and its timer. Its actions stay. No-op if unlinked. */
void vqp_conntab_unlink(vqp_conntab_t *tab, vqp_conn_t *conn);

/** Start waiting connections of the peer, as far as its window allows. */
void vqp_conntab_start_waiting(vqp_peer_t *peer);

/** Add to conn->todo and see that it is handed out. */
void vqp_conntab_post(vqp_conntab_t *tab, vqp_conn_t *conn, unsigned todo);

/** Take pending actions back. */
void vqp_conntab_cancel(vqp_conntab_t *tab, vqp_conn_t *conn, unsigned todo);

/** Hand nothing out for the connection any more. */
void vqp_conntab_unqueue(vqp_conntab_t *tab, vqp_conn_t *conn);

/** Let conn->due, just set, be looked at; or stop that. */
void vqp_conntab_start_timer(vqp_conntab_t *tab, vqp_conn_t *conn);
void vqp_conntab_stop_timer(vqp_conntab_t *tab, vqp_conn_t *conn);

static inline void vqp_conntab_set_now(vqp_conntab_t *tab, uint64_t now)
{
    if (now > tab->now) {
        tab->now = now;
    }
}

#endif
