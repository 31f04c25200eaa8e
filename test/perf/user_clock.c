/*
 * CLOCK_MONOTONIC without a system call, for LD_PRELOAD. Linux on hardware reads this
 * clock in user space (vDSO), in some 20 ns. User Mode Linux has no such clock: there a
 * look at the time is a system call, which takes as long as a message (bench/rxe). The
 * time stamp counter is compared with the kernel's clock once, at the start.
 */
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#ifdef __x86_64__
#include <x86intrin.h>
#endif

#define COMPARED 20000000 /* ns of the comparison */
#define LOOKS    20

typedef struct moment {
    uint64_t ticks;
    uint64_t ns;
} moment_t;

static moment_t start;
static double   ns_per_tick; /* 0: not known */

/* 0 where there is no counter that is known here */
static uint64_t read_ticks(void)
{
#ifdef __x86_64__
    return __rdtsc();
#else
    return 0;
#endif
}

static uint64_t kernel_ns(void)
{
    struct timespec ts;

    (void)syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &ts);
    return ((uint64_t)ts.tv_sec * 1000000000) + (uint64_t)ts.tv_nsec;
}

/* Both clocks at one time: of several looks the shortest, which nothing has interrupted */
static moment_t look(void)
{
    uint64_t shortest = UINT64_MAX;
    moment_t moment   = {0};
    uint64_t ns, before, after;
    int i;

    for (i = 0; i < LOOKS; ++i) {
        before = read_ticks();
        ns     = kernel_ns();
        after  = read_ticks();
        if (after - before < shortest) {
            shortest     = after - before;
            moment.ticks = before + shortest / 2;
            moment.ns    = ns;
        }
    }

    return moment;
}

/* Before the program has threads */
static void __attribute__((constructor)) compare(void)
{
    moment_t first = look();

    while (kernel_ns() - first.ns < COMPARED) {
    }

    start = look();
    if (start.ticks != first.ticks) {
        ns_per_tick = (double)(start.ns - first.ns) / (double)(start.ticks - first.ticks);
    }
}

int clock_gettime(clockid_t clock, struct timespec *ts)
{
    uint64_t now;

    if ((clock != CLOCK_MONOTONIC) || (ns_per_tick == 0)) {
        return (int)syscall(SYS_clock_gettime, clock, ts);
    }

    now = start.ns + (uint64_t)((double)(read_ticks() - start.ticks) * ns_per_tick);
    ts->tv_sec  = (time_t)(now / 1000000000);
    ts->tv_nsec = (long)(now % 1000000000);
    return 0;
}
