/* A stream of checked operations, see ops.h. */
#include "ops.h"

#include <stdlib.h>
#include <string.h>

enum {
    OPS_AM_ID  = 5,
    OPS_STRIDE = 256 /* bytes between two that are checked */
};

struct perf_ops_slot {
    uct_completion_t comp; /* first */
    perf_ops_t       *ops;
    uint64_t         number; /* of its operation */
    int              is_busy;
};

/* ---- the data of an operation ---- */

static char *source_of(const perf_ops_t *ops, const perf_ops_slot_t *slot)
{
    return ops->source.data + (size_t)(slot - ops->slots) * ops->size;
}

static char *target_of(const perf_ops_t *ops, const perf_ops_slot_t *slot)
{
    return ops->target.data + (size_t)(slot - ops->slots) * ops->size;
}

/* The first word of each stride, and the last one */
static void stamp(char *data, size_t size, uint64_t number)
{
    uint64_t value;
    size_t at;

    for (at = 0; at + sizeof(value) <= size; at += OPS_STRIDE) {
        value = (number << 20) + at;
        memcpy(data + at, &value, sizeof(value));
    }
    value = ~number;
    memcpy(data + size - sizeof(value), &value, sizeof(value));
}

static void check_data(const char *data, size_t size, uint64_t number)
{
    uint64_t value;
    size_t at;

    memcpy(&value, data + size - sizeof(value), sizeof(value));
    perf_check(value == ~number, "operation %lu: wrong data at its end",
               (unsigned long)number);
    for (at = 0; at + 2 * sizeof(value) <= size; at += OPS_STRIDE) {
        memcpy(&value, data + at, sizeof(value));
        perf_check(value == (number << 20) + at,
                   "operation %lu: wrong data at byte %zu",
                   (unsigned long)number, at);
    }
}

/* ---- completion ---- */

static void account(perf_ops_t *ops, uint64_t number)
{
    double now = perf_now();

    if (now - ops->last > ops->gap) {
        ops->gap = now - ops->last;
    }
    ops->last = now;
    ++ops->done;
    if ((number < ops->mark) && (--ops->marked == 0)) {
        ops->mark_end = now;
    }
}

static void slot_done(uct_completion_t *comp)
{
    perf_ops_slot_t *slot = (perf_ops_slot_t*)comp;
    perf_ops_t *ops       = slot->ops;

    perf_check(slot->is_busy, "an operation has completed twice");
    slot->is_busy = 0;
    ++ops->returned;
    if (comp->status != UCS_OK) {
        perf_check(ops->a->may_fail, "operation %lu: %s",
                   (unsigned long)slot->number,
                   ucs_status_string(comp->status));
        ++ops->failed;
    } else if (!ops->is_am) {
        check_data(target_of(ops, slot), ops->size, slot->number);
        account(ops, slot->number);
    }
}

static ucs_status_t message(void *arg, void *data, size_t length,
                            unsigned flags)
{
    perf_ops_t *ops = arg;
    uint64_t number;

    (void)flags;
    memcpy(&number, data, sizeof(number));
    perf_check(number == ops->done, "message %lu came in place of %lu",
               (unsigned long)number, (unsigned long)ops->done);
    perf_check(length == sizeof(number) + ops->size, "message %lu: %zu bytes",
               (unsigned long)number, length);
    check_data((char*)data + sizeof(number), ops->size, number);
    account(ops, number);
    return UCS_OK;
}

/* ---- posting ---- */

static ucs_status_t post(perf_ops_t *ops, perf_ops_slot_t *slot)
{
    uct_iov_t iov = {.buffer = source_of(ops, slot), .length = ops->size,
                     .memh = ops->source.memh, .count = 1};

    stamp(iov.buffer, ops->size, ops->posted);
    slot->number      = ops->posted;
    slot->comp.count  = 1;
    slot->comp.status = UCS_OK;
    if (ops->is_am) {
        return uct_ep_am_zcopy(ops->ep, OPS_AM_ID, &slot->number,
                               sizeof(slot->number), &iov, 1, 0, &slot->comp);
    }
    return uct_ep_put_zcopy(ops->ep, &iov, 1,
                            (uintptr_t)target_of(ops, slot),
                            ops->target.key.rkey, &slot->comp);
}

