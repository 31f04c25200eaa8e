/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of connections, see conntab.h. Pure: libc only.
 */
#include "core/conn/conntab.h"

#include "core/cover.h"
#include "core/conn/siphash.h"

#include <string.h>

#define VQP_CONNTAB_MAX_ORDER 24

static inline size_t vqp_conntab_bucket(const vqp_conntab_t *tab, uint64_t key)
{
    return (size_t)((key * 0x9e3779b97f4a7c15ull) >>
                    (64 - tab->config.hash_order));
}

size_t vqp_conntab_mem_size(const vqp_conntab_config_t *config)
{
    size_t buckets = (size_t)1 << config->hash_order;

    return (buckets * (sizeof(vqp_peer_t*) + sizeof(vqp_conn_t*))) +
           (config->num_idle * sizeof(vqp_peer_t));
}

static void vqp_conntab_free_idle(vqp_conntab_t *tab, vqp_peer_t *place)
{
    place->next    = tab->idle_free;
    tab->idle_free = place;
}

vqp_status_t vqp_conntab_init(vqp_conntab_t *tab,
                              const vqp_conntab_config_t *config, void *mem)
{
    size_t buckets = (size_t)1 << (config->hash_order & 31);
    uint32_t i;

    if ((config->iface_id == 0) || (config->retry_first == 0) ||
        (config->retry_max < config->retry_first) ||
        (config->retry_max > (UINT64_MAX / 4)) ||
        (config->connect_timeout > (UINT64_MAX / 4)) ||
        (config->close_timeout > (UINT64_MAX / 4)) ||
        (config->num_rails < 1) || (config->num_rails > VQP_MAX_RAILS) ||
        (config->hash_order < 1) ||
        (config->hash_order > VQP_CONNTAB_MAX_ORDER) ||
        (config->num_idle < 1) || (config->max_unproven < 1)) {
        return VQP_ERR_INVALID_PARAM;
    }

    memset(tab, 0, sizeof(*tab));
    memset(mem, 0, vqp_conntab_mem_size(config));
    tab->config   = *config;
    tab->idle     = mem;
    tab->peers    = (vqp_peer_t**)(tab->idle + config->num_idle);
    tab->cookies  = (vqp_conn_t**)(tab->peers + buckets);
    tab->next_due = VQP_CONNTAB_NEVER;
    for (i = config->num_idle; i > 0; --i) {
        vqp_conntab_free_idle(tab, &tab->idle[i - 1]);
    }

    vqp_peer_init(&tab->loop, config->iface_id);
    return VQP_OK;
}

/*
 * Identity of a peer
 */

unsigned vqp_conntab_rails(const vqp_conntab_t *tab,
                           const vqp_wire_info_t *info, vqp_conn_dest_t *dests)
{
    const vqp_wire_rail_t *rail;
    unsigned i;

    for (i = 0; i < info->num_rails; ++i) {
        rail          = &info->rails[i];
        dests[i].qpn  = rail->ud_qpn;
        dests[i].lid  = rail->lid;
        dests[i].rail = (uint8_t)(i % tab->config.num_rails);
        memcpy(dests[i].gid, rail->gid, sizeof(dests[i].gid));
    }

    return info->num_rails;
}

int vqp_conntab_is_rail(const vqp_conn_dest_t *rail,
                        const vqp_conn_dest_t *addr)
{
    static const uint8_t none[VQP_GID_LEN];

    if (rail->qpn != addr->qpn) {
        return 0;
    }

    /* On InfiniBand a datagram without GRH has the LID only */
    return (memcmp(addr->gid, none, sizeof(none)) == 0) ?
                   (rail->lid == addr->lid) :
                   (memcmp(rail->gid, addr->gid, sizeof(addr->gid)) == 0);
}

static uint64_t vqp_conntab_mix(uint64_t hash, uint64_t value)
{
    hash ^= value;
    hash  = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9ull;
    hash  = (hash ^ (hash >> 27)) * 0x94d049bb133111ebull;
    return hash ^ (hash >> 31);
}

