/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether a device counts what it executes, see probe.h. */
#include "verbs/probe.h"

#include "core/data/tx.h"
#include "core/failover/failover.h"
#include "core/failover/trim.h"
#include "verbs/executed.h"
#include "verbs/log.h"
#include "verbs/mr.h"
#include "verbs/post.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define VQP_IB_PROBE_PSN 0x123456 /* any value: these QPs have no other peer */

/* What is sent: requests that complete, then writes that are under way when the queue
 * pair is moved to ERR, then writes that come too late. Each has several packets */
enum {
    VQP_IB_PROBE_REST  = 3, /* a write, a READ, a write with an immediate */
    VQP_IB_PROBE_BUSY  = 6,
    VQP_IB_PROBE_LATE  = 3,
    VQP_IB_PROBE_ALL   = VQP_IB_PROBE_REST + VQP_IB_PROBE_BUSY + VQP_IB_PROBE_LATE,
    VQP_IB_PROBE_SLOTS = 16, /* a power of two above */
    VQP_IB_PROBE_READS = 1
};

/* Bytes of a request. A device may take longer to move a queue pair to ERR than the writes
 * take: then they are repeated with longer ones, up to some MiB in all */
#define VQP_IB_PROBE_LENGTH     (8u << 10)
#define VQP_IB_PROBE_LENGTH_MAX (512u << 10)
#define VQP_IB_PROBE_LONGER     8u

typedef enum {
    VQP_IB_PROBE_SILENT, /* nothing came through */
    VQP_IB_PROBE_WRONG,  /* the device does not count */
    VQP_IB_PROBE_GOOD,   /* it does; all writes were executed before ERR */
    VQP_IB_PROBE_EXACT   /* it does, and ERR came in the middle */
} vqp_ib_probe_result_t;

/* A lost packet, or one of a host that is busy, must not decide what is guaranteed as
 * long as the device is open: it is sent again within the 200 ms (the first time-out
 * is 4.096 us << 12 = 17 ms), and then there are other tries. Nor must one query that
 * fails */
#define VQP_IB_PROBE_MSEC    200
#define VQP_IB_PROBE_TIMEOUT 12
#define VQP_IB_PROBE_RETRIES 6
#define VQP_IB_PROBE_TRIES   3
#define VQP_IB_PROBE_WRONGS  2

/* The late writes are on their way at most that long */
#define VQP_IB_PROBE_LATE_MSEC 2

typedef struct vqp_ib_probe {
    vqp_ib_cq_t    cq;
    vqp_ib_path_t  from;     /* the requester */
    vqp_ib_qp_t    to;       /* the responder, which counts */
    vqp_path_t     path;     /* the requests in flight on from, none of which ends */
    vqp_inflight_t inflight[VQP_IB_PROBE_SLOTS];
    vqp_ib_mr_t    mr;
    uint8_t        *memory;  /* the sources, what is read, and what is written */
    uint32_t       length;   /* bytes of a request */
    unsigned       writes;   /* posted */
    unsigned       sends;    /* completions of requests */
    unsigned       recvs;    /* completions of receives */
    int            may_fail; /* requests may fail, since the responder is in ERR */
    vqp_ib_log_level_t level; /* of messages about calls that fail */
} vqp_ib_probe_t;

/* ---- memory ---- */

static uint8_t *vqp_ib_probe_read(const vqp_ib_probe_t *probe)
{
    return probe->memory + probe->length + VQP_IB_PROBE_ALL;
}

static uint8_t *vqp_ib_probe_target(const vqp_ib_probe_t *probe)
{
    return vqp_ib_probe_read(probe) + probe->length;
}

/* All writes have the same target. The source of each begins one byte behind that of the
 * one before, and its last byte is its number, from 1 on */
static vqp_status_t
vqp_ib_probe_alloc(vqp_ib_probe_t *probe, vqp_ib_dev_t *dev)
{
    size_t size               = 3ul * probe->length + VQP_IB_PROBE_ALL;
    vqp_ib_mr_params_t params = {
        .length    = size,
        .access    = VQP_IB_ACCESS_LOCAL_WRITE | VQP_IB_ACCESS_REMOTE_WRITE |
                     VQP_IB_ACCESS_REMOTE_READ,
        .log_level = probe->level
    };
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    vqp_status_t status;
    void *memory;
    unsigned i;

    /* Whole pages: after a fork the child may lack pages that are registered */
    size = (size + page - 1) & ~(page - 1);
    if (posix_memalign(&memory, page, size) != 0) {
        return VQP_ERR_NO_MEMORY;
    }
    memset(memory, 0, size);
    probe->memory = memory;

    for (i = 0; i < VQP_IB_PROBE_ALL; ++i) {
        probe->memory[probe->length - 1 + i] = (uint8_t)(i + 1);
    }

    params.address = probe->memory;
    status         = vqp_ib_mr_reg(&probe->mr, &dev, 1, &params);
    if (status != VQP_OK) {
        free(probe->memory);
    }
    return status;
}

