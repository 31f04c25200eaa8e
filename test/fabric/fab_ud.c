/*
 * Datagrams: found a receiver or dropped without a word, as on the wire. May
 * call libc, fab_copy, fab_cq, fab_gid, fab_respond's receives.
 */
#include "fab_ud.h"

#include <arpa/inet.h>
#include <string.h>

#include "fab_config.h"
#include "fab_cq.h"
#include "fab_ctx.h"
#include "fab_gid.h"
#include "fab_violations.h"
#include "fab_respond.h"

enum {
    GRH_SIZE       = 40,
    IPV4_OFFSET    = 20,
    PROTOCOL_UDP   = 17,
    NEXT_HEADER_IB = 0x1b,
    SL_IPV6        = 1,
    SL_IPV4        = 2,
    SL_VALID       = 8,
    ROCE_OVERHEAD  = 8 + 12 + 8 + 4 /* UDP, BTH, DETH, ICRC */
};

static uint16_t fab_ipv4_checksum(const uint8_t *header)
{
    uint32_t sum = 0;
    int i;

    for (i = 0; i < 20; i += 2) {
        sum += ((uint32_t)header[i] << 8) | header[i + 1];
    }
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)~sum;
}

static void fab_put16(uint8_t *at, uint16_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

/* The 20 bytes before an IPv4 header are not defined: zeroes here */
static void fab_grh_ipv4(uint8_t *grh, const union ibv_gid *sgid,
                         const struct ibv_ah_attr *attr, uint32_t length)
{
    uint8_t *header = grh + IPV4_OFFSET;

    header[0] = 0x45;
    header[1] = attr->grh.traffic_class;
    fab_put16(&header[2], (uint16_t)(20 + ROCE_OVERHEAD + length));
    header[6] = 0x40; /* do not fragment */
    header[8] = (attr->grh.hop_limit == 0) ? 64 : attr->grh.hop_limit;
    header[9] = PROTOCOL_UDP;
    memcpy(&header[12], &sgid->raw[12], 4);
    memcpy(&header[16], &attr->grh.dgid.raw[12], 4);
    fab_put16(&header[10], fab_ipv4_checksum(header));
}

/* Does the index of its source have another GID now, or none? */
static int fab_ud_has_moved(const struct fab_qp *qp, const struct fab_ah_handle *ah)
{
    enum fab_gid_type type;
    union ibv_gid sgid;

    (void)fab_gid_get(qp->dev, ah->attr.port_num, ah->attr.grh.sgid_index, &sgid,
                      &type);
    return ah->attr.is_global && memcmp(&sgid, &ah->sgid, sizeof(sgid));
}

static void fab_grh_make(const struct fab_qp *qp, const struct ibv_ah_attr *attr,
                         uint32_t length, uint8_t *grh)
{
    struct ibv_grh *header = (struct ibv_grh*)grh;
    enum fab_gid_type type;
    union ibv_gid sgid;

    memset(grh, 0, GRH_SIZE);
    if (!attr->is_global) {
        return;
    }

    fab_gid_get(qp->dev, attr->port_num, attr->grh.sgid_index, &sgid, &type);
    if ((type == FAB_GID_ROCE_V2) && (fab_gid_ipv4(&attr->grh.dgid) != 0)) {
        fab_grh_ipv4(grh, &sgid, attr, length);
        return;
    }

    header->version_tclass_flow = htonl((6u << 28) |
                                        ((uint32_t)attr->grh.traffic_class << 20) |
                                        (attr->grh.flow_label & 0xfffff));
    header->paylen    = htons((uint16_t)(ROCE_OVERHEAD + length));
    header->next_hdr  = (type == FAB_GID_ROCE_V2) ? PROTOCOL_UDP :
                                                    NEXT_HEADER_IB;
    header->hop_limit = (attr->grh.hop_limit == 0) ? 64 : attr->grh.hop_limit;
    header->sgid      = sgid;
    header->dgid      = attr->grh.dgid;
}

/* A QP of that number, of datagrams, ready, and with this key */
static int fab_ud_accepts(const struct fab_qp *peer, const struct fab_ah_handle *ah,
                          uint32_t qpn, uint32_t qkey)
{
    return (peer->qpn == qpn) && (peer->type == IBV_QPT_UD) &&
           ((peer->state == IBV_QPS_RTR) || (peer->state == IBV_QPS_RTS) ||
            (peer->state == IBV_QPS_SQD)) &&
           (peer->attr.port_num == ah->port) && (peer->qkey == qkey);
}

static void fab_ud_error(struct fab_qp *peer, const struct fab_recv *recv,
                         struct fab_cqe *cqe, enum ibv_wc_status status,
                         struct fab_exec_result *result)
{
    cqe->status     = (uint8_t)status;
    cqe->vendor_err = 0x80u + status;
    fab_recv_complete(peer, recv, cqe);
    __atomic_store_n(&peer->state, IBV_QPS_ERR, __ATOMIC_SEQ_CST);
    peer->flush    = 1;
    result->broken = peer;
}

/* ConnectX on Ethernet reports the type of a datagram's header in bits of the
 * SL, and sets a bit for that */
static uint8_t fab_ud_sl(const struct ibv_ah_attr *attr)
{
    if ((fab_config.profile == FAB_PROFILE_RXE) ||
        (fab_config.link == FAB_LINK_INFINIBAND)) {
        return attr->sl;
    }
    return SL_VALID | ((fab_gid_ipv4(&attr->grh.dgid) != 0) ? SL_IPV4 : SL_IPV6);
}

/* With the receiver's rq_lock held */
static void fab_ud_deliver(const struct fab_qp *qp, struct fab_qp *peer,
                           const struct ibv_send_wr *wr,
                           const struct fab_vec *src,
                           struct fab_exec_result *result)
{
    const struct ibv_ah_attr *attr = &fab_ah_of(wr->wr.ud.ah)->attr;
    struct fab_recv recv;
    struct fab_cqe cqe;
    struct fab_vec dst;
    int bad;

    if (!fab_recv_take(peer, &recv)) {
        return;
    }

    memset(&cqe, 0, sizeof(cqe));
    cqe.byte_len  = (uint32_t)src->length;
    cqe.src_qp    = qp->qpn;
    cqe.slid      = fab_gid_lid(qp->dev, qp->attr.port_num);
    cqe.sl        = fab_ud_sl(attr);
    cqe.wc_flags  = attr->is_global ? IBV_WC_GRH : 0;
    cqe.solicited = ((wr->send_flags & IBV_SEND_SOLICITED) != 0);
    cqe.opcode    = (uint8_t)IBV_WC_RECV;
    if (wr->opcode == IBV_WR_SEND_WITH_IMM) {
        cqe.imm       = wr->imm_data;
        cqe.wc_flags |= IBV_WC_WITH_IMM;
    }

    fab_vec_init(&dst, peer->proc);
    if (src->length > recv.length) {
        fab_ud_error(peer, &recv, &cqe, IBV_WC_LOC_LEN_ERR, result);
    } else if ((fab_vec_add_sges(&dst, peer->dev, peer->pd, recv.sge,
                                 recv.num_sge, IBV_ACCESS_LOCAL_WRITE, &bad) !=
                FAB_MR_OK) ||
               (fab_copy(&dst, src, src->length) != 0)) {
        fab_ud_error(peer, &recv, &cqe, IBV_WC_LOC_PROT_ERR, result);
    } else {
        fab_recv_complete(peer, &recv, &cqe);
    }
    fab_vec_release(&dst);
}

/* The GRH and the payload; @return 0 if the sender's memory is not its */
static int fab_ud_source(struct fab_qp *qp, const struct ibv_send_wr *wr,
                         const struct ibv_sge *sge, const uint8_t *grh,
                         struct fab_vec *src)
{
    int i, bad = 0;
    enum fab_mr_error why;

    fab_vec_add(src, (uintptr_t)grh, GRH_SIZE);
    if (wr->send_flags & IBV_SEND_INLINE) {
        for (i = 0; i < wr->num_sge; ++i) {
            if (sge[i].length != 0) {
                fab_vec_add(src, sge[i].addr, sge[i].length);
            }
        }
        return 1;
    }

    why = fab_vec_add_sges(src, qp->dev, qp->pd, sge, wr->num_sge, 0, &bad);
    if (why != FAB_MR_OK) {
        fab_violations_report(FAB_RULE_LOCAL_KEY, fab_dev_name(qp->dev), "qp",
                              qp->qpn,
                              "lkey 0x%x, address 0x%llx, %u bytes: %s",
                              sge[bad].lkey, (unsigned long long)sge[bad].addr,
                              sge[bad].length, fab_mr_error_str(why));
    }
    return why == FAB_MR_OK;
}

void fab_exec_ud(struct fab_qp *qp, const struct ibv_send_wr *wr,
                 const struct ibv_sge *sge, uint32_t length,
                 struct fab_exec_result *result)
{
    const struct fab_ah_handle *ah = fab_ah_of(wr->wr.ud.ah);
    struct fab_port *port          = &fab_world->devs[qp->dev]
                                              .ports[qp->attr.port_num - 1];
    uint32_t qkey = wr->wr.ud.remote_qkey;
    uint8_t grh[GRH_SIZE] __attribute__((aligned(8)));
    struct fab_qp *peer;
    struct fab_vec src;

    result->end    = FAB_EXEC_DONE;
    result->status = IBV_WC_SUCCESS;
    fab_vec_init(&src, fab_world_self);
    if (!fab_ud_source(qp, wr, sge, grh, &src)) {
        result->status = (fab_config.profile == FAB_PROFILE_RXE) ?
                                 IBV_WC_LOC_QP_OP_ERR : IBV_WC_LOC_PROT_ERR;
        goto out;
    }

    /* a key with the high bit means the sender's own */
    qkey = (qkey & 0x80000000u) ? qp->qkey : qkey;
    fab_exec_count(qp, length);
    if ((ah->dev == ~0u) || fab_exec_is_down(port) ||
        (length > fab_config.mtu) || fab_ud_has_moved(qp, ah) ||
        fab_exec_is_down(&fab_world->devs[ah->dev].ports[ah->port - 1])) {
        goto out;
    }

    fab_grh_make(qp, &ah->attr, length, grh);
    peer = fab_qp_slot(ah->dev, wr->wr.ud.remote_qpn);
    if ((__atomic_load_n(&peer->qpn, __ATOMIC_RELAXED) !=
         wr->wr.ud.remote_qpn) ||
        ((peer->proc != fab_world_self) &&
         !fab_proc_alive_cached(peer->proc))) {
        goto out;
    }

    fab_lock_take(&peer->rq_lock);
    if (fab_ud_accepts(peer, ah, wr->wr.ud.remote_qpn, qkey)) {
        fab_ud_deliver(qp, peer, wr, &src, result);
    }
    fab_lock_drop(&peer->rq_lock);
out:
    fab_vec_release(&src);
}
