/* The executed count, see executed.h. */
#include "verbs/executed.h"

#include "core/failover/failover.h"
#include "core/seq.h"
#include "verbs/log.h"

#include <string.h>
#include <time.h>

#define VQP_IB_PROBE_WRITES 3
#define VQP_IB_PROBE_PSN    0x123456 /* any value: these QPs have no other peer */
#define VQP_IB_PROBE_MSEC   200

/* A lost packet, or one of a host that is busy, must not decide what is guaranteed as
 * long as the interface exists: it is sent again within the 200 ms (the first time-out
 * is 4.096 us << 12 = 17 ms), and then there are other tries */
#define VQP_IB_PROBE_TIMEOUT 12
#define VQP_IB_PROBE_RETRIES 6
#define VQP_IB_PROBE_TRIES   3

vqp_status_t vqp_ib_executed(vqp_ib_qp_t *qp, uint32_t first_psn,
                             uint32_t *count)
{
    vqp_ib_qp_info_t info;
    vqp_status_t status = vqp_ib_qp_query(qp, &info);

    if (status == VQP_OK) {
        *count = (info.rq_psn - first_psn) & VQP_FSN_MASK;
    }

    return status;
}

static uint64_t vqp_ib_probe_msec(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return ((uint64_t)now.tv_sec * 1000) + ((uint64_t)now.tv_nsec / 1000000);
}

/* Wait for the completions of both sides. Returns 1 if all of them are good. */
static int vqp_ib_probe_wait(vqp_ib_cq_t *cq)
{
    uint64_t end   = vqp_ib_probe_msec() + VQP_IB_PROBE_MSEC;
    unsigned count = 0;
    struct ibv_wc wc;
    int ret;

    while ((count < 2 * VQP_IB_PROBE_WRITES) && (vqp_ib_probe_msec() < end)) {
        ret = vqp_ib_poll(cq, &wc, 1);
        if ((ret < 0) || ((ret > 0) && (wc.status != IBV_WC_SUCCESS))) {
            return 0;
        }
        count += (unsigned)ret;
    }

    return count == 2 * VQP_IB_PROBE_WRITES;
}

static vqp_status_t vqp_ib_probe_connect(vqp_ib_qp_t *qp, uint32_t dest_qpn,
                                         uint16_t pkey_index,
                                         const vqp_ib_qp_conn_t *conn)
{
    vqp_ib_qp_conn_t own = *conn;
    vqp_status_t status;

    own.dest_qpn  = dest_qpn;
    own.rq_psn    = own.sq_psn = VQP_IB_PROBE_PSN;
    own.timeout   = VQP_IB_PROBE_TIMEOUT;
    own.retry_cnt = VQP_IB_PROBE_RETRIES;
    status        = vqp_ib_qp_to_init(qp, conn->av.port, pkey_index);
    if (status == VQP_OK) {
        status = vqp_ib_qp_to_rtr(qp, &own);
    }

    return (status == VQP_OK) ? vqp_ib_qp_to_rts(qp, &own) : status;
}

/* Empty writes with an immediate, which write no memory. *source is set if all of them
 * have come through. */
static int vqp_ib_probe_count(vqp_ib_qp_t *from, vqp_ib_qp_t *to,
                              vqp_ib_cq_t *cq, vqp_source_t *source)
{
    vqp_path_t path    = {.index = 0};
    vqp_frag_t frag    = {
        .path   = &path,
        .opcode = VQP_WR_WRITE_IMM,
        .flags  = VQP_FRAG_SIGNALED
    };
    vqp_ib_path_t wire = {.qp = from->qp, .rc = *from};
    uint32_t posted, count, i;

    if (vqp_ib_qp_post_recvs(to, 0, VQP_IB_PROBE_WRITES, &posted) != VQP_OK) {
        return 0;
    }

    for (i = 0; i < VQP_IB_PROBE_WRITES; ++i) {
        if (vqp_ib_post_frag(&wire, &frag) != VQP_OK) {
            return 0;
        }
    }

    if (!vqp_ib_probe_wait(cq) || (vqp_ib_qp_to_error(to) != VQP_OK)) {
        return 0;
    }

    /* A device that can not be asked in ERR has answered */
    *source = ((vqp_ib_executed(to, VQP_IB_PROBE_PSN, &count) == VQP_OK) &&
               (count == VQP_IB_PROBE_WRITES)) ? VQP_SOURCE_PSN : VQP_SOURCE_IMM;
    return 1;
}

/* @return Whether *source is known */
static int vqp_ib_probe_try(const vqp_ib_dev_t *dev, uint16_t pkey_index,
                            const vqp_ib_qp_conn_t *conn, vqp_source_t *source)
{
    vqp_ib_qp_params_t params = {
        .send_depth   = VQP_IB_PROBE_WRITES,
        .recv_depth   = VQP_IB_PROBE_WRITES,
        .max_send_sge = 1
    };
    vqp_ib_qp_t from, to;
    int is_known = 0;
    vqp_ib_cq_t cq;

    if (vqp_ib_cq_create(&cq, dev, 4 * VQP_IB_PROBE_WRITES, NULL) != VQP_OK) {
        return 0;
    }

    if (vqp_ib_qp_create(&from, dev, cq.cq, &params) != VQP_OK) {
        goto err_destroy_cq;
    }

    if (vqp_ib_qp_create(&to, dev, cq.cq, &params) != VQP_OK) {
        goto err_destroy_qp;
    }

    is_known = (vqp_ib_probe_connect(&to, from.qpn, pkey_index, conn) == VQP_OK) &&
               (vqp_ib_probe_connect(&from, to.qpn, pkey_index, conn) == VQP_OK) &&
               vqp_ib_probe_count(&from, &to, &cq, source);
    vqp_ib_qp_destroy(&to);
err_destroy_qp:
    vqp_ib_qp_destroy(&from);
err_destroy_cq:
    vqp_ib_cq_destroy(&cq);
    return is_known;
}

vqp_source_t vqp_ib_probe_executed(const vqp_ib_dev_t *dev, uint16_t pkey_index,
                                   const vqp_ib_qp_conn_t *conn)
{
    vqp_source_t source = VQP_SOURCE_IMM;
    unsigned tries      = 0;

    while ((tries < VQP_IB_PROBE_TRIES) &&
           !vqp_ib_probe_try(dev, pkey_index, conn, &source)) {
        ++tries;
    }

    vqp_ib_debug("%s: executed requests are counted by source %s, %u probes have "
                 "failed", dev->name, vqp_source_name(source), tries);
    return source;
}