static void vqp_ib_probe_free(vqp_ib_probe_t *probe)
{
    (void)vqp_ib_mr_dereg(&probe->mr);
    free(probe->memory);
}

/* ---- sending ---- */

static vqp_status_t vqp_ib_probe_post(vqp_ib_probe_t *probe, vqp_wr_t opcode)
{
    vqp_path_t *path = &probe->path;
    int is_read      = opcode == VQP_WR_READ;
    vqp_sge_t sge    = {
        .addr   = (uintptr_t)(is_read ? vqp_ib_probe_read(probe) :
                                        probe->memory + probe->writes),
        .length = probe->length,
        .lkey   = probe->mr.lkey[0]
    };
    vqp_frag_t frag = {
        .path   = path,
        .sge    = &sge,
        .slot   = path->tail,
        .opcode = (uint8_t)opcode,
        .nsge   = 1,
        .flags  = VQP_FRAG_SIGNALED,
        .rkey   = probe->mr.rkey[0],
        .length = probe->length,
        .raddr  = (uintptr_t)vqp_ib_probe_target(probe)
    };

    vqp_path_at(path, path->tail)->length = probe->length;
    path->stats.bytes += probe->length; /* see vqp_path_count_wrs() */
    if (vqp_ib_post_frag(&probe->from, &frag) != VQP_OK) {
        return VQP_ERR_IO;
    }

    ++path->tail;
    probe->writes += !is_read;
    return VQP_OK;
}

static vqp_status_t vqp_ib_probe_writes(vqp_ib_probe_t *probe, unsigned count)
{
    vqp_status_t status = VQP_OK;

    while ((count-- > 0) && (status == VQP_OK)) {
        status = vqp_ib_probe_post(probe, VQP_WR_WRITE);
    }

    return status;
}

static uint64_t vqp_ib_probe_msec(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return ((uint64_t)now.tv_sec * 1000) + ((uint64_t)now.tv_nsec / 1000000);
}

/* Wait until so many requests and receives have completed in all. Returns 1 if they have,
 * within the time, and none has failed that may not. */
static int vqp_ib_probe_wait(vqp_ib_probe_t *probe, unsigned sends, unsigned recvs,
                             unsigned msec)
{
    uint64_t end = vqp_ib_probe_msec() + msec;
    struct ibv_wc wc;
    int ret;

    while ((probe->sends < sends) || (probe->recvs < recvs)) {
        ret = vqp_ib_poll(&probe->cq, &wc, 1);
        if ((ret < 0) || ((ret == 0) && (vqp_ib_probe_msec() >= end))) {
            return 0;
        } else if (ret > 0) {
            if ((wc.status != IBV_WC_SUCCESS) && !probe->may_fail) {
                return 0;
            }
            probe->sends += wc.qp_num == probe->from.rc.qpn;
            probe->recvs += wc.qp_num != probe->from.rc.qpn;
        }
    }

    return 1;
}

/* ---- counting ---- */

/* Requests that were executed, as memory shows */
static int vqp_ib_probe_found(const vqp_ib_probe_t *probe)
{
    const volatile uint8_t *target = vqp_ib_probe_target(probe);

    return target[probe->length - 1] + VQP_IB_PROBE_READS;
}

/* Has ERR come while writes were under way, if so many requests were executed? */
static int vqp_ib_probe_is_cut(int found)
{
    return found < VQP_IB_PROBE_REST + VQP_IB_PROBE_BUSY;
}

/* Does the device's number tell which requests were executed? */
static int vqp_ib_probe_counts(vqp_ib_probe_t *probe, int found, uint32_t count)
{
    vqp_executed_t executed = {.source = VQP_SOURCE_PSN, .count = count};
    int counted             = vqp_trim_count(&probe->path, &executed);

    vqp_ib_debug("%s: %d of %u requests of %u bytes were executed%s, by its count of "
                 "%u packets %d", probe->to.dev_name, found, VQP_IB_PROBE_ALL,
                 probe->length, vqp_ib_probe_is_cut(found) ?
                 ", ERR came in the middle" : "", count, counted);
    return found == counted;
}

