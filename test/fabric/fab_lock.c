/*
 * Slow path of the locks in shared memory: waiting, and inheriting the lock of
 * a process that died with it. May call libc and fab_world.
 */
#include "fab_lock.h"

#include <sched.h>
#include <time.h>

#include "fab_world.h"

enum {
    SPINS           = 200,
    YIELDS          = 64,
    SLEEP_NS        = 20000,
    SLEEPS_PER_LOOK = 100
};

uint32_t fab_lock_self;

/* The holder is dead: its lock is ours, with whatever it left half done. All
   that it may leave so is counted: no index ever points at what is not there
   yet. */
static int fab_lock_inherit(struct fab_lock *lock)
{
    uint32_t owner = __atomic_load_n(&lock->owner, __ATOMIC_RELAXED);
    uint32_t proc  = (owner & ((1u << FAB_LOCK_INDEX_BITS) - 1)) - 1;

    if ((owner == 0) || (owner == fab_lock_self)) {
        return 0;
    }

    if ((proc < FAB_MAX_PROCS) &&
        (owner == fab_lock_name(proc, fab_world->procs[proc].generation)) &&
        fab_proc_alive(proc)) {
        return 0;
    }

    return __atomic_compare_exchange_n(&lock->owner, &owner, fab_lock_self, 0,
                                       __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

void fab_lock_wait(struct fab_lock *lock)
{
    const struct timespec nap = {0, SLEEP_NS};
    unsigned round;

    for (round = 0;; ++round) {
        if ((__atomic_load_n(&lock->owner, __ATOMIC_RELAXED) == 0) &&
            fab_lock_try(lock)) {
            return;
        }

        if (round < SPINS) {
            __builtin_ia32_pause();
        } else if (round < (SPINS + YIELDS)) {
            sched_yield();
        } else {
            nanosleep(&nap, NULL);
            if (((round % SLEEPS_PER_LOOK) == 0) && fab_lock_inherit(lock)) {
                return;
            }
        }
    }
}
