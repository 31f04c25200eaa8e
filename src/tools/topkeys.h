/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keys of vqp-top while it shows the table on a terminal. The terminal gives each key at
 * once and does not echo it. Its settings come back when the process ends, and by SIGINT,
 * SIGTERM, SIGHUP, SIGQUIT and SIGTSTP. In the background no key is read. libc only. One
 * per process.
 */
#ifndef VQP_TOOLS_TOPKEYS_H
#define VQP_TOOLS_TOPKEYS_H

enum {
    TOPKEYS_NONE = 0,    /* the time is over, or the window has another size */
    TOPKEYS_UP   = 0x100, /* the arrows */
    TOPKEYS_DOWN,
    TOPKEYS_PAGE_UP,
    TOPKEYS_PAGE_DOWN
};

/** Read keys from now on. No effect if standard input and output are not the terminal
 *  of this process group. */
void topkeys_open(void);

/** Wait for a key. @return a character, or TOPKEYS_*. Without topkeys_open(), or at the end
 *  of the input: TOPKEYS_NONE after @a seconds. */
int topkeys_wait(double seconds);

#endif
