/*
 * A short spin lock in memory that several processes share, and that survives
 * the death of its holder. Header only but for the slow path (fab_lock.c).
 *
 * Order in which locks are taken, each level at most once:
 * SQ of a QP -> RQ of a QP -> SRQ -> CQ consumer -> CQ producer -> channel,
 * async queue -> heap. Never two SQs, never two RQs.
 */
#ifndef FAB_LOCK_H
#define FAB_LOCK_H

#include <stdint.h>

struct fab_lock {
    uint32_t owner; /* fab_lock_self of the holder; 0: free */
};

/* This process's index in the process table + 1, and above it the generation of
 * that entry, which the next process may have; 0 before it is attached */
extern uint32_t fab_lock_self;

enum {
    FAB_LOCK_INDEX_BITS = 16
};

static inline uint32_t fab_lock_name(uint32_t proc, uint32_t generation)
{
    return (proc + 1) | (generation << FAB_LOCK_INDEX_BITS);
}

/** Wait for a lock that is held; takes it from a holder that has died. */
void fab_lock_wait(struct fab_lock *lock);

static inline int fab_lock_try(struct fab_lock *lock)
{
    uint32_t free_owner = 0;

    return __atomic_compare_exchange_n(&lock->owner, &free_owner, fab_lock_self,
                                       0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static inline void fab_lock_take(struct fab_lock *lock)
{
    if (__builtin_expect(!fab_lock_try(lock), 0)) {
        fab_lock_wait(lock);
    }
}

static inline void fab_lock_drop(struct fab_lock *lock)
{
    __atomic_store_n(&lock->owner, 0, __ATOMIC_RELEASE);
}

#endif
