/*
 * Parser of the script of faults. libc and names of libibverbs only.
 */
#include "fab_script.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCRIPT_WORD 64

typedef struct script_name {
    const char *name;
    uint32_t   value;
} script_name_t;

#define SCRIPT_KIND(_upper, _lower) {#_lower, FAB_FAULT_##_upper},
static const script_name_t script_kinds[] = {
    FAB_FAULT_KINDS(SCRIPT_KIND)
    {NULL, 0}
};

#define SCRIPT_CALL(_upper, _lower) {#_lower, FAB_CALL_##_upper},
static const script_name_t script_verbs[] = {
    FAB_CALLS(SCRIPT_CALL)
    {"any", FAB_SCRIPT_ANY},
    {NULL, 0}
};

#define SCRIPT_STATUS(_name) {#_name, IBV_WC_##_name}
static const script_name_t script_statuses[] = {
    SCRIPT_STATUS(SUCCESS),
    SCRIPT_STATUS(LOC_LEN_ERR),
    SCRIPT_STATUS(LOC_QP_OP_ERR),
    SCRIPT_STATUS(LOC_EEC_OP_ERR),
    SCRIPT_STATUS(LOC_PROT_ERR),
    SCRIPT_STATUS(WR_FLUSH_ERR),
    SCRIPT_STATUS(MW_BIND_ERR),
    SCRIPT_STATUS(BAD_RESP_ERR),
    SCRIPT_STATUS(LOC_ACCESS_ERR),
    SCRIPT_STATUS(REM_INV_REQ_ERR),
    SCRIPT_STATUS(REM_ACCESS_ERR),
    SCRIPT_STATUS(REM_OP_ERR),
    SCRIPT_STATUS(RETRY_EXC_ERR),
    SCRIPT_STATUS(RNR_RETRY_EXC_ERR),
    SCRIPT_STATUS(REM_ABORT_ERR),
    SCRIPT_STATUS(FATAL_ERR),
    SCRIPT_STATUS(RESP_TIMEOUT_ERR),
    SCRIPT_STATUS(GENERAL_ERR),
    {NULL, 0}
};

#define SCRIPT_OPCODE(_name) {#_name, IBV_WR_##_name}
static const script_name_t script_opcodes[] = {
    SCRIPT_OPCODE(RDMA_WRITE),
    SCRIPT_OPCODE(RDMA_WRITE_WITH_IMM),
    SCRIPT_OPCODE(SEND),
    SCRIPT_OPCODE(SEND_WITH_IMM),
    SCRIPT_OPCODE(RDMA_READ),
    SCRIPT_OPCODE(ATOMIC_CMP_AND_SWP),
    SCRIPT_OPCODE(ATOMIC_FETCH_AND_ADD),
    {NULL, 0}
};

static const script_name_t script_dirs[] = {
    {"any", FAB_FAULT_DIR_ANY},
    {"send", FAB_FAULT_DIR_SEND},
    {"recv", FAB_FAULT_DIR_RECV},
    {NULL, 0}
};

#define SCRIPT_ERRNO(_name) {#_name, _name}
static const script_name_t script_errnos[] = {
    SCRIPT_ERRNO(EAGAIN),
    SCRIPT_ERRNO(EBUSY),
    SCRIPT_ERRNO(EFAULT),
    SCRIPT_ERRNO(EINVAL),
    SCRIPT_ERRNO(EIO),
    SCRIPT_ERRNO(EMFILE),
    SCRIPT_ERRNO(ENODEV),
    SCRIPT_ERRNO(ENOENT),
    SCRIPT_ERRNO(ENOMEM),
    SCRIPT_ERRNO(ENOSPC),
    SCRIPT_ERRNO(EOPNOTSUPP),
    SCRIPT_ERRNO(EPERM),
    SCRIPT_ERRNO(ETIMEDOUT),
    {NULL, 0}
};

