/* Plain verbs for comparison, see bare.h. */
#include "bare.h"
#include "side.h"

#include <stdlib.h>
#include <string.h>

static struct ibv_context *open_device(const char *name)
{
    struct ibv_context *context = NULL;
    struct ibv_device **list    = ibv_get_device_list(NULL);
    int i;

    perf_check(list != NULL, "ibv_get_device_list");
    for (i = 0; (list[i] != NULL) && (context == NULL); ++i) {
        if (strcmp(name, ibv_get_device_name(list[i])) == 0) {
            context = ibv_open_device(list[i]);
        }
    }
    perf_check(context != NULL, "device %s does not open", name);
    ibv_free_device_list(list);
    return context;
}

static struct ibv_qp *make_qp(bare_t *bare, struct ibv_cq *cq)
{
    struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq,
                                    .qp_type = IBV_QPT_RC};
    struct ibv_qp_attr attr      = {.qp_state = IBV_QPS_INIT, .port_num = 1};
    struct ibv_qp *qp;

    init.cap.max_send_wr     = BARE_DEPTH;
    init.cap.max_recv_wr     = 1;
    init.cap.max_send_sge    = 1;
    init.cap.max_recv_sge    = 1;
    init.cap.max_inline_data = 64;
    qp                       = ibv_create_qp(bare->pd, &init);
    perf_check(qp != NULL, "ibv_create_qp");
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    perf_check(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT |
                             IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS) == 0,
               "to INIT");
    return qp;
}

static void connect_qp(bare_t *bare, struct ibv_qp *qp, struct ibv_qp *peer,
                       int gid_index)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};

    attr.path_mtu               = IBV_MTU_1024;
    attr.dest_qp_num            = peer->qp_num;
    attr.max_dest_rd_atomic     = 1;
    attr.min_rnr_timer          = 12;
    attr.ah_attr.is_global      = 1;
    attr.ah_attr.port_num       = 1;
    attr.ah_attr.grh.sgid_index = (uint8_t)gid_index;
    attr.ah_attr.grh.hop_limit  = 64;
    perf_check(ibv_query_gid(bare->context, 1, gid_index,
                             &attr.ah_attr.grh.dgid) == 0, "ibv_query_gid");
    perf_check(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV |
                             IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                             IBV_QP_MIN_RNR_TIMER) == 0, "to RTR");

    memset(&attr, 0, sizeof(attr));
    attr.qp_state      = IBV_QPS_RTS;
    attr.timeout       = 14;
    attr.retry_cnt     = 6;
    attr.rnr_retry     = 6;
    attr.max_rd_atomic = 1;
    perf_check(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT |
                             IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                             IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0,
               "to RTS");
}

void bare_open(bare_t *bare, const char *device, int gid_index, unsigned paths,
               size_t length)
{
    unsigned i;

    perf_check((paths > 0) && (paths <= BARE_MAX_PATHS), "%u paths", paths);
    memset(bare, 0, sizeof(*bare));
    bare->paths   = paths;
    bare->context = open_device(device);
    bare->pd      = ibv_alloc_pd(bare->context);
    bare->buffer  = calloc(2, length);
    perf_check((bare->pd != NULL) && (bare->buffer != NULL), "ibv_alloc_pd");
    bare->mr = ibv_reg_mr(bare->pd, bare->buffer, 2 * length,
                          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    perf_check(bare->mr != NULL, "ibv_reg_mr");
    bare->cq = ibv_create_cq(bare->context, (int)paths * BARE_DEPTH, NULL, NULL,
                             0);
    bare->peer_cq = ibv_create_cq(bare->context, (int)paths * BARE_DEPTH, NULL,
                                  NULL, 0);
    perf_check((bare->cq != NULL) && (bare->peer_cq != NULL), "ibv_create_cq");
    for (i = 0; i < paths; ++i) {
        bare->qp[i]   = make_qp(bare, bare->cq);
        bare->peer[i] = make_qp(bare, bare->peer_cq);
        connect_qp(bare, bare->qp[i], bare->peer[i], gid_index);
        connect_qp(bare, bare->peer[i], bare->qp[i], gid_index);
    }
}

void bare_close(bare_t *bare)
{
    unsigned i;

    for (i = 0; i < bare->paths; ++i) {
        ibv_destroy_qp(bare->qp[i]);
        ibv_destroy_qp(bare->peer[i]);
    }
    ibv_destroy_cq(bare->cq);
    ibv_destroy_cq(bare->peer_cq);
    ibv_dereg_mr(bare->mr);
    free(bare->buffer);
    ibv_dealloc_pd(bare->pd);
    ibv_close_device(bare->context);
}

void bare_write(bare_t *bare, unsigned path, uint32_t length, unsigned flags)
{
    struct ibv_sge sge     = {.addr   = (uintptr_t)bare->buffer,
                              .length = length,
                              .lkey   = bare->mr->lkey};
    struct ibv_send_wr wr  = {.sg_list = &sge, .num_sge = 1,
                              .opcode     = IBV_WR_RDMA_WRITE,
                              .send_flags = flags};
    struct ibv_send_wr *bad;

    wr.wr.rdma.remote_addr = (uintptr_t)bare->buffer + (bare->mr->length / 2);
    wr.wr.rdma.rkey        = bare->mr->rkey;
    perf_check(ibv_post_send(bare->qp[path], &wr, &bad) == 0, "ibv_post_send");
}

int bare_poll(bare_t *bare)
{
    struct ibv_wc wc[16];
    int i, n;

    n = ibv_poll_cq(bare->cq, 16, wc);
    perf_check(n >= 0, "ibv_poll_cq");
    for (i = 0; i < n; ++i) {
        perf_check(wc[i].status == IBV_WC_SUCCESS, "%s",
                   ibv_wc_status_str(wc[i].status));
    }
    return n;
}
