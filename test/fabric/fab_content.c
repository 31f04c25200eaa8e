/*
 * Hash of a gather list, read by the kernel: so memory that is not mapped is an
 * error and no crash.
 */
#include "fab_content.h"

#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* An entry of up to CONTENT_WHOLE bytes is read whole, of a longer one
   CONTENT_SAMPLES pieces, evenly spaced */
#define CONTENT_WHOLE   512
#define CONTENT_SAMPLES 8
#define CONTENT_PIECE   (CONTENT_WHOLE / CONTENT_SAMPLES)

static int content_pieces(const struct ibv_sge *sge, struct iovec *iov)
{
    uint64_t step;
    int i;

    if (sge->length <= CONTENT_WHOLE) {
        iov[0].iov_base = (void*)(uintptr_t)sge->addr;
        iov[0].iov_len  = sge->length;
        return 1;
    }

    step = (sge->length - CONTENT_PIECE) / (CONTENT_SAMPLES - 1);
    for (i = 0; i < CONTENT_SAMPLES; ++i) {
        iov[i].iov_base = (void*)(uintptr_t)(sge->addr + i * step);
        iov[i].iov_len  = CONTENT_PIECE;
    }

    /* rounded down: the end itself */
    iov[i - 1].iov_base = (void*)(uintptr_t)(sge->addr + sge->length -
                                             CONTENT_PIECE);
    return CONTENT_SAMPLES;
}

static uint64_t content_mix(uint64_t hash, const unsigned char *data,
                            size_t length)
{
    uint64_t word;

    for (; length >= sizeof(word); data += 8, length -= sizeof(word)) {
        memcpy(&word, data, sizeof(word));
        hash  = (hash ^ word) * 0x9e3779b97f4a7c15ull;
        hash ^= hash >> 29;
    }

    for (; length > 0; ++data, --length) {
        hash = (hash ^ *data) * 0x100000001b3ull;
    }

    return hash;
}

int fab_content_hash(const struct ibv_sge *sge, int num_sge, uint64_t *hash)
{
    unsigned char data[CONTENT_WHOLE];
    struct iovec local, remote[CONTENT_SAMPLES];
    ssize_t got;
    int i, count;

    *hash = 1;
    for (i = 0; i < num_sge; ++i) {
        if (sge[i].length == 0) {
            continue;
        }

        count          = content_pieces(&sge[i], remote);
        local.iov_base = data;
        local.iov_len  = (sge[i].length <= CONTENT_WHOLE) ? sge[i].length :
                                                            CONTENT_WHOLE;
        got = process_vm_readv(getpid(), &local, 1, remote, count, 0);
        if (got != (ssize_t)local.iov_len) {
            return -1;
        }

        *hash = content_mix(*hash, data, local.iov_len);
    }

    return 0;
}
