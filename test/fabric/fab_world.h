/*
 * The world: one file of shared memory that all processes of a fabric map.
 * It holds the process table, the devices with their QPs, the memory regions
 * and a heap for everything that has no fixed place. Inside it objects refer to
 * each other by offset (fab_off_t), because each process maps it elsewhere.
 *
 * The file is sparse. A process attaches when it first needs the world; the
 * last one to leave unlinks the file; a world whose processes have all died is
 * made anew by the next.
 */
#ifndef FAB_WORLD_H
#define FAB_WORLD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "fab_clock.h"
#include "fab_config.h"
#include "fab_lock.h"

typedef uint64_t fab_off_t; /* place in the world; 0: none */

enum {
    FAB_MAX_PROCS = 1024,
    FAB_MAX_DEVS  = FAB_CONFIG_MAX_DEVICES,
    FAB_MAX_PORTS = FAB_CONFIG_MAX_PORTS,
    FAB_QP_SLOTS  = 1 << 17, /* per device; a QPN's slot is its low bits */
    FAB_MR_SLOTS  = 1 << 20, /* in the world; a key is {slot, 8 bit of tag} */
    FAB_HEAP_BINS = 40       /* powers of two */
};

struct fab_proc {
    uint32_t pid;        /* 0: the entry is free */
    uint32_t generation; /* of the entry: grows with each owner */
    uint32_t exiting;    /* it does not need the world any more */
    uint64_t start_time; /* of the process, as in /proc/PID/stat */
    uint64_t probe;      /* an address that is mapped in the process */
};

struct fab_port {
    uint32_t down;      /* not 0: the port is down (a fault) */
    uint32_t index;     /* among the ports of all devices */
    uint64_t mbps;      /* 0: speed x width (fab_path.h) */
    uint64_t delay;     /* ns, of all that leaves it */
    uint64_t gids_moved; /* entries of its GID table are so much further on */
    uint64_t busy_till; /* ns, CLOCK_MONOTONIC: when the wire is free again */
    uint64_t wrs;       /* sent from this port */
    uint64_t bytes;
};

/* Between a device and the others, with LINKS (fab_path.h) */
struct fab_wire {
    uint64_t mbps;      /* 0: the port's */
    uint64_t busy_till; /* ns, as that of a port */
};

struct fab_dev {
    struct fab_lock lock;     /* of next_qpn and the slots' allocation */
    uint32_t        next_qpn;
    uint32_t        num_qps;
    uint32_t        index;
    uint32_t        high_slot; /* the last one ever used */
    uint32_t        pad;
    struct fab_port ports[FAB_MAX_PORTS]; /* [port number - 1] */
    struct fab_wire links[FAB_CONFIG_MAX_LINKS];
    fab_off_t       qps;      /* struct fab_qp[FAB_QP_SLOTS] */
    struct fab_lock ctx_lock; /* of the list of contexts */
    fab_off_t       ctxs;     /* struct fab_ctx, linked by next */
};

struct fab_world {
    uint64_t        magic;  /* last thing that the creator writes */
    uint64_t        token;  /* differs from world to world */
    uint64_t        config; /* hash of the settings all processes must share */
    uint64_t        size;
    struct fab_lock heap_lock;
    struct fab_lock mr_lock;
    uint32_t        next_mr;
    uint32_t        mr_high;     /* highest slot ever used */
    uint32_t        next_pd;     /* atomically incremented: PD ids */
    uint32_t        next_object; /* same: ids of CQs, SRQs ... in messages */
    uint32_t        next_wake;   /* same: names of wake-up sockets */
    uint32_t        num_entered; /* processes that ever attached */
    uint64_t        heap_first;  /* first block */
    uint64_t        heap_end;    /* first byte never handed out */
    uint64_t        heap_bins[FAB_HEAP_BINS];
    fab_off_t       mrs;         /* struct fab_mr[FAB_MR_SLOTS] */
    struct fab_lock atomic_locks[64]; /* of remote atomics, by address */
    struct fab_proc procs[FAB_MAX_PROCS];
    struct fab_dev  devs[FAB_MAX_DEVS];
};

extern struct fab_world *fab_world;     /* NULL until attached */
extern uint32_t         fab_world_self; /* own index in procs[] */
extern uint32_t         fab_world_entry; /* how many had attached, with this one */

#define fab_ptr(_type, _off) ((_type*)((char*)fab_world + (_off)))

static inline fab_off_t fab_off(const void *ptr)
{
    return (ptr == NULL) ? 0 : (fab_off_t)((char*)ptr - (char*)fab_world);
}

/**
 * Attach this process to its world (the name is in the configuration), making
 * the world if need be. Idempotent, thread-safe; in a forked child it gives the
 * child an entry of its own. After
 * fab_init() only.
 *
 * @return 0, or an errno (with a line on stderr).
 */
int fab_world_attach(void);

/** Whether the process of this entry is alive (asks the kernel: 20 us). */
int fab_proc_alive(uint32_t proc);

/**
 * Same for a hot path: asks the kernel at most once per millisecond and
 * process.
 */
int fab_proc_alive_cached(uint32_t proc);

/**
 * Zeroed memory in the world, owned by this process: it is freed with the
 * process at the latest. Thread-safe.
 *
 * @return NULL with errno ENOMEM when the world is full.
 */
void *fab_heap_alloc(size_t size);

/** Give memory back; NULL is allowed. */
void fab_heap_free(void *ptr);


/** Free the objects of a dead process. */
void fab_heap_reap(uint32_t proc);

#endif
