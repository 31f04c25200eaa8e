/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The link of vqp-accept: frames between the two processes of a run, over a stream socket.
 * It carries addresses, keys and what is to be compared, never what is tested. One process
 * commands, the other one serves. libc only.
 */
#ifndef VQP_TOOLS_ACCEPT_LINK_H
#define VQP_TOOLS_ACCEPT_LINK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define ACCEPT_FRAME_MAX 4096 /* bytes that a frame carries */

typedef enum {
    ACCEPT_FRAME_HELLO = 1, /* accept_hello_t, the first one in each direction */
    ACCEPT_FRAME_COMMAND,   /* begins a step */
    ACCEPT_FRAME_DATA,      /* of the step */
    ACCEPT_FRAME_FAILED,    /* the step has failed at the sender; the reason, a text */
    ACCEPT_FRAME_END        /* of the process that serves: it has closed everything */
} accept_frame_type_t;

typedef struct accept_frame_head {
    uint32_t type;
    uint32_t step;   /* its number; a frame of an earlier one is out of date */
    uint32_t length; /* of what follows */
} accept_frame_head_t;

/** A frame that has arrived. */
typedef struct accept_frame {
    accept_frame_head_t head;
    char                data[ACCEPT_FRAME_MAX + 1]; /* a NUL follows */
} accept_frame_t;

#define ACCEPT_HELLO_PORTS 16

/** What each process says of itself. */
typedef struct accept_hello {
    uint32_t magic;
    uint32_t format;      /* of frames and what they carry */
    char     version[32]; /* of uct_vqp */
    char     host[64];
    char     boot_id[40]; /* of the kernel, so that two processes of a host know it */
    uint32_t num_ports;   /* that a command can choose from, with their names */
    char     ports[ACCEPT_HELLO_PORTS][64];
} accept_hello_t;

#define ACCEPT_LINK_PATIENCE 20000 /* milliseconds in which the other process answers */

/** One end. */
typedef struct accept_link {
    int            fd;      /* does not block */
    uint32_t       step;    /* the current one */
    int            ended;   /* the other process has ended, or has sent what is no frame */
    size_t         length;  /* bytes of the next frame that have arrived */
    accept_frame_t in;      /* the next frame */
    accept_hello_t peer;
} accept_link_t;

/** Take over a connected socket. */
void accept_link_init(accept_link_t *link, int fd);

/** Start this program again as the process that serves, with a link to it. @return its
 *  process id, or -1: see errno. */
pid_t accept_link_spawn(accept_link_t *link);

/** Connect to a process that listens at a host. @return NULL, or what has failed; after a
 *  failure the link is not to be closed. */
const char *accept_link_connect(accept_link_t *link, const char *host, const char *port);

/** Listen at all addresses of this host. @param [in,out] port  0: any; the one that it is.
 *  @return the socket, or -1: see errno. */
int accept_link_listen(unsigned *port);

/** Exchange hellos. @param [in] hello  Ports; the rest is filled in. @param timeout  In
 *  milliseconds. @return NULL, or why the other process is none that fits. */
const char *accept_link_greet(accept_link_t *link, accept_hello_t *hello, int timeout);

/** Send a frame of the current step. Waits for place, at most ACCEPT_LINK_PATIENCE each time.
 *  @return 1, or 0: the link has ended. */
int accept_link_send(accept_link_t *link, accept_frame_type_t type, const void *data,
                     size_t length);

/** Look for a frame; it stays in link->in until the next call. Frames of earlier steps are
 *  dropped; a command begins its step. @return 1; 0: there is none yet; -1: the other process
 *  has ended, or has sent what is no frame. */
int accept_link_poll(accept_link_t *link);

/** Wait for a frame, at most so many milliseconds. @return as of accept_link_poll(). */
int accept_link_wait(accept_link_t *link, int timeout);

/** Make a text of the other process fit to print: it ends, and has printable characters. */
void accept_link_clean(char *text, size_t size);

void accept_link_close(accept_link_t *link);

#endif
