#ifndef UCT_VQP_TEST_PENDING_OP_H
#define UCT_VQP_TEST_PENDING_OP_H

#include "uct_fixture.h"

#include <poll.h>

/* A pending request that runs a function */
struct pending_base {
    uct_pending_req_t super;
};

struct pending_op : pending_base {
    explicit pending_op(const std::function<ucs_status_t()> &f) : func(f)
    {
        super.func = [](uct_pending_req_t *req) {
            pending_op *self    = static_cast<pending_op*>((pending_base*)req);
            ucs_status_t status = self->func();

            ++self->calls;
            self->served |= (status == UCS_OK);
            return status;
        };
    }

    /* The caller sleeps between the calls of progress, as uct_iface_event_arm() allows.
     * @return false if it is not woken, or in vain */
    bool is_served_to_a_sleeper(node &which, int fd)
    {
        double end = now() + wait_limit();

        while (!served && (now() < end)) {
            (void)which.progress();
            if (!served && !sleep(which, fd)) {
                break;
            }
        }
        return served;
    }

    std::function<ucs_status_t()> func;
    int                           calls  = 0;
    bool                          served = false;

private:
    static bool sleep(node &which, int fd)
    {
        struct pollfd pfd   = {fd, POLLIN, 0};
        ucs_status_t status = uct_iface_event_arm(which.iface, UCT_EVENT_SEND_COMP |
                                                               UCT_EVENT_RECV);

        EXPECT_TRUE((status == UCS_OK) || (status == UCS_ERR_BUSY));
        return (status != UCS_OK) || (poll(&pfd, 1, wait_limit_ms()) == 1);
    }
};

#endif