static const script_name_t script_units[] = {
    {"ns", 1},
    {"us", 1000},
    {"ms", 1000000},
    {"s", 1000000000},
    {NULL, 0}
};

/* What is being read; its first error stands */
typedef struct script_reader {
    const char *pos;
    char       *error;
    size_t     size;
    bool       now; /* only what is done at once */
} script_reader_t;

static bool script_fail(const script_reader_t *reader, const char *what,
                        const char *word)
{
    if (reader->error != NULL) {
        snprintf(reader->error, reader->size, "%s: '%s'", what, word);
    }

    return false;
}

static bool script_lookup(const script_name_t *names, const char *word,
                          uint32_t *value)
{
    for (; names->name != NULL; ++names) {
        if (!strcmp(names->name, word)) {
            *value = names->value;
            return true;
        }
    }

    return false;
}

static bool script_number(const char *word, uint64_t *value)
{
    char *end;

    errno  = 0;
    *value = strtoull(word, &end, 0);
    return isdigit((unsigned char)*word) && (*end == '\0') && (errno == 0);
}

static bool script_number32(const char *word, uint32_t *value)
{
    uint64_t number;

    if (!script_number(word, &number) || (number >= FAB_SCRIPT_ANY)) {
        return false;
    }

    *value = (uint32_t)number;
    return true;
}

static bool script_chance(const char *word, double *value)
{
    char *end;

    *value = strtod(word, &end);
    return (end != word) && (*end == '\0') && (*value > 0) && (*value <= 1);
}

static bool script_time(const char *word, uint64_t *value)
{
    uint32_t unit;
    double number;
    char *end;

    number = strtod(word, &end);
    if ((end == word) || !(number >= 0) || (number > 1e9) ||
        !script_lookup(script_units, end, &unit)) {
        return false;
    }

    *value = (uint64_t)(number * unit);
    return true;
}

bool fab_fault_is_change(fab_fault_kind_t kind)
{
    return (kind == FAB_FAULT_RATE) || (kind == FAB_FAULT_DELAY);
}

static bool script_is_timed(const fab_fault_rule_t *rule)
{
    return (rule->kind == FAB_FAULT_QP) || (rule->kind == FAB_FAULT_PORT) ||
           (rule->kind == FAB_FAULT_GIDS) || (rule->kind == FAB_FAULT_DARK) ||
           fab_fault_is_change(rule->kind);
}

static bool script_count(const char *word, uint64_t *value)
{
    if (!strcmp(word, "all")) {
        *value = FAB_SCRIPT_ALL;
        return true;
    }

    return script_number(word, value) && (*value > 0);
}

static bool script_errno(const char *word, int *value)
{
    uint32_t number;

    if (!script_lookup(script_errnos, word, &number) &&
        (!script_number32(word, &number) || (number == 0) ||
         (number > 4095))) {
        return false;
    }

    *value = (int)number;
    return true;
}

/* fab0, fab1 ... */
static bool script_device(const char *word, uint32_t *index)
{
    return !strncmp(word, "fab", 3) && script_number32(word + 3, index);
}

/* N, or N/M: those that are N modulo M */
static bool script_path(const char *word, fab_fault_rule_t *rule)
{
    char number[SCRIPT_WORD + 1];
    const char *slash = strchr(word, '/');

    snprintf(number, sizeof(number), "%.*s",
             (slash == NULL) ? SCRIPT_WORD : (int)(slash - word), word);
    rule->modulo = 0;
    return script_number32(number, &rule->path) &&
           ((slash == NULL) || (script_number32(slash + 1, &rule->modulo) &&
                                (rule->modulo > rule->path)));
}

