/*
 * Values of paths and ports. May call libc, fab_config, fab_qp.
 */
#include "fab_path.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "fab_config.h"

enum {
    PATH_WORD  = 64, /* numbers in a word */
    PATH_WORDS = FAB_QP_SLOTS / PATH_WORD
};

/* The numbers in use, by device. A forked child starts with none. */
static struct fab_path_numbers {
    pthread_mutex_t lock;
    uint32_t        self; /* whose they are */
    uint64_t        *taken[FAB_MAX_DEVS];
    uint32_t        full[FAB_MAX_DEVS]; /* words before it have no gap */
} fab_path_numbers = {.lock = PTHREAD_MUTEX_INITIALIZER};

uint64_t fab_path_random(uint64_t *state)
{
    uint64_t z;

    *state += 0x9e3779b97f4a7c15ULL;
    z       = *state;
    z       = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z       = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

/* With the lock held; @return NULL if there is no memory */
static uint64_t *fab_path_taken(uint32_t dev)
{
    struct fab_path_numbers *numbers = &fab_path_numbers;
    uint32_t i;

    if (numbers->self != fab_world_self) {
        for (i = 0; i < FAB_MAX_DEVS; ++i) {
            free(numbers->taken[i]);
            numbers->taken[i] = NULL;
        }
        numbers->self = fab_world_self;
    }

    if (numbers->taken[dev] == NULL) {
        numbers->taken[dev] = calloc(PATH_WORDS, sizeof(uint64_t));
        numbers->full[dev]  = 0;
    }
    return numbers->taken[dev];
}

/* 0, the first of them, where there is no memory to keep account */
static uint32_t fab_path_take(uint32_t dev)
{
    uint32_t number = 0;
    uint64_t *taken;
    uint32_t word;

    pthread_mutex_lock(&fab_path_numbers.lock);
    taken = fab_path_taken(dev);
    if (taken != NULL) {
        word = fab_path_numbers.full[dev];
        while ((word < (PATH_WORDS - 1)) && (taken[word] == UINT64_MAX)) {
            ++word;
        }
        fab_path_numbers.full[dev] = word;
        if (taken[word] != UINT64_MAX) {
            number       = (uint32_t)__builtin_ctzll(~taken[word]);
            taken[word] |= 1ULL << number;
            number      += word * PATH_WORD;
        }
    }
    pthread_mutex_unlock(&fab_path_numbers.lock);
    return number;
}

void fab_path_release(const struct fab_qp *qp)
{
    uint32_t word = qp->path / PATH_WORD;
    uint64_t *taken;

    if (qp->type != IBV_QPT_RC) {
        return;
    }

    pthread_mutex_lock(&fab_path_numbers.lock);
    taken = fab_path_taken(qp->dev);
    if (taken != NULL) {
        taken[word] &= ~(1ULL << (qp->path % PATH_WORD));
        if (word < fab_path_numbers.full[qp->dev]) {
            fab_path_numbers.full[qp->dev] = word;
        }
    }
    pthread_mutex_unlock(&fab_path_numbers.lock);
}

/* The n-th of a list, which repeats; drawn by the seed if it is a range */
static uint64_t fab_path_value(const struct fab_config_list *list, uint32_t n,
                               uint64_t salt)
{
    const struct fab_config_span *span = &list->spans[n % list->count];
    uint64_t state                     = fab_config.seed;

    if (span->low == span->high) {
        return span->low;
    }

    state = fab_path_random(&state) ^ ((salt << 32) + n);
    return span->low + (fab_path_random(&state) % (span->high - span->low + 1));
}

static uint64_t fab_path_configured(const struct fab_qp *qp,
                                    enum fab_path_field field)
{
    return (field == FAB_PATH_MBPS) ?
                   fab_path_value(&fab_config.path_mbps, qp->path, qp->dev) :
                   fab_path_value(&fab_config.delay, qp->path,
                                  qp->dev + FAB_MAX_DEVS);
}

static uint64_t fab_port_configured(uint32_t n, enum fab_path_field field)
{
    return (field == FAB_PATH_MBPS) ?
                   fab_path_value(&fab_config.port_mbps, n, 1000) :
                   fab_path_value(&fab_config.port_delay, n, 2000);
}

void fab_path_init(struct fab_qp *qp)
{
    qp->path = (qp->type == IBV_QPT_RC) ? fab_path_take(qp->dev) : 0;
    if (fab_config.mode != FAB_MODE_TIMED) {
        return;
    }

    qp->sq.mbps    = (fab_config.links > 0) ?
                             0 : fab_path_configured(qp, FAB_PATH_MBPS);
    qp->sq.delay   = fab_path_configured(qp, FAB_PATH_DELAY);
    qp->sq.jitter  = fab_path_value(&fab_config.jitter, qp->path,
                                    qp->dev + (2 * FAB_MAX_DEVS));
    qp->sq.random  = fab_config.seed ^ ((uint64_t)qp->qpn << 20) ^ qp->dev;
}

/* Flows without a label differ by their queue pair. A queue pair of a bonded device may
 * have a port */
void fab_path_route(struct fab_qp *qp)
{
    uint64_t flow = qp->attr.ah_attr.grh.flow_label;

    flow = (flow != 0) ? flow : (((uint64_t)qp->qpn << 20) + qp->dev);
    flow = (qp->udp_sport != 0) ? (qp->udp_sport + (1ULL << 60)) : flow;
    if (qp->lag_port != 0) {
        qp->link = qp->lag_port - 1u;
    } else if (fab_config.links > 0) {
        qp->link = (uint32_t)(fab_path_random(&flow) % fab_config.links);
    }
}

struct fab_wire *fab_path_wire(const struct fab_qp *qp)
{
    return ((fab_config.links == 0) || (qp->type != IBV_QPT_RC)) ?
                   NULL : &fab_world->devs[qp->dev].links[qp->link];
}

static uint64_t fab_link_configured(uint32_t dev, uint32_t n)
{
    return fab_path_value(&fab_config.path_mbps, n, dev);
}

/* They count through all devices: 0 and 1 are those of fab0 if it has two */
void fab_path_init_ports(struct fab_world *world)
{
    struct fab_port *port;
    uint32_t i, n;

    for (i = 0; i < fab_config.devices; ++i) {
        for (n = 0; n < fab_config.links; ++n) {
            world->devs[i].links[n].mbps = fab_link_configured(i, n);
        }
        for (n = 0; n < fab_config.ports; ++n) {
            port        = &world->devs[i].ports[n];
            port->index = (i * (uint32_t)fab_config.ports) + n;
            port->mbps  = fab_port_configured(port->index, FAB_PATH_MBPS);
            port->delay = fab_port_configured(port->index, FAB_PATH_DELAY);
        }
    }
}

uint64_t fab_path_port_mbps(const struct fab_port *port)
{
    uint64_t mbps = __atomic_load_n(&port->mbps, __ATOMIC_RELAXED);

    return (mbps != 0) ? mbps : fab_config_link_mbps(&fab_config);
}

static void fab_path_change_port(struct fab_port *port,
                                 enum fab_path_field field,
                                 const uint64_t *value)
{
    uint64_t to = (value != NULL) ? *value :
                                    fab_port_configured(port->index, field);

    __atomic_store_n((field == FAB_PATH_MBPS) ? &port->mbps : &port->delay, to,
                     __ATOMIC_RELAXED);
}

static int fab_path_is_number(const struct fab_path_select *select, uint32_t n)
{
    return (select->number == UINT32_MAX) ||
           (((select->modulo == 0) ? n : (n % select->modulo)) ==
            select->number);
}

static int fab_path_matches(const struct fab_qp *qp,
                            const struct fab_path_select *select)
{
    return (qp->proc == fab_world_self) && (qp->type == IBV_QPT_RC) &&
           ((select->qpn == UINT32_MAX) || (qp->qpn == select->qpn)) &&
           fab_path_is_number(select, qp->path);
}

/* Rates of links; @return how many there were */
static unsigned fab_path_change_links(uint32_t dev,
                                      const struct fab_path_select *select,
                                      const uint64_t *value)
{
    unsigned count = 0;
    uint32_t n;

    for (n = 0; n < fab_config.links; ++n) {
        if (fab_path_is_number(select, n)) {
            __atomic_store_n(&fab_world->devs[dev].links[n].mbps,
                             (value != NULL) ? *value :
                                               fab_link_configured(dev, n),
                             __ATOMIC_RELAXED);
            ++count;
        }
    }
    return count;
}

/* @return how many there were */
static unsigned fab_path_change_dev(uint32_t dev,
                                    const struct fab_path_select *select,
                                    enum fab_path_field field,
                                    const uint64_t *value)
{
    unsigned count = 0;
    struct fab_qp *qp;
    uint32_t slot;
    uint64_t to;

    for (slot = 0; (slot <= fab_world->devs[dev].high_slot) &&
                   (fab_world->devs[dev].num_qps > 0); ++slot) {
        qp = fab_qp_slot(dev, slot);
        if (qp->qpn == 0) {
            continue;
        }

        fab_lock_take(&qp->sq_lock);
        if ((qp->qpn != 0) && fab_path_matches(qp, select)) {
            to = (value != NULL) ? *value : fab_path_configured(qp, field);
            if (field == FAB_PATH_MBPS) {
                qp->sq.mbps = to;
            } else {
                qp->sq.delay = to;
            }
            ++count;
        }
        fab_lock_drop(&qp->sq_lock);
    }
    return count;
}

int fab_path_change(const struct fab_path_select *select,
                    enum fab_path_field field, const uint64_t *value)
{
    unsigned count = 0;
    uint32_t dev;

    if ((fab_world == NULL) || (fab_config.mode != FAB_MODE_TIMED)) {
        return ENOENT;
    }
    if ((select->dev != UINT32_MAX) && (select->dev >= fab_config.devices)) {
        return ENODEV;
    }
    if (select->port > fab_config.ports) {
        return EINVAL;
    }

    for (dev = 0; dev < fab_config.devices; ++dev) {
        if ((select->dev != UINT32_MAX) && (select->dev != dev)) {
            continue;
        }
        if (select->port != 0) {
            fab_path_change_port(&fab_world->devs[dev].ports[select->port - 1],
                                 field, value);
            ++count;
        } else if ((fab_config.links > 0) && (field == FAB_PATH_MBPS)) {
            count += fab_path_change_links(dev, select, value);
        } else {
            count += fab_path_change_dev(dev, select, field, value);
        }
    }
    return (count > 0) ? 0 : ENOENT;
}

/* @return how many there were. fab_qp_to_error takes the locks. */
static unsigned fab_path_break_dev(uint32_t dev,
                                   const struct fab_path_select *select)
{
    unsigned count = 0;
    struct fab_qp *qp;
    uint32_t slot;

    for (slot = 0; (slot <= fab_world->devs[dev].high_slot) &&
                   (fab_world->devs[dev].num_qps > 0); ++slot) {
        qp = fab_qp_slot(dev, slot);
        if ((qp->qpn != 0) && fab_path_matches(qp, select) &&
            ((qp->state == IBV_QPS_RTR) || (qp->state == IBV_QPS_RTS))) {
            fab_qp_to_error(qp);
            ++count;
        }
    }
    return count;
}

int fab_path_break(const struct fab_path_select *select)
{
    unsigned count = 0;
    uint32_t dev;

    if (fab_world == NULL) {
        return ENOENT;
    }
    if ((select->dev != UINT32_MAX) && (select->dev >= fab_config.devices)) {
        return ENODEV;
    }

    for (dev = 0; dev < fab_config.devices; ++dev) {
        if ((select->dev == UINT32_MAX) || (select->dev == dev)) {
            count += fab_path_break_dev(dev, select);
        }
    }
    return (count > 0) ? 0 : ENOENT;
}
