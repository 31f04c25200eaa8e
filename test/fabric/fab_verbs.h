/*
 * The functions of libibverbs that the fabric takes the place of. Thin: each
 * asks whether it is to fail, and calls the object that it is about. What
 * verbs.h calls without the library is in the context's operations. Functions
 * that are not here and take no object (texts of codes, rates) are the real
 * library's; those that would look into an object are here, if only to say no.
 * Their prototypes are in verbs.h.
 */
#ifndef FAB_VERBS_H
#define FAB_VERBS_H

#include "fab_control.h"
#include "fab_fault.h"

/** At the start of a verb. @return 0, or the errno with which this call is to
 * fail, in errno too. */
int fab_verbs_enter(enum fab_call call);

/** The same for a verb that needs the device: EIO if that has failed for good. */
int fab_verbs_enter_on(struct ibv_context *context, enum fab_call call);

/** At the end of a verb that makes an object, and of one that destroys it: for
 * the count of them. @return the second argument. */
static inline void *fab_verbs_made(enum fab_object object, void *made)
{
    if (made != NULL) {
        fab_control_count(object, 1);
    }

    return made;
}

static inline int fab_verbs_gone(enum fab_object object, int ret)
{
    if (ret == 0) {
        fab_control_count(object, -1);
    }

    return ret;
}

#endif
