/* The sender: flushes, see flush.h. Pure: libc only. */
#include "core/flush.h"

#include "core/mark.h"

/* Does an AM before @a am_tail need it at the peer: has it a later number? */
static int vqp_tx_is_needed(const vqp_inflight_t *entry, uint32_t am_tail)
{
    return (entry->op == VQP_OP_NONE) && (entry->kind != VQP_KIND_KICK) &&
           (vqp_seq_diff(am_tail, (uint32_t)entry->offset) > 0);
}

/* So many of the path's unconfirmed frags have to be waited for */
static uint16_t vqp_tx_needed(vqp_path_t *path, uint32_t am_tail)
{
    uint16_t pos;

    for (pos = path->tail; pos != path->head; --pos) {
        if (vqp_tx_is_needed(vqp_path_at(path, (uint16_t)(pos - 1)),
                             am_tail)) {
            break;
        }
    }

    return (uint16_t)(pos - path->head);
}

int vqp_tx_is_flushed(const vqp_tx_t *tx)
{
    uint32_t i;

    if (vqp_tx_oldest(tx) != tx->seq) {
        return 0;
    }

    if (vqp_likely(tx->loose == 0) || tx->failed) {
        return 1;
    }

    for (i = 0; i < tx->num_paths; ++i) {
        if (vqp_tx_needed(&tx->paths[i], tx->am.tail) > 0) {
            return 0;
        }
    }

    return 1;
}

/* The ops are confirmed. From here on it is known what else has to be */
static void vqp_tx_flush_note_tails(vqp_tx_t *tx, vqp_tx_flush_t *flush)
{
    uint16_t count;
    uint32_t i;

    flush->has_tails = 1;
    flush->paths     = 0;
    for (i = 0; i < tx->num_paths; ++i) {
        count = vqp_tx_needed(&tx->paths[i], flush->am_tail);
        if (count > 0) {
            flush->tails[i] = (uint16_t)(tx->paths[i].head + count);
            flush->paths   |= 1ul << i;
        }
    }

    if (flush->paths != 0) {
        vqp_mark(FLUSH_LOOSE);
        vqp_tx_kick(tx);
    }
}

int vqp_tx_flush_ended(vqp_tx_t *tx, vqp_tx_flush_t *flush)
{
    uint64_t paths;
    uint32_t i;

    if (vqp_seq_diff(vqp_tx_oldest(tx), flush->seq) < 0) {
        return 0;
    }

    if (vqp_likely(tx->loose == 0) || tx->failed) {
        return 1;
    }

    if (!flush->has_tails) {
        vqp_tx_flush_note_tails(tx, flush);
    }

    /* each path that is there is struck off, before its places come round */
    for (paths = flush->paths; paths != 0; paths &= paths - 1) {
        i = (uint32_t)__builtin_ctzl(paths);
        if ((int16_t)(tx->paths[i].head - flush->tails[i]) >= 0) {
            flush->paths &= ~(1ul << i);
        }
    }

    return flush->paths == 0;
}
