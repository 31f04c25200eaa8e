/* SPDX-License-Identifier: BSD-3-Clause */
/* The receiving end of a verified stream, see accept_stream.h. */
#ifndef VQP_TOOLS_ACCEPT_VERIFY_H
#define VQP_TOOLS_ACCEPT_VERIFY_H

#include "tools/accept.h"

/** Receive and verify rounds until the sending end ends the stream, or something fails. To
 *  be called once for an end. */
void accept_verify(accept_end_t *end);

#endif
