/*
 * The functions of fabric.h, and what they share with faults that happen at a
 * time. May call the fabric's objects.
 */
#include "fab_control.h"
#include "fab_cq.h"
#include "fab_ctx.h"
#include "fab_cuda.h"
#include "fab_device.h"
#include "fab_fault.h"
#include "fab_path.h"
#include "fab_violations.h"
#include "fab_qp.h"

#include <errno.h>
#include <string.h>

#define CONTROL_ANY UINT32_MAX

unsigned fab_control_objects[FAB_NUM_OBJS];

/* QPs of this process on one device. @return how many there were. */
static unsigned control_dev_error(uint32_t dev, uint32_t qpn)
{
    uint32_t seen  = 0;
    unsigned count = 0;
    struct fab_qp *qp;
    uint32_t slot;

    /* The table is sparse: only as far as there are QPs */
    for (slot = 0; (slot < FAB_QP_SLOTS) &&
                   (seen < fab_world->devs[dev].num_qps); ++slot) {
        qp = fab_qp_slot(dev, (qpn == CONTROL_ANY) ? slot : qpn);
        if (qp->qpn != 0) {
            ++seen;
            if ((qp->proc == fab_world_self) &&
                ((qpn == CONTROL_ANY) || (qp->qpn == qpn))) {
                fab_qp_to_error(qp);
                ++count;
            }
        }
        if (qpn != CONTROL_ANY) {
            break;
        }
    }

    return count;
}

int fab_control_qp_error(uint32_t dev, uint32_t qpn)
{
    unsigned count = 0;
    uint32_t i;

    if (fab_world == NULL) {
        return ENOENT;
    }

    if (dev != CONTROL_ANY) {
        return (dev >= fab_config.devices)           ? ENODEV :
               (control_dev_error(dev, qpn) == 0) ? ENOENT : 0;
    }

    for (i = 0; i < fab_config.devices; ++i) {
        count += control_dev_error(i, qpn);
    }

    return (count == 0) ? ENOENT : 0;
}

int fab_control_port(uint32_t dev, uint32_t port, int up)
{
    int rc = 0;
    uint32_t i;

    if (dev != CONTROL_ANY) {
        return (dev >= fab_config.devices) ?
                       ENODEV : fab_port_set(fab_dev_name(dev), port, up);
    }

    for (i = 0; (i < fab_config.devices) && (rc == 0); ++i) {
        rc = fab_port_set(fab_dev_name(i), port, up);
    }

    return rc;
}

int fab_control_gids(uint32_t dev, uint32_t port, uint64_t moved)
{
    int rc = 0;
    uint32_t i;

    for (i = 0; (i < fab_config.devices) && (rc == 0); ++i) {
        if ((dev == CONTROL_ANY) || (dev == i)) {
            rc = fab_port_move_gids(fab_dev_name(i), port, moved);
        }
    }

    return ((dev != CONTROL_ANY) && (dev >= fab_config.devices)) ? ENODEV : rc;
}

static uint64_t control_calls(const char *verb)
{
    enum fab_call call = FAB_NUM_CALLS;

    if (verb != NULL) {
        call = fab_fault_call_by_name(verb);
        if (call == FAB_NUM_CALLS) {
            return 0;
        }
    }

    return fab_fault_calls(call);
}

static int control_qp_error(const char *device, uint32_t qpn)
{
    int dev = fab_device_find(device);

    return (dev < 0) ? ENODEV : fab_control_qp_error((uint32_t)dev, qpn);
}

static int control_event(void *context, int type, uintptr_t object)
{
    if ((type < 0) || (type > IBV_EVENT_WQ_FATAL)) {
        return EINVAL;
    }

    fab_async_raise(fab_context_ctx(context), (enum ibv_event_type)type,
                    object);
    return 0;
}

static int control_qp_event(const char *device, uint32_t qpn, int type)
{
    int dev = fab_device_find(device);
    struct fab_qp *qp;
    struct fab_cq *cq;

    if (dev < 0) {
        return ENODEV;
    }

    if (fab_world == NULL) {
        return ENOENT;
    }

    qp = fab_qp_slot((uint32_t)dev, qpn);
    if ((qp->qpn != qpn) || (qp->proc != fab_world_self)) {
        return ENOENT;
    }

    switch (type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_PATH_MIG:
        fab_async_raise(qp->ctx, (enum ibv_event_type)type, qp->user);
        return 0;
    case IBV_EVENT_CQ_ERR:
        cq = fab_ptr(struct fab_cq, qp->recv_cq);
        fab_async_raise(cq->ctx, (enum ibv_event_type)type, cq->user);
        return 0;
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_GID_CHANGE:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
        fab_async_raise(qp->ctx, (enum ibv_event_type)type, qp->attr.port_num);
        return 0;
    case IBV_EVENT_DEVICE_FATAL:
        fab_async_raise(qp->ctx, (enum ibv_event_type)type, 0);
        return 0;
    default:
        return EINVAL;
    }
}

static unsigned control_object(enum fab_object object)
{
    return __atomic_load_n(&fab_control_objects[object], __ATOMIC_RELAXED);
}

static void control_objects(vqp_fabric_objects_t *objects)
{
    objects->contexts = control_object(FAB_OBJ_CONTEXT);
    objects->pds      = control_object(FAB_OBJ_PD);
    objects->mrs      = control_object(FAB_OBJ_MR);
    objects->channels = control_object(FAB_OBJ_CHANNEL);
    objects->cqs      = control_object(FAB_OBJ_CQ);
    objects->srqs     = control_object(FAB_OBJ_SRQ);
    objects->qps      = control_object(FAB_OBJ_QP);
    objects->ahs      = control_object(FAB_OBJ_AH);
}

