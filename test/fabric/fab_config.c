/*
 * Parsing and printing of the options. May call libc.
 */
#include "fab_config.h"
#include "fab_profile.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define FAB_CONFIG_PREFIX "VQP_FABRIC_"

enum fab_config_kind {
    FAB_CONFIG_STR,
    FAB_CONFIG_SET,
    FAB_CONFIG_COUNT,
    FAB_CONFIG_TIME,
    FAB_CONFIG_LIST_COUNT,
    FAB_CONFIG_LIST_TIME
};

typedef struct fab_config_option {
    const char           *name;
    enum fab_config_kind kind;
    size_t               offset;
    const char           *str; /* default of text, names of a set */
    uint64_t             def;  /* of a set, the index of the name */
    uint64_t             min;
    uint64_t             max;
    const char           *help;
} fab_config_option_t;

#define FAB_CONFIG_STR_OPTION(_field, _name, _default, _help) \
    {#_name, FAB_CONFIG_STR, offsetof(fab_config_t, _field), _default, 0, 0, 0, \
     _help},
#define FAB_CONFIG_SET_OPTION(_field, _name, _names, _default, _help) \
    {#_name, FAB_CONFIG_SET, offsetof(fab_config_t, _field), _names, _default, \
     0, 0, _help},
#define FAB_CONFIG_NUM_OPTION(_field, _name, _kind, _min, _max, _default, _help) \
    {#_name, FAB_CONFIG_##_kind, offsetof(fab_config_t, _field), NULL, _default, \
     _min, _max, _help},
#define FAB_CONFIG_LST_OPTION(_field, _name, _kind, _max, _default, _help) \
    {#_name, FAB_CONFIG_LIST_##_kind, offsetof(fab_config_t, _field), _default, \
     0, 0, _max, _help},

static const fab_config_option_t fab_config_options[] = {
    FAB_CONFIG_TABLE(FAB_CONFIG_STR_OPTION, FAB_CONFIG_SET_OPTION,
                     FAB_CONFIG_NUM_OPTION, FAB_CONFIG_LST_OPTION)
};

#define FAB_CONFIG_OPTIONS \
    (sizeof(fab_config_options) / sizeof(fab_config_options[0]))

#define FAB_CONFIG_DEFAULTS \
    (sizeof(fab_config_defaults) / sizeof(fab_config_defaults[0]))

typedef struct fab_config_default {
    enum fab_profile profile;
    const char       *name;  /* of an option */
    const char       *value;
} fab_config_default_t;