uint64_t vqp_conntab_identity(const vqp_conntab_t *tab, uint64_t iface_id,
                              const vqp_conn_dest_t *rails, unsigned num)
{
    uint64_t hash = vqp_conntab_mix(tab->config.secret[0], iface_id);
    uint64_t half[2];
    unsigned i;

    for (i = 0; i < num; ++i) {
        /* On InfiniBand an address may lack the GID, but not the LID */
        memcpy(half, rails[i].gid, sizeof(half));
        hash = vqp_conntab_mix(hash, ((uint64_t)rails[i].qpn << 16) |
                                     rails[i].lid);
        hash = vqp_conntab_mix(hash, (rails[i].lid != 0) ? 0 : half[0]);
        hash = vqp_conntab_mix(hash, (rails[i].lid != 0) ? 0 : half[1]);
    }

    return (hash != 0) ? hash : 1;
}

uint64_t vqp_conntab_proof(const vqp_conntab_t *tab, uint64_t identity,
                           const vqp_wire_header_t *req)
{
    const uint64_t words[] = {identity, req->number, req->src_cookie};
    uint64_t hash          = vqp_siphash(tab->config.secret, words, 3);

    return (hash != 0) ? hash : 1;
}

/*
 * Records of peers. The record of a peer with connections is in the slot of one of them;
 * that of a peer without, in the ring of idle records.
 */

static vqp_peer_t **vqp_conntab_peer_ref(const vqp_conntab_t *tab, uint64_t id)
{
    vqp_peer_t **ref = &tab->peers[vqp_conntab_bucket(tab, id)];

    while ((*ref != NULL) && ((*ref)->id != id)) {
        ref = &(*ref)->next;
    }

    return ref;
}

/* Move a record that is in the hash; @a from becomes free */
static void vqp_conntab_move_peer(vqp_conntab_t *tab, vqp_peer_t *from,
                                  vqp_peer_t *to)
{
    vqp_peer_t **ref = vqp_conntab_peer_ref(tab, from->id);
    vqp_conn_t *conn;

    *to      = *from;
    *ref     = to;
    from->id = 0;
    for (conn = to->first; conn != NULL; conn = conn->peer_next) {
        conn->peer = to;
    }
}

/* The record of the peer, for its new connection */
static vqp_peer_t *vqp_conntab_get_peer(vqp_conntab_t *tab, vqp_conn_t *conn)
{
    vqp_peer_t **ref = vqp_conntab_peer_ref(tab, conn->identity);
    vqp_peer_t *idle = *ref;

    if (idle == NULL) {
        vqp_peer_init(&conn->slot, conn->identity);
        *ref = &conn->slot;
    } else if (idle->first == NULL) {
        vqp_conntab_move_peer(tab, idle, &conn->slot);
        vqp_conntab_free_idle(tab, idle);
    }

    return *ref;
}

static void vqp_conntab_forget_peer(vqp_conntab_t *tab, vqp_peer_t *peer)
{
    vqp_peer_t **ref = vqp_conntab_peer_ref(tab, peer->id);

    *ref     = peer->next;
    peer->id = 0;
}

/* Keep the record of a peer without connections. An empty record, which any datagram can
 * create, is dropped: it must not overwrite another one. */
static void vqp_conntab_park_peer(vqp_conntab_t *tab, vqp_peer_t *peer)
{
    vqp_peer_t *place = tab->idle_free;

    if (peer->highest == 0) {
        vqp_conntab_forget_peer(tab, peer);
        return;
    }

    if (place != NULL) {
        tab->idle_free = place->next;
    } else {
        vqp_cover(TABLE_PEER_OVERWRITTEN);
        place          = &tab->idle[tab->idle_next];
        tab->idle_next = (tab->idle_next + 1) % tab->config.num_idle;
        vqp_conntab_forget_peer(tab, place);
    }

    vqp_conntab_move_peer(tab, peer, place);
}

static void vqp_conntab_put_peer(vqp_conntab_t *tab, vqp_conn_t *conn)
{
    vqp_peer_t *peer = conn->peer;

    if (peer->first == NULL) {
        vqp_conntab_park_peer(tab, peer);
    } else if (peer == &conn->slot) {
        vqp_conntab_move_peer(tab, peer, &peer->first->slot);
    }

    conn->peer = NULL;
}

