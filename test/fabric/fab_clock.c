/* Time, see fab_clock.h. */
#include "fab_clock.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define FAB_CLOCK_POLLS 4096        /* of one thread, until it lets others run */
#define FAB_CLOCK_PAUSE 50000       /* ns of the machine's time */
#define FAB_CLOCK_LIMIT 1000000000u /* ns of it that a thread waits for others */
#define FAB_CLOCK_SHARE 2           /* ticks of CPU, each 10 ms, that others need at most */

typedef int (*fab_clock_func_t)(clockid_t, struct timespec *);

static uint64_t         fab_clock_now;
static unsigned        *fab_clock_poller; /* whose poll was the last one */
static unsigned         fab_clock_yields; /* threads that let others run */
static fab_clock_func_t fab_clock_next;

/* libc's. Until it is found the kernel is asked: a sanitizer may want the time before the
 * constructors run, and while it is in no state for dlsym(), which frees memory. */
static int fab_clock_real(clockid_t id, struct timespec *ts)
{
    fab_clock_func_t func = __atomic_load_n(&fab_clock_next, __ATOMIC_RELAXED);

    return (func != NULL) ? func(id, ts) : (int)syscall(SYS_clock_gettime, id, ts);
}

__attribute__((constructor)) static void fab_clock_find(void)
{
    __atomic_store_n(&fab_clock_next,
                     (fab_clock_func_t)dlsym(RTLD_NEXT, "clock_gettime"),
                     __ATOMIC_RELAXED);
}

static uint64_t fab_clock_machine(void)
{
    struct timespec ts;

    fab_clock_real(CLOCK_MONOTONIC, &ts);
    return ((uint64_t)ts.tv_sec * 1000000000ULL) + (uint64_t)ts.tv_nsec;
}

/* Begins with the machine's: 0 would mean that nothing is due */
static uint64_t fab_clock_virtual(void)
{
    uint64_t now = __atomic_load_n(&fab_clock_now, __ATOMIC_RELAXED);
    uint64_t none = 0;

    if (__builtin_expect(now != 0, 1)) {
        return now;
    }

    now = fab_clock_machine();
    return __atomic_compare_exchange_n(&fab_clock_now, &none, now, 0,
                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED) ?
                   now : none;
}

uint64_t fab_now(void)
{
    return (fab_config.clock == FAB_CLOCK_VIRTUAL) ? fab_clock_virtual() :
                                                     fab_clock_machine();
}

void fab_clock_skip(uint64_t due)
{
    uint64_t now = fab_clock_virtual();

    while ((now < due) &&
           !__atomic_compare_exchange_n(&fab_clock_now, &now, due, 0,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

/* What a thread does is behind its name, which is in parentheses.
 * @return Whether it is awake. Adds the CPU that it has had to *ticks. */
static bool fab_clock_is_awake(const char *tid, unsigned long *ticks)
{
    unsigned long user = 0, kernel = 0;
    char name[64], text[512], state = 'X';
    const char *rest;
    ssize_t len;
    int fd;

    snprintf(name, sizeof(name), "/proc/self/task/%.16s/stat", tid);
    fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false; /* it has ended */
    }

    len = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[(len < 0) ? 0 : len] = '\0';
    rest = strrchr(text, ')');
    if (rest != NULL) {
        (void)sscanf(rest + 1, " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %lu %lu",
                     &state, &user, &kernel);
    }

    *ticks += user + kernel;
    return strchr("SZX", state) == NULL;
}

/* @return How many other threads of the process are awake. A thread that wants to run and
 *         that the machine does not run is. *ticks: the CPU that all of them have had. */
static unsigned fab_clock_awake(unsigned long *ticks)
{
    long self = syscall(SYS_gettid);
    DIR *dir  = opendir("/proc/self/task");
    unsigned awake = 0;
    struct dirent *entry;

    *ticks = 0;
    if (dir == NULL) {
        return 0;
    }

    while ((entry = readdir(dir)) != NULL) {
        if ((entry->d_name[0] != '.') && (atol(entry->d_name) != self)) {
            awake += fab_clock_is_awake(entry->d_name, ticks);
        }
    }
    closedir(dir);
    return awake;
}

bool fab_clock_is_idle(void)
{
    unsigned long ticks;

    return (fab_clock_awake(&ticks) == 0) &&
           (__atomic_load_n(&fab_clock_yields, __ATOMIC_SEQ_CST) == 0);
}

/* Wait until the other threads sleep. One that has had its share of the CPU and is still
 * awake is not waited for, until it was seen asleep: it may wait for this thread. */
static void fab_clock_yield(void)
{
    const struct timespec pause = {.tv_nsec = FAB_CLOCK_PAUSE};
    static __thread bool is_in_vain;
    uint64_t end = fab_clock_machine() + FAB_CLOCK_LIMIT;
    unsigned long before, ticks;

    if (fab_clock_awake(&before) == 0) {
        is_in_vain = false;
        return;
    }

    while (!is_in_vain) {
        nanosleep(&pause, NULL);
        if (fab_clock_awake(&ticks) == 0) {
            return;
        }
        is_in_vain = (ticks > before + FAB_CLOCK_SHARE) || (fab_clock_machine() > end);
    }
}

void fab_clock_step(void)
{
    (void)fab_clock_virtual();
    __atomic_fetch_add(&fab_clock_now, fab_config.step, __ATOMIC_SEQ_CST);
}

void fab_clock_step_of_poll(void)
{
    static __thread unsigned polls; /* in a row, without one of another thread */

    if (__atomic_load_n(&fab_clock_poller, __ATOMIC_RELAXED) != &polls) {
        __atomic_store_n(&fab_clock_poller, &polls, __ATOMIC_RELAXED);
        polls = 0;
    }
    if ((++polls % FAB_CLOCK_POLLS) != 0) {
        fab_clock_step();
        return;
    }

    /* The time goes on before the number drops: an engine that sees no yield any more sees
     * the new time, and skips none */
    __atomic_fetch_add(&fab_clock_yields, 1, __ATOMIC_SEQ_CST);
    fab_clock_yield();
    fab_clock_step();
    __atomic_fetch_sub(&fab_clock_yields, 1, __ATOMIC_SEQ_CST);
}

void fab_clock_forked(void)
{
    fab_clock_yields = 0;
    fab_clock_poller = NULL;
}

/* libc's, as the program sees it */
int clock_gettime(clockid_t id, struct timespec *ts)
{
    uint64_t now;

    if ((id != CLOCK_MONOTONIC) || (fab_config.clock != FAB_CLOCK_VIRTUAL)) {
        return fab_clock_real(id, ts);
    }

    now         = fab_clock_virtual();
    ts->tv_sec  = (time_t)(now / 1000000000ULL);
    ts->tv_nsec = (long)(now % 1000000000ULL);
    return 0;
}
