/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Paths move to other rails when their probes fail: the link of a port, or a switch behind
 * it, may lose what RC sends although the port is active. Part of the failover. Pure: libc
 * only.
 *
 * Each side chooses the rail of its own end of a path when it makes a queue pair, and names
 * it in PATH_UP. So that both do not move in opposite ways, one side decides: by PATH_DOWN
 * it asks the peer to take a certain rail, too. It tries all pairs of rails in turn. An end
 * whose rail can not be used stays where it is.
 *
 * A path moves after VQP_RAILS_FAILS failures in a row; after the first one if no path works.
 * While one does, the last path of a rail, of either side, stays there. So that it comes back
 * with its rail, and so that atomics do, which need a certain rail of the peer.
 *
 * A path whose own rail can have no queue pairs (the port is down, the device is broken) waits
 * for it. If no path works, and all of this side wait like that, or the outage lasts for long,
 * it takes another rail of this side. The peer learns it from PATH_UP.
 *
 * A path goes back to the rails that it began on by a move (move.h): if atomics lack that rail
 * of the peer, or if no path is left on that rail of this side and another path works. So
 * paths do not stay together on one rail. A path that works also goes back if it is moved for
 * another reason, or dropped.
 */
#ifndef VQP_CORE_FAILOVER_RAILS_H
#define VQP_CORE_FAILOVER_RAILS_H

#include "core/vqp_def.h"
#include "core/conn/wire.h"

/* Failures in a row after which a path moves */
#define VQP_RAILS_FAILS 3

/** Is an end of the path on another rail than at first? */
static inline int vqp_rails_is_away(const vqp_path_t *path)
{
    return (path->rail != path->fo.base_rail) || (path->peer_rail != path->fo.base_peer);
}

/** The paths have the rails that they begin on. */
void vqp_rails_init(vqp_t *vqp);

/** The path leaves its state, and goes down. */
void vqp_rails_on_down(vqp_t *vqp, vqp_path_t *path);

/** The path enters DRAINED: decide whether it moves, if this side decides. */
void vqp_rails_decide(vqp_t *vqp, vqp_path_t *path);

/** The paths in use are others: a path may be to go back. */
void vqp_rails_on_change(vqp_t *vqp);

/** The path is UP. */
void vqp_rails_on_up(vqp_t *vqp, vqp_path_t *path);

/** The peer's PATH_DOWN, of the path's epoch: its failures in a row. */
void vqp_rails_on_fails(vqp_path_t *path, const vqp_wire_path_down_t *down);

/** The first PATH_DOWN of the peer with DRAINED: it may ask this side to move. */
void vqp_rails_on_drained(const vqp_t *vqp, vqp_path_t *path,
                          const vqp_wire_path_down_t *down);

/** Fill in what this module has in PATH_DOWN. */
void vqp_rails_message(const vqp_path_t *path, vqp_wire_path_down_t *down);

/** The peer has a new queue pair. @return 0 if it can not be on that rail. */
int vqp_rails_on_up_message(vqp_t *vqp, vqp_path_t *path, const vqp_wire_path_up_t *up);

/** No host answers to the address of the peer. @return 1 if the path is to go down, for
 *  another rail. */
int vqp_rails_on_unreachable(const vqp_t *vqp, vqp_path_t *path);

/**
 * The rail of this side that the next queue pair of the path, which is DOWN, is to be on.
 *
 * @param [in] good  Bits: rails on which the owner can connect queue pairs.
 * @param [in] now   ns.
 */
unsigned vqp_rails_choose(const vqp_t *vqp, const vqp_path_t *path, uint32_t good,
                          uint64_t now);

/** The owner has made the queue pair on another rail than that before, path->rail. Before
 *  vqp_path_rebuilt(). */
void vqp_rails_on_moved(vqp_t *vqp, vqp_path_t *path);

/** The path that is to go back to a rail of this side that no path uses. @return NULL if there
 *  is none now; @a is_open: later there may be one. */
vqp_path_t *vqp_rails_find_missed(const vqp_t *vqp, int *is_open);

#endif
