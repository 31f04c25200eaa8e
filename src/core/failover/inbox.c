/* SPDX-License-Identifier: BSD-3-Clause */
/* Path messages that wait for progress, see inbox.h. Pure: libc only. */
#include "core/failover/inbox.h"

#include "core/failover/silence.h"

/* Answer a message although the vqp does not: only progress may access it */
static unsigned vqp_inbox_answer(const vqp_path_msg_t *msg, unsigned flags, uint32_t count,
                                 vqp_path_msg_t *answer)
{
    memset(answer, 0, sizeof(*answer));
    answer->type       = VQP_WIRE_PATH_DOWN;
    answer->flags      = (uint16_t)(VQP_WIRE_FLAG_ANSWER | flags);
    answer->epoch      = msg->epoch;
    answer->down.count = count;
    answer->down.path  = (msg->type == VQP_WIRE_PATH_DOWN) ? msg->down.path : msg->up.path;
    return (msg->flags & VQP_WIRE_FLAG_ANSWER) ? 0 : VQP_INBOX_ANSWER;
}

/* Is the question of this number over if those up to @a over are? */
static int vqp_inbox_is_over(uint32_t number, uint32_t over)
{
    return vqp_fsn_diff(number, over) <= 0;
}

/* The peer uses the path again once it has the answer. If progress has agreed to give the path
 * up, PATH_DOWN is the answer: until then the peer may ask and withdraw once more */
static unsigned vqp_inbox_withdraw(vqp_inbox_t *inbox, const vqp_path_msg_t *msg,
                                   vqp_path_msg_t *answer)
{
    vqp_path_msg_t *kept = &inbox->kept[0];

    if (inbox->is_agreed && ((int32_t)(msg->epoch - inbox->agreed) <= 0)) {
        vqp_cover(SILENCE_AGREED_BEFORE);
        return 0;
    }

    if (!vqp_inbox_is_over(msg->down.count, inbox->over)) {
        inbox->over = msg->down.count;
    }
    if ((kept->type != VQP_WIRE_TYPE_NONE) && vqp_path_is_question(kept) &&
        vqp_inbox_is_over(kept->down.count, inbox->over)) {
        vqp_cover(SILENCE_NEVER_ASKED);
        kept->type = VQP_WIRE_TYPE_NONE;
    }

    return vqp_inbox_answer(msg, VQP_WIRE_FLAG_SILENT | VQP_WIRE_FLAG_HAVE_YOURS,
                            msg->down.count, answer);
}

unsigned vqp_inbox_put(vqp_inbox_t *inbox, const vqp_path_msg_t *msg,
                       vqp_path_msg_t *answer)
{
    vqp_path_msg_t *kept = &inbox->kept[msg->type == VQP_WIRE_PATH_UP];
    unsigned todo        = VQP_INBOX_TAKE;

    if (vqp_path_is_withdrawal(msg)) {
        return vqp_inbox_withdraw(inbox, msg, answer);
    }
    if (vqp_path_is_question(msg) && vqp_inbox_is_over(msg->down.count, inbox->over)) {
        vqp_cover(SILENCE_OLD_ASK);
        return 0;
    }

    /* Progress has not come since the last one: the process computes. The peer must not
     * take it for dead */
    if (kept->type != VQP_WIRE_TYPE_NONE) {
        if (msg->flags & VQP_WIRE_FLAG_BUSY) {
            return 0; /* it contains no state */
        }
        todo |= vqp_inbox_answer(msg, VQP_WIRE_FLAG_BUSY, 0, answer);
    }

    *kept = *msg;
    return todo;
}

int vqp_inbox_take(vqp_inbox_t *inbox, vqp_t *vqp, unsigned type, vqp_path_msg_t *msg)
{
    *msg                   = inbox->kept[type];
    inbox->kept[type].type = VQP_WIRE_TYPE_NONE;
    if (msg->type == VQP_WIRE_TYPE_NONE) {
        return 0;
    }

    if (vqp_path_is_question(msg) && vqp_silence_agrees(vqp, msg)) {
        inbox->over      = vqp_fsn_add(msg->down.count, VQP_FSN_MASK); /* - 1 */
        inbox->agreed    = msg->epoch;
        inbox->is_agreed = 1;
    }
    return 1;
}