/* Which kinds know a key, as a set of bits */
#define K(_kind)  (1u << FAB_FAULT_##_kind)
#define K_WR      (K(WR) | K(UNACKED) | K(RNR) | K(LOSE) | K(KILL))
#define K_CQE     (K(WITHHOLD) | K(DUPLICATE) | K(GARBAGE))
#define K_COUNTED (K(CALL) | K(RESOLVE) | K(CHAIN) | K(LINGER) | K_WR | K_CQE)
#define K_CHANGE  (K(RATE) | K(DELAY))
#define K_TIMED   (K(QP) | K(PORT) | K(GIDS) | K(KILL) | K(DARK) | K_CHANGE)

static uint32_t script_key_kinds(const char *key)
{
    static const script_name_t kinds[] = {
        {"verb", K(CALL)},
        {"errno", K(CALL) | K(RESOLVE) | K(CHAIN)},
        {"stall", K(RESOLVE)},
        {"after", K(CHAIN)},
        {"more", K(UNACKED)},
        {"part", K(WR) | K(KILL)},
        {"over", K(DARK)},
        {"xor", K(DUPLICATE)},
        {"as", K(DUPLICATE)},
        {"status", K(WR) | K(UNACKED) | K_CQE},
        {"op", K_WR},
        {"dir", K_CQE},
        {"dev", K(RESOLVE) | K(CHAIN) | K(LINGER) | K_WR | K_CQE | K_TIMED},
        {"qpn", K(CHAIN) | K(LINGER) | K_WR | K_CQE | K(QP) | K(DARK) | K_CHANGE},
        {"port", K(PORT) | K(GIDS) | K_CHANGE},
        {"path", K(QP) | K(DARK) | K_CHANGE},
        {"link", K(DARK)},
        {"to", K(GIDS) | K_CHANGE},
        {"at", K_TIMED},
        {"for", K(LINGER) | K(PORT) | K(GIDS) | K(DARK) | K_CHANGE},
        {"nth", K_COUNTED},
        {"count", K_COUNTED},
        {"p", K_COUNTED},
        {"every", K_COUNTED | K_TIMED},
        {"proc", K(KILL)},
        {"role", K(KILL)},
        {"value", K(SEED)},
        {NULL, 0}
    };
    uint32_t value;

    return script_lookup(kinds, key, &value) ? value : 0;
}

static bool script_is_amount(const char *key)
{
    return !strcmp(key, "after") || !strcmp(key, "more") ||
           !strcmp(key, "part") || !strcmp(key, "over");
}

/* Of WRs or packets: 0 or more, or "all" */
static bool script_amount(const char *word, uint64_t *value)
{
    return (script_count(word, value) || script_number(word, value)) &&
           ((*value <= UINT32_MAX) || (*value == FAB_SCRIPT_ALL));
}

