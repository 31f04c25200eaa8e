/*
 * Memory of a real GPU for tests, see gpu.h. libcuda is used by its published ABI: no
 * header is needed.
 */
#include "gpu.h"

#include <uct/api/uct.h>

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <map>

namespace {

/* The first GPU, with its primary context current in the thread from missing() on.
 * Its memory is that of cuMemAlloc. */
class cuda_gpu : public gpu {
public:
    ~cuda_gpu() override
    {
        if (md != nullptr) {
            uct_md_close(md);
        }
        if (is_ready) {
            call("cuCtxSetCurrent", (void*)nullptr);
            call("cuDevicePrimaryCtxRelease_v2", device);
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

        call("cuDeviceGet", &device, 0);
        call("cuDevicePrimaryCtxRetain", &context, device);
        call("cuCtxSetCurrent", context);
        is_ready = true;
        if (!has(needs())) {
            return "this GPU has no such memory";
        }

        md = open_cuda_copy();
        return (md == nullptr) ? "UCX is built without CUDA" : "";
    }

    const char *transport() const override { return "cuda_copy"; }

    bool has_dmabuf() override
    {
        const size_t length = 2 << 20;
        void *address       = alloc(length);
        int fd              = -1;
        int (*export_fd)(int*, uint64_t, size_t, int, unsigned long long);

        /* libcuda before 11.7 has none */
        *(void**)&export_fd = dlsym(lib, "cuMemGetHandleForAddressRange");
        if (export_fd != nullptr) {
            (void)export_fd(&fd, (uint64_t)address, length, DMA_BUF_FD, 0);
        }
        free(address);
        if (fd < 0) {
            return false;
        }
        close(fd);
        return true;
    }

    bool has_pages() override
    {
        void *address  = alloc(1);
        int is_capable = 0;
        int error;

        /* a driver that does not know the attribute has only such memory */
        error = symbol<int (*)(void*, int, uint64_t)>("cuPointerGetAttribute")(
                &is_capable, RDMA_CAPABLE, (uint64_t)address);
        free(address);
        return (error != 0) || is_capable;
    }

    bool is_managed() override
    {
        ucs_memory_type_t type = UCS_MEMORY_TYPE_LAST;
        void *address          = alloc(1);

        /* UCX's own error is logged; then it is of no type */
        (void)uct_md_detect_memory_type(md, address, 1, &type);
        free(address);
        return type == UCS_MEMORY_TYPE_CUDA_MANAGED;
    }

    void *alloc(size_t length) override
    {
        uint64_t address = 0;

        call("cuMemAlloc_v2", &address, length);
        return (void*)address;
    }

    void free(void *address) override
    {
        call("cuMemFree_v2", (uint64_t)address);
    }

    void write(void *address, const void *data, size_t length) override
    {
        copy((uint64_t)address, (uint64_t)data, length);
    }

    void read(void *data, const void *address, size_t length) override
    {
        copy((uint64_t)data, (uint64_t)address, length);
    }

protected:
    enum { /* of CUdevice_attribute */
        UNIFIED_ADDRESSING     = 41,
        MANAGED_MEMORY         = 83,
        VIRTUAL_MEMORY         = 102,
        RDMA_OF_VIRTUAL_MEMORY = 110,
        MEMORY_POOLS           = 115
    };

    /* The attribute of a device that has this memory */
    virtual int needs() const { return UNIFIED_ADDRESSING; }

    bool has(int attribute) const
    {
        int value = 0;

        (void)symbol<int (*)(int*, int, int)>("cuDeviceGetAttribute")(&value, attribute,
                                                                      device);
        return value != 0;
    }

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

    /* Call a function of libcuda, whose parameters have exactly these types */
    template <typename... args_t> void call(const char *name, args_t... args) const
    {
        check(name, symbol<int (*)(args_t...)>(name)(args...));
    }

    int device = 0;

private:
    enum {
        DMA_BUF_FD   = 1, /* of CUmemRangeHandleType */
        RDMA_CAPABLE = 15 /* of CUpointer_attribute */
    };

    void copy(uint64_t to, uint64_t from, size_t length)
    {
        call("cuMemcpy", to, from, length);
        call("cuCtxSynchronize");
    }

    /* The memory domain of cuda_copy, which tells UCP what memory is; NULL: none */
    static uct_md_h open_cuda_copy()
    {
        uct_component_h *components;
        uct_component_attr_t attr;
        uct_md_config_t *config;
        uct_md_h found = nullptr;
        unsigned count, i;

        if (uct_query_components(&components, &count) != UCS_OK) {
            return nullptr;
        }
        for (i = 0; (i < count) && (found == nullptr); ++i) {
            attr.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME;
            if ((uct_component_query(components[i], &attr) != UCS_OK) ||
                (strcmp(attr.name, "cuda_cpy") != 0) ||
                (uct_md_config_read(components[i], NULL, NULL, &config) != UCS_OK)) {
                continue;
            }
            (void)uct_md_open(components[i], attr.name, config, &found);
            uct_config_release(config);
        }
        uct_release_component_list(components);
        return found;
    }

    uct_md_h md   = nullptr;
    void *lib     = nullptr;
    bool is_ready = false;
};

/* Memory of the default pool, in the order of the default stream */
class cuda_pool : public cuda_gpu {
public:
    void *alloc(size_t length) override
    {
        uint64_t address = 0;

        call("cuMemAllocAsync", &address, length, DEFAULT_STREAM);
        call("cuStreamSynchronize", DEFAULT_STREAM);
        return (void*)address;
    }

