/*
 * getrandom(): random numbers of SEED instead of the kernel's. A program whose processes
 * attach in the same order draws the same numbers in each run. Processes of a world draw
 * different ones, also one that takes the entry of a dead process. May call libc.
 */
#include "fab_config.h"
#include "fab_world.h"

#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014 */
static uint64_t fab_random_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

/* The next number of this process. Threads share one sequence. */
static uint64_t fab_random_next(void)
{
    static uint64_t count;
    uint64_t first = fab_random_mix(fab_config.seed) +
                     ((uint64_t)fab_world_entry << 40);

    return fab_random_mix((first + __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED)) *
                          0x9e3779b97f4a7c15ULL);
}

ssize_t getrandom(void *buf, size_t length, unsigned flags)
{
    size_t filled = 0;
    uint64_t number;
    size_t part;

    /* a library asks before there is a world, or without one */
    if (__atomic_load_n(&fab_world_self, __ATOMIC_ACQUIRE) == FAB_MAX_PROCS) {
        return syscall(SYS_getrandom, buf, length, flags);
    }

    while (filled < length) {
        number = fab_random_next();
        part   = length - filled;
        part   = (part < sizeof(number)) ? part : sizeof(number);
        memcpy((char*)buf + filled, &number, part);
        filled += part;
    }
    return (ssize_t)length;
}
