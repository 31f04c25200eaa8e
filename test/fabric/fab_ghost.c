/*
 * Ghosts. May call libc, fab_exec, the engine.
 */
#include "fab_ghost.h"

#include <stdlib.h>
#include <string.h>

#include "fab_config.h"
#include "fab_copy.h"
#include "fab_engine.h"
#include "fab_exec.h"

/* A WR on its way, with the data that it carries or that its answer would */
struct fab_ghost_wr {
    struct fab_ghost_wr *next;
    struct ibv_send_wr  wr;
    struct ibv_sge      sge;
    uint64_t            due;
    uint32_t            length;
    char                data[];
};

/* All of one QP's: with a stand-in for the QP, that the peer can not tell from
   it. It is in no table. */
struct fab_ghost {
    struct fab_qp_handle handle; /* the engine's view of it */
    struct fab_qp        qp __attribute__((aligned(64)));
    struct fab_ghost_wr  *first;
};

int fab_ghost_is(const struct fab_qp_handle *handle)
{
    return handle->ibv.qp_type == (enum ibv_qp_type)0;
}

/* Gather what the WR sends; @return 0 if its memory is not there any more */
static int fab_ghost_data(const struct fab_qp *qp, const struct fab_swr *swr,
                          struct fab_ghost_wr *ghost)
{
    struct fab_vec src, dst;
    int bad, ret = 0;

    fab_vec_init(&src, fab_world_self);
    fab_vec_init(&dst, fab_world_self);
    fab_vec_add(&dst, (uintptr_t)ghost->data, swr->length);
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

static struct fab_ghost_wr *fab_ghost_wr_make(const struct fab_qp *qp,
                                              const struct fab_swr *swr)
{
    struct fab_ghost_wr *ghost = malloc(sizeof(*ghost) + swr->length);

    if (ghost == NULL) {
        return NULL;
    }

    ghost->next            = NULL;
    ghost->due             = swr->due_exec;
    ghost->length          = swr->length;
    ghost->wr              = swr->wr;
    ghost->wr.num_sge      = 1;
    ghost->wr.send_flags  |= IBV_SEND_INLINE; /* no key is looked at */
    ghost->sge.addr        = (uintptr_t)ghost->data;
    ghost->sge.length      = swr->length;
    ghost->sge.lkey        = 0;
    if (!fab_wr_is_read(&swr->wr) && !fab_ghost_data(qp, swr, ghost)) {
        free(ghost);
        return NULL;
    }
    return ghost;
}

static struct fab_ghost *fab_ghost_of(const struct fab_qp *qp)
{
    struct fab_ghost *ghost = NULL;

    if (posix_memalign((void**)&ghost, 64, sizeof(*ghost)) != 0) {
        return NULL;
    }

    memset(ghost, 0, sizeof(*ghost));
    ghost->qp               = *qp;
    ghost->qp.user          = (uintptr_t)&ghost->handle;
    ghost->qp.sq_lock.owner = 0;
    ghost->qp.rq_lock.owner = 0;
    ghost->handle.qp        = &ghost->qp;
    return ghost;
}

void fab_ghost_make(struct fab_qp *qp, uint64_t now)
{
    struct fab_ghost *ghost    = NULL;
    struct fab_ghost_wr **link = NULL;
    const struct fab_swr *swr;
    uint32_t i;

    if ((qp->type != IBV_QPT_RC) || (qp->proc != fab_world_self) ||
        (qp->peer == 0) || qp->sq.failed || (qp->sq.losses > 0) ||
        (qp->sq.rnrs > 0)) {
        return;
    }

    for (i = qp->sq.exec; i != qp->sq.head; ++i) {
        swr = fab_sq_slot(&qp->sq, i);
        if (swr->due_send > now) {
            break; /* this one has not left yet */
        }

        if (ghost == NULL) {
            ghost = fab_ghost_of(qp);
            if (ghost == NULL) {
                return;
            }
            link = &ghost->first;
        }

        *link = fab_ghost_wr_make(qp, swr);
        if (*link == NULL) {
            break;
        }
        link = &(*link)->next;
    }

    if ((ghost != NULL) && (ghost->first != NULL)) {
        fab_engine_at(&ghost->qp, ghost->first->due);
    } else {
        free(ghost);
    }
}

static void fab_ghost_free(struct fab_ghost *ghost)
{
    struct fab_ghost_wr *wr;

    while ((wr = ghost->first) != NULL) {
        ghost->first = wr->next;
        free(wr);
    }
    free(ghost);
}

uint64_t fab_ghost_progress(struct fab_qp_handle *handle, uint64_t now)
{
    struct fab_ghost *ghost       = (struct fab_ghost*)handle;
    struct fab_exec_result result = {.broken = NULL};
    struct fab_ghost_wr *wr;

    while ((wr = ghost->first) != NULL) {
        if (wr->due > now) {
            return wr->due;
        }

        fab_exec_rc(&ghost->qp, &wr->wr, &wr->sge, wr->length, &result);
        if (result.broken != NULL) {
            fab_qp_flush(result.broken);
        }
        if ((result.end != FAB_EXEC_DONE) ||
            (result.status != IBV_WC_SUCCESS)) {
            break; /* nobody is there to send it again */
        }
        ghost->first = wr->next;
        free(wr);
    }

    fab_ghost_free(ghost);
    return 0;
}
