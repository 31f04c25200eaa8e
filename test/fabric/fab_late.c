/*
 * Late packets. May call libc, fab_exec, the engine.
 */
#include "fab_late.h"

#include <stdlib.h>
#include <string.h>

#include "fab_config.h"
#include "fab_copy.h"
#include "fab_engine.h"
#include "fab_exec.h"

/* A WR that has left, with its data */
struct fab_late_wr {
    struct fab_late_wr *next;
    struct ibv_send_wr  wr;
    struct ibv_sge      sge;
    uint64_t            due;
    uint32_t            length;
    char                data[];
};

/* The late packets of one QP, with a copy of the QP, which is in no table */
struct fab_late {
    struct fab_qp_handle handle; /* the engine's view of it */
    struct fab_qp        qp __attribute__((aligned(64)));
    struct fab_late_wr  *first;
};

int fab_late_is(const struct fab_qp_handle *handle)
{
    return handle->ibv.qp_type == (enum ibv_qp_type)0;
}

/* Gather what the WR sends; @return 0 if its memory is not there any more */
static int fab_late_data(const struct fab_qp *qp, const struct fab_swr *swr,
                         struct fab_late_wr *late)
{
    struct fab_vec src, dst;
    int bad, ret = 0;

    fab_vec_init(&src, fab_world_self);
    fab_vec_init(&dst, fab_world_self);
    fab_vec_add(&dst, (uintptr_t)late->data, swr->length);
    if (swr->wr.send_flags & IBV_SEND_INLINE) {
        fab_vec_add(&src, swr->sge[0].addr, swr->length);
    } else if (fab_vec_add_sges(&src, qp->dev, qp->pd, swr->sge,
                                swr->wr.num_sge, 0, &bad) != FAB_MR_OK) {
        ret = -1;
    }
    if (ret == 0) {
        ret = fab_copy(&dst, &src, swr->length);
    }
    fab_vec_release(&src);
    return ret == 0;
}

static struct fab_late_wr *fab_late_wr_make(const struct fab_qp *qp,
                                            const struct fab_swr *swr)
{
    struct fab_late_wr *late = malloc(sizeof(*late) + swr->length);

    if (late == NULL) {
        return NULL;
    }

    late->next            = NULL;
    late->due             = swr->due_exec;
    late->length          = swr->length;
    late->wr              = swr->wr;
    late->wr.num_sge      = 1;
    late->wr.send_flags  |= IBV_SEND_INLINE; /* no key is checked */
    late->sge.addr        = (uintptr_t)late->data;
    late->sge.length      = swr->length;
    late->sge.lkey        = 0;
    if (!fab_wr_is_read(&swr->wr) && !fab_late_data(qp, swr, late)) {
        free(late);
        return NULL;
    }
    return late;
}

static struct fab_late *fab_late_of(const struct fab_qp *qp)
{
    struct fab_late *late = NULL;

    if (posix_memalign((void**)&late, 64, sizeof(*late)) != 0) {
        return NULL;
    }

    memset(late, 0, sizeof(*late));
    late->qp               = *qp;
    late->qp.user          = (uintptr_t)&late->handle;
    late->qp.sq_lock.owner = 0;
    late->qp.rq_lock.owner = 0;
    late->handle.qp        = &late->qp;
    return late;
}

void fab_late_make(struct fab_qp *qp, uint64_t now)
{
    struct fab_late *late    = NULL;
    struct fab_late_wr **link = NULL;
    const struct fab_swr *swr;
    uint32_t i;

    if ((qp->type != IBV_QPT_RC) || (qp->proc != fab_world_self) ||
        (qp->peer == 0) || qp->sq.failed || qp->sq.unacked ||
        (qp->sq.losses > 0) || (qp->sq.rnrs > 0)) {
        return;
    }

    for (i = qp->sq.exec; i != qp->sq.head; ++i) {
        swr = fab_sq_slot(&qp->sq, i);
        if (swr->due_send > now) {
            break; /* this one has not left yet */
        }

        if (late == NULL) {
            late = fab_late_of(qp);
            if (late == NULL) {
                return;
            }
            link = &late->first;
        }

        *link = fab_late_wr_make(qp, swr);
        if (*link == NULL) {
            break;
        }
        link = &(*link)->next;
    }

    if ((late != NULL) && (late->first != NULL)) {
        fab_engine_at(&late->qp, late->first->due);
    } else {
        free(late);
    }
}

static void fab_late_free(struct fab_late *late)
{
    struct fab_late_wr *wr;

    while ((wr = late->first) != NULL) {
        late->first = wr->next;
        free(wr);
    }
    free(late);
}

uint64_t fab_late_progress(struct fab_qp_handle *handle, uint64_t now)
{
    struct fab_late *late       = (struct fab_late*)handle;
    struct fab_exec_result result = {.broken = NULL};
    struct fab_late_wr *wr;

    while ((wr = late->first) != NULL) {
        if (wr->due > now) {
            return wr->due;
        }

        fab_exec_rc(&late->qp, &wr->wr, &wr->sge, wr->length, &result);
        if (result.broken != NULL) {
            fab_qp_flush(result.broken);
        }
        if ((result.end != FAB_EXEC_DONE) ||
            (result.status != IBV_WC_SUCCESS)) {
            break; /* it is not retransmitted */
        }
        late->first = wr->next;
        free(wr);
    }

    fab_late_free(late);
    return 0;
}
