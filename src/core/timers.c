/* SPDX-License-Identifier: BSD-3-Clause */
/* The timers of an interface, see timers.h. Pure: libc only. */
#include "core/timers.h"

/* The heap of two heaps: the one that is due later becomes a child of the other */
static vqp_timer_t *vqp_timers_merge(vqp_timer_t *a, vqp_timer_t *b)
{
    vqp_timer_t *first, *later;

    if ((a == NULL) || (b == NULL)) {
        return (a == NULL) ? b : a;
    }

    first       = (b->due < a->due) ? b : a;
    later       = (b->due < a->due) ? a : b;
    later->prev = first;
    later->next = first->child;
    if (first->child != NULL) {
        first->child->prev = later;
    }
    first->child = later;
    return first;
}

/* The heap of all children of a node: in pairs first, then these from the last on. This
 * is what makes it O(log n) */
static vqp_timer_t *vqp_timers_merge_children(vqp_timer_t *child)
{
    vqp_timer_t *pairs = NULL, *root = NULL;
    vqp_timer_t *a, *b;

    while ((a = child) != NULL) {
        b     = a->next;
        child = (b == NULL) ? NULL : b->next;
        a->next = a->prev = NULL;
        if (b != NULL) {
            b->next = b->prev = NULL;
        }
        a       = vqp_timers_merge(a, b);
        a->next = pairs;
        pairs   = a;
    }

    while ((a = pairs) != NULL) {
        pairs   = a->next;
        a->next = NULL;
        root    = vqp_timers_merge(root, a);
    }

    return root;
}

static void vqp_timers_remove(vqp_timers_t *timers, vqp_timer_t *timer)
{
    vqp_timer_t *rest = vqp_timers_merge_children(timer->child);

    if (timer == timers->root) {
        timers->root = rest;
    } else {
        *((timer->prev->child == timer) ? &timer->prev->child :
                                          &timer->prev->next) = timer->next;
        if (timer->next != NULL) {
            timer->next->prev = timer->prev;
        }
        timers->root = vqp_timers_merge(timers->root, rest);
    }

    timer->child  = timer->next = timer->prev = NULL;
    timer->is_set = 0;
}

void vqp_timers_set(vqp_timers_t *timers, vqp_timer_t *timer, uint64_t due)
{
    if (timer->is_set) {
        if (timer->due == due) {
            return;
        }
        vqp_timers_remove(timers, timer);
    }

    if (due != VQP_TIMER_NEVER) {
        timer->due    = due;
        timer->is_set = 1;
        timers->root  = vqp_timers_merge(timers->root, timer);
    }
}

vqp_timer_t *vqp_timers_pop(vqp_timers_t *timers, uint64_t now)
{
    vqp_timer_t *timer = timers->root;

    if ((timer == NULL) || (timer->due > now)) {
        return NULL;
    }

    vqp_timers_remove(timers, timer);
    return timer;
}
