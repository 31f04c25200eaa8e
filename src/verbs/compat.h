/*
 * All differences between versions of rdma-core (28 and later are supported). The
 * build defines:
 *
 * HAVE_STRUCT_IBV_PORT_ATTR_ACTIVE_SPEED_EX
 *     Speeds above NDR do not fit the 8-bit active_speed; newer versions have
 *     a second field, which is 0 when the kernel did not fill it.
 */
#ifndef VQP_IB_COMPAT_H
#define VQP_IB_COMPAT_H

#include <infiniband/verbs.h>

/** Code of the port's speed per lane, a single bit */
static inline unsigned
vqp_ib_compat_port_speed(const struct ibv_port_attr *attr)
{
#ifdef HAVE_STRUCT_IBV_PORT_ATTR_ACTIVE_SPEED_EX
    if (attr->active_speed_ex != 0) {
        return attr->active_speed_ex;
    }
#endif
    return attr->active_speed;
}

#endif
