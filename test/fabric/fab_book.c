/*
 * Books of posted WRs. libc only.
 */
#include "fab_book.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int fab_book_init(fab_book_t *book, uint32_t max, uint32_t max_sge,
                  fab_book_slots_t *slots)
{
    size_t entries = (max == 0) ? 0 : 1ull << (32 - __builtin_clz(max));

    memset(book, 0, sizeof(*book));
    if (max == 0) {
        return 0;
    }

    book->stride = sizeof(fab_book_wr_t) + max_sge * sizeof(struct ibv_sge);
    book->wrs    = malloc(entries * book->stride);
    if (book->wrs == NULL) {
        return ENOMEM;
    }

    book->max     = max;
    book->max_sge = max_sge;
    book->slots   = slots;
    return 0;
}

static void book_use(const fab_book_t *book, int64_t count)
{
    if (book->slots != NULL) {
        __atomic_fetch_add(&book->slots->used, count, __ATOMIC_RELAXED);
    }
}

void fab_book_cleanup(fab_book_t *book)
{
    book_use(book, -(int64_t)fab_book_level(book));
    free(book->wrs);
    memset(book, 0, sizeof(*book));
}

fab_book_wr_t *fab_book_enter(fab_book_t *book, uint64_t wr_id,
                              const struct ibv_sge *sge, int num_sge,
                              bool *crowded)
{
    fab_book_wr_t *entry;
    int64_t used;

    *crowded = false;
    if (fab_book_level(book) == book->max) {
        return NULL;
    }

    entry           = fab_book_at(book, book->head);
    entry->wr_id    = wr_id;
    entry->hashed   = false;
    entry->signaled = true;
    entry->num_sge  = ((num_sge < 0) || ((uint32_t)num_sge > book->max_sge)) ?
                              0 : (uint32_t)num_sge;
    if (entry->num_sge > 0) {
        memcpy(entry->sge, sge, entry->num_sge * sizeof(*sge));
    }
    ++book->head;
    if (book->slots != NULL) {
        used     = __atomic_add_fetch(&book->slots->used, 1, __ATOMIC_RELAXED);
        *crowded = used == 1 + __atomic_load_n(&book->slots->have,
                                               __ATOMIC_RELAXED);
    }

    return entry;
}

void fab_book_take_back(fab_book_t *book, uint32_t count)
{
    if (count > fab_book_level(book)) {
        count = fab_book_level(book);
    }

    book->head -= count;
    book_use(book, -(int64_t)count);
}

void fab_book_take_off(fab_book_t *book)
{
    ++book->tail;
    book_use(book, -1);
}

bool fab_book_find(const fab_book_t *book, uint64_t wr_id, bool failed,
                   uint32_t *index)
{
    const fab_book_wr_t *entry;
    uint32_t i;

    for (i = book->tail; i != book->head; ++i) {
        entry = fab_book_at(book, i);
        if ((entry->wr_id == wr_id) && (failed || entry->signaled)) {
            *index = i;
            return true;
        }
    }

    return false;
}

bool fab_book_uses(const fab_book_t *book, uint32_t lkey)
{
    const fab_book_wr_t *entry;
    uint32_t i, k;

    for (i = book->tail; i != book->head; ++i) {
        entry = fab_book_at(book, i);
        for (k = 0; k < entry->num_sge; ++k) {
            if ((entry->sge[k].lkey == lkey) && (entry->sge[k].length > 0)) {
                return true;
            }
        }
    }

    return false;
}
