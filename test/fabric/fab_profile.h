/*
 * The profiles of the fabric: in what each differs from a ConnectX, as defaults of
 * options. irdma and bnxt have what the drivers of an E810 and of a P5 announce, and
 * what their queries return; none of it was measured. Calls nothing.
 */
#ifndef FAB_PROFILE_H
#define FAB_PROFILE_H

/* _(PROFILE, OPTION, default) */
#define FAB_PROFILE_DEFAULTS(_) \
    _(RXE, SPEED, "qdr") \
    _(RXE, WIDTH, "1") \
    _(RXE, MAX_SGE, "32") \
    _(RXE, MAX_INLINE, "512") \
    _(RXE, MAX_RD_ATOMIC, "128") \
    _(RXE, MAX_QP, "1048560") \
    _(RXE, MAX_QP_WR, "1048576") \
    _(RXE, MAX_CQ, "1048576") \
    _(RXE, MAX_CQE, "32767") \
    _(RXE, MAX_SRQ, "917503") \
    _(RXE, MAX_SRQ_WR, "1048576") \
    _(RXE, MAX_SRQ_SGE, "27") \
    _(RXE, MAX_MR, "524287") \
    _(RXE, MAX_MSG, "8388608") \
    _(RXE, RETRY7, "endless") \
    _(RXE, PURGE, "no") \
    _(RXE, DMABUF, "no") \
    \
    _(IRDMA, SPEED, "edr") \
    _(IRDMA, MAX_SGE, "13") \
    _(IRDMA, MAX_INLINE, "101") \
    _(IRDMA, MAX_RD_ATOMIC, "127") \
    _(IRDMA, MAX_QP_WR, "4063") \
    _(IRDMA, MAX_CQE, "1048574") \
    _(IRDMA, MAX_SRQ, "0") \
    _(IRDMA, ATOMICS, "none") \
    _(IRDMA, RQ_PSN, "stale") \
    \
    _(BNXT, MAX_SGE, "6") \
    _(BNXT, MAX_INLINE, "96") \
    _(BNXT, MAX_RD_ATOMIC, "126") \
    _(BNXT, MAX_QP_WR, "65407") \
    _(BNXT, MAX_CQE, "1048575") \
    _(BNXT, MAX_SRQ_SGE, "6") \
    _(BNXT, ATOMICS, "glob") \
    \
    _(SMALL, MAX_SGE, "3") \
    _(SMALL, MAX_INLINE, "16") \
    _(SMALL, MAX_RD_ATOMIC, "1") \
    _(SMALL, MAX_QP_WR, "256") \
    _(SMALL, MAX_CQE, "2048") \
    _(SMALL, MAX_SRQ, "0") \
    _(SMALL, MAX_MSG, "65536") \
    _(SMALL, RQ_PSN, "absent") \
    \
    _(EFA, MAX_SGE, "2") \
    _(EFA, MAX_INLINE, "32") \
    _(EFA, ATOMICS, "none") \
    \
    _(MLX5_LAG, LAG, "affinity") \
    _(MLX5_LAG, LINKS, "2")

#endif
