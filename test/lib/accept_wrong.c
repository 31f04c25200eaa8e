/*
 * For LD_PRELOAD: what a transport that breaks its promises does to vqp-accept. By
 * $ACCEPT_WRONG the 100th message that arrives in a stream is given to its handler twice,
 * is lost, changes places with the next one, or has a wrong byte; or, when it arrives, a byte
 * of the target of the puts, or the cell of the atomics, changes. Without UCX's headers.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define NTH       100
#define STREAM_ID 7 /* of the messages of a stream */

typedef int (*handler_t)(void *arg, void *data, size_t length, unsigned flags);
typedef int (*set_handler_t)(void *iface, uint8_t id, handler_t handler, void *arg,
                             uint32_t flags);
typedef int (*mem_reg_t)(void *md, void *address, size_t length, unsigned flags,
                         void **memh);

int uct_iface_set_am_handler(void *iface, uint8_t id, handler_t handler, void *arg,
                             uint32_t flags);
int uct_md_mem_reg(void *md, void *address, size_t length, unsigned flags, void **memh);

static handler_t real_handler;
static unsigned long count;
static char *target, *cell;      /* what was registered last but one, and last */
static char held[65536];
static size_t held_length;

static int is_wrong(const char *how)
{
    const char *what = getenv("ACCEPT_WRONG");

    return (what != NULL) && (strcmp(what, how) == 0);
}

static int handler(void *arg, void *data, size_t length, unsigned flags)
{
    if (++count == NTH + 1 && held_length != 0) {
        (void)real_handler(arg, data, length, flags);
        return real_handler(arg, held, held_length, flags);
    } else if (count != NTH) {
        return real_handler(arg, data, length, flags);
    }

    if (is_wrong("lost")) {
        return 0;
    } else if (is_wrong("order")) {
        memcpy(held, data, length);
        held_length = length;
        return 0;
    } else if (is_wrong("twice")) {
        (void)real_handler(arg, data, length, flags);
    } else if (is_wrong("message")) {
        memcpy(held, data, length);
        held[length - 1] ^= 1;
        return real_handler(arg, held, length, flags);
    } else if (is_wrong("put")) {
        target[12345] ^= 1;
    } else if (is_wrong("atomic")) {
        ++*(uint64_t*)cell;
    }

    return real_handler(arg, data, length, flags);
}

int uct_iface_set_am_handler(void *iface, uint8_t id, handler_t func, void *arg,
                             uint32_t flags)
{
    set_handler_t next;

    *(void**)&next = dlsym(RTLD_NEXT, "uct_iface_set_am_handler");
    if (id != STREAM_ID) {
        return next(iface, id, func, arg, flags);
    }

    real_handler = func;
    return next(iface, id, handler, arg, flags);
}

int uct_md_mem_reg(void *md, void *address, size_t length, unsigned flags, void **memh)
{
    mem_reg_t next;

    *(void**)&next = dlsym(RTLD_NEXT, "uct_md_mem_reg");
    target         = cell;
    cell           = address;
    return next(md, address, length, flags, memh);
}
