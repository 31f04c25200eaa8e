/*
 * The interface of the fabric to tests: faults at run time, counters, and the
 * caller's violations. The functions act on this process only, except where
 * they name a port, which all processes of a world share.
 *
 * A test takes them with vqp_fabric(), which is NULL where the program runs on
 * real devices: so the same test runs there, without this part. Needs libc,
 * libdl and nothing of the fabric to link with. All functions may be called in
 * any thread.
 */
#ifndef VQP_FABRIC_H
#define VQP_FABRIC_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#define VQP_FABRIC_VERSION 8

/* What this process has open */
typedef struct vqp_fabric_objects {
    unsigned contexts;
    unsigned pds;
    unsigned mrs;
    unsigned channels;
    unsigned cqs;
    unsigned srqs;
    unsigned qps;
    unsigned ahs;
} vqp_fabric_objects_t;

/* Of a queue pair since it was made, or of a port since the world was, by all
 * processes */
typedef struct vqp_fabric_traffic {
    uint64_t wrs;      /* executed as requester */
    uint64_t bytes;    /* of their payload, READs included */
    uint64_t pending;  /* of a QP only: of sends that are posted and not complete */
    uint64_t messages; /* of a QP only: that consumed a receive of it */
    uint64_t cqes;     /* of a QP only: polled; 0 if violations are off */
    uint64_t depth;    /* of a QP only: sends that its queue takes */
} vqp_fabric_traffic_t;

/* What the way of a queue pair is like now (timed mode) */
typedef struct vqp_fabric_path {
    unsigned number; /* of the path: see fabric-run --options */
    unsigned link;   /* that it takes, with the option LINKS */
    uint64_t mbps;   /* 0: the port's */
    uint64_t delay;  /* ns */
    uint64_t jitter; /* ns: at most so much more */
} vqp_fabric_path_t;

typedef struct vqp_fabric {
    unsigned version; /* VQP_FABRIC_VERSION */

    /**
     * Put this script in the place of the one in force (fab_fault.h has the
     * grammar); all counts begin anew. An empty one or NULL: no faults.
     *
     * @param error  Where the reason goes if the script is wrong, or NULL.
     * @return 0, or -1 if it is wrong: the one in force stays.
     */
    int (*faults)(const char *script, char *error, size_t size);

    /**
     * Do now what a script's rules with a time say: "qp", "port", "gids",
     * "rate", "delay", without at=. The script in force stays. To slow down path 2 of
     * each four that this process has: act("rate path=2/4 to=1000", ...).
     *
     * @return 0, or -1 with the reason in @a error.
     */
    int (*act)(const char *script, char *error, size_t size);

    /* Faults made since faults(); garbage in undefined fields is none */
    uint64_t (*fault_hits)(void);

    /* Calls that a rule with stall= holds up now */
    unsigned (*stalled)(void);

    /* Calls of the calling thread that such a rule has held up, since it began */
    unsigned (*stalls_here)(void);

    /**
     * Calls of a verb, by its name without "ibv_" or "mlx5dv_", or of all if NULL, since
     * faults(); those that a fault failed are counted too.
     */
    uint64_t (*calls)(const char *verb);

    /**
     * Move a queue pair of this process to ERR, as hardware does when it finds
     * something: outstanding WRs are flushed.
     * @return 0, ENODEV or ENOENT.
     */
    int (*qp_error)(const char *device, uint32_t qpn);

    /**
     * Take a port down or up, for every process of the world.
     * @return 0, ENODEV or EINVAL.
     */
    int (*port)(const char *device, unsigned port, int up);

    /**
     * Let a device fail for good: its ports are down for every process, and in this
     * process it raises IBV_EVENT_DEVICE_FATAL, brings no more completions, and
     * fails the verbs that need it with EIO. Objects can still be destroyed.
     * With @a works it is as good as new; all that was open on it must be closed.
     * @return 0 or ENODEV.
     */
    int (*device)(const char *device, int works);

    /**
     * Raise an asynchronous event, an enum ibv_event_type, on a context of this
     * process; @a object is the QP, CQ or SRQ, or the number of the port.
     * @return 0, or EINVAL if the event is none of these.
     */
    int (*event)(void *context, int type, uintptr_t object);

    /**
     * The same, found by a queue pair of this process: an event of the QP, of
     * the CQ of its receives (IBV_EVENT_CQ_ERR), of its port in its context, or
     * of the device. Nothing happens to the object.
     * @return 0, ENODEV, ENOENT, or EINVAL if the event is none of these.
     */
    int (*qp_event)(const char *device, uint32_t qpn, int type);

    void (*objects)(vqp_fabric_objects_t *objects);

    /**
     * The RC queue pairs of this process on a device, the newest first.
     *
     * @param qpns  Their numbers; room for @a max.
     * @return how many there are, also if that is more than @a max; -1: no such
     *         device.
     */
    int (*qps)(const char *device, uint32_t *qpns, unsigned max);

    /** The same of all types. */
    int (*all_qps)(const char *device, uint32_t *qpns, unsigned max);

    /* @return 0, or ENOENT: also if the mode is not timed */
    int (*qp_path)(const char *device, uint32_t qpn, vqp_fabric_path_t *path);

    /* @return 0 or ENOENT */
    int (*qp_traffic)(const char *device, uint32_t qpn,
                      vqp_fabric_traffic_t *traffic);
    int (*port_traffic)(const char *device, unsigned port,
                        vqp_fabric_traffic_t *traffic);

    /**
     * Set the handling of violations: "off", "warn", "abort" (see
     * fab_violations.h). @return 0 or EINVAL.
     */
    int (*set_violations)(const char *mode);

    /**
     * Violations against one rule, by its name, or against all if NULL, since
     * the start or since violations_reset().
     */
    uint64_t (*violations)(const char *rule);

    /* Reset the counts, in a test that violates the API on purpose */
    void (*violations_reset)(void);

    /* The last violation in words, "" if there was none. The text is copied. */
    void (*violation_text)(char *text, size_t size);

    /**
     * The value of an option, as fabric-run --options prints it: "stale" for "RQ_PSN".
     * @return 0, or ENOENT: there is no such option.
     */
    int (*option)(const char *name, char *value, size_t size);

    /* Bytes that requests of this process have copied from or to the memory of a real
     * GPU */
    uint64_t (*gpu_bytes)(void);
} vqp_fabric_t;

typedef const vqp_fabric_t *(*vqp_fabric_func_t)(void);

/**
 * @return The functions; NULL without the fabric, or with one of another
 *         version.
 */
static inline const vqp_fabric_t *vqp_fabric(void)
{
    vqp_fabric_func_t get =
            (vqp_fabric_func_t)dlsym(RTLD_DEFAULT, "vqp_fabric_table");
    const vqp_fabric_t *fabric = (get == NULL) ? NULL : get();

    return ((fabric == NULL) || (fabric->version != VQP_FABRIC_VERSION)) ?
                   NULL : fabric;
}

#endif
