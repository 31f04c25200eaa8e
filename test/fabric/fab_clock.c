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

typedef int (*fab_clock_func_t)(clockid_t, struct timespec *);

static uint64_t         fab_clock_now;
static fab_clock_func_t fab_clock_next;

static fab_clock_func_t fab_clock_real(void)
{
    fab_clock_func_t func = __atomic_load_n(&fab_clock_next, __ATOMIC_RELAXED);

    if (func == NULL) {
        func = (fab_clock_func_t)dlsym(RTLD_NEXT, "clock_gettime");
        if (func == NULL) {
            abort();
        }
        __atomic_store_n(&fab_clock_next, func, __ATOMIC_RELAXED);
    }

    return func;
}

/* A sanitizer may ask for the time while it is in no state for dlsym() */
__attribute__((constructor)) static void fab_clock_find(void)
{
    (void)fab_clock_real();
}

/* Begins with the machine's: 0 would mean that nothing is due */
static uint64_t fab_clock_virtual(void)
{
    uint64_t now = __atomic_load_n(&fab_clock_now, __ATOMIC_RELAXED);
    uint64_t none = 0;
    struct timespec ts;

    if (__builtin_expect(now != 0, 1)) {
        return now;
    }

    fab_clock_real()(CLOCK_MONOTONIC, &ts);
    now = ((uint64_t)ts.tv_sec * 1000000000ULL) + (uint64_t)ts.tv_nsec;
    return __atomic_compare_exchange_n(&fab_clock_now, &none, now, 0,
                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED) ?
                   now : none;
}

uint64_t fab_now(void)
{
    struct timespec ts;

    if (fab_config.clock == FAB_CLOCK_VIRTUAL) {
        return fab_clock_virtual();
    }

    fab_clock_real()(CLOCK_MONOTONIC, &ts);
    return ((uint64_t)ts.tv_sec * 1000000000ULL) + (uint64_t)ts.tv_nsec;
}

void fab_clock_step(void)
{
    (void)fab_clock_virtual();
    __atomic_fetch_add(&fab_clock_now, fab_config.step, __ATOMIC_RELAXED);
}

void fab_clock_skip(uint64_t due)
{
    uint64_t now = fab_clock_virtual();

    while ((now < due) &&
           !__atomic_compare_exchange_n(&fab_clock_now, &now, due, 0,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

/* The state of a thread is behind its name, which is in parentheses */
static bool fab_clock_is_asleep(const char *tid)
{
    char name[64], text[256];
    const char *state;
    ssize_t len;
    int fd;

    snprintf(name, sizeof(name), "/proc/self/task/%.16s/stat", tid);
    fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return true; /* it has ended */
    }

    len = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[(len < 0) ? 0 : len] = '\0';
    state = strrchr(text, ')');
    return (state == NULL) || (state[1] == '\0') || (strchr("SZX", state[2]) != NULL);
}

bool fab_clock_is_idle(void)
{
    long self         = syscall(SYS_gettid);
    bool idle         = true;
    DIR *dir          = opendir("/proc/self/task");
    struct dirent *entry;

    if (dir == NULL) {
        return true;
    }

    while (idle && ((entry = readdir(dir)) != NULL)) {
        if ((entry->d_name[0] != '.') && (atol(entry->d_name) != self)) {
            idle = fab_clock_is_asleep(entry->d_name);
        }
    }
    closedir(dir);
    return idle;
}

/* libc's, as the program sees it */
int clock_gettime(clockid_t id, struct timespec *ts)
{
    uint64_t now;

    if ((id != CLOCK_MONOTONIC) || (fab_config.clock != FAB_CLOCK_VIRTUAL)) {
        return fab_clock_real()(id, ts);
    }

    now         = fab_clock_virtual();
    ts->tv_sec  = (time_t)(now / 1000000000ULL);
    ts->tv_nsec = (long)(now % 1000000000ULL);
    return 0;
}
