/* Figures of a connection: bandwidth, latency, memory. */
#ifndef VQP_TOOLS_ACCEPT_MEASURE_H
#define VQP_TOOLS_ACCEPT_MEASURE_H

#include "tools/accept.h"

/** Puts of 1 MiB for so many seconds. @return bytes per second; 0: see status. */
double accept_bandwidth(accept_pair_t *pair, double seconds);

/** Messages of 8 bytes to and fro. @return the median of half a round trip, in seconds; 0:
 *  see status. */
double accept_latency(accept_pair_t *pair, double seconds);

typedef struct accept_memory {
    double pinned;   /* bytes of an endpoint that the kernel counts as pinned (VmPin) */
    double resident; /* bytes by which the process has grown (VmRSS) */
} accept_memory_t;

/** Connect some more endpoints. Each has its peer in this process: half of what both take
 *  is counted. @return 1, or 0: see status. */
int accept_memory(accept_pair_t *pair, accept_memory_t *memory);

#endif
