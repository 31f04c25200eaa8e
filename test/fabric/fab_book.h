/*
 * A book: the WRs of one queue that were posted and whose completions were not
 * polled yet, oldest first; and the CQ slots that they may need. libc only.
 *
 * Locking: a queue's is the caller's; slots are counted atomically, for they
 * are shared by queues.
 */
#ifndef FAB_BOOK_H
#define FAB_BOOK_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of a CQ */
typedef struct fab_book_slots {
    uint32_t id;   /* for messages */
    int64_t  have; /* CQEs that it holds */
    int64_t  used; /* WRs outstanding */
} fab_book_slots_t;

typedef struct fab_book_wr {
    uint64_t       wr_id;
    uint64_t       hash;     /* of the source, if hashed */
    uint32_t       num_sge;
    bool           hashed;
    bool           signaled; /* or a receive: success has a completion too */
    struct ibv_sge sge[];
} fab_book_wr_t;

typedef struct fab_book {
    char             *wrs;    /* max rounded up to a power of two */
    size_t           stride;
    uint32_t         max;     /* WRs */
    uint32_t         max_sge;
    uint32_t         head;    /* WRs ever entered */
    uint32_t         tail;    /* WRs ever taken off */
    fab_book_slots_t *slots;  /* of the CQ; NULL: not watched */
} fab_book_t;

/**
 * @return 0, or ENOMEM: the book is empty and stays so.
 */
int fab_book_init(fab_book_t *book, uint32_t max, uint32_t max_sge,
                  fab_book_slots_t *slots);

/* Its WRs leave their slots */
void fab_book_cleanup(fab_book_t *book);

static inline uint32_t fab_book_level(const fab_book_t *book)
{
    return book->head - book->tail;
}

/* The WR of this number, tail <= index < head */
static inline fab_book_wr_t *fab_book_at(const fab_book_t *book, uint32_t index)
{
    uint32_t mask = (uint32_t)(1ull << (32 - __builtin_clz(book->max))) - 1;

    return (fab_book_wr_t*)(book->wrs + (index & mask) * book->stride);
}

/**
 * Enter a WR. Its gather list is copied, as far as it is valid.
 *
 * @param [out] crowded  Whether this one used up the last slot of the CQ, and
 *                       one more.
 * @return the entry, or NULL: there are `max` already.
 */
fab_book_wr_t *fab_book_enter(fab_book_t *book, uint64_t wr_id,
                              const struct ibv_sge *sge, int num_sge,
                              bool *crowded);

/* The newest @a count were not accepted after all */
void fab_book_take_back(fab_book_t *book, uint32_t count);

/* The oldest one is complete, or forgotten */
void fab_book_take_off(fab_book_t *book);

/**
 * Find the WR that a completion is of.
 *
 * @param failed  Unsignaled ones have a completion, too.
 * @return false if there is none.
 */
bool fab_book_find(const fab_book_t *book, uint64_t wr_id, bool failed,
                   uint32_t *index);

/* Whether an outstanding WR names this lkey for more than zero bytes */
bool fab_book_uses(const fab_book_t *book, uint32_t lkey);

#endif
