/*
 * Plain verbs: what the work requests of a transport cost without the
 * transport. Queue pairs of one device, connected with each other in pairs.
 * libibverbs only; what fails ends the program. One thread.
 */
#ifndef VQP_PERF_BARE_H
#define VQP_PERF_BARE_H

#include <infiniband/verbs.h>

enum { BARE_MAX_PATHS = 16, BARE_DEPTH = 256 };

typedef struct bare {
    struct ibv_context *context;
    struct ibv_pd      *pd;
    struct ibv_cq      *cq;      /* of the ends that post */
    struct ibv_cq      *peer_cq;
    struct ibv_mr      *mr;
    char               *buffer;  /* first half: source; second: target */
    unsigned           paths;
    struct ibv_qp      *qp[BARE_MAX_PATHS];
    struct ibv_qp      *peer[BARE_MAX_PATHS];
    unsigned           unsignaled;
} bare_t;

/**
 * @param device     Name of the device.
 * @param gid_index  On that device.
 * @param paths      Pairs of queue pairs.
 * @param length     Bytes of the largest write.
 */
void bare_open(bare_t *bare, const char *device, int gid_index, unsigned paths,
               size_t length);

void bare_close(bare_t *bare);

/**
 * Post an RDMA write, one ibv_post_send for each call.
 *
 * @param path         Which queue pair.
 * @param length       Bytes.
 * @param flags        IBV_SEND_INLINE and so on.
 */
void bare_write(bare_t *bare, unsigned path, uint32_t length, unsigned flags);

/* Poll once. @return completions of writes */
int bare_poll(bare_t *bare);

#endif
