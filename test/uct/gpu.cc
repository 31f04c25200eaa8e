/* GPUs for tests, see gpu.h. libcuda is used by its published ABI: no header is needed. */
#include "gpu.h"
#include "vgpu.h"

#include <uct/api/uct.h>

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace {

class host_memory : public gpu {
public:
    std::string missing() override { return ""; }
    const char *transport() const override { return ""; }
    bool has_dmabuf() const override { return false; }
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
    bool has_dmabuf() const override { return true; }
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

/* The first GPU, with its primary context current in the thread from missing() on */
class cuda_gpu : public gpu {
public:
    ~cuda_gpu() override
    {
        if (is_ready) {
            symbol<int (*)(void*)>("cuCtxSetCurrent")(nullptr);
            symbol<int (*)(int)>("cuDevicePrimaryCtxRelease_v2")(device);
        }
    }

    std::string missing() override
    {
        void *context = nullptr;
        int devices   = 0;
        int error;

        lib = dlopen("libcuda.so.1", RTLD_NOW);
        if (lib == nullptr) {
            return "there is no libcuda.so.1";
        }

        error = symbol<int (*)(unsigned)>("cuInit")(0);
        if ((error != 0) ||
            (symbol<int (*)(int*)>("cuDeviceGetCount")(&devices) != 0) ||
            (devices == 0)) {
            return "there is no CUDA device: error " + std::to_string(error);
        }

        if (!ucx_has_cuda()) {
            return "UCX is built without CUDA";
        }

        check("cuDeviceGet", symbol<int (*)(int*, int)>("cuDeviceGet")(&device, 0));
        check("cuDevicePrimaryCtxRetain",
              symbol<int (*)(void**, int)>("cuDevicePrimaryCtxRetain")(&context,
                                                                       device));
        check("cuCtxSetCurrent", symbol<int (*)(void*)>("cuCtxSetCurrent")(context));
        is_ready = true;
        return "";
    }

    const char *transport() const override { return "cuda_copy"; }

    bool has_dmabuf() const override
    {
        int value = 0;

        (void)symbol<int (*)(int*, int, int)>("cuDeviceGetAttribute")(
                &value, DMA_BUF_SUPPORTED, device);
        return value != 0;
    }

    void *alloc(size_t length) override
    {
        uint64_t address = 0;

        check("cuMemAlloc",
              symbol<int (*)(uint64_t*, size_t)>("cuMemAlloc_v2")(&address, length));
        return (void*)address;
    }

    void free(void *address) override
    {
        check("cuMemFree", symbol<int (*)(uint64_t)>("cuMemFree_v2")((uint64_t)address));
    }

    void write(void *address, const void *data, size_t length) override
    {
        copy((uint64_t)address, (uint64_t)data, length);
    }

    void read(void *data, const void *address, size_t length) override
    {
        copy((uint64_t)data, (uint64_t)address, length);
    }

private:
    enum {
        DMA_BUF_SUPPORTED = 124 /* of CUdevice_attribute */
    };

    static void check(const char *what, int error)
    {
        if (error != 0) {
            fprintf(stderr, "%s: CUDA error %d\n", what, error);
            abort();
        }
    }

    template <typename func_t> func_t symbol(const char *name) const
    {
        func_t func = (func_t)dlsym(lib, name);

        check(name, (func == nullptr) ? -1 : 0);
        return func;
    }

    void copy(uint64_t to, uint64_t from, size_t length)
    {
        check("cuMemcpy",
              symbol<int (*)(uint64_t, uint64_t, size_t)>("cuMemcpy")(to, from, length));
        check("cuCtxSynchronize", symbol<int (*)()>("cuCtxSynchronize")());
    }

    static bool ucx_has_cuda()
    {
        uct_component_attr_t attr;
        uct_component_h *components;
        bool found = false;
        unsigned count, i;

        if (uct_query_components(&components, &count) != UCS_OK) {
            return false;
        }
        for (i = 0; i < count; ++i) {
            attr.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME;
            found           = found ||
                              ((uct_component_query(components[i], &attr) == UCS_OK) &&
                               (strcmp(attr.name, "cuda_cpy") == 0));
        }
        uct_release_component_list(components);
        return found;
    }

    void *lib     = nullptr;
    int device    = 0;
    bool is_ready = false;
};

} // namespace

std::unique_ptr<gpu> make_gpu(const std::string &kind)
{
    if (kind == "cuda") {
        return std::make_unique<cuda_gpu>();
    }
    if (kind == "virtual") {
        return std::make_unique<virtual_gpu>();
    }
    return std::make_unique<host_memory>();
}
