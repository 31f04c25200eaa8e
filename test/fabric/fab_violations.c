/*
 * Reports of API violations: the line, the count of each rule, the level's
 * action. May call libc.
 */
#include "fab_violations.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum fab_violations_level fab_violations_level = FAB_VIOLATIONS_OFF;

#define VIOLATIONS_NAME(_upper, _lower, _text) #_lower,
static const char *const violations_names[] = {
    FAB_RULES(VIOLATIONS_NAME)
};

#define VIOLATIONS_TEXT(_upper, _lower, _text) _text,
static const char *const violations_texts[] = {
    FAB_RULES(VIOLATIONS_TEXT)
};

static struct {
    uint64_t        counts[FAB_NUM_RULES]; /* atomic */
    pthread_mutex_t lock;                  /* of the line below */
    char            last[400];
} violations = {.lock = PTHREAD_MUTEX_INITIALIZER};

int fab_violations_set(const char *level)
{
    static const char *const levels[] = {"off", "warn", "fail", "abort"};
    unsigned i;

    for (i = 0; i <= FAB_VIOLATIONS_ABORT; ++i) {
        if (!strcmp(level, levels[i])) {
            fab_violations_level = (enum fab_violations_level)i;
            return 0;
        }
    }

    return EINVAL;
}

void fab_violations_report(enum fab_rule rule, const char *device,
                           const char *object, uint32_t number,
                           const char *format, ...)
{
    char detail[200], line[sizeof(violations.last)];
    uint64_t count;
    va_list ap;

    if (!fab_violations_on()) {
        return;
    }

    va_start(ap, format);
    vsnprintf(detail, sizeof(detail), format, ap);
    va_end(ap);
    snprintf(line, sizeof(line), "violations: %s %s 0x%x: %s: %s: %s", device,
             object, number, violations_names[rule], violations_texts[rule],
             detail);

    count = __atomic_add_fetch(&violations.counts[rule], 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&violations.lock);
    memcpy(violations.last, line, sizeof(line));
    pthread_mutex_unlock(&violations.lock);
    if (count <= fab_config.violation_lines) {
        fab_log("%s", line);
    }

    if (fab_violations_level == FAB_VIOLATIONS_ABORT) {
        abort();
    }
}

uint64_t fab_violations_count(const char *rule)
{
    uint64_t count = 0;
    unsigned i;

    for (i = 0; i < FAB_NUM_RULES; ++i) {
        if ((rule == NULL) || !strcmp(rule, violations_names[i])) {
            count += __atomic_load_n(&violations.counts[i], __ATOMIC_RELAXED);
        }
    }

    return count;
}

void fab_violations_reset(void)
{
    unsigned i;

    for (i = 0; i < FAB_NUM_RULES; ++i) {
        __atomic_store_n(&violations.counts[i], 0, __ATOMIC_RELAXED);
    }

    pthread_mutex_lock(&violations.lock);
    violations.last[0] = '\0';
    pthread_mutex_unlock(&violations.lock);
}

void fab_violations_last(char *text, size_t size)
{
    pthread_mutex_lock(&violations.lock);
    snprintf(text, size, "%s", violations.last);
    pthread_mutex_unlock(&violations.lock);
}

/* At the end of the process, after the program's own exit handlers */
__attribute__((destructor)) static void violations_sum(void)
{
    uint64_t count = fab_violations_count(NULL);

    if (count == 0) {
        return;
    }

    fab_log("violations: %llu in total", (unsigned long long)count);
    if (fab_violations_level == FAB_VIOLATIONS_FAIL) {
        fflush(NULL);
        _exit(FAB_VIOLATIONS_EXIT_STATUS);
    }
}
