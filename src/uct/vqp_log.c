/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of the verbs layer, and the packet trace; see vqp_log.h. */
#include "uct/vqp_log.h"
#include "uct/vqp_def.h"

#include "verbs/log.h"

#include <ucs/debug/log.h>

#define UCT_VQP_LOG_FAULTS   8              /* warnings in an interval, the others are diag */
#define UCT_VQP_LOG_INTERVAL 10000000000l  /* ns */

/* Faults that were told as warnings since the interval began. Any thread */
static struct {
    uint64_t began;
    uint32_t count;
} uct_vqp_log_faults;

static void uct_vqp_log_begin_interval(uint64_t now)
{
    __atomic_store_n(&uct_vqp_log_faults.count, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&uct_vqp_log_faults.began, now, __ATOMIC_RELAXED);
}

/* A device that fails does so for each path of each endpoint */
static ucs_log_level_t uct_vqp_log_fault_level(void)
{
    uint64_t now   = uct_vqp_now();
    uint64_t began = __atomic_load_n(&uct_vqp_log_faults.began, __ATOMIC_RELAXED);

    /* another thread may have begun one since */
    if ((int64_t)(now - began) >= UCT_VQP_LOG_INTERVAL) {
        uct_vqp_log_begin_interval(now);
    }

    return (__atomic_fetch_add(&uct_vqp_log_faults.count, 1, __ATOMIC_RELAXED) <
            UCT_VQP_LOG_FAULTS) ? UCS_LOG_LEVEL_WARN : UCS_LOG_LEVEL_DIAG;
}

static void uct_vqp_log_print(vqp_ib_log_level_t level, const char *file,
                              unsigned line, const char *message)
{
    static const ucs_log_level_t levels[] = {
        [VQP_IB_LOG_ERROR] = UCS_LOG_LEVEL_ERROR,
        [VQP_IB_LOG_WARN]  = UCS_LOG_LEVEL_WARN,
        [VQP_IB_LOG_DIAG]  = UCS_LOG_LEVEL_DIAG,
        [VQP_IB_LOG_INFO]  = UCS_LOG_LEVEL_INFO,
        [VQP_IB_LOG_DEBUG] = UCS_LOG_LEVEL_DEBUG,
        [VQP_IB_LOG_TRACE] = UCS_LOG_LEVEL_TRACE
    };

    ucs_log_level_t ucs_level = (level == VQP_IB_LOG_FAULT) ? uct_vqp_log_fault_level() :
                                                              levels[level];

    if (ucs_log_component_is_enabled(ucs_level, &ucs_global_opts.log_component)) {
        ucs_log_dispatch(file, line, "vqp", ucs_level,
                         &ucs_global_opts.log_component, "%s", message);
    }
}

void uct_vqp_log_init(void)
{
    vqp_ib_log_level_t max = VQP_IB_LOG_ERROR;

    uct_vqp_log_begin_interval(uct_vqp_now());
    if (ucs_log_is_enabled(UCS_LOG_LEVEL_DEBUG)) {
        max = VQP_IB_LOG_TRACE;
    } else if (ucs_log_is_enabled(UCS_LOG_LEVEL_INFO)) {
        max = VQP_IB_LOG_INFO;
    } else if (ucs_log_is_enabled(UCS_LOG_LEVEL_DIAG)) {
        max = VQP_IB_LOG_DIAG;
    } else if (ucs_log_is_enabled(UCS_LOG_LEVEL_WARN)) {
        max = VQP_IB_LOG_WARN;
    }

    vqp_ib_log_set(uct_vqp_log_print, max);
}

static const char *uct_vqp_kind_name(unsigned kind)
{
    static const char *names[] = {
        [VQP_KIND_AM]     = "am",     [VQP_KIND_PUT]     = "put",
        [VQP_KIND_GET]    = "get",    [VQP_KIND_FADD]    = "fadd",
        [VQP_KIND_CSWAP]  = "cswap",  [VQP_KIND_NOTIFY]  = "notify",
        [VQP_KIND_FENCE]  = "fence",  [VQP_KIND_CREDIT]  = "credit",
        [VQP_KIND_NOP]    = "nop"
    };

    return ((kind < ucs_static_array_size(names)) && (names[kind] != NULL)) ?
                   names[kind] : "?";
}

static const char *uct_vqp_imm_str(uint32_t imm, char *buf, size_t size)
{
    snprintf(buf, size, "fsn %06x%s%s%s%s", vqp_imm_fsn(imm),
             (imm & VQP_IMM_LAST) ? " last" : "",
             (imm & VQP_IMM_WRAP) ? " wrap" : "",
             (imm & VQP_IMM_CREDIT) ? " credit" : "",
             (imm & VQP_IMM_CONTROL) ? " control" : "");
    return buf;
}

void uct_vqp_trace_tx(const uct_vqp_t *vqp, const vqp_batch_t *batch)
{
    const vqp_frag_t *frag;
    char imm[64];
    unsigned i;

    for (i = 0; i < batch->count; ++i) {
        frag = &batch->frags[i];
        ucs_debug("vqp trace: tx vqp %u path %u sq %u %s %u bytes -> 0x%" PRIx64
                  "%s%s%s %s", vqp->number, frag->path->index, frag->slot,
                  uct_vqp_kind_name(frag->kind), frag->length, frag->raddr,
                  (frag->flags & VQP_FRAG_SIGNALED) ? " signaled" : "",
                  (frag->flags & VQP_FRAG_INLINE) ? " inline" : "",
                  (frag->flags & VQP_FRAG_FENCE) ? " fence" : "",
                  (frag->opcode == VQP_WR_WRITE_IMM) ?
                          uct_vqp_imm_str(frag->imm, imm, sizeof(imm)) : "");
    }
}

void uct_vqp_trace_rx(const uct_vqp_t *vqp, unsigned path, uint32_t imm)
{
    char buf[64];

    ucs_debug("vqp trace: rx vqp %u path %u %s, expected %06x", vqp->number,
              path, uct_vqp_imm_str(imm, buf, sizeof(buf)),
              vqp->core.rx.window.base);
}
