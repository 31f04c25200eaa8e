/*
 * Memory of a real NVIDIA GPU, through libcuda where the program has loaded it. The
 * fabric does not link with it and never loads it: without it there is no such memory.
 * It has one address in its process, and the CPU has no mapping of it. May call libc
 * and fab_config. All functions may be called in any thread, with any CUDA context
 * current, or with none.
 */
#ifndef FAB_CUDA_H
#define FAB_CUDA_H

#include <stddef.h>
#include <stdint.h>

/**
 * Are these addresses of one allocation in the memory of a GPU? The allocation counts
 * in whole pages of the GPU, as a driver pins it: UCX rounds lengths up. Managed memory
 * is none, since the CPU has it, too.
 */
int fab_cuda_is_device(const void *addr, size_t length);

/**
 * Does the GPU's driver give the pages of such memory to the drivers of RDMA devices?
 * It gives those of cuMemAlloc, and of cuMemCreate with gpuDirectRDMACapable; not those
 * of pools. Only for addresses of which fab_cuda_is_device() is true.
 */
int fab_cuda_has_pages(const void *addr);

/**
 * Copy within this process, from or to such memory; pieces of the host between them are
 * copied, too. The data is there at the return.
 * @return 0 or EFAULT.
 */
int fab_cuda_copy(void *dst, const void *src, size_t length);

/** Bytes that fab_cuda_copy() has copied from or to a GPU in this process. */
uint64_t fab_cuda_bytes(void);

#endif
