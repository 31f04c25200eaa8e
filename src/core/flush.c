/* The sender: flushes, see flush.h. Pure: libc only. */
#include "core/flush.h"

#include "core/mark.h"

int vqp_tx_is_flushed(const vqp_tx_t *tx)
{
    return (vqp_tx_oldest(tx) == tx->seq) && (tx->failed || (tx->loose == 0));
}

/* From here on numbers that are given later need not be waited for */
static void vqp_tx_flush_note_tails(vqp_tx_t *tx, vqp_tx_flush_t *flush)
{
    uint32_t i;

    vqp_mark(FLUSH_LOOSE);
    flush->has_tails = 1;
    for (i = 0; i < tx->num_paths; ++i) {
        flush->tails[i] = tx->paths[i].tail;
    }
    vqp_tx_kick(tx);
}

int vqp_tx_flush_ended(vqp_tx_t *tx, vqp_tx_flush_t *flush)
{
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

    for (i = 0; i < tx->num_paths; ++i) {
        if ((int16_t)(tx->paths[i].head - flush->tails[i]) < 0) {
            return 0;
        }
    }

    return 1;
}
