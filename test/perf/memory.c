/*
 * What an endpoint costs in memory: bytes pinned, bytes of the heap, and bytes
 * that a driver takes for queue pairs and completion queues, at each of two
 * sides, for numbers of endpoints. Both sides are interfaces of this process.
 *
 * The program stands between UCX and libibverbs: it defines the verbs that make
 * queues and registrations, notes what is requested, and calls the real ones.
 * What those take from the heap is not counted: on the software fabric that is
 * the fabric's. The driver's bytes are what libmlx5 would allocate for queues
 * of these lengths (docs/memory.md).
 *
 *   contrib/fabric-run --violations off -- contrib/vqp-run test/perf/memory \
 *       [--tl TL] [--options "NAME=VALUE..."] [--name CONFIG] [COUNT]...
 *
 * Prints CSV without a head line.
 */
#include "side.h"

#include <infiniband/verbs.h>
#undef ibv_reg_mr /* functions, of which the header makes macros */
#undef ibv_reg_mr_iova

#include <dlfcn.h>
#include <getopt.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_COUNT  = 10000,
    PAGE       = 4096,
    WQE        = 64,  /* libmlx5: the unit of a send queue */
    WQE_FIXED  = 192, /* and what an RC request takes beside its elements */
    SEGMENT    = 16,  /* a scatter-gather element, or its share of inline data */
    CQE        = 64,
    TOGETHER   = 32
};

typedef struct tally {
    double pinned, driver, heap, qps, cqes;
} tally_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static tally_t total;

static void count(double pinned, double driver, double qps, double cqes)
{
    pthread_mutex_lock(&lock);
    total.pinned += pinned;
    total.driver += driver;
    total.qps    += qps;
    total.cqes   += cqes;
    pthread_mutex_unlock(&lock);
}

static size_t heap(void)
{
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}

/* What a call of the device has taken is not the transport's */
static void discount(size_t before)
{
    size_t after = heap();

    pthread_mutex_lock(&lock);
    total.heap -= (double)after - (double)before;
    pthread_mutex_unlock(&lock);
}

/* ---- libmlx5's sizes ---- */

static size_t power_of_two(size_t value)
{
    size_t power = 1;

    while (power < value) {
        power *= 2;
    }
    return power;
}

static size_t round_up(size_t value, size_t unit)
{
    return (value + unit - 1) / unit * unit;
}

static size_t sq_bytes(const struct ibv_qp_cap *cap)
{
    size_t elements = (size_t)cap->max_send_sge * SEGMENT;
    size_t inlined  = round_up(4 + cap->max_inline_data, SEGMENT);
    size_t entry    = WQE_FIXED + ((elements > inlined) ? elements : inlined);

    return power_of_two(cap->max_send_wr * round_up(entry, WQE));
}

static size_t rq_bytes(const struct ibv_qp_cap *cap)
{
    size_t elements = (cap->max_recv_sge == 0) ? 1 : cap->max_recv_sge;

    return power_of_two(cap->max_recv_wr) * power_of_two(elements * SEGMENT);
}

static size_t qp_bytes(const struct ibv_qp_init_attr *init)
{
    size_t rq = (init->srq == NULL) ? rq_bytes(&init->cap) : 0;

    return round_up(rq + sq_bytes(&init->cap), PAGE);
}

static size_t cq_bytes(int cqe)
{
    return round_up(power_of_two((size_t)cqe + 1) * CQE, PAGE);
}

/* ---- in libibverbs' place ---- */

#define REAL(_name) ((__typeof__(&(_name)))real(#_name))

static void *real(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);

    perf_check(found != NULL, "no %s", name);
    return found;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
    struct ibv_qp_init_attr asked = *init; /* the device writes into it */
    size_t before                 = heap();
    struct ibv_qp *qp             = REAL(ibv_create_qp)(pd, init);

    discount(before);
    if (qp != NULL) {
        count(0, (double)qp_bytes(&asked), 1, 0);
    }
    return qp;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *arg,
                             struct ibv_comp_channel *channel, int vector)
{
    size_t before     = heap();
    struct ibv_cq *cq = REAL(ibv_create_cq)(context, cqe, arg, channel, vector);

    discount(before);
    if (cq != NULL) {
        count(0, (double)cq_bytes(cqe), 0, cqe);
    }
    return cq;
}

