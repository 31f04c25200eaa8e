/*
 * Datagrams: UD queue pairs and address handles.
 */
#ifndef FAB_UD_H
#define FAB_UD_H

#include <infiniband/verbs.h>

#include "fab_exec.h"

struct fab_ah_handle {
    struct ibv_ah      ibv; /* first */
    struct ibv_ah_attr attr;
    union ibv_gid      sgid; /* the source, when the handle was made */
    uint32_t           dev; /* that the address names; ~0u: none */
    uint32_t           port;
};

#define fab_ah_of(_ibv_ah) ((struct fab_ah_handle*)(_ibv_ah))

/* The verbs of that name; errno and return values as there */
struct ibv_ah *fab_ah_create(struct ibv_pd *pd, struct ibv_ah_attr *attr);
int fab_ah_destroy(struct ibv_ah *ah);
int fab_ah_attr_from_wc(struct ibv_context *context, uint8_t port_num,
                        struct ibv_wc *wc, struct ibv_grh *grh,
                        struct ibv_ah_attr *attr);

/**
 * Where an address vector leads: device and port by GID, or by LID on
 * InfiniBand; @a peer_dev is ~0u where there is no such port.
 */
void fab_route(uint32_t dev, const struct ibv_ah_attr *attr,
               uint32_t *peer_dev, uint32_t *peer_port);

/**
 * Whether a device can use an address vector.
 *
 * @return 0, EINVAL, or EHOSTUNREACH: on Ethernet, where the kernel would look
 *         for the MAC address, nobody has the address.
 */
int fab_av_check(uint32_t dev, const struct ibv_ah_attr *attr);

/**
 * Send one datagram. Always ends at once: DONE with success also when nobody
 * gets it. With the QP's sq_lock held, in its process.
 */
void fab_exec_ud(struct fab_qp *qp, const struct ibv_send_wr *wr,
                 const struct ibv_sge *sge, uint32_t length,
                 struct fab_exec_result *result);

#endif
