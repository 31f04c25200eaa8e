/*
 * Paths: each RC queue pair is one; its number is the lowest that no other RC
 * queue pair of its process and device has. In timed mode: what the way of a
 * queue pair and the wire of a port are like, as configured, and as changed
 * while a program runs.
 */
#ifndef FAB_PATH_H
#define FAB_PATH_H

#include "fab_qp.h"

/* Which paths, or which port, a change is about */
struct fab_path_select {
    uint32_t dev;    /* index; UINT32_MAX: any */
    uint32_t qpn;    /* UINT32_MAX: any */
    uint32_t number; /* UINT32_MAX: any; else the path's number ... */
    uint32_t modulo; /* ... modulo this, if it is not 0 */
    uint32_t port;   /* from 1: not paths, but this port. 0: paths */
};

enum fab_path_field {
    FAB_PATH_MBPS, /* rate, Mb/s; 0: no limit of its own */
    FAB_PATH_DELAY /* ns to the peer */
};

/** Give a new QP its number and its values. With its locks held, in its
 * process. */
void fab_path_init(struct fab_qp *qp);

/** Its address vector, its port or its member port is set: with LINKS, find its link. With
 *  its sq_lock held. */
void fab_path_route(struct fab_qp *qp);

/** The link of the QP; NULL without LINKS. */
struct fab_wire *fab_path_wire(const struct fab_qp *qp);

/** Its number is free again. In its process. */
void fab_path_release(const struct fab_qp *qp);

/** The wires of all ports, and the links, as configured: for a new world. */
void fab_path_init_ports(struct fab_world *world);

/**
 * Change a value of paths of this process, or of a port for the whole world.
 * WRs that have begun to leave keep their times. Any thread; takes sq_lock.
 *
 * @param [in] value  The new one; NULL: the configured one.
 *
 * @return 0, ENODEV or EINVAL (no such device or port), ENOENT (no such path).
 */
int fab_path_change(const struct fab_path_select *select,
                    enum fab_path_field field, const uint64_t *value);

/**
 * Move connected RC QPs of this process (RTR, RTS) to ERR.
 *
 * @return As fab_path_change.
 */
int fab_path_break(const struct fab_path_select *select);

/** Mb/s of a port. */
uint64_t fab_path_port_mbps(const struct fab_port *port);

/** Some number that follows from the state, which goes on. */
uint64_t fab_path_random(uint64_t *state);

#endif