int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
    size_t before = heap();
    int old       = cq->cqe;
    int ret       = REAL(ibv_resize_cq)(cq, cqe);

    discount(before);
    if (ret == 0) {
        count(0, (double)cq_bytes(cqe) - (double)cq_bytes(old), 0, cqe - old);
    }
    return ret;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
    struct ibv_qp_cap cap = {.max_recv_wr  = init->attr.max_wr,
                             .max_recv_sge = init->attr.max_sge + 1};
    size_t before         = heap();
    struct ibv_srq *srq   = REAL(ibv_create_srq)(pd, init);

    discount(before);
    if (srq != NULL) {
        count(0, (double)round_up(rq_bytes(&cap), PAGE), 0, 0);
    }
    return srq;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
                          int access)
{
    size_t before     = heap();
    struct ibv_mr *mr = REAL(ibv_reg_mr)(pd, addr, length, access);

    discount(before);
    if (mr != NULL) {
        count((double)length, 0, 0, 0);
    }
    return mr;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length,
                                uint64_t iova, unsigned int access)
{
    size_t before     = heap();
    struct ibv_mr *mr = REAL(ibv_reg_mr_iova2)(pd, addr, length, iova, access);

    discount(before);
    if (mr != NULL) {
        count((double)length, 0, 0, 0);
    }
    return mr;
}

/* ---- the program ---- */

static tally_t take(void)
{
    tally_t now;

    pthread_mutex_lock(&lock);
    now       = total;
    now.heap += (double)heap();
    pthread_mutex_unlock(&lock);
    return now;
}

static void line(const char *what, const char *name, unsigned endpoints,
                 double value, const char *unit)
{
    printf("memory_%s,%s,%u,%.1f,%s,\n", what, name, endpoints, value, unit);
}

/* Of each endpoint and side; of each interface where there are no endpoints */
static void print(const char *name, unsigned endpoints, const tally_t *from,
                  const tally_t *to)
{
    double parts  = 2. * ((endpoints == 0) ? 1 : endpoints);
    double pinned = (to->pinned - from->pinned) / parts / 1024;
    double own    = (to->heap - from->heap) / parts / 1024;
    double driver = (to->driver - from->driver) / parts / 1024;

    line("pinned", name, endpoints, pinned, "KiB");
    line("driver", name, endpoints, driver, "KiB");
    line("qps", name, endpoints, (to->qps - from->qps) / parts, "");
    if (endpoints > 0) {
        /* UCX takes from the heap what an interface pins, too */
        line("heap", name, endpoints, own, "KiB");
        line("total", name, endpoints, pinned + own + driver, "KiB");
    }
}

/* Several at once: a handshake takes its time */
static void connect_all(perf_side_t *a, perf_side_t *b, perf_pair_t *pairs,
                        unsigned count)
{
    unsigned i;

    for (i = 0; i < count; ++i) {
        perf_connect_begin(a, b, 0, &pairs[i]);
        if (((i + 1) % TOGETHER) == 0) {
            perf_flush(a, b, pairs[i + 1 - TOGETHER].a_to_b);
        }
    }
    for (i = 0; i < count; ++i) {
        perf_flush(a, b, pairs[i].a_to_b);
    }
}

static void run(const char *tl, const char *options, const char *name,
                char **counts, int num_counts)
{
    static perf_pair_t pairs[MAX_COUNT];
    tally_t nothing = take(), opened, now;
    perf_side_t a, b;
    unsigned have = 0, want;
    int i;

    perf_side_open(&a, tl, perf_device(0), options);
    perf_side_open(&b, tl, perf_device(1), options);
    opened = take();
    print(name, 0, &nothing, &opened);
    for (i = 0; i < num_counts; ++i) {
        want = (unsigned)atoi(counts[i]);
        perf_check((want > have) && (want <= MAX_COUNT),
                   "counts grow, to %d at most", MAX_COUNT);
        connect_all(&a, &b, pairs + have, want - have);
        have = want;
        now = take();
        print(name, want, &opened, &now);
        fflush(stdout);
    }
    /* The end of the process takes thousands of connections down faster */
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"tl", required_argument, NULL, 't'},
        {"options", required_argument, NULL, 'o'},
        {"name", required_argument, NULL, 'n'},
        {NULL, 0, NULL, 0}
    };
    const char *tl = "vqp", *interface = "", *name = NULL;
    int option;

    /* the async thread's allocations in the same arena: mallinfo2 sees one */
    mallopt(M_ARENA_MAX, 1);
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 't': tl = optarg; break;
        case 'o': interface = optarg; break;
        case 'n': name = optarg; break;
        default:
            fprintf(stderr, "usage: memory [--tl TL] [--options OPTIONS] "
                    "[--name CONFIG] [COUNT]...\n");
            return 2;
        }
    }
    run(tl, interface, (name == NULL) ? tl : name, argv + optind,
        argc - optind);
    return 0;
}
