/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bonds of this host's ports, as UCX_VQP_RAILS configures them. May use UCX and
 * the verbs layer.
 */
#ifndef UCT_VQP_BONDS_H
#define UCT_VQP_BONDS_H

#include "core/conn/bond.h"
#include "verbs/dev.h"

#include <ucs/type/status.h>

#define UCT_VQP_BOND_PREFIX "bond" /* name of a bond's memory domain */

/** All ports, and their bonds. */
typedef struct uct_vqp_bonds {
    unsigned              num_ports;
    vqp_bond_port_t      *ports;
    char                (*names)[VQP_IB_NAME_MAX]; /* referenced by ports */
    unsigned              num_bonds;
    vqp_bond_t           *bonds;
    struct uct_vqp_bonds *next;
    char                  text[];
} uct_vqp_bonds_t;

/**
 * Get the ports of all devices and their bonds. The result for a text stays the
 * same as long as the process runs, whatever the state of the ports: UCX queries
 * the memory domains twice and opens them later, and has to get the same answer.
 * Any thread.
 *
 * @param [in] text  UCX_VQP_RAILS. If empty, no device is queried, and the
 *                   result has no ports.
 *
 * @return NULL on an error (logged).
 */
const uct_vqp_bonds_t *uct_vqp_bonds_get(const char *text);

/** Count the active ports of the device that are in no bond. @a bonded gets a bit
 *  for each port that is in one. */
unsigned uct_vqp_bonds_free_ports(const uct_vqp_bonds_t *bonds, const char *dev,
                                  uint64_t *bonded);

#endif
