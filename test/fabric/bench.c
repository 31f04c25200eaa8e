/*
 * What a work request costs on the device: ns of CPU time per WR, posting and
 * polling, for two queue pairs of one process. Needs libibverbs only, so that it runs on any
 * device; on the fabric it says what the fabric adds to a transport's own cost.
 *
 *   contrib/fabric-run -- test/fabric/bench [DEVICE [ROUNDS]]
 */
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    DEPTH     = 128,
    BATCH     = 32,   /* WRs per signaled one */
    BUFFER    = 1 << 16,
    GID_INDEX = 1
};

struct end {
    struct ibv_cq *cq;
    struct ibv_qp *qp;
};

struct bench {
    struct ibv_context *context;
    struct ibv_pd      *pd;
    struct ibv_mr      *mr;
    struct end         a;
    struct end         b;
    long               rounds;
    char               *buffer;
};

static void check(int ok, const char *what)
{
    if (!ok) {
        perror(what);
        exit(1);
    }
}

static struct ibv_context *open_device(const char *name)
{
    struct ibv_context *context = NULL;
    struct ibv_device **list    = ibv_get_device_list(NULL);
    int i;

    check(list != NULL, "ibv_get_device_list");
    for (i = 0; (list[i] != NULL) && (context == NULL); ++i) {
        if ((name == NULL) || !strcmp(name, ibv_get_device_name(list[i]))) {
            context = ibv_open_device(list[i]);
        }
    }
    check(context != NULL, "ibv_open_device");
    ibv_free_device_list(list);
    return context;
}

static void make_end(struct bench *bench, struct end *end)
{
    struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC};
    struct ibv_qp_attr attr      = {.qp_state = IBV_QPS_INIT, .port_num = 1};

    end->cq = ibv_create_cq(bench->context, 2 * DEPTH, NULL, NULL, 0);
    check(end->cq != NULL, "ibv_create_cq");
    init.send_cq             = end->cq;
    init.recv_cq             = end->cq;
    init.cap.max_send_wr     = DEPTH;
    init.cap.max_recv_wr     = DEPTH;
    init.cap.max_send_sge    = 1;
    init.cap.max_recv_sge    = 1;
    init.cap.max_inline_data = 64;
    end->qp                  = ibv_create_qp(bench->pd, &init);
    check(end->qp != NULL, "ibv_create_qp");

    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                           IBV_ACCESS_REMOTE_ATOMIC;
    check(ibv_modify_qp(end->qp, &attr,
                        IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX |
                        IBV_QP_ACCESS_FLAGS) == 0, "to INIT");
}

static void connect_end(struct bench *bench, struct end *end, struct end *peer)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};

    attr.path_mtu           = IBV_MTU_1024;
    attr.dest_qp_num        = peer->qp->qp_num;
    attr.max_dest_rd_atomic = 1;
    attr.min_rnr_timer      = 12;
    attr.ah_attr.is_global  = 1;
    attr.ah_attr.port_num   = 1;
    attr.ah_attr.grh.sgid_index = GID_INDEX;
    attr.ah_attr.grh.hop_limit  = 64;
    check(ibv_query_gid(bench->context, 1, GID_INDEX, &attr.ah_attr.grh.dgid) ==
          0, "ibv_query_gid");
    check(ibv_modify_qp(end->qp, &attr,
                        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                        IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
          "to RTR");

    memset(&attr, 0, sizeof(attr));
    attr.qp_state      = IBV_QPS_RTS;
    attr.timeout       = 14;
    attr.retry_cnt     = 7;
    attr.rnr_retry     = 7;
    attr.max_rd_atomic = 1;
    check(ibv_modify_qp(end->qp, &attr,
                        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                        IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                        IBV_QP_MAX_QP_RD_ATOMIC) == 0, "to RTS");
}

/* Of the CPU: what else runs on the machine does not matter */
static double now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (ts.tv_sec * 1e9) + ts.tv_nsec;
}

