/*
 * Devices, and contexts of them: what ibv_get_device_list and ibv_open_device
 * hand out, and what their attributes are. May call libibverbs' headers only:
 * nothing of the real library sees these objects.
 */
#ifndef FAB_DEVICE_H
#define FAB_DEVICE_H

#include <infiniband/verbs.h>
#include <stddef.h>

#include "fab_config.h"
#include "fab_ctx.h"

/* An unassigned ID: no library has special code for it */
#define FAB_DEVICE_VENDOR   0xfab0
#define FAB_DEVICE_BROADCOM 0x14e4
#define FAB_DEVICE_PART     0x0001
#define FAB_DEVICE_FW       "1.0.0"
#define FAB_DEVICE_PORT_CAP 0x04010000

/** In front of it stands what libibverbs keeps of a device of a provider:
 * libmlx5 compares the field ops with its own to see that it is not its. */
struct fab_device {
    struct ibv_device ibv; /* first */
    const void        *ops;
    uint64_t          reserved[31];
    unsigned          index;
};

struct fab_context {
    unsigned             device;
    struct fab_ctx       *ctx;     /* its part in the world */
    struct fab_unacked   *unacked; /* of fab_async.c */
    struct verbs_context verbs;    /* last: ends in the struct ibv_context */
};

/** The context of a context that ibv_open_device gave out. */
static inline struct fab_context *fab_context_of(struct ibv_context *context)
{
    return (struct fab_context*)((char*)context -
                                 offsetof(struct fab_context, verbs.context));
}

/** Configuration and addresses, without effect on anything else: what is
 * needed to answer for sysfs. Idempotent; any thread. */
void fab_device_init(void);

/** The same, and sets up faults and the checks of violations: at the first
 *  verb. */
void fab_init(void);

/** Name of the PCI function that the device pretends to be; returns @a buf. */
char *fab_device_pci_name(unsigned index, char *buf, size_t size);

/** Index of the device with this name; -1: there is none. */
int fab_device_find(const char *name);

/* The verbs of that name without their ibv_ prefix; errno as there */
struct ibv_device **fab_device_get_list(int *num);
struct ibv_context *fab_device_open(struct ibv_device *device);
int fab_device_close(struct ibv_context *context);
int fab_device_query(struct ibv_context *context,
                     const struct ibv_query_device_ex_input *input,
                     struct ibv_device_attr_ex *attr, size_t size);
int fab_device_query_port(struct ibv_context *context, uint8_t port,
                          struct ibv_port_attr *attr, size_t size);

/** A device fails for good, or works again: see "device" in fabric.h. */
int fab_device_set(const char *device, int works);

/**
 * Take a port down or up for the whole world: events, state, sysfs.
 *
 * @return 0, ENODEV, EINVAL, or what attaching to the world failed with.
 */
int fab_port_set(const char *device, unsigned port, int up);

/**
 * Have each GID of a port of RoCE at its configured index plus @a moved, or
 * nowhere if the table ends before: events, sysfs.
 *
 * @return As fab_port_set().
 */
int fab_port_move_gids(const char *device, unsigned port, uint64_t moved);

#endif
