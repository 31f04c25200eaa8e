/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parse UCX_VQP_RAILS, which defines the bonds of ports. Pure: libc only.
 *
 *   RAILS = ""                     no bonds
 *         | "auto"                 the ports of each NUMA node and link layer
 *         | BOND { ";" BOND }
 *   BOND  = ITEM { "," ITEM }
 *   ITEM  = a glob on "device:port", or on "device" for all ports of it
 *
 * The rails of a bond are in the order of its items, those of one item in the
 * order of the ports. A port is in one bond at most.
 */
#ifndef VQP_CORE_CONN_BOND_H
#define VQP_CORE_CONN_BOND_H

#include "core/status.h"

/** A port. It may become a rail if it is active. */
typedef struct vqp_bond_port {
    const char *dev;  /* such as mlx5_0 */
    uint8_t     num;
    uint8_t     link; /* vqp_link_t */
    uint8_t     is_active;
    int         numa; /* node, -1: unknown */
} vqp_bond_port_t;

/** Indices into the ports. */
typedef struct vqp_bond {
    unsigned num_rails;
    unsigned num_down; /* items that match ports, none of which is active */
    unsigned rails[VQP_MAX_RAILS];
} vqp_bond_t;

/**
 * Find the bonds.
 *
 * @param [in]  text       As above; spaces around items are ignored.
 * @param [out] bonds      Room for @a num_ports bonds. A bond of one port is omitted:
 *                         it is a single device. It is not omitted if other ports of
 *                         it are inactive.
 * @param [out] num_bonds  Number of bonds.
 * @param [out] why        On an error: the reason, as text for a log line.
 * @param [in]  size       Bytes of @a why.
 *
 * @return VQP_OK; VQP_ERR_INVALID_PARAM: an item is empty or matches no port, a bond
 *         has no active port, too many rails or two link layers, or a port is named by
 *         two bonds.
 */
vqp_status_t vqp_bond_parse(const char *text, const vqp_bond_port_t *ports,
                            unsigned num_ports, vqp_bond_t *bonds,
                            unsigned *num_bonds, char *why, size_t size);

#endif