/* Poll until so many CQEs have come */
static void drain(struct end *end, int count)
{
    struct ibv_wc wc[BATCH];
    int i, n;

    while (count > 0) {
        n = ibv_poll_cq(end->cq, BATCH, wc);
        check(n >= 0, "ibv_poll_cq");
        for (i = 0; i < n; ++i) {
            if (wc[i].status != IBV_WC_SUCCESS) {
                fprintf(stderr, "%s\n", ibv_wc_status_str(wc[i].status));
                exit(1);
            }
        }
        count -= n;
    }
}

static void post_receives(struct bench *bench, int count)
{
    struct ibv_sge sge = {.addr   = (uintptr_t)bench->buffer,
                          .length = BUFFER,
                          .lkey   = bench->mr->lkey};
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

    for (; count > 0; --count) {
        check(ibv_post_recv(bench->b.qp, &wr, &bad) == 0, "ibv_post_recv");
    }
}

static void measure(struct bench *bench, const char *name,
                    enum ibv_wr_opcode opcode, uint32_t length, unsigned flags,
                    int is_received)
{
    struct ibv_sge sge = {.addr   = (uintptr_t)bench->buffer,
                          .length = length,
                          .lkey   = bench->mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode};
    struct ibv_send_wr *bad;
    double start = now_ns();
    long round;
    int i;

    wr.wr.rdma.remote_addr = (uintptr_t)bench->buffer + (BUFFER / 2);
    wr.wr.rdma.rkey        = bench->mr->rkey;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = (uintptr_t)bench->buffer + (BUFFER / 2);
        wr.wr.atomic.compare_add = 1;
        wr.wr.atomic.rkey        = bench->mr->rkey;
    }
    for (round = 0; round < bench->rounds; ++round) {
        if (is_received) {
            post_receives(bench, BATCH);
        }
        for (i = 0; i < BATCH; ++i) {
            wr.send_flags = flags | ((i == (BATCH - 1)) ? IBV_SEND_SIGNALED : 0);
            check(ibv_post_send(bench->a.qp, &wr, &bad) == 0, "ibv_post_send");
        }
        drain(&bench->a, 1);
        if (is_received) {
            drain(&bench->b, BATCH);
        }
    }
    printf("%-28s %6u bytes %8.1f ns\n", name, length,
           (now_ns() - start) / ((double)bench->rounds * BATCH));
}

int main(int argc, char **argv)
{
    struct bench bench = {.rounds = (argc > 2) ? atol(argv[2]) : 20000};
    struct ibv_wc wc;
    double start;
    long i;

    bench.context = open_device((argc > 1) ? argv[1] : NULL);
    bench.pd      = ibv_alloc_pd(bench.context);
    bench.buffer  = calloc(1, BUFFER);
    check((bench.pd != NULL) && (bench.buffer != NULL), "ibv_alloc_pd");
    bench.mr = ibv_reg_mr(bench.pd, bench.buffer, BUFFER,
                          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                          IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
    check(bench.mr != NULL, "ibv_reg_mr");
    make_end(&bench, &bench.a);
    make_end(&bench, &bench.b);
    connect_end(&bench, &bench.a, &bench.b);
    connect_end(&bench, &bench.b, &bench.a);

    measure(&bench, "WRITE, inline", IBV_WR_RDMA_WRITE, 8, IBV_SEND_INLINE, 0);
    measure(&bench, "WRITE", IBV_WR_RDMA_WRITE, 8, 0, 0);
    measure(&bench, "WRITE", IBV_WR_RDMA_WRITE, 4096, 0, 0);
    measure(&bench, "WRITE_WITH_IMM and receive", IBV_WR_RDMA_WRITE_WITH_IMM, 8,
            0, 1);
    measure(&bench, "SEND and receive", IBV_WR_SEND, 8, 0, 1);
    measure(&bench, "READ", IBV_WR_RDMA_READ, 8, 0, 0);
    measure(&bench, "FETCH_AND_ADD", IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 0, 0);

    start = now_ns();
    for (i = 0; i < (bench.rounds * BATCH); ++i) {
        check(ibv_poll_cq(bench.a.cq, 1, &wc) == 0, "ibv_poll_cq");
    }
    printf("%-41s %8.1f ns\n", "empty poll", (now_ns() - start) / (double)i);
    return 0;
}