static int vqp_ib_probe_rest(vqp_ib_probe_t *probe)
{
    uint32_t posted;

    /* The second receive is for the flush */
    return (vqp_ib_qp_post_recvs(&probe->to, 0, 2, &posted) == VQP_OK) &&
           (vqp_ib_probe_post(probe, VQP_WR_WRITE) == VQP_OK) &&
           (vqp_ib_probe_post(probe, VQP_WR_READ) == VQP_OK) &&
           (vqp_ib_probe_post(probe, VQP_WR_WRITE_IMM) == VQP_OK) &&
           vqp_ib_probe_wait(probe, VQP_IB_PROBE_REST, 1, VQP_IB_PROBE_MSEC);
}

/* As a path that is given up: the queue pair is moved to ERR, and when its receives have
 * come back, its count is taken */
static vqp_ib_probe_result_t vqp_ib_probe_end(vqp_ib_probe_t *probe)
{
    uint32_t count = 0, later = 0;
    int is_exact, found;

    probe->may_fail = 1;
    if ((vqp_ib_probe_writes(probe, VQP_IB_PROBE_BUSY) != VQP_OK) ||
        (vqp_ib_qp_to_error(&probe->to) != VQP_OK) ||
        (vqp_ib_probe_writes(probe, VQP_IB_PROBE_LATE) != VQP_OK) ||
        !vqp_ib_probe_wait(probe, 0, 2, VQP_IB_PROBE_MSEC)) {
        return VQP_IB_PROBE_SILENT;
    }

    probe->to.level = VQP_IB_LOG_DEBUG; /* if it fails, the device is like that */
    is_exact        = vqp_ib_executed(&probe->to, VQP_IB_PROBE_PSN, &count) == VQP_OK;
    (void)vqp_ib_probe_wait(probe, VQP_IB_PROBE_ALL, 2, VQP_IB_PROBE_LATE_MSEC);
    is_exact = is_exact &&
               (vqp_ib_executed(&probe->to, VQP_IB_PROBE_PSN, &later) == VQP_OK);

    /* A device that can not be asked in ERR has answered */
    vqp_path_count_wrs(&probe->path);
    found = vqp_ib_probe_found(probe);
    if (!is_exact || !vqp_ib_probe_counts(probe, found, count) ||
        !vqp_ib_probe_counts(probe, found, later)) {
        return VQP_IB_PROBE_WRONG;
    }

    return vqp_ib_probe_is_cut(found) ? VQP_IB_PROBE_EXACT : VQP_IB_PROBE_GOOD;
}

/* ---- queue pairs ---- */

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

static vqp_status_t
vqp_ib_probe_open(vqp_ib_probe_t *probe, vqp_ib_dev_t *dev, const vqp_ib_qp_conn_t *conn,
                  uint32_t length, vqp_ib_log_level_t level)
{
    vqp_ib_qp_params_t params = {
        .send_depth   = VQP_IB_PROBE_ALL,
        .recv_depth   = 2,
        .max_send_sge = 1,
        .level        = level
    };
    vqp_status_t status;

    memset(probe, 0, sizeof(*probe));
    probe->path.inflight  = probe->inflight;
    probe->path.mask      = VQP_IB_PROBE_SLOTS - 1;
    probe->path.mtu_shift = (uint8_t)(7 + conn->mtu);
    probe->length         = length + 1; /* the last packet is a short one */
    probe->level          = level;

    status = vqp_ib_cq_create(&probe->cq, dev, VQP_IB_PROBE_ALL + 2, NULL, level);
    if (status != VQP_OK) {
        return status;
    }

    status = vqp_ib_qp_create(&probe->from.rc, dev, probe->cq.cq, &params);
    if (status != VQP_OK) {
        goto err_destroy_cq;
    }
    probe->from.qp = probe->from.rc.qp;

    status = vqp_ib_qp_create(&probe->to, dev, probe->cq.cq, &params);
    if (status != VQP_OK) {
        goto err_destroy_from;
    }

    status = vqp_ib_probe_alloc(probe, dev);
    if (status == VQP_OK) {
        return VQP_OK;
    }

    vqp_ib_qp_destroy(&probe->to);
err_destroy_from:
    vqp_ib_qp_destroy(&probe->from.rc);
err_destroy_cq:
    vqp_ib_cq_destroy(&probe->cq);
    return status;
}

