/*
 * The heap in the world: powers of two, a free list for each, and blocks that
 * know their process, so that what a dead one left is found. May call libc and
 * fab_world.
 */
#include "fab_world.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

enum {
    HEADER    = 64,      /* keeps blocks on cache lines of their own */
    MIN_SHIFT = 7,
    PUNCH     = 64 << 10 /* blocks from here on go back to the system */
};

/* Before each block, which has 1 << (MIN_SHIFT + bin) bytes with it */
struct fab_block {
    uint32_t bin;
    uint32_t owner; /* process + 1; 0: free */
    uint64_t next;  /* free: the next one of its bin */
};

static size_t fab_block_size(uint32_t bin)
{
    return (size_t)1 << (MIN_SHIFT + bin);
}

/* From the free list, else from the end; with the lock held */
static struct fab_block *fab_heap_take(uint32_t bin, int *fresh)
{
    struct fab_world *world = fab_world;
    size_t size             = fab_block_size(bin);
    struct fab_block *block;

    *fresh = 0;
    if (world->heap_bins[bin] != 0) {
        block                 = fab_ptr(struct fab_block, world->heap_bins[bin]);
        world->heap_bins[bin] = block->next;
        block->owner          = fab_world_self + 1;
        return block;
    }

    if ((world->size - world->heap_end) < size) {
        return NULL;
    }

    *fresh            = 1;
    block             = fab_ptr(struct fab_block, world->heap_end);
    block->bin        = bin;
    block->owner      = fab_world_self + 1;
    world->heap_end  += size;
    return block;
}

void *fab_heap_alloc(size_t size)
{
    uint32_t bin = 0;
    struct fab_block *block;
    int fresh;

    while ((bin < (FAB_HEAP_BINS - MIN_SHIFT)) &&
           (fab_block_size(bin) < (size + HEADER))) {
        ++bin;
    }

    fab_lock_take(&fab_world->heap_lock);
    block = fab_heap_take(bin, &fresh);
    fab_lock_drop(&fab_world->heap_lock);
    if (block == NULL) {
        errno = ENOMEM;
        return NULL;
    }

    /* large blocks were given back to the system, which returns zeroes */
    if (!fresh && (fab_block_size(bin) < PUNCH)) {
        memset((char*)block + HEADER, 0, fab_block_size(bin) - HEADER);
    }
    return (char*)block + HEADER;
}

/* With the lock held */
static void fab_heap_put(struct fab_block *block)
{
    block->owner                     = 0;
    block->next                      = fab_world->heap_bins[block->bin];
    fab_world->heap_bins[block->bin] = fab_off(block);
}

/* The pages wholly inside of a large block */
static void fab_heap_punch(struct fab_block *block)
{
    const uintptr_t page = 4096;
    size_t size          = fab_block_size(block->bin);
    char *begin, *first;

    if (size < PUNCH) {
        return;
    }

    begin = (char*)block + HEADER;
    first = (char*)(((uintptr_t)begin + page - 1) & ~(page - 1));
    memset(begin, 0, (size_t)(first - begin));
    size  = (size_t)((char*)block + size - first);
    if (madvise(first, size & ~(page - 1), MADV_REMOVE) != 0) {
        memset(first, 0, size);
        return;
    }
    memset(first + (size & ~(page - 1)), 0, size & (page - 1));
}

void fab_heap_free(void *ptr)
{
    struct fab_block *block;

    if (ptr == NULL) {
        return;
    }

    block = (struct fab_block*)((char*)ptr - HEADER);
    fab_heap_punch(block);
    fab_lock_take(&fab_world->heap_lock);
    fab_heap_put(block);
    fab_lock_drop(&fab_world->heap_lock);
}

void fab_heap_reap(uint32_t proc)
{
    uint64_t pos;

    fab_lock_take(&fab_world->heap_lock);
    pos = fab_world->heap_first;
    while (pos < fab_world->heap_end) {
        struct fab_block *block = fab_ptr(struct fab_block, pos);

        if (block->owner == (proc + 1)) {
            fab_heap_punch(block);
            fab_heap_put(block);
        }
        pos += fab_block_size(block->bin);
    }
    fab_lock_drop(&fab_world->heap_lock);
}
