/*
 * What the source of a send holds, as a number: to see whether it was changed
 * or unmapped. libc only.
 */
#ifndef FAB_CONTENT_H
#define FAB_CONTENT_H

#include <infiniband/verbs.h>
#include <stdint.h>

/**
 * Hash of the memory of these entries of a gather list. Of a long one only
 * samples are read, its first and last bytes among them.
 *
 * @return 0, or -1 if some of it is not mapped.
 */
int fab_content_hash(const struct ibv_sge *sge, int num_sge, uint64_t *hash);

#endif
