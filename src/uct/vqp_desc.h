/* The user pointer of an op. */
#ifndef UCT_VQP_DESC_H
#define UCT_VQP_DESC_H

#include <uct/api/uct.h>

/* vqp_op_t::user_kind */
enum {
    UCT_VQP_USER_NONE  = 0, /* no completion; the core uses this value */
    UCT_VQP_USER_COMP  = 1, /* uct_completion_t */
    UCT_VQP_USER_DESC  = 2, /* uct_vqp_desc_t, returned to its pool */
    UCT_VQP_USER_FLUSH = 3  /* uct_completion_t of a flush that reports success
                               even if the connection fails */
};

/** A bounce slot: registered memory behind the descriptor. */
typedef struct uct_vqp_desc {
    const uint32_t       *lkeys;
    uct_completion_t     *comp;   /* or NULL */
    uct_unpack_callback_t unpack; /* get_bcopy, else NULL */
    void                 *arg;
} uct_vqp_desc_t;

#endif
