/* GPUs for tests, see gpu.h: the virtual one, and memory of the host. */
#include "gpu.h"
#include "vgpu.h"

#include <stdlib.h>
#include <string.h>

namespace {

class host_memory : public gpu {
public:
    std::string missing() override { return ""; }
    const char *transport() const override { return ""; }
    bool has_dmabuf() override { return false; }
    bool has_pages() override { return true; }
    bool is_managed() override { return false; }
    void *alloc(size_t length) override { return ::malloc(length); }
    void free(void *device) override { ::free(device); }

    void write(void *device, const void *data, size_t length) override
    {
        memcpy(device, data, length);
    }

    void read(void *data, const void *device, size_t length) override
    {
        memcpy(data, device, length);
    }
};

class virtual_gpu : public gpu {
public:
    std::string missing() override { return ""; }
    const char *transport() const override { return "vgpu"; }
    bool has_dmabuf() override { return true; }
    bool has_pages() override { return true; }
    bool is_managed() override { return false; }
    void *alloc(size_t length) override { return vgpu_alloc(length); }
    void free(void *device) override { vgpu_free(device); }

    void write(void *device, const void *data, size_t length) override
    {
        memcpy(vgpu_host(device), data, length);
    }

    void read(void *data, const void *device, size_t length) override
    {
        memcpy(data, vgpu_host(device), length);
    }
};

} // namespace

std::unique_ptr<gpu> make_gpu(const std::string &kind)
{
    if (kind == "virtual") {
        return std::make_unique<virtual_gpu>();
    }
    if (kind == "host") {
        return std::make_unique<host_memory>();
    }
    return make_cuda_gpu(kind);
}
