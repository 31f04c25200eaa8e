/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomics: 64-bit add, fetching add, compare and swap. Never split. */
#include "uct/vqp_desc.h"
#include "uct/vqp_ep.h"

static UCS_F_ALWAYS_INLINE ucs_status_t
uct_vqp_atomic(uct_ep_h tl_ep, vqp_kind_t kind, uint64_t compare_add,
               uint64_t swap, uint64_t remote_addr, uct_rkey_t rkey,
               uint64_t *result, uct_completion_t *comp)
{
    vqp_frag_t frag;
    vqp_sge_t sge;
    vqp_op_t *op;

    UCT_VQP_EP_READY(tl_ep, vqp);
    UCT_VQP_CHECK_RKEY(vqp, rkey);
    if (vqp_unlikely(!(vqp->peer_rails &
                       UCS_BIT(uct_vqp_rkey(rkey)->amo_rail)))) {
        ucs_error("vqp %u: no path goes to rail %u of the peer, which executes "
                  "the atomics to this memory", vqp->number,
                  uct_vqp_rkey(rkey)->amo_rail);
        return UCS_ERR_UNSUPPORTED;
    }

    op = vqp_tx_rma_begin(&vqp->core.tx);
    if (vqp_unlikely(op == NULL)) {
        return uct_vqp_no_resource(vqp);
    }

    op->kind            = (uint8_t)kind;
    op->flags           = (result == NULL) ? 0 :
                                             (VQP_OP_SIGNAL | VQP_OP_BUFFER);
    op->length          = sizeof(uint64_t);
    op->raddr           = remote_addr;
    op->rma.rkeys       = uct_vqp_keep_rkeys(vqp, op,
                                             uct_vqp_rkey(rkey)->rkeys);
    op->user            = comp;
    op->user_kind       = (comp == NULL) ? UCT_VQP_USER_NONE :
                                            UCT_VQP_USER_COMP;
    op->frag_shift      = 31;
    op->amo.compare_add = compare_add;
    op->amo.swap        = swap;
    op->amo.result      = result;
    op->amo.rail        = uct_vqp_rkey(rkey)->amo_rail;
    UCT_TL_EP_STAT_ATOMIC(ucs_derived_of(tl_ep, uct_base_ep_t));
    ucs_trace_data("TX: vqp %u %s of 0x%" PRIx64 " at 0x%" PRIx64, vqp->number,
                   (kind == VQP_KIND_FADD) ? "FADD" : "CSWAP", compare_add,
                   remote_addr);
    if (vqp_likely(vqp_tx_send_rma(&vqp->core.tx, op, kind, 0, &sge, &frag) ==
                   VQP_SEND_FRAG)) {
        (void)uct_vqp_post_frag(vqp, &frag);
    } else {
        uct_vqp_tx_progress(vqp);
    }

    return (result == NULL) ? UCS_OK : UCS_INPROGRESS;
}

ucs_status_t uct_vqp_ep_atomic_cswap64(uct_ep_h tl_ep, uint64_t compare,
                                       uint64_t swap, uint64_t remote_addr,
                                       uct_rkey_t rkey, uint64_t *result,
                                       uct_completion_t *comp)
{
    return uct_vqp_atomic(tl_ep, VQP_KIND_CSWAP, compare, swap, remote_addr,
                          rkey, result, comp);
}

ucs_status_t uct_vqp_ep_atomic64_post(uct_ep_h tl_ep, unsigned opcode,
                                      uint64_t value, uint64_t remote_addr,
                                      uct_rkey_t rkey)
{
    if (opcode != UCT_ATOMIC_OP_ADD) {
        return UCS_ERR_UNSUPPORTED;
    }

    return uct_vqp_atomic(tl_ep, VQP_KIND_FADD, value, 0, remote_addr, rkey,
                          NULL, NULL);
}

ucs_status_t uct_vqp_ep_atomic64_fetch(uct_ep_h tl_ep, uct_atomic_op_t opcode,
                                       uint64_t value, uint64_t *result,
                                       uint64_t remote_addr, uct_rkey_t rkey,
                                       uct_completion_t *comp)
{
    if (opcode != UCT_ATOMIC_OP_ADD) {
        return UCS_ERR_UNSUPPORTED;
    }

    return uct_vqp_atomic(tl_ep, VQP_KIND_FADD, value, 0, remote_addr, rkey,
                          result, comp);
}