static bool script_set(fab_fault_rule_t *rule, const char *key,
                       const char *word)
{
    uint32_t number;

    if (script_is_amount(key)) {
        return script_amount(word, &rule->amount);
    } else if (!strcmp(key, "xor")) {
        return script_number(word, &rule->bits) && (rule->bits > 0);
    } else if (!strcmp(key, "as")) {
        return script_lookup(script_statuses, word, &rule->as);
    } else if (!strcmp(key, "verb")) {
        return script_lookup(script_verbs, word, &rule->verb);
    } else if (!strcmp(key, "errno")) {
        return script_errno(word, &rule->error);
    } else if (!strcmp(key, "status")) {
        return script_lookup(script_statuses, word, &rule->status);
    } else if (!strcmp(key, "op")) {
        return script_lookup(script_opcodes, word, &rule->opcode);
    } else if (!strcmp(key, "dir")) {
        if (!script_lookup(script_dirs, word, &number)) {
            return false;
        }
        rule->dir = (enum fab_fault_dir)number;
        return true;
    } else if (!strcmp(key, "dev")) {
        return script_device(word, &rule->dev);
    } else if (!strcmp(key, "qpn")) {
        return script_number32(word, &rule->qpn);
    } else if (!strcmp(key, "port")) {
        return script_number32(word, &rule->port) && (rule->port > 0);
    } else if (!strcmp(key, "proc")) {
        return script_number32(word, &rule->proc);
    } else if (!strcmp(key, "role")) {
        return (strlen(word) < FAB_SCRIPT_ROLE) && (*word != '\0') &&
               (strcpy(rule->role, word) != NULL);
    } else if (!strcmp(key, "path")) {
        return script_path(word, rule);
    } else if (!strcmp(key, "link")) {
        return script_number32(word, &rule->link);
    } else if (!strcmp(key, "to")) {
        return (rule->kind == FAB_FAULT_DELAY) ?
                       script_time(word, &rule->value) :
                       script_number(word, &rule->value);
    } else if (!strcmp(key, "stall")) {
        return script_time(word, &rule->stall);
    } else if (!strcmp(key, "at")) {
        return script_time(word, &rule->at);
    } else if (!strcmp(key, "for")) {
        return script_time(word, &rule->until) && (rule->until > 0);
    } else if (!strcmp(key, "nth")) {
        return script_number(word, &rule->nth) && (rule->nth > 0);
    } else if (!strcmp(key, "count")) {
        return script_count(word, &rule->count);
    } else if (!strcmp(key, "p")) {
        return script_chance(word, &rule->chance);
    } else if (!strcmp(key, "every")) {
        return (script_is_timed(rule) ? script_time(word, &rule->every) :
                                        script_number(word, &rule->every)) &&
               (rule->every > 0);
    }

    return script_number(word, &rule->value);
}

static void script_defaults(fab_fault_rule_t *rule, fab_fault_kind_t kind)
{
    memset(rule, 0, sizeof(*rule));
    rule->kind   = kind;
    rule->dev    = FAB_SCRIPT_ANY;
    rule->qpn    = FAB_SCRIPT_ANY;
    rule->port   = fab_fault_is_change(kind) ? 0 : 1;
    rule->path   = FAB_SCRIPT_ANY;
    rule->link   = FAB_SCRIPT_ANY;
    rule->proc   = FAB_SCRIPT_ANY;
    rule->value  = FAB_SCRIPT_NEVER;
    rule->verb   = FAB_SCRIPT_ANY;
    rule->opcode = FAB_SCRIPT_ANY;
    rule->status = ((kind == FAB_FAULT_WR) || (kind == FAB_FAULT_UNACKED)) ?
                           (uint32_t)IBV_WC_RETRY_EXC_ERR : FAB_SCRIPT_ANY;
    rule->as     = FAB_SCRIPT_ANY;
    rule->error  = (kind == FAB_FAULT_RESOLVE) ? ETIMEDOUT : ENOMEM;
    rule->nth    = 1;
    rule->count  = (kind == FAB_FAULT_DARK) ? FAB_SCRIPT_ALL : 1;
    rule->at     = FAB_SCRIPT_NEVER;
    rule->until  = FAB_SCRIPT_NEVER;
}

/* Step over blanks and comments within a rule */
static void script_skip(script_reader_t *reader)
{
    while ((*reader->pos == ' ') || (*reader->pos == '\t') ||
           (*reader->pos == '\r')) {
        ++reader->pos;
    }

    if (*reader->pos == '#') {
        reader->pos += strcspn(reader->pos, "\n");
    }
}

/* The next word of this rule. @return false at its end. */
static bool script_word(script_reader_t *reader, char *word)
{
    size_t length;

    script_skip(reader);
    length = strcspn(reader->pos, " \t\r\n;#");
    if (length >= SCRIPT_WORD) {
        length = SCRIPT_WORD - 1; /* no word is that long: it will not match */
    }

    memcpy(word, reader->pos, length);
    word[length] = '\0';
    reader->pos += length;
    return length > 0;
}

