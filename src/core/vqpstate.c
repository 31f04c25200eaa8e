/* The state of a vqp, and its failure; see vqpstate.h. Pure: libc only. */
#include "core/vqpstate.h"

#include "core/fail.h"
#include "core/trim.h"

const char *vqp_state_name(unsigned state)
{
    static const char *const names[] = {
#define VQP_STATE_NAME(_name, _help) #_name,
        VQP_STATES(VQP_STATE_NAME)
#undef VQP_STATE_NAME
    };

    return (state < VQP_STATE_LAST) ? names[state] : "unknown";
}

void vqp_set_state(vqp_t *vqp, vqp_state_t state)
{
    vqp->state = (uint8_t)state;
    vqp->todo |= VQP_TODO_STATE;
}

void vqp_fail(vqp_t *vqp, vqp_status_t status)
{
    if (vqp_is_failed(vqp)) {
        return;
    }

    vqp->status = status;
    vqp->todo  |= VQP_TODO_QPS | VQP_TODO_FAILED;
    if (vqp->owner == VQP_OWNER_CLOSING) {
        vqp_cover(VQP_FAIL_CLOSING);
        vqp->todo |= VQP_TODO_CLOSED;
    }

    if (vqp_is_connected(vqp)) {
        vqp_tx_fail(&vqp->tx, status);
        vqp_tx_fail_paths(&vqp->tx, status);
    }
    vqp_set_state(vqp, VQP_STATE_FAILED);
}
