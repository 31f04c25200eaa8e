/* SPDX-License-Identifier: BSD-3-Clause */
/* The executed count of a queue pair, see executed.h. */
#include "verbs/executed.h"

#include "core/seq.h"

vqp_status_t vqp_ib_executed(vqp_ib_qp_t *qp, uint32_t first_psn, uint32_t *count)
{
    vqp_ib_qp_info_t info;
    vqp_status_t status = vqp_ib_qp_query(qp, &info);

    if (status == VQP_OK) {
        *count = (info.rq_psn - first_psn) & VQP_FSN_MASK;
    }

    return status;
}
