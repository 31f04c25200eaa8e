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
    unsigned         num_ports;
    vqp_bond_port_t *ports;
    char           (*names)[VQP_IB_NAME_MAX]; /* that ports point to */
    unsigned         num_bonds;
    vqp_bond_t      *bonds;
} uct_vqp_bonds_t;

/**
 * Look at the ports of all devices, and bond them.
 *
 * @param [in] text  UCX_VQP_RAILS. If empty, no device is looked at, and there
 *                   are no ports here.
 *
 * @return UCS_OK: to be released; or an error (logged) with nothing to release.
 */
ucs_status_t uct_vqp_bonds_get(const char *text, uct_vqp_bonds_t *bonds);

void uct_vqp_bonds_release(uct_vqp_bonds_t *bonds);

/** Number of ports of the device, all of them active, that are in no bond; @a
 *  bonded gets a bit for each port that is in one. */
unsigned uct_vqp_bonds_free_ports(const uct_vqp_bonds_t *bonds, const char *dev,
                                  uint64_t *bonded);

#endif
