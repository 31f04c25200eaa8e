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
    virtual bool has_dmabuf() const = 0;

    /* Memory of at least one byte. Errors end the process. */
    virtual void *alloc(size_t length)                                   = 0;
    virtual void free(void *device)                                      = 0;
    virtual void write(void *device, const void *data, size_t length)    = 0;
    virtual void read(void *data, const void *device, size_t length)     = 0;
};

/* "virtual", "cuda", or "host": memory of the host, with the same interface */
std::unique_ptr<gpu> make_gpu(const std::string &kind);

#endif
