/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of all interfaces of the process as text, for a debugger. */
#ifndef UCT_VQP_STATUS_H
#define UCT_VQP_STATUS_H

struct uct_vqp_iface;

/**
 * What the connections of this process and their paths do now: the records that a telemetry file
 * has of them (core/telemetry/telefields.h), without what is zero. Telemetry need not be on; there
 * are samples of the latency only if it is. The name is what a user types:
 *
 *     gdb -p PID -batch -ex 'set scheduler-locking on' -ex 'printf "%s", (char*)vqp_status()'
 *
 * To be called in a stopped process whose other threads stay stopped. It allocates nothing and
 * waits for no lock. If a thread was stopped within the module, a value may be half changed; if
 * it was changing a list there, the call may fail: continue, and stop again.
 *
 * @return Lines of text, in static memory that the next call overwrites.
 */
const char *vqp_status(void);

/** An interface is open: vqp_status() knows it until uct_vqp_status_remove(). Any thread. */
void uct_vqp_status_add(struct uct_vqp_iface *iface);

/** vqp_status() knows the interface no more: its connections are about to go. Any thread. */
void uct_vqp_status_remove(struct uct_vqp_iface *iface);

#endif