/*
 * Lookup
 */

const vqp_peer_t *vqp_conntab_find_peer(const vqp_conntab_t *tab,
                                        uint64_t identity)
{
    return *vqp_conntab_peer_ref(tab, identity);
}

vqp_conn_t *vqp_conntab_find_cookie(const vqp_conntab_t *tab, uint64_t cookie)
{
    vqp_conn_t *conn = tab->cookies[vqp_conntab_bucket(tab, cookie)];

    while ((conn != NULL) && (conn->cookie != cookie)) {
        conn = conn->cookie_next;
    }

    return conn;
}

vqp_conn_t *vqp_conntab_find_number(const vqp_conntab_t *tab, uint64_t identity,
                                    uint32_t number, uint64_t peer_cookie,
                                    int *taken)
{
    vqp_peer_t *peer = *vqp_conntab_peer_ref(tab, identity);
    vqp_conn_t *found = NULL;
    vqp_conn_t *conn;

    if (taken != NULL) {
        *taken = 0;
    }

    if (peer == NULL) {
        return NULL;
    }

    for (conn = peer->last; (conn != NULL) && (conn->number >= number);
         conn = conn->peer_prev) {
        /* Loopback: the sender of the REQ is not its own peer */
        if ((conn->number != number) ||
            ((conn->cookie == peer_cookie) &&
             (conn->peer_id == tab->config.iface_id))) {
            continue;
        }

        if ((conn->peer_cookie == peer_cookie) ||
            ((conn->peer_cookie == 0) && (found == NULL) &&
             (conn->cookie != peer_cookie))) {
            found = conn;
        } else if (taken != NULL) {
            vqp_cover(TABLE_TAKEN);
            *taken = 1;
        }
    }

    return found;
}

/* The lowest number above @a above that was never used, and that no connection of an
 * unproven peer has: these may be above the highest used one */
static uint32_t vqp_conntab_next_number(const vqp_peer_t *peer, uint32_t above)
{
    uint32_t number = vqp_max(peer->highest, above) + 1;
    const vqp_conn_t *conn = peer->last;

    while ((conn != NULL) && (conn->number > number)) {
        conn = conn->peer_prev;
    }

    if ((conn == NULL) || (conn->number < number)) {
        return number;
    }

    for (; (conn != NULL) && (conn->number <= number); conn = conn->peer_next) {
        number += (conn->number == number);
    }

    return number;
}

static void vqp_conntab_enlist(vqp_peer_t *peer, vqp_conn_t *conn)
{
    vqp_conn_t *prev = peer->last;

    while ((prev != NULL) && (prev->number > conn->number)) {
        prev = prev->peer_prev;
    }

    conn->peer_prev = prev;
    conn->peer_next = (prev != NULL) ? prev->peer_next : peer->first;
    *((prev != NULL) ? &prev->peer_next : &peer->first) = conn;
    *((conn->peer_next != NULL) ? &conn->peer_next->peer_prev :
                                  &peer->last) = conn;
}

static void vqp_conntab_delist(vqp_peer_t *peer, vqp_conn_t *conn)
{
    *((conn->peer_prev != NULL) ? &conn->peer_prev->peer_next :
                                  &peer->first) = conn->peer_next;
    *((conn->peer_next != NULL) ? &conn->peer_next->peer_prev :
                                  &peer->last) = conn->peer_prev;
}

vqp_status_t vqp_conntab_link(vqp_conntab_t *tab, vqp_conn_t *conn,
                              uint32_t number)
{
    vqp_peer_t *peer = vqp_conntab_get_peer(tab, conn);
    vqp_conn_t **bucket;

    if (number == 0) {
        number = vqp_conntab_next_number(peer, 0);
        if (number > VQP_WIRE_NUMBER_MAX) {
            if (peer->first == NULL) {
                vqp_conntab_park_peer(tab, peer);
            }
            return VQP_ERR_EXCEEDS_LIMIT;
        }
        vqp_peer_use(peer, number);
    } else if (conn->peer_id == tab->config.iface_id) {
        vqp_peer_use(&tab->loop, number); /* the twin has given it */
    }

    conn->number = number;
    conn->peer   = peer;
    vqp_conntab_enlist(peer, conn);

    bucket            = &tab->cookies[vqp_conntab_bucket(tab, conn->cookie)];
    conn->cookie_next = *bucket;
    *bucket           = conn;
    conn->linked      = 1;
    ++tab->num_conns;
    return VQP_OK;
}

