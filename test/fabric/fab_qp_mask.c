/*
 * Which attributes modify_qp needs and allows for each change of state: the
 * tables of the InfiniBand specification (11.2.5.2) as Linux enforces them.
 * Calls nothing.
 */
#include "fab_qp.h"

#include <errno.h>

struct fab_qp_change {
    uint8_t from;
    uint8_t to;
    int     required[2]; /* RC, UD */
    int     optional[2];
};

#define INIT_COMMON (IBV_QP_PKEY_INDEX | IBV_QP_PORT)
#define ALT         (IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE)

static const struct fab_qp_change fab_qp_changes[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT,
     {INIT_COMMON | IBV_QP_ACCESS_FLAGS, INIT_COMMON | IBV_QP_QKEY},
     {0, 0}},
    {IBV_QPS_INIT, IBV_QPS_INIT,
     {0, 0},
     {INIT_COMMON | IBV_QP_ACCESS_FLAGS, INIT_COMMON | IBV_QP_QKEY}},
    {IBV_QPS_INIT, IBV_QPS_RTR,
     {IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER, 0},
     {IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX,
      IBV_QP_PKEY_INDEX | IBV_QP_QKEY}},
    {IBV_QPS_RTR, IBV_QPS_RTS,
     {IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
      IBV_QP_MAX_QP_RD_ATOMIC, IBV_QP_SQ_PSN},
     {IBV_QP_CUR_STATE | ALT | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER,
      IBV_QP_CUR_STATE | IBV_QP_QKEY | IBV_QP_RATE_LIMIT}},
    {IBV_QPS_RTS, IBV_QPS_RTS,
     {0, 0},
     {IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | ALT | IBV_QP_MIN_RNR_TIMER,
      IBV_QP_CUR_STATE | IBV_QP_QKEY | IBV_QP_RATE_LIMIT}},
    {IBV_QPS_RTS, IBV_QPS_SQD,
     {0, 0},
     {IBV_QP_EN_SQD_ASYNC_NOTIFY, IBV_QP_EN_SQD_ASYNC_NOTIFY}},
    {IBV_QPS_SQD, IBV_QPS_RTS,
     {0, 0},
     {IBV_QP_CUR_STATE | ALT | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER,
      IBV_QP_CUR_STATE | IBV_QP_QKEY}},
    {IBV_QPS_SQD, IBV_QPS_SQD,
     {0, 0},
     {IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
      IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC |
      ALT | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_MIN_RNR_TIMER,
      IBV_QP_PKEY_INDEX | IBV_QP_QKEY}},
    {IBV_QPS_SQE, IBV_QPS_RTS,
     {0, 0},
     {0, IBV_QP_CUR_STATE | IBV_QP_QKEY}}
};

int fab_qp_check_mask(enum ibv_qp_type type, enum ibv_qp_state from,
                      enum ibv_qp_state to, int mask)
{
    int column = (type == IBV_QPT_UD);
    const struct fab_qp_change *change;
    unsigned i;

    mask &= ~IBV_QP_STATE;
    if ((to == IBV_QPS_RESET) || (to == IBV_QPS_ERR)) {
        return (mask & ~IBV_QP_CUR_STATE) ? EINVAL : 0;
    }

    for (i = 0; i < (sizeof(fab_qp_changes) / sizeof(fab_qp_changes[0])); ++i) {
        change = &fab_qp_changes[i];
        if ((change->from == from) && (change->to == to)) {
            int required = change->required[column];
            int allowed  = required | change->optional[column];

            return (((mask & required) == required) &&
                    ((mask & ~allowed) == 0)) ? 0 : EINVAL;
        }
    }
    return EINVAL;
}