void perf_ops_turn(perf_ops_t *ops)
{
    ucs_status_t status;
    unsigned i;

    for (i = 0; i < ops->window; ++i) {
        if (ops->slots[i].is_busy) {
            continue;
        }

        status = post(ops, &ops->slots[i]);
        if (status == UCS_ERR_NO_RESOURCE) {
            ops->slots[i].number = UINT64_MAX; /* another slot may take the number */
            break;
        }
        if ((status != UCS_INPROGRESS) && (status != UCS_OK)) {
            perf_check(ops->a->may_fail, "post: %s", ucs_status_string(status));
            ++ops->failed;
            break;
        }
        ops->slots[i].is_busy = status == UCS_INPROGRESS; /* OK: a message was copied */
        ops->returned        += status == UCS_OK;
        ++ops->posted;
    }
    if (perf_now() >= ops->busy_end) {
        perf_progress(ops->a, ops->b);
        ops->busy_end = perf_now() + ops->busy;
    } else {
        perf_progress_first(ops->a, ops->b);
    }
}

void perf_ops_finish(perf_ops_t *ops)
{
    unsigned i;

    while ((ops->returned < ops->posted) ||
           ((ops->failed == 0) && (ops->done < ops->posted))) {
        perf_progress(ops->a, ops->b);
    }
    for (i = 0; (i < ops->window) && !ops->is_am && (ops->failed == 0); ++i) {
        perf_ops_slot_t *slot = &ops->slots[i];

        if (slot->number < ops->posted) {
            check_data(target_of(ops, slot), ops->size, slot->number);
        }
    }
}

void perf_ops_mark(perf_ops_t *ops)
{
    ops->mark     = ops->posted;
    ops->marked   = ops->posted - ops->done;
    ops->mark_end = perf_now();
}

/* ---- the stream ---- */

void perf_ops_start(perf_ops_t *ops, uct_ep_h ep)
{
    unsigned i;

    ops->ep     = ep;
    ops->posted = ops->done = ops->returned = ops->failed = 0;
    ops->mark   = ops->marked = 0;
    ops->gap    = 0;
    ops->last   = perf_now();
    for (i = 0; i < ops->window; ++i) {
        ops->slots[i].number = UINT64_MAX;
    }
}

void perf_ops_init(perf_ops_t *ops, perf_side_t *a, perf_side_t *b,
                   const char *kind, size_t size, unsigned window)
{
    unsigned i;

    memset(ops, 0, sizeof(*ops));
    ops->a      = a;
    ops->b      = b;
    ops->is_am  = strcmp(kind, "am") == 0;
    ops->size   = size;
    ops->window = window;
    ops->slots  = calloc(window, sizeof(*ops->slots));
    perf_check(ops->slots != NULL, "no memory");
    perf_check(size >= 2 * sizeof(uint64_t), "operations are too small");
    perf_check(!ops->is_am || (sizeof(uint64_t) + size <=
                               a->attr.cap.am.max_zcopy),
               "a message has at most %zu bytes", a->attr.cap.am.max_zcopy);
    for (i = 0; i < window; ++i) {
        ops->slots[i].ops       = ops;
        ops->slots[i].comp.func = slot_done;
    }
    perf_memory_init(&ops->source, a, size * window);
    perf_memory_init(&ops->target, b, size * window);
    perf_check(uct_iface_set_am_handler(b->iface, OPS_AM_ID, message, ops, 0) ==
               UCS_OK, "handler of messages");
}

void perf_ops_cleanup(perf_ops_t *ops)
{
    perf_memory_cleanup(&ops->source);
    perf_memory_cleanup(&ops->target);
    free(ops->slots);
}
