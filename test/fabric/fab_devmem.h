/*
 * Memory that the CPU may not touch at the address which its owner has: that of a
 * dmabuf descriptor, and "device memory", a shared mapping of a memfd without access
 * (PROT_NONE). The fabric's devices reach both through a mapping of their own, and the
 * memory of a real GPU, which the CPU can not map, by libcuda. May call libc,
 * fab_config, fab_cuda.
 */
#ifndef FAB_DEVMEM_H
#define FAB_DEVMEM_H

#include <stddef.h>
#include <stdint.h>

/* A mapping that the devices use */
struct fab_devmem {
    void   *base;  /* NULL: none */
    size_t length;
    int    is_cuda; /* of a real GPU: no mapping, the address is the owner's */
};

/**
 * Map what a descriptor has, as ibv_reg_dmabuf_mr() pins it. A memfd and a udmabuf
 * serve as dmabufs, and where @a addr is memory of a real GPU, the dmabuf of that.
 *
 * @param [in,out] addr  The owner's address of the byte at @a offset; where the fabric
 *                       reaches it.
 * @return 0; EBADF: no descriptor; EINVAL: it has no such memory; ENOMEM.
 */
int fab_devmem_map(struct fab_devmem *mem, int fd, uint64_t offset, size_t length,
                   void **addr);

/**
 * Map device memory, if all of these addresses are of one: the service that a peer
 * memory driver (nvidia_peermem) does for ibv_reg_mr().
 *
 * @param [in,out] addr  The owner's address; where the fabric reaches it.
 * @return 0; ENOENT: they are not, or the driver of a real GPU does not give these
 *         pages; EINVAL, ENOMEM.
 */
int fab_devmem_find(struct fab_devmem *mem, size_t length, void **addr);

void fab_devmem_unmap(struct fab_devmem *mem);

#endif
