/*
 * Memory of a real GPU, see fab_cuda.h. Constants and signatures are those of CUDA's
 * driver API, so that no header of CUDA is needed.
 */
#include "fab_cuda.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "fab_config.h"

/* Values of CUpointer_attribute and CUmemorytype */
enum {
    CUDA_CONTEXT       = 1,
    CUDA_MEMORY_TYPE   = 2,
    CUDA_IS_MANAGED    = 8,
    CUDA_DEVICE        = 9,
    CUDA_RDMA_CAPABLE  = 15,
    CUDA_MEMORY_DEVICE = 2
};

#define CUDA_PAGE 65536ul /* what nvidia_peermem pins at once */

static struct {
    int (*attribute)(void *data, int attribute, uint64_t addr);
    int (*range)(uint64_t *base, size_t *size, uint64_t addr);
    int (*retain)(void **context, int device);
    int (*release)(int device);
    int (*push)(void *context);
    int (*pop)(void **context);
    int (*copy)(uint64_t dst, uint64_t src, size_t length);
    int (*synchronize)(void *stream);
} cuda;

static int cuda_is_loaded; /* 1: all of the above is there; -1: it never will be */
static uint64_t cuda_bytes;

static int cuda_symbols(void *lib)
{
    const struct {
        const char *name;
        void       **func;
    } symbols[] = {
        {"cuPointerGetAttribute",        (void**)&cuda.attribute},
        {"cuMemGetAddressRange_v2",      (void**)&cuda.range},
        {"cuDevicePrimaryCtxRetain",     (void**)&cuda.retain},
        {"cuDevicePrimaryCtxRelease_v2", (void**)&cuda.release},
        {"cuCtxPushCurrent_v2",          (void**)&cuda.push},
        {"cuCtxPopCurrent_v2",           (void**)&cuda.pop},
        {"cuMemcpy",                     (void**)&cuda.copy},
        {"cuStreamSynchronize",          (void**)&cuda.synchronize}
    };
    size_t i;

    for (i = 0; i < (sizeof(symbols) / sizeof(symbols[0])); ++i) {
        *symbols[i].func = dlsym(lib, symbols[i].name);
        if (*symbols[i].func == NULL) {
            fab_log("libcuda has no %s: memory of GPUs is not known", symbols[i].name);
            return 0;
        }
    }

    return 1;
}

/* The program may load it later: ask again as long as it is not there */
static int cuda_is_there(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    int is_there;
    void *lib;

    pthread_mutex_lock(&lock);
    if (cuda_is_loaded == 0) {
        lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
        if (lib != NULL) {
            cuda_is_loaded = cuda_symbols(lib) ? 1 : -1;
        }
    }
    is_there = cuda_is_loaded > 0;
    pthread_mutex_unlock(&lock);
    return is_there;
}

static int cuda_is_memory(uint64_t addr)
{
    unsigned type = 0, is_managed = 0;

    return (cuda.attribute(&type, CUDA_MEMORY_TYPE, addr) == 0) &&
           (type == CUDA_MEMORY_DEVICE) &&
           ((cuda.attribute(&is_managed, CUDA_IS_MANAGED, addr) != 0) || !is_managed);
}

/*
 * Make the context of an allocation current. Virtual memory and that of a pool have
 * none: then it is the primary one of their device, which is retained.
 *
 * @param [out] device  What to release, or -1.
 */
static int cuda_enter(uint64_t addr, int *device)
{
    void *context = NULL;
    int number    = -1;

    *device = -1;
    if ((cuda.attribute(&context, CUDA_CONTEXT, addr) != 0) || (context == NULL)) {
        if ((cuda.attribute(&number, CUDA_DEVICE, addr) != 0) ||
            (cuda.retain(&context, number) != 0)) {
            return 0;
        }
        *device = number;
    }

    if (cuda.push(context) == 0) {
        return 1;
    }
    if (*device >= 0) {
        (void)cuda.release(*device);
    }
    return 0;
}

static void cuda_leave(int device)
{
    void *context;

    (void)cuda.pop(&context);
    if (device >= 0) {
        (void)cuda.release(device);
    }
}

int fab_cuda_is_device(const void *addr, size_t length)
{
    uint64_t address = (uintptr_t)addr;
    uint64_t base    = 0, end;
    size_t size      = 0;
    int device, ret;

    if (!cuda_is_there() || !cuda_is_memory(address)) {
        return 0;
    }

    if (!cuda_enter(address, &device)) {
        fab_log("GPU memory at %p: its context can not be made current", addr);
        return 0;
    }
    ret = cuda.range(&base, &size, address);
    cuda_leave(device);

    end = (base + size + CUDA_PAGE - 1) & ~(CUDA_PAGE - 1);
    if ((ret != 0) || (length > (end - address))) {
        fab_log("GPU memory at %p, %zu bytes: CUDA error %d, its allocation has %zu "
                "bytes at 0x%llx", addr, length, ret, size, (unsigned long long)base);
        return 0;
    }
    return 1;
}

int fab_cuda_has_pages(const void *addr)
{
    int is_capable = 0;

    /* a driver that does not know the attribute has only such memory */
    return (cuda.attribute(&is_capable, CUDA_RDMA_CAPABLE, (uintptr_t)addr) != 0) ||
           is_capable;
}

int fab_cuda_copy(void *dst, const void *src, size_t length)
{
    uint64_t to   = (uintptr_t)dst;
    uint64_t from = (uintptr_t)src;
    int device, ret;

    if (!cuda_is_there()) {
        return EFAULT;
    }
    if (!cuda_is_memory(to) && !cuda_is_memory(from)) {
        memmove(dst, src, length);
        return 0;
    }
    if (!cuda_enter(cuda_is_memory(to) ? to : from, &device)) {
        return EFAULT;
    }

    ret = cuda.copy(to, from, length);
    if (ret == 0) {
        ret = cuda.synchronize(NULL); /* within GPUs it returns before the copy is done */
    }
    cuda_leave(device);
    if (ret != 0) {
        fab_log("copy of %zu bytes of GPU memory: CUDA error %d", length, ret);
        return EFAULT;
    }

    __atomic_fetch_add(&cuda_bytes, length, __ATOMIC_RELAXED);
    return 0;
}

uint64_t fab_cuda_bytes(void)
{
    return __atomic_load_n(&cuda_bytes, __ATOMIC_RELAXED);
}