static void vqp_ib_probe_close(vqp_ib_probe_t *probe)
{
    vqp_ib_qp_destroy(&probe->to);
    vqp_ib_qp_destroy(&probe->from.rc);
    vqp_ib_probe_free(probe);
    vqp_ib_cq_destroy(&probe->cq);
}

static vqp_ib_probe_result_t
vqp_ib_probe_try(vqp_ib_dev_t *dev, uint16_t pkey_index, const vqp_ib_qp_conn_t *conn,
                 uint32_t length, vqp_ib_log_level_t level)
{
    vqp_ib_probe_result_t result = VQP_IB_PROBE_SILENT;
    vqp_ib_probe_t probe;

    if (vqp_ib_probe_open(&probe, dev, conn, length, level) != VQP_OK) {
        return VQP_IB_PROBE_SILENT;
    }

    if ((vqp_ib_probe_connect(&probe.to, probe.from.rc.qpn, pkey_index, conn) ==
         VQP_OK) &&
        (vqp_ib_probe_connect(&probe.from.rc, probe.to.qpn, pkey_index, conn) ==
         VQP_OK) && vqp_ib_probe_rest(&probe)) {
        result = vqp_ib_probe_end(&probe);
    }

    if (result == VQP_IB_PROBE_SILENT) {
        vqp_ib_debug("%s: a probe has failed %s: %u requests and %u receives have come "
                     "back", dev->name, probe.may_fail ? "in ERR" : "at rest",
                     probe.sends, probe.recvs);
    }
    vqp_ib_probe_close(&probe);
    return result;
}

/* @return VQP_IB_SOURCE_* */
static unsigned vqp_ib_probe_repeat(vqp_ib_dev_t *dev, uint16_t pkey_index,
                                    const vqp_ib_qp_conn_t *conn, uint32_t max_msg,
                                    unsigned tries)
{
    uint32_t length = vqp_min(VQP_IB_PROBE_LENGTH, max_msg - 1);
    unsigned wrong  = 0;
    int is_good     = 0;

    for (;;) {
        switch (vqp_ib_probe_try(dev, pkey_index, conn, length,
                                 is_good ? VQP_IB_LOG_DEBUG : VQP_IB_LOG_FAULT)) {
        case VQP_IB_PROBE_SILENT:
            if (is_good) { /* the longer ones need memory, or take too long */
                return VQP_IB_SOURCE_KNOWN + VQP_SOURCE_PSN;
            }
            if (--tries == 0) {
                return VQP_IB_SOURCE_SILENT;
            }
            break;
        case VQP_IB_PROBE_WRONG:
            if (++wrong == VQP_IB_PROBE_WRONGS) {
                return VQP_IB_SOURCE_KNOWN + VQP_SOURCE_IMM;
            }
            break;
        case VQP_IB_PROBE_GOOD:
            is_good = 1;
            length *= VQP_IB_PROBE_LONGER;
            if (length <= vqp_min(VQP_IB_PROBE_LENGTH_MAX, max_msg - 1)) {
                break;
            }
            /* fall through */
        case VQP_IB_PROBE_EXACT:
            return VQP_IB_SOURCE_KNOWN + VQP_SOURCE_PSN;
        }
    }
}

vqp_source_t vqp_ib_probe_source(vqp_ib_dev_t *dev, uint16_t pkey_index,
                                 const vqp_ib_qp_conn_t *conn, uint32_t max_msg)
{
    unsigned known = __atomic_load_n(&dev->source, __ATOMIC_RELAXED);
    vqp_source_t source;

    if (known < VQP_IB_SOURCE_KNOWN) {
        known = vqp_ib_probe_repeat(dev, pkey_index, conn, max_msg,
                                    (known == VQP_IB_SOURCE_NEW) ?
                                            VQP_IB_PROBE_TRIES : 1);
        __atomic_store_n(&dev->source, (uint8_t)known, __ATOMIC_RELAXED);
    }

    source = (known == VQP_IB_SOURCE_SILENT) ?
                     VQP_SOURCE_IMM : (vqp_source_t)(known - VQP_IB_SOURCE_KNOWN);
    vqp_ib_debug("%s: executed requests are counted by source %s", dev->name,
                 vqp_source_name(source));
    return source;
}
