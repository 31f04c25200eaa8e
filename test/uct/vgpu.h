/*
 * A GPU that is not one, for tests: a memory type of UCX whose memory the CPU may not
 * touch at its addresses. UCP takes it for CUDA memory, and copies to and from it by a
 * transport of its own ("vgpu"), as cuda_copy does. Memory is a mapping of a memfd
 * without access, which the software fabric registers by address (PEER_MEM) or by its
 * descriptor (DMABUF). Whatever else reads or writes it ends the process.
 *
 * May use UCX and libc. Any thread, but for vgpu_attach and vgpu_detach.
 */
#ifndef VQP_TEST_UCT_VGPU_H
#define VQP_TEST_UCT_VGPU_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Make it known to UCX: contexts with the transport "vgpu" have it from now on. */
void vgpu_attach(void);

/** No context uses it any more; UCX keeps it. */
void vgpu_detach(void);

/** Device memory of at least one byte; ends the process if there is none. */
void *vgpu_alloc(size_t length);

/** @param device  What vgpu_alloc has returned. */
void vgpu_free(void *device);

/** Where the CPU sees what is at an address of device memory; NULL: it is of none. */
void *vgpu_host(const void *device);

/** The descriptor of the memory; it stays the memory's. */
int vgpu_fd(const void *device);

/** Bytes that the transport has copied: what UCP staged through host memory. */
size_t vgpu_copied(void);

#ifdef __cplusplus
}
#endif

#endif