#define FAB_CONFIG_DEFAULT(_profile, _name, _value) \
    {FAB_PROFILE_##_profile, #_name, _value},

static const fab_config_default_t fab_config_defaults[] = {
    FAB_PROFILE_DEFAULTS(FAB_CONFIG_DEFAULT)
};

typedef struct fab_config_suffix {
    const char *text;
    uint64_t   factor;
} fab_config_suffix_t;

static const fab_config_suffix_t fab_config_count_suffixes[] = {
    {"", 1}, {"k", 1 << 10}, {"m", 1 << 20}, {"g", 1 << 30}, {NULL, 0}
};

static const fab_config_suffix_t fab_config_time_suffixes[] = {
    {"", 1},          {"ns", 1},         {"us", 1000},
    {"ms", 1000000},  {"s", 1000000000}, {NULL, 0}
};

fab_config_t fab_config;
static pthread_once_t fab_config_once = PTHREAD_ONCE_INIT;

void fab_log(const char *fmt, ...)
{
    char line[512];
    va_list ap;
    int len, n;

    va_start(ap, fmt);
    len = snprintf(line, sizeof(line), "fabric: ");
    n   = vsnprintf(line + len, sizeof(line) - len - 1, fmt, ap);
    va_end(ap);

    /* One write: lines of several processes do not mix */
    len += (n < (int)sizeof(line) - len - 1) ? n : (int)sizeof(line) - len - 2;
    line[len++] = '\n';
    if (write(STDERR_FILENO, line, len) != len) {
        return; /* not read */
    }
}

/* The n-th of names that are separated by |; length 0: there is none */
static const char *fab_config_set_name(const char *names, unsigned n,
                                       size_t *length)
{
    for (; n > 0; --n) {
        names += strcspn(names, "|");
        if (*names == '\0') {
            *length = 0;
            return names;
        }
        ++names;
    }

    *length = strcspn(names, "|");
    return names;
}

static int fab_config_parse_set(const fab_config_option_t *option,
                                const char *value, unsigned *result)
{
    const char *name;
    size_t length;
    unsigned i;

    for (i = 0;; ++i) {
        name = fab_config_set_name(option->str, i, &length);
        if (length == 0) {
            return -1;
        }

        if ((strlen(value) == length) && !strncasecmp(name, value, length)) {
            *result = i;
            return 0;
        }
    }
}

static int fab_config_parse_num(const fab_config_option_t *option,
                                const char *value, uint64_t *result)
{
    const fab_config_suffix_t *suffix;
    uint64_t n;
    char *end;

    if ((*value < '0') || (*value > '9')) {
        return -1; /* strtoull takes a sign */
    }

    errno = 0;
    n     = strtoull(value, &end, 0);
    if (errno != 0) {
        return -1;
    }

    suffix = ((option->kind == FAB_CONFIG_TIME) ||
              (option->kind == FAB_CONFIG_LIST_TIME)) ?
                     fab_config_time_suffixes : fab_config_count_suffixes;
    while ((suffix->text != NULL) && strcasecmp(suffix->text, end)) {
        ++suffix;
    }

    if ((suffix->text == NULL) || (n > UINT64_MAX / suffix->factor)) {
        return -1;
    }

    n *= suffix->factor;
    if ((n < option->min) || (n > option->max)) {
        return -1;
    }

    *result = n;
    return 0;
}

/* A number, or LOW-HIGH */
static int fab_config_parse_span(const fab_config_option_t *option, char *word,
                                 struct fab_config_span *span)
{
    char *dash = strchr(word, '-');

    if (dash != NULL) {
        *dash = '\0';
    }
    if ((fab_config_parse_num(option, word, &span->low) != 0) ||
        (fab_config_parse_num(option, (dash == NULL) ? word : (dash + 1),
                              &span->high) != 0)) {
        return -1;
    }
    return (span->low <= span->high) ? 0 : -1;
}

static int fab_config_parse_list(const fab_config_option_t *option,
                                 const char *value,
                                 struct fab_config_list *list)
{
    char word[64];
    size_t length;

    list->text = value;
    for (list->count = 0; list->count < FAB_CONFIG_MAX_LIST;) {
        length = strcspn(value, ",");
        if (length >= sizeof(word)) {
            return -1;
        }

        memcpy(word, value, length);
        word[length] = '\0';
        if (fab_config_parse_span(option, word,
                                  &list->spans[list->count++]) != 0) {
            return -1;
        }

        value += length;
        if (*value++ == '\0') {
            return 0;
        }
    }
    return -1;
}

/* Of the environment, or the profile's; NULL: the default of the table */
static const char *fab_config_value(const fab_config_t *config,
                                    const fab_config_option_t *option)
{
    const fab_config_default_t *each;
    const char *value;
    char name[64];
    size_t i;

    snprintf(name, sizeof(name), FAB_CONFIG_PREFIX "%s", option->name);
    value = getenv(name);
    for (i = 0; (value == NULL) && (i < FAB_CONFIG_DEFAULTS); ++i) {
        each = &fab_config_defaults[i];
        if ((each->profile == config->profile) &&
            !strcmp(each->name, option->name)) {
            value = each->value;
        }
    }
    return value;
}

/* What the option may be, for a message or the help */
static void fab_config_range(const fab_config_option_t *option, char *buf,
                             size_t size)
{
    switch (option->kind) {
    case FAB_CONFIG_STR:
        snprintf(buf, size, "text");
        break;
    case FAB_CONFIG_SET:
        snprintf(buf, size, "%s", option->str);
        break;
    case FAB_CONFIG_COUNT:
    case FAB_CONFIG_TIME:
        snprintf(buf, size, "%" PRIu64 " to %" PRIu64 "%s", option->min,
                 option->max, (option->kind == FAB_CONFIG_TIME) ? " ns" : "");
        break;
    case FAB_CONFIG_LIST_COUNT:
    case FAB_CONFIG_LIST_TIME:
        snprintf(buf, size, "0 to %" PRIu64 "%s, LOW-HIGH, or a list of these",
                 option->max,
                 (option->kind == FAB_CONFIG_LIST_TIME) ? " ns" : "");
        break;
    }
}

static int fab_config_set(fab_config_t *config,
                          const fab_config_option_t *option, char *error,
                          size_t error_size)
{
    void *field       = (char*)config + option->offset;
    const char *value = fab_config_value(config, option);
    char range[128];
    int ret = 0;

    switch (option->kind) {
    case FAB_CONFIG_STR:
        *(const char**)field = (value != NULL) ? value : option->str;
        break;
    case FAB_CONFIG_SET:
        *(unsigned*)field = (unsigned)option->def;
        if (value != NULL) {
            ret = fab_config_parse_set(option, value, field);
        }
        break;
    case FAB_CONFIG_COUNT:
    case FAB_CONFIG_TIME:
        *(uint64_t*)field = option->def;
        if (value != NULL) {
            ret = fab_config_parse_num(option, value, field);
        }
        break;
    case FAB_CONFIG_LIST_COUNT:
    case FAB_CONFIG_LIST_TIME:
        ret = fab_config_parse_list(option,
                                    (value != NULL) ? value : option->str,
                                    field);
        break;
    }

    if (ret != 0) {
        fab_config_range(option, range, sizeof(range));
        snprintf(error, error_size, FAB_CONFIG_PREFIX "%s=%s: must be %s",
                 option->name, value, range);
    }
    return ret;
}

/* A misspelt option would be an option that has no effect */
static int fab_config_check_names(char *error, size_t error_size)
{
    const size_t prefix_len = strlen(FAB_CONFIG_PREFIX);
    const char *name;
    size_t i, length;
    char **env;

    for (env = environ; (env != NULL) && (*env != NULL); ++env) {
        if (strncmp(*env, FAB_CONFIG_PREFIX, prefix_len)) {
            continue;
        }

        name   = *env + prefix_len;
        length = strcspn(name, "=");
        for (i = 0; i < FAB_CONFIG_OPTIONS; ++i) {
            if ((strlen(fab_config_options[i].name) == length) &&
                !strncmp(fab_config_options[i].name, name, length)) {
                break;
            }
        }

        if (i == FAB_CONFIG_OPTIONS) {
            snprintf(error, error_size, "there is no option %.*s",
                     (int)(prefix_len + length), *env);
            return -1;
        }
    }

    return 0;
}

static int fab_config_check(const fab_config_t *config, char *error,
                            size_t error_size)
{
    if ((config->mtu & (config->mtu - 1)) != 0) {
        snprintf(error, error_size,
                 FAB_CONFIG_PREFIX "MTU=%" PRIu64 ": must be a power of two",
                 config->mtu);
        return -1;
    }

    if ((config->lag != FAB_LAG_OFF) && (config->links < 2)) {
        snprintf(error, error_size, FAB_CONFIG_PREFIX "LINKS=%" PRIu64 ": LAG "
                 "needs two links at least", config->links);
        return -1;
    }

    switch (config->width) {
    case 1:
    case 2:
    case 4:
    case 8:
    case 12:
        return 0;
    }

    snprintf(error, error_size,
             FAB_CONFIG_PREFIX "WIDTH=%" PRIu64 ": must be 1, 2, 4, 8 or 12",
             config->width);
    return -1;
}

int fab_config_parse(fab_config_t *config, char *error, size_t error_size)
{
    size_t i;

    memset(config, 0, sizeof(*config));
    /* The profile comes first: the other defaults depend on it */
    for (i = 0; i < FAB_CONFIG_OPTIONS; ++i) {
        if (fab_config_set(config, &fab_config_options[i], error,
                           error_size) != 0) {
            return -1;
        }
    }

    if (fab_config_check_names(error, error_size) != 0) {
        return -1;
    }

    return fab_config_check(config, error, error_size);
}

static void fab_config_read(void)
{
    char error[256];

    if (fab_config_parse(&fab_config, error, sizeof(error)) != 0) {
        fab_log("%s", error);
        _exit(2);
    }
}

void fab_config_init(void)
{
    pthread_once(&fab_config_once, fab_config_read);
}

static void fab_config_print_value(FILE *out, const fab_config_option_t *option,
                                   const void *field)
{
    const char *name;
    size_t length;

    switch (option->kind) {
    case FAB_CONFIG_STR:
        fprintf(out, "%s", *(const char* const*)field);
        break;
    case FAB_CONFIG_SET:
        name = fab_config_set_name(option->str, *(const unsigned*)field,
                                   &length);
        fprintf(out, "%.*s", (int)length, name);
        break;
    case FAB_CONFIG_COUNT:
        fprintf(out, "%" PRIu64, *(const uint64_t*)field);
        break;
    case FAB_CONFIG_TIME:
        fprintf(out, "%" PRIu64 "ns", *(const uint64_t*)field);
        break;
    case FAB_CONFIG_LIST_COUNT:
    case FAB_CONFIG_LIST_TIME:
        fprintf(out, "%s", ((const struct fab_config_list*)field)->text);
        break;
    }
}

int fab_config_text(const char *name, char *value, size_t size)
{
    const fab_config_option_t *option;
    FILE *out;
    size_t i;

    for (i = 0; i < FAB_CONFIG_OPTIONS; ++i) {
        option = &fab_config_options[i];
        if (strcmp(option->name, name)) {
            continue;
        }

        out = fmemopen(value, size, "w");
        if (out == NULL) {
            return ENOENT;
        }
        fab_config_print_value(out, option,
                               (const char*)&fab_config + option->offset);
        fclose(out);
        return 0;
    }

    return ENOENT;
}

/* Help, in lines that begin with a # and have at most 78 characters */
static void fab_config_print_help(FILE *out, const char *help)
{
    size_t length;

    while (*help != '\0') {
        length = strlen(help);
        if (length > 76) {
            for (length = 76; help[length] != ' '; --length) {
            }
        }

        fprintf(out, "# %.*s\n", (int)length, help);
        help += length;
        help += strspn(help, " ");
    }
}

void fab_config_print(FILE *out)
{
    const fab_config_option_t *option;
    char range[128];
    size_t i;

    fab_config_init();
    for (i = 0; i < FAB_CONFIG_OPTIONS; ++i) {
        option = &fab_config_options[i];
        fab_config_range(option, range, sizeof(range));
        fab_config_print_help(out, option->help);
        fprintf(out, "# (%s)\n" FAB_CONFIG_PREFIX "%s=", range, option->name);
        fab_config_print_value(out, option,
                               (const char*)&fab_config + option->offset);
        fprintf(out, "\n\n");
    }
}

uint64_t fab_config_link_mbps(const fab_config_t *config)
{
    /* Data rate of a lane, as UCX and the specification count it */
    static const uint64_t lane_mbps[] = {
        [FAB_SPEED_SDR] = 2000,  [FAB_SPEED_DDR] = 4000,
        [FAB_SPEED_QDR] = 8000,  [FAB_SPEED_FDR] = 13640,
        [FAB_SPEED_EDR] = 25000, [FAB_SPEED_HDR] = 50000,
        [FAB_SPEED_NDR] = 100000
    };

    return lane_mbps[config->speed] * config->width;
}
