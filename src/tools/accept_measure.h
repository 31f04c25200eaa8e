/* SPDX-License-Identifier: BSD-3-Clause */
/* Figures of a connection: bandwidth, latency, memory. The other end serves meanwhile. */
#ifndef VQP_TOOLS_ACCEPT_MEASURE_H
#define VQP_TOOLS_ACCEPT_MEASURE_H

#include "tools/accept.h"

/** Puts of 1 MiB for so many seconds. @param [out] bytes  how many were sent. @return bytes
 *  per second; 0: see status. */
double accept_bandwidth(accept_end_t *end, double seconds, uint64_t *bytes);
void accept_bandwidth_serve(accept_end_t *end);

/** Messages of 8 bytes to and fro. @return the median of half a round trip, in seconds; 0:
 *  see status. */
double accept_latency(accept_end_t *end, double seconds);
void accept_latency_serve(accept_end_t *end);

/** What an endpoint takes in a process. */
typedef struct accept_memory {
    double pinned;   /* bytes that the kernel counts as pinned (VmPin) */
    double resident; /* bytes by which the process has grown (VmRSS) */
} accept_memory_t;

/** Connect some more endpoints. @return 1, or 0: see status. */
int accept_memory(accept_end_t *end, accept_memory_t *here, accept_memory_t *there);
void accept_memory_serve(accept_end_t *end);

#endif