static int control_qp_path(const char *device, uint32_t qpn,
                           vqp_fabric_path_t *path)
{
    int dev = fab_device_find(device);
    struct fab_qp *qp;

    if ((dev < 0) || (fab_world == NULL) ||
        (fab_config.mode != FAB_MODE_TIMED)) {
        return ENOENT;
    }

    qp = fab_qp_slot((uint32_t)dev, qpn);
    fab_lock_take(&qp->sq_lock);
    path->number = qp->path;
    path->link   = qp->link;
    path->mbps   = (fab_path_wire(qp) != NULL) ? fab_path_wire(qp)->mbps :
                                                 qp->sq.mbps;
    path->delay  = qp->sq.delay;
    path->jitter = qp->sq.jitter;
    fab_lock_drop(&qp->sq_lock);
    return (qp->qpn == qpn) ? 0 : ENOENT;
}

/* Bytes of the sends that are posted and not complete */
static uint64_t control_pending(struct fab_qp *qp)
{
    const struct fab_sq *sq = &qp->sq;
    uint64_t bytes          = 0;
    uint32_t i;

    fab_lock_take(&qp->sq_lock);
    for (i = sq->done; i != sq->head; ++i) {
        bytes += fab_sq_slot(sq, i)->length;
    }
    fab_lock_drop(&qp->sq_lock);
    return bytes;
}

static int control_list_qps(const char *device, bool is_any_type, uint32_t *qpns,
                            unsigned max)
{
    int dev        = fab_device_find(device);
    unsigned count = 0;
    const struct fab_qp *qp;
    uint32_t slot;

    if ((dev < 0) || (fab_world == NULL)) {
        return -1;
    }

    for (slot = fab_world->devs[dev].high_slot + 1; slot-- > 0;) {
        qp = fab_qp_slot((uint32_t)dev, slot);
        if ((qp->qpn != 0) && (qp->proc == fab_world_self) &&
            (is_any_type || (qp->type == IBV_QPT_RC))) {
            if (count < max) {
                qpns[count] = qp->qpn;
            }
            ++count;
        }
    }

    return (int)count;
}

static int control_qps(const char *device, uint32_t *qpns, unsigned max)
{
    return control_list_qps(device, false, qpns, max);
}

static int control_all_qps(const char *device, uint32_t *qpns, unsigned max)
{
    return control_list_qps(device, true, qpns, max);
}

static int control_qp_traffic(const char *device, uint32_t qpn,
                              vqp_fabric_traffic_t *traffic)
{
    int dev = fab_device_find(device);
    struct fab_qp *qp;

    if ((dev < 0) || (fab_world == NULL)) {
        return ENOENT;
    }

    qp = fab_qp_slot((uint32_t)dev, qpn);
    if (qp->qpn != qpn) {
        return ENOENT;
    }

    traffic->pending  = control_pending(qp);
    traffic->wrs      = __atomic_load_n(&qp->wrs, __ATOMIC_RELAXED);
    traffic->bytes    = __atomic_load_n(&qp->bytes, __ATOMIC_RELAXED);
    traffic->messages = __atomic_load_n(&qp->messages, __ATOMIC_RELAXED);
    traffic->cqes     = fab_violations_cqes(device, qpn);
    traffic->depth    = qp->sq.max_wr;
    return 0;
}

static int control_port_traffic(const char *device, unsigned port,
                                vqp_fabric_traffic_t *traffic)
{
    int dev = fab_device_find(device);
    const struct fab_port *p;

    if ((dev < 0) || (fab_world == NULL) || (port < 1) ||
        (port > fab_config.ports)) {
        return ENOENT;
    }

    p = &fab_world->devs[dev].ports[port - 1];
    memset(traffic, 0, sizeof(*traffic));
    traffic->wrs   = __atomic_load_n(&p->wrs, __ATOMIC_RELAXED);
    traffic->bytes = __atomic_load_n(&p->bytes, __ATOMIC_RELAXED);
    return 0;
}

static const vqp_fabric_t control_table = {
    .version          = VQP_FABRIC_VERSION,
    .faults           = fab_fault_set,
    .act              = fab_fault_do,
    .fault_hits       = fab_fault_hits,
    .stalled          = fab_fault_stalled,
    .stalls_here      = fab_fault_stalls_here,
    .calls            = control_calls,
    .qp_error         = control_qp_error,
    .port             = fab_port_set,
    .device           = fab_device_set,
    .event            = control_event,
    .qp_event         = control_qp_event,
    .objects          = control_objects,
    .qps              = control_qps,
    .all_qps          = control_all_qps,
    .qp_path          = control_qp_path,
    .qp_traffic       = control_qp_traffic,
    .port_traffic     = control_port_traffic,
    .set_violations   = fab_violations_set,
    .violations       = fab_violations_count,
    .violations_reset = fab_violations_reset,
    .violation_text   = fab_violations_last,
    .option           = fab_config_text,
    .gpu_bytes        = fab_cuda_bytes
};

/* Found by its name: vqp_fabric() in fabric.h */
const vqp_fabric_t *vqp_fabric_table(void);

const vqp_fabric_t *vqp_fabric_table(void)
{
    fab_init();
    return &control_table;
}