static bool script_pair(const script_reader_t *reader, fab_fault_rule_t *rule,
                        char *word)
{
    char *equals = strchr(word, '=');
    bool known, good;

    if (equals == NULL) {
        return script_fail(reader, "not KEY=VALUE", word);
    }

    *equals = '\0';
    known   = (script_key_kinds(word) & (1u << rule->kind)) != 0;
    good    = known && script_set(rule, word, equals + 1);
    *equals = '=';
    if (!known) {
        return script_fail(reader, "no such key for this kind of fault", word);
    }

    return good || script_fail(reader, "value not understood", word);
}

/* It needs a value, and a port has neither a number nor a QP */
static bool script_change(const script_reader_t *reader,
                          const fab_fault_rule_t *rule)
{
    if (rule->value == FAB_SCRIPT_NEVER) {
        return script_fail(reader, "needs a value: to=",
                           fab_fault_kind_name(rule->kind));
    }
    if (fab_fault_is_change(rule->kind) && (rule->port != 0) &&
        ((rule->path != FAB_SCRIPT_ANY) || (rule->qpn != FAB_SCRIPT_ANY))) {
        return script_fail(reader, "of a port or of a path",
                           fab_fault_kind_name(rule->kind));
    }

    return true;
}

/* One rule that is not empty; its first word has been read */
static bool script_rule(script_reader_t *reader, fab_fault_rule_t *rule,
                        char *word)
{
    uint32_t kind;

    if (!script_lookup(script_kinds, word, &kind)) {
        return script_fail(reader, "no such kind of fault", word);
    }

    script_defaults(rule, (fab_fault_kind_t)kind);
    while (script_word(reader, word)) {
        if (!script_pair(reader, rule, word)) {
            return false;
        }
    }

    if (reader->now &&
        (!script_is_timed(rule) || (rule->kind == FAB_FAULT_DARK))) {
        return script_fail(reader, "not to be done at once",
                           fab_fault_kind_name(rule->kind));
    }
    if (script_is_timed(rule) && !reader->now &&
        (rule->at == FAB_SCRIPT_NEVER)) {
        return script_fail(reader, "needs a time: at=",
                           fab_fault_kind_name(rule->kind));
    }
    if ((rule->kind == FAB_FAULT_LINGER) && (rule->until == FAB_SCRIPT_NEVER)) {
        return script_fail(reader, "needs a time: for=", fab_fault_kind_name(rule->kind));
    }
    if (fab_fault_is_change(rule->kind) || (rule->kind == FAB_FAULT_GIDS)) {
        return script_change(reader, rule);
    }

    return true;
}

static int script_parse(script_reader_t *reader, fab_fault_rule_t *rules)
{
    char word[SCRIPT_WORD];
    int count = 0;

    for (;;) {
        if (script_word(reader, word)) {
            if (count == FAB_SCRIPT_MAX_RULES) {
                script_fail(reader, "too many rules", word);
                return -1;
            }
            if (!script_rule(reader, &rules[count], word)) {
                return -1;
            }
            ++count;
        }

        script_skip(reader);
        if (*reader->pos == '\0') {
            return count;
        }
        ++reader->pos; /* ';' or the end of a line */
    }
}

int fab_script_parse(const char *script, fab_fault_rule_t *rules, char *error,
                     size_t size)
{
    script_reader_t reader = {script, error, size, false};

    return script_parse(&reader, rules);
}

int fab_script_parse_now(const char *script, fab_fault_rule_t *rules,
                         char *error, size_t size)
{
    script_reader_t reader = {script, error, size, true};

    return script_parse(&reader, rules);
}

enum fab_call fab_fault_call_by_name(const char *name)
{
    uint32_t value;

    return (script_lookup(script_verbs, name, &value) &&
            (value != FAB_SCRIPT_ANY)) ? (enum fab_call)value : FAB_NUM_CALLS;
}

const char *fab_fault_call_name(enum fab_call call)
{
    return script_verbs[call].name;
}

const char *fab_fault_kind_name(fab_fault_kind_t kind)
{
    return script_kinds[kind].name;
}
