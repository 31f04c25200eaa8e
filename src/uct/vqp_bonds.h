/*
 * The bonds that UCX_VQP_RAILS makes of this host's ports. May use UCX and the
 * verbs layer.
 */
#ifndef UCT_VQP_BONDS_H
#define UCT_VQP_BONDS_H

#include "core/bond.h"
#include "verbs/dev.h"

#include <ucs/type/status.h>

#define UCT_VQP_BOND_PREFIX "bond" /* name of a bond's memory domain */

/** All active ports, and what they are bonded to. */
typedef struct uct_vqp_bonds {
    unsigned              num_ports;
    vqp_bond_port_t      *ports;
    char                (*names)[VQP_IB_NAME_MAX]; /* that ports point to */
    unsigned              num_bonds;
    vqp_bond_t           *bonds;
    struct uct_vqp_bonds *next;
    char                  text[];
} uct_vqp_bonds_t;

/**
 * Look at the ports of all devices, and bond them. A text has the same bonds for
 * the life of the process, whatever its ports do: UCX asks for the memory domains
 * twice and opens them later, and must not be told different things. Any thread.
 *
 * @param [in] text  UCX_VQP_RAILS. If empty, no device is looked at, and there
 *                   are no ports here.
 *
 * @return NULL on an error (logged).
 */
const uct_vqp_bonds_t *uct_vqp_bonds_get(const char *text);

/** Number of ports of the device, all of them active, that are in no bond; @a
 *  bonded gets a bit for each port that is in one. */
unsigned uct_vqp_bonds_free_ports(const uct_vqp_bonds_t *bonds, const char *dev,
                                  uint64_t *bonded);

#endif
