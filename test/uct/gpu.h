/*
 * GPUs for tests through UCP: the virtual one (vgpu.h), and a real one of NVIDIA where
 * the machine has one, through libcuda. Used by one thread.
 */
#ifndef VQP_TEST_UCT_GPU_H
#define VQP_TEST_UCT_GPU_H

#include <stddef.h>

#include <memory>
#include <string>

class gpu {
public:
    virtual ~gpu() = default;

    /* Why it can not be used; empty: it can */
    virtual std::string missing() = 0;

    /* The transport by which UCP copies to and from its memory */
    virtual const char *transport() const = 0;

    /* Has its memory dmabuf descriptors? */
    virtual bool has_dmabuf() = 0;

    /* Does the GPU's driver give its pages to the drivers of RDMA devices? */
    virtual bool has_pages() = 0;

    /* Does UCX take it for managed memory, which it does not register? */
    virtual bool is_managed() = 0;

    /* Memory of at least one byte. Errors end the process. */
    virtual void *alloc(size_t length)                                   = 0;
    virtual void free(void *device)                                      = 0;
    virtual void write(void *device, const void *data, size_t length)    = 0;
    virtual void read(void *data, const void *device, size_t length)     = 0;
};

/* "virtual", a kind of memory of a real GPU as below, or "host": memory of the host, with
 * the same interface */
std::unique_ptr<gpu> make_gpu(const std::string &kind);

/*
 * Memory of a real GPU, by how it is allocated:
 *
 * "cuda"              cuMemAlloc
 * "cuda_pool"         cuMemAllocAsync, of the default pool
 * "cuda_managed"      cuMemAllocManaged
 * "cuda_mapped"       cuMemCreate and cuMemMap
 * "cuda_mapped_rdma"  the same, with the flag gpuDirectRDMACapable
 *
 * NULL: there is no such kind.
 */
std::unique_ptr<gpu> make_cuda_gpu(const std::string &kind);

#endif
