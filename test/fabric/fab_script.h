/*
 * The script of faults as a list of rules: the parser alone. The grammar is
 * in fab_fault.h. libc only; no state.
 */
#ifndef FAB_SCRIPT_H
#define FAB_SCRIPT_H

#include "fab_fault.h"

#define FAB_SCRIPT_MAX_RULES 64
#define FAB_SCRIPT_ROLE      32
#define FAB_SCRIPT_ANY       UINT32_MAX /* device, QPN, opcode ... */
#define FAB_SCRIPT_ALL       UINT64_MAX /* count */
#define FAB_SCRIPT_NEVER     UINT64_MAX /* time */

#define FAB_FAULT_KINDS(_X) \
    _X(CALL, call) \
    _X(RESOLVE, resolve) \
    _X(CHAIN, chain) \
    _X(WR, wr) \
    _X(UNACKED, unacked) \
    _X(RNR, rnr) \
    _X(LOSE, lose) \
    _X(DARK, dark) \
    _X(WITHHOLD, withhold) \
    _X(DUPLICATE, duplicate) \
    _X(GARBAGE, garbage) \
    _X(LINGER, linger) \
    _X(QP, qp) \
    _X(PORT, port) \
    _X(GIDS, gids) \
    _X(RATE, rate) \
    _X(DELAY, delay) \
    _X(KILL, kill) \
    _X(SEED, seed)

#define FAB_FAULT_KIND_ENUM(_upper, _lower) FAB_FAULT_##_upper,
typedef enum fab_fault_kind {
    FAB_FAULT_KINDS(FAB_FAULT_KIND_ENUM)
    FAB_NUM_FAULT_KINDS
} fab_fault_kind_t;
#undef FAB_FAULT_KIND_ENUM

enum fab_fault_dir {
    FAB_FAULT_DIR_ANY,
    FAB_FAULT_DIR_SEND,
    FAB_FAULT_DIR_RECV
};

typedef struct fab_fault_rule {
    fab_fault_kind_t   kind;
    uint32_t           dev;    /* index of the device */
    uint32_t           qpn;
    uint32_t           port;
    uint32_t           path, modulo;
    uint32_t           link;
    uint32_t           proc;       /* index in the world */
    char               role[FAB_SCRIPT_ROLE]; /* empty: any */
    uint32_t           verb;       /* enum fab_call */
    uint32_t           opcode;     /* enum ibv_wr_opcode */
    uint32_t           status;     /* enum ibv_wc_status */
    enum fab_fault_dir dir;
    int                error;
    double             chance;     /* 0: by nth, count and every */
    uint64_t           nth, count;
    uint64_t           every;      /* matches, or ns; 0: once */
    uint64_t           at, until;  /* ns; until counts from at */
    uint64_t           value; /* of seed=; to=, in Mb/s, ns or entries */
    uint64_t           amount; /* of after=, more=, part=, over= */
    uint64_t           bits;   /* of xor= */
    uint64_t           stall;  /* ns */
    uint32_t           as;     /* enum ibv_wc_status, of a duplicate */
} fab_fault_rule_t;

const char *fab_fault_kind_name(fab_fault_kind_t kind);

/** rate, delay: a value that changes. */
bool fab_fault_is_change(fab_fault_kind_t kind);

/**
 * @param rules  Room for FAB_SCRIPT_MAX_RULES.
 * @param error  Set to what is wrong and where, if it is; may be NULL.
 * @return Number of rules, or -1 if it is wrong.
 */
int fab_script_parse(const char *script, fab_fault_rule_t *rules, char *error,
                     size_t size);

/**
 * The same for rules that are done at once: all of a kind with a time, which
 * need none.
 */
int fab_script_parse_now(const char *script, fab_fault_rule_t *rules,
                         char *error, size_t size);

#endif