    void free(void *address) override
    {
        call("cuMemFreeAsync", (uint64_t)address, DEFAULT_STREAM);
        call("cuStreamSynchronize", DEFAULT_STREAM);
    }

protected:
    int needs() const override { return MEMORY_POOLS; }

private:
    static constexpr void *DEFAULT_STREAM = nullptr;
};

/* Memory whose pages move between the GPU and the host */
class cuda_managed : public cuda_gpu {
public:
    void *alloc(size_t length) override
    {
        uint64_t address = 0;

        call("cuMemAllocManaged", &address, length, ATTACH_GLOBAL);
        return (void*)address;
    }

protected:
    int needs() const override { return MANAGED_MEMORY; }

private:
    static const unsigned ATTACH_GLOBAL = 1; /* of CUmemAttach_flags */
};

/* Memory that is mapped to reserved addresses, made with or without the flag that RDMA
 * devices may reach it */
class cuda_mapped : public cuda_gpu {
public:
    explicit cuda_mapped(bool is_for_rdma_) : is_for_rdma(is_for_rdma_) {}

    void *alloc(size_t length) override
    {
        const properties props = describe();
        const access rights    = {{LOCATION_DEVICE, device}, ACCESS_READ_WRITE};
        uint64_t address = 0, handle = 0;
        size_t unit = 0;

        call("cuMemGetAllocationGranularity", &unit, &props, (int)MINIMUM);
        length = (length + unit - 1) / unit * unit;
        call("cuMemCreate", &handle, length, &props, NO_FLAGS);
        call("cuMemAddressReserve", &address, length, (size_t)0, (uint64_t)0, NO_FLAGS);
        call("cuMemMap", address, length, (size_t)0, handle, NO_FLAGS);
        call("cuMemSetAccess", address, length, &rights, (size_t)1);
        call("cuMemRelease", handle); /* the mapping keeps the memory */
        lengths[address] = length;
        return (void*)address;
    }

    void free(void *address_) override
    {
        const uint64_t address = (uint64_t)address_;
        const size_t length    = lengths.at(address);

        call("cuMemUnmap", address, length);
        call("cuMemAddressFree", address, length);
        lengths.erase(address);
    }

protected:
    int needs() const override
    {
        return is_for_rdma ? RDMA_OF_VIRTUAL_MEMORY : VIRTUAL_MEMORY;
    }

private:
    enum {
        MINIMUM           = 0, /* of CUmemAllocationGranularity_flags */
        ALLOCATION_PINNED = 1,
        LOCATION_DEVICE   = 1,
        ACCESS_READ_WRITE = 3
    };

    static const unsigned long long NO_FLAGS = 0;

    struct location {
        int type;
        int id;
    };

    struct properties { /* CUmemAllocationProp */
        int           type;
        int           handle_types;
        location      where;
        void          *win32;
        unsigned char compression;
        unsigned char is_for_rdma;
        uint16_t      usage;
        unsigned char reserved[4];
    };

    struct access { /* CUmemAccessDesc */
        location where;
        int      flags;
    };

    properties describe() const
    {
        properties props = {};

        props.type        = ALLOCATION_PINNED;
        props.where       = {LOCATION_DEVICE, device};
        props.is_for_rdma = is_for_rdma;
        return props;
    }

    const bool is_for_rdma;
    std::map<uint64_t, size_t> lengths;
};

} // namespace

std::unique_ptr<gpu> make_cuda_gpu(const std::string &kind)
{
    if (kind == "cuda_pool") {
        return std::make_unique<cuda_pool>();
    }
    if (kind == "cuda_managed") {
        return std::make_unique<cuda_managed>();
    }
    if ((kind == "cuda_mapped") || (kind == "cuda_mapped_rdma")) {
        return std::make_unique<cuda_mapped>(kind == "cuda_mapped_rdma");
    }
    return (kind == "cuda") ? std::make_unique<cuda_gpu>() : nullptr;
}
