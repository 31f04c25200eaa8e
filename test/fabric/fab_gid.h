/*
 * Addresses of ports: GIDs, their types, LIDs. All are computed from the
 * configuration, the numbers of device and port, and how far the table of the
 * port has moved, so that every process of a world knows all of them. May call
 * libc, and reads the world.
 */
#ifndef FAB_GID_H
#define FAB_GID_H

#include <infiniband/verbs.h>

enum fab_gid_type {
    FAB_GID_EMPTY,
    FAB_GID_IB,
    FAB_GID_ROCE_V1,
    FAB_GID_ROCE_V2
};

/** Parse the table of the configuration; -1: it makes no sense, see @a error.
 * Called once, before all others. */
int fab_gid_init(char *error, size_t error_size);

/**
 * Entry @a index of the GID table of port @a port (from 1) of device
 * @a device. An empty entry is FAB_GID_EMPTY and zero.
 *
 * @return 0, or -1 when the index is behind the table.
 */
int fab_gid_get(unsigned device, unsigned port, int index, union ibv_gid *gid,
                enum fab_gid_type *type);

/** As sysfs calls it; a static string. */
const char *fab_gid_type_name(enum fab_gid_type type);

/** The port with this GID in its table: 0, or -1 when there is none. */
int fab_gid_find(const union ibv_gid *gid, unsigned *device, unsigned *port);

/** IPv4 address in a GID (::ffff:a.b.c.d), host byte order; 0: none. */
uint32_t fab_gid_ipv4(const union ibv_gid *gid);

/** LID of a port; 0 on Ethernet. */
uint16_t fab_gid_lid(unsigned device, unsigned port);

/** The port with this LID: 0, or -1. */
int fab_gid_find_lid(uint16_t lid, unsigned *device, unsigned *port);

/** GUID of a port, or of the node with port 0; host byte order. */
uint64_t fab_gid_guid(unsigned device, unsigned port);

#endif
