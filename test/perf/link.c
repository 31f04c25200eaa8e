/* A link that can be cut, see link.h. */
#include "link.h"
#include "side.h"

#include "test/fabric/fabric.h"

#include <stdio.h>
#include <string.h>

#define PORT_DOWN 0.1 /* seconds */

static const char *const cut_names[] = {
    [PERF_CUT_LOST]       = "lost",
    [PERF_CUT_UNANSWERED] = "unanswered",
    [PERF_CUT_BOTH]       = "both",
    [PERF_CUT_LOSSY]      = "lossy",
    [PERF_CUT_PORT]       = "port",
    [PERF_CUT_ONE]        = "one",
    [PERF_CUT_SLOW]       = "slow",
    [PERF_CUT_ERROR]      = "error"
};

const char *perf_cut_name(perf_cut_t cut)
{
    return cut_names[cut];
}

perf_cut_t perf_cut_by_name(const char *name)
{
    int cut = 0;

    while ((cut < PERF_CUT_NUM) && (strcmp(cut_names[cut], name) != 0)) {
        ++cut;
    }
    return (perf_cut_t)cut;
}

int perf_cut_kills_path(perf_cut_t cut)
{
    return (cut == PERF_CUT_LOST) || (cut == PERF_CUT_UNANSWERED) ||
           (cut == PERF_CUT_BOTH) || (cut == PERF_CUT_ERROR);
}

static const vqp_fabric_t *fabric(void)
{
    const vqp_fabric_t *table = vqp_fabric();

    perf_check(table != NULL, "links are cut on the software fabric only: start "
               "this by contrib/fabric-run");
    return table;
}

static void set_faults(const char *script)
{
    char why[256] = "";

    perf_check(fabric()->faults(script, why, sizeof(why)) == 0, "%s: %s",
               script, why);
}

static void set_rate(const perf_link_t *link, unsigned rate)
{
    char action[128], why[256] = "";

    snprintf(action, sizeof(action), "rate dev=%s port=1 to=%u", link->from, rate);
    perf_check(fabric()->act(action, why, sizeof(why)) == 0, "%s: %s", action, why);
}

static void set_port(const perf_link_t *link, int up)
{
    perf_check(fabric()->port(link->from, 1, up) == 0, "%s has no port", link->from);
}

void perf_link_find(perf_link_t *link)
{
    int count = fabric()->qps(link->from, &link->qpn, 1);

    perf_check(count > 0, "%s has no queue pair", link->from);
}

void perf_link_cut(perf_link_t *link, perf_cut_t cut)
{
    char script[256];

    switch (cut) {
    case PERF_CUT_LOST:
        snprintf(script, sizeof(script), "lose dev=%s count=all", link->from);
        break;
    case PERF_CUT_UNANSWERED:
        /* datagrams have no acknowledgements */
        snprintf(script, sizeof(script),
                 "unacked dev=%s op=RDMA_WRITE count=all more=all; "
                 "unacked dev=%s op=RDMA_WRITE_WITH_IMM count=all more=all; "
                 "lose dev=%s count=all", link->from, link->from, link->to);
        break;
    case PERF_CUT_BOTH:
        snprintf(script, sizeof(script),
                 "lose dev=%s count=all; lose dev=%s count=all", link->from,
                 link->to);
        break;
    case PERF_CUT_LOSSY:
        snprintf(script, sizeof(script), "lose dev=%s p=0.01", link->from);
        break;
    case PERF_CUT_PORT:
        set_faults("");
        set_port(link, 0);
        link->up = perf_now() + PORT_DOWN;
        return;
    case PERF_CUT_ONE:
        snprintf(script, sizeof(script), "lose dev=%s qpn=0x%x count=1", link->from,
                 link->qpn);
        break;
    case PERF_CUT_SLOW:
        set_rate(link, link->rate / 10);
        return;
    default:
        perf_check(fabric()->qp_error(link->from, link->qpn) == 0,
                   "queue pair 0x%x of %s is gone", link->qpn, link->from);
        return;
    }
    set_faults(script);
}

void perf_link_turn(perf_link_t *link)
{
    if ((link->up != 0) && (perf_now() >= link->up)) {
        link->up = 0;
        set_port(link, 1);
    }
}

void perf_link_heal(perf_link_t *link)
{
    if (link->up != 0) {
        link->up = 0;
        set_port(link, 1);
    }
    set_faults("");
    if (link->rate != 0) {
        set_rate(link, link->rate);
    }
}

uint64_t perf_link_bytes(const perf_link_t *link)
{
    vqp_fabric_traffic_t traffic;

    perf_check(fabric()->port_traffic(link->from, 1, &traffic) == 0,
               "%s has no port", link->from);
    return traffic.bytes;
}

int64_t perf_link_pending(const perf_link_t *link)
{
    vqp_fabric_traffic_t traffic;

    return (fabric()->qp_traffic(link->from, link->qpn, &traffic) == 0) ?
                   (int64_t)traffic.pending : -1;
}
