/*
 * Which connections an interface has, and which of them is meant. Pure: libc
 * only. conndrive.c drives them.
 */
#include "core/conntab.h"

#include "core/mark.h"

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

vqp_status_t vqp_conntab_init(vqp_conntab_t *tab,
                              const vqp_conntab_config_t *config, void *mem)
{
    size_t buckets = (size_t)1 << (config->hash_order & 31);

    if ((config->iface_id == 0) || (config->retry_first == 0) ||
        (config->retry_max < config->retry_first) ||
        (config->retry_max > (UINT64_MAX / 4)) ||
        (config->connect_timeout > (UINT64_MAX / 4)) ||
        (config->close_timeout > (UINT64_MAX / 4)) ||
        (config->num_rails < 1) || (config->num_rails > VQP_MAX_RAILS) ||
        (config->hash_order < 1) ||
        (config->hash_order > VQP_CONNTAB_MAX_ORDER) ||
        (config->num_idle < 1)) {
        return VQP_ERR_INVALID_PARAM;
    }

    memset(tab, 0, sizeof(*tab));
    memset(mem, 0, vqp_conntab_mem_size(config));
    tab->config   = *config;
    tab->idle     = mem;
    tab->peers    = (vqp_peer_t**)(tab->idle + config->num_idle);
    tab->cookies  = (vqp_conn_t**)(tab->peers + buckets);
    tab->next_due = VQP_CONNTAB_NEVER;
    vqp_peer_init(&tab->loop, config->iface_id, 0);
    return VQP_OK;
}

/*
 * Records of peers. A peer with connections has its record in the slot of one
 * of them; one without, in the ring of idle ones.
 */

static vqp_peer_t **vqp_conntab_peer_ref(const vqp_conntab_t *tab, uint64_t id)
{
    vqp_peer_t **ref = &tab->peers[vqp_conntab_bucket(tab, id)];

    while ((*ref != NULL) && ((*ref)->id != id)) {
        ref = &(*ref)->next;
    }

    return ref;
}

/* Move a record that stands in the hash; @a from becomes free */
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

/* The record of the peer, which from now on has a connection */
static vqp_peer_t *vqp_conntab_get_peer(vqp_conntab_t *tab, vqp_conn_t *conn)
{
    vqp_peer_t **ref = vqp_conntab_peer_ref(tab, conn->peer_id);

    if (*ref == NULL) {
        vqp_peer_init(&conn->slot, conn->peer_id, tab->lost);
        *ref = &conn->slot;
    } else if ((*ref)->first == NULL) {
        vqp_conntab_move_peer(tab, *ref, &conn->slot);
    }

    return *ref;
}

