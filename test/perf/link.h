/*
 * A link of the software fabric: from a port of one side to a port of the other.
 * It can be cut while traffic runs, and healed. All of it is in this process.
 */
#ifndef VQP_PERF_LINK_H
#define VQP_PERF_LINK_H

#include <stddef.h>
#include <stdint.h>

typedef enum perf_cut {
    PERF_CUT_LOST,       /* what is sent is lost */
    PERF_CUT_UNANSWERED, /* what is sent is executed, acknowledgements are lost;
                            what the peer sends is lost */
    PERF_CUT_BOTH,       /* what either end sends is lost */
    PERF_CUT_LOSSY,      /* one in a hundred of the requests is lost */
    PERF_CUT_PORT,       /* the sender's port goes down, and up again after 100 ms */
    PERF_CUT_ONE,        /* one request of the queue pair is lost */
    PERF_CUT_SLOW,       /* the sender's port has a tenth of its rate */
    PERF_CUT_ERROR,      /* the link stays, but the sender's queue pair fails */
    PERF_CUT_NUM
} perf_cut_t;

typedef struct perf_link {
    const char *from; /* devices */
    const char *to;
    uint32_t   qpn;   /* of the sender's queue pair, see perf_link_find() */
    unsigned   rate;  /* Mb/s of the sender's port; only PERF_CUT_SLOW needs it */
    double     up;    /* when a port that was taken down comes back; 0: it is not down */
} perf_link_t;

const char *perf_cut_name(perf_cut_t cut);

/** @return PERF_CUT_NUM if there is no such name. */
perf_cut_t perf_cut_by_name(const char *name);

/** Does nothing get through any more, until a path is given up or the link is healed? */
int perf_cut_kills_path(perf_cut_t cut);

/** Find the queue pair that the sender has on the link now. */
void perf_link_find(perf_link_t *link);

/** Cut the link, and heal all others. */
void perf_link_cut(perf_link_t *link, perf_cut_t cut);

/** Take the port up if it has been down for its 100 ms, by the clock of perf_now(). */
void perf_link_turn(perf_link_t *link);

/** Heal that link, which is the only one that was cut. */
void perf_link_heal(perf_link_t *link);

/** @return bytes that were executed of what the sender's port has sent. */
uint64_t perf_link_bytes(const perf_link_t *link);

/** @return bytes of the sends that are posted on that queue pair and not complete;
 *          -1 if it is gone. */
int64_t perf_link_pending(const perf_link_t *link);

#endif
