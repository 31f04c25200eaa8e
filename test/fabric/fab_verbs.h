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

#include "fab_fault.h"

/** At the start of a verb. @return 0, or the errno with which this call is to
 * fail, in errno too. */
int fab_verbs_enter(enum fab_call call);

#endif