/* The record of a peer whose last connection has gone */
static void vqp_conntab_park_peer(vqp_conntab_t *tab, vqp_peer_t *peer)
{
    vqp_peer_t *place = &tab->idle[tab->idle_next];
    vqp_peer_t **ref;

    tab->idle_next = (tab->idle_next + 1) % tab->config.num_idle;
    if (place->id != 0) {
        vqp_mark(TABLE_LOST_PEER);
        tab->lost = vqp_max(tab->lost, place->highest);
        ref       = vqp_conntab_peer_ref(tab, place->id);
        *ref      = place->next;
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

const vqp_peer_t *vqp_conntab_find_peer(const vqp_conntab_t *tab, uint64_t id)
{
    return *vqp_conntab_peer_ref(tab, id);
}

vqp_conn_t *vqp_conntab_find_cookie(const vqp_conntab_t *tab, uint64_t cookie)
{
    vqp_conn_t *conn = tab->cookies[vqp_conntab_bucket(tab, cookie)];

    while ((conn != NULL) && (conn->cookie != cookie)) {
        conn = conn->cookie_next;
    }

    return conn;
}

vqp_conn_t *vqp_conntab_find_number(const vqp_conntab_t *tab, uint64_t peer_id,
                                    uint32_t number, uint64_t peer_cookie,
                                    int *taken)
{
    vqp_peer_t *peer = *vqp_conntab_peer_ref(tab, peer_id);
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
        if ((conn->number != number) || (conn->cookie == peer_cookie)) {
            continue;
        }

        if ((conn->peer_cookie == peer_cookie) ||
            ((conn->peer_cookie == 0) && (found == NULL))) {
            found = conn;
        } else if (taken != NULL) {
            vqp_mark(TABLE_TAKEN);
            *taken = 1;
        }
    }

    return found;
}

vqp_status_t vqp_conntab_link(vqp_conntab_t *tab, vqp_conn_t *conn,
                              uint32_t number)
{
    vqp_peer_t *peer = vqp_conntab_get_peer(tab, conn);
    vqp_conn_t **bucket, *prev;

    if (number == 0) {
        if (peer->highest >= VQP_WIRE_NUMBER_MAX) {
            if (peer->first == NULL) {
                vqp_conntab_park_peer(tab, peer);
            }
            return VQP_ERR_EXCEEDS_LIMIT;
        }
        number = peer->highest + 1;
        vqp_peer_use(peer, number);
    } else if (conn->peer_id == tab->config.iface_id) {
        vqp_peer_use(&tab->loop, number); /* given already, by the twin */
    } else {
        vqp_peer_use(peer, number);
    }

    conn->number = number;
    conn->peer   = peer;
    for (prev = peer->last; (prev != NULL) && (prev->number > number);
         prev = prev->peer_prev) {
    }

    conn->peer_prev = prev;
    conn->peer_next = (prev != NULL) ? prev->peer_next : peer->first;
    *((prev != NULL) ? &prev->peer_next : &peer->first) = conn;
    *((conn->peer_next != NULL) ? &conn->peer_next->peer_prev :
                                  &peer->last) = conn;

    bucket            = &tab->cookies[vqp_conntab_bucket(tab, conn->cookie)];
    conn->cookie_next = *bucket;
    *bucket           = conn;
    conn->linked      = 1;
    ++tab->num_conns;
    return VQP_OK;
}

void vqp_conntab_unlink(vqp_conntab_t *tab, vqp_conn_t *conn)
{
    vqp_peer_t *peer = conn->peer;
    vqp_conn_t **ref, *other;

    if (!conn->linked) {
        return;
    }

    ref = &tab->cookies[vqp_conntab_bucket(tab, conn->cookie)];
    while (*ref != conn) {
        ref = &(*ref)->cookie_next;
    }
    *ref = conn->cookie_next;

    *((conn->peer_prev != NULL) ? &conn->peer_prev->peer_next :
                                  &peer->first) = conn->peer_next;
    *((conn->peer_next != NULL) ? &conn->peer_next->peer_prev :
                                  &peer->last) = conn->peer_prev;
    vqp_conntab_stop_timer(tab, conn);
    conn->linked = 0;
    --tab->num_conns;
    other = peer->first;
    vqp_conntab_put_peer(tab, conn);
    if (other != NULL) {
        vqp_conntab_start_waiting(other->peer);
    }
}

void vqp_conntab_start_waiting(vqp_peer_t *peer)
{
    uint32_t lowest = 0;
    vqp_conn_t *conn;

    for (conn = peer->first; (conn != NULL) && (peer->num_new > 0);
         conn = conn->peer_next) {
        if (!vqp_conn_is_unanswered(conn)) {
            continue;
        }

        if (lowest == 0) {
            lowest = conn->number;
        } else if ((conn->number - lowest) >= VQP_PEER_MAX_UNANSWERED) {
            vqp_mark(CONN_NEW_WAITS);
            break;
        }

        if (conn->state == VQP_CONN_NEW) {
            vqp_conn_start(conn);
        }
    }
}

vqp_conn_t *vqp_conntab_adopt(vqp_conntab_t *tab, uint64_t peer_id)
{
    vqp_peer_t *peer = *vqp_conntab_peer_ref(tab, peer_id);
    vqp_conn_t *conn;

    if (peer == NULL) {
        return NULL;
    }

    for (conn = peer->first; conn != NULL; conn = conn->peer_next) {
        if (!conn->owned && (conn->state <= VQP_CONN_LIVE)) {
            vqp_mark(TABLE_ADOPT);
            vqp_mark_if(conn->state != VQP_CONN_LIVE, TABLE_ADOPT_EARLY);
            conn->owned      = 1;
            conn->want_close = 0;
            ++tab->stats.adoptions;
            return conn;
        }
    }

    return NULL;
}