vqp_status_t vqp_conntab_renumber(vqp_conntab_t *tab, vqp_conn_t *conn,
                                  uint32_t above)
{
    uint32_t number = vqp_conntab_next_number(conn->peer, above);

    if ((above >= VQP_WIRE_NUMBER_MAX) || (number > VQP_WIRE_NUMBER_MAX)) {
        return VQP_ERR_EXCEEDS_LIMIT;
    }

    vqp_cover(TABLE_RENUMBER);
    ++tab->stats.renumbered;
    vqp_conntab_delist(conn->peer, conn);
    conn->number = number;
    vqp_conntab_enlist(conn->peer, conn);
    vqp_peer_use(conn->peer, number);
    return VQP_OK;
}

void vqp_conntab_proven(vqp_conntab_t *tab, vqp_conn_t *conn)
{
    vqp_peer_use(conn->peer, conn->number);
    vqp_conntab_uncount(tab, conn);
}

void vqp_conntab_uncount(vqp_conntab_t *tab, vqp_conn_t *conn)
{
    tab->num_unproven -= conn->unproven;
    conn->unproven     = 0;
}

void vqp_conntab_unlink(vqp_conntab_t *tab, vqp_conn_t *conn)
{
    vqp_conn_t **ref;

    if (!conn->linked) {
        return;
    }

    ref = &tab->cookies[vqp_conntab_bucket(tab, conn->cookie)];
    while (*ref != conn) {
        ref = &(*ref)->cookie_next;
    }
    *ref = conn->cookie_next;

    vqp_conntab_delist(conn->peer, conn);
    vqp_conntab_stop_timer(tab, conn);
    if (tab->rx_path == conn) {
        tab->rx_path = NULL;
    }
    conn->linked = 0;
    --tab->num_conns;
    vqp_conntab_put_peer(tab, conn);
}

/*
 * Timers: an unordered list of connections that are being set up or closed, and a lower
 * bound of their expiry.
 */

void vqp_conntab_start_timer(vqp_conntab_t *tab, vqp_conn_t *conn)
{
    if (!conn->timed) {
        conn->timed      = 1;
        conn->timer_prev = NULL;
        conn->timer_next = tab->timers;
        if (tab->timers != NULL) {
            tab->timers->timer_prev = conn;
        } else {
            vqp_conntab_restart_timer(tab); /* next_due may be outdated */
        }
        tab->timers = conn;
    }

    tab->next_due = vqp_min(tab->next_due, conn->due);
}

void vqp_conntab_stop_timer(vqp_conntab_t *tab, vqp_conn_t *conn)
{
    if (!conn->timed) {
        return;
    }

    conn->timed = 0;
    *((conn->timer_prev != NULL) ? &conn->timer_prev->timer_next :
                                   &tab->timers) = conn->timer_next;
    if (conn->timer_next != NULL) {
        conn->timer_next->timer_prev = conn->timer_prev;
    }
}

/*
 * Actions: a queue of connections with pending actions.
 */

void vqp_conntab_post(vqp_conntab_t *tab, vqp_conn_t *conn, unsigned todo)
{
    conn->todo |= todo;
    if (conn->queued) {
        return;
    }

    conn->queued      = 1;
    conn->action_next = NULL;
    if (tab->action_head == NULL) {
        tab->action_head = conn;
    } else {
        tab->action_tail->action_next = conn;
    }
    tab->action_tail = conn;
}

void vqp_conntab_cancel(vqp_conntab_t *tab, vqp_conn_t *conn, unsigned todo)
{
    conn->todo &= ~todo;
    if ((todo & VQP_CONN_ACT_CONNECT_QPS) && (tab->rx_conn == conn)) {
        tab->rx_conn = NULL;
    }
}

void vqp_conntab_unqueue(vqp_conntab_t *tab)
{
    tab->action_head->queued = 0;
    tab->action_head         = tab->action_head->action_next;
}
