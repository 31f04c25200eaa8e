/*
 * The reports of manners: who did what wrong, how often, and what comes of it.
 * May call libc.
 */
#include "fab_manners.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum fab_manners_level fab_manners_level = FAB_MANNERS_OFF;

#define MANNERS_NAME(_upper, _lower, _text) #_lower,
static const char *const manners_names[] = {
    FAB_RULES(MANNERS_NAME)
};

#define MANNERS_TEXT(_upper, _lower, _text) _text,
static const char *const manners_texts[] = {
    FAB_RULES(MANNERS_TEXT)
};

static struct {
    uint64_t        counts[FAB_NUM_RULES]; /* atomic */
    pthread_mutex_t lock;                  /* of the line below */
    char            last[400];
} manners = {.lock = PTHREAD_MUTEX_INITIALIZER};

int fab_manners_set(const char *level)
{
    static const char *const levels[] = {"off", "warn", "fail", "abort"};
    unsigned i;

    for (i = 0; i <= FAB_MANNERS_ABORT; ++i) {
        if (!strcmp(level, levels[i])) {
            fab_manners_level = (enum fab_manners_level)i;
            return 0;
        }
    }

    return EINVAL;
}

void fab_manners_report(enum fab_rule rule, const char *device,
                        const char *object, uint32_t number,
                        const char *format, ...)
{
    char detail[200], line[sizeof(manners.last)];
    uint64_t count;
    va_list ap;

    if (!fab_manners_on()) {
        return;
    }

    va_start(ap, format);
    vsnprintf(detail, sizeof(detail), format, ap);
    va_end(ap);
    snprintf(line, sizeof(line), "manners: %s %s 0x%x: %s: %s: %s", device,
             object, number, manners_names[rule], manners_texts[rule], detail);

    count = __atomic_add_fetch(&manners.counts[rule], 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&manners.lock);
    memcpy(manners.last, line, sizeof(line));
    pthread_mutex_unlock(&manners.lock);
    if (count <= fab_config.manners_lines) {
        fab_log("%s", line);
    }

    if (fab_manners_level == FAB_MANNERS_ABORT) {
        abort();
    }
}

uint64_t fab_manners_count(const char *rule)
{
    uint64_t count = 0;
    unsigned i;

    for (i = 0; i < FAB_NUM_RULES; ++i) {
        if ((rule == NULL) || !strcmp(rule, manners_names[i])) {
            count += __atomic_load_n(&manners.counts[i], __ATOMIC_RELAXED);
        }
    }

    return count;
}

void fab_manners_reset(void)
{
    unsigned i;

    for (i = 0; i < FAB_NUM_RULES; ++i) {
        __atomic_store_n(&manners.counts[i], 0, __ATOMIC_RELAXED);
    }

    pthread_mutex_lock(&manners.lock);
    manners.last[0] = '\0';
    pthread_mutex_unlock(&manners.lock);
}

void fab_manners_last(char *text, size_t size)
{
    pthread_mutex_lock(&manners.lock);
    snprintf(text, size, "%s", manners.last);
    pthread_mutex_unlock(&manners.lock);
}

/* At the end of the process, after the program's own exit handlers */
__attribute__((destructor)) static void manners_sum(void)
{
    uint64_t count = fab_manners_count(NULL);

    if (count == 0) {
        return;
    }

    fab_log("manners: %llu mistake%s", (unsigned long long)count,
            (count == 1) ? "" : "s");
    if (fab_manners_level == FAB_MANNERS_FAIL) {
        fflush(NULL);
        _exit(FAB_MANNERS_EXIT_STATUS);
    }
}
