/*
 * The allocators of libc in front of libc's, see nth_alloc.h. A program's own
 * definitions come before those of any library.
 */
#include "nth_alloc.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#ifdef __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define NTH_ALLOC 0
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define NTH_ALLOC 0
#endif

#ifndef NTH_ALLOC
#define NTH_ALLOC 1
#endif

/* The transport's code: set before the first failure is asked for */
static uintptr_t code_begin, code_end;
static std::atomic<unsigned> countdown(0);
static std::atomic<bool> failed(false), in_ucx(false);
static std::atomic<long> live(0), mapped(0);

static int find_code(struct dl_phdr_info *info, size_t, void *)
{
    if (strstr(info->dlpi_name, "libuct_vqp.so") == NULL) {
        return 0;
    }

    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if ((segment->p_type == PT_LOAD) && (segment->p_flags & PF_X)) {
            code_begin = info->dlpi_addr + segment->p_vaddr;
            code_end   = code_begin + segment->p_memsz;
        }
    }

    return 1;
}

bool nth_alloc_possible()
{
    dl_iterate_phdr(find_code, NULL);
    return NTH_ALLOC && (code_begin != 0);
}

void nth_alloc_fail(unsigned n)
{
    failed    = false;
    in_ucx    = false;
    countdown = n;
}

bool nth_alloc_failed()
{
    return failed;
}

bool nth_alloc_failed_in_ucx()
{
    return in_ucx;
}

long nth_alloc_live()
{
    return live;
}

long nth_alloc_mapped()
{
    return mapped;
}

#if NTH_ALLOC

/* Whether this call of the transport is the one */
static bool is_the_one()
{
    unsigned left = countdown;

    while (!countdown.compare_exchange_weak(left, left - 1)) {
        if (left == 0) {
            return false;
        }
    }

    if (left == 1) {
        failed = true;
        errno  = ENOMEM;
    }
    return left == 1;
}

static bool is_transport(const void *caller)
{
    uintptr_t address = (uintptr_t)caller;

    return (address >= code_begin) && (address < code_end);
}

/* UCX's allocators call each other, and libc's, by a jump where they can: then
 * the transport seems to be the caller, although that was counted already */
static thread_local bool inside;

template <typename func_t, typename... args_t>
static auto uncounted(func_t real, args_t... args) -> decltype(real(args...))
{
    bool before = inside;

    inside      = true;
    auto result = real(args...);
    inside      = before;
    return result;
}

/* Whether a call, which may be anybody's, is the one */
static bool fails(const void *caller)
{
    return (countdown != 0) && !inside && is_transport(caller) && is_the_one();
}

/* A piece that was allocated, or none */
static void *counted(void *piece)
{
    live += (piece != NULL);
    return piece;
}

static bool fails_in_ucx(bool is_one)
{
    in_ucx = in_ucx || is_one;
    return is_one;
}

#define FAILS() fails(__builtin_return_address(0))

/* The function of that name in the library that has it */
template <typename func_t> static func_t next(func_t, const char *name)
{
    return (func_t)dlsym(RTLD_NEXT, name);
}

extern "C" {

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *piece);

void *malloc(size_t size)
{
    return FAILS() ? NULL : counted(__libc_malloc(size));
}

void *calloc(size_t count, size_t size)
{
    return FAILS() ? NULL : counted(__libc_calloc(count, size));
}

void *realloc(void *old, size_t size)
{
    void *piece;

    if (FAILS()) {
        return NULL;
    }

    piece = __libc_realloc(old, size);
    if (old == NULL) {
        return counted(piece);
    }
    live -= (size == 0) && (piece == NULL); /* it was freed */
    return piece;
}

void free(void *piece)
{
    live -= (piece != NULL);
    __libc_free(piece);
}

void *memalign(size_t alignment, size_t size)
{
    return FAILS() ? NULL : counted(__libc_memalign(alignment, size));
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return FAILS() ? NULL : counted(__libc_memalign(alignment, size));
}

int posix_memalign(void **result, size_t alignment, size_t size)
{
    if (FAILS()) {
        return ENOMEM;
    }

    *result = counted(__libc_memalign(alignment, size));
    return (*result == NULL) ? ENOMEM : 0;
}

char *strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy  = FAILS() ? NULL :
                                    (char*)counted(__libc_malloc(size));

    return (copy == NULL) ? NULL : (char*)memcpy(copy, text, size);
}

void *mmap(void *address, size_t length, int protection, int flags, int fd,
           off_t offset)
{
    void *piece;

    if (FAILS()) {
        return MAP_FAILED;
    }

    piece = (void*)syscall(SYS_mmap, address, length, protection, flags, fd,
                           offset);
    if ((piece != MAP_FAILED) && is_transport(__builtin_return_address(0))) {
        mapped += (long)length;
    }
    return piece;
}

int munmap(void *address, size_t length)
{
    int status = (int)syscall(SYS_munmap, address, length);

    if ((status == 0) && is_transport(__builtin_return_address(0))) {
        mapped -= (long)length;
    }
    return status;
}

/* UCX's own, which the transport calls */

void *ucs_malloc(size_t size, const char *name)
{
    static auto real = next(ucs_malloc, "ucs_malloc");

    return FAILS() ? NULL : uncounted(real, size, name);
}

void *ucs_calloc(size_t count, size_t size, const char *name)
{
    static auto real = next(ucs_calloc, "ucs_calloc");

    return FAILS() ? NULL : uncounted(real, count, size, name);
}

int ucs_posix_memalign(void **result, size_t alignment, size_t size,
                       const char *name)
{
    static auto real = next(ucs_posix_memalign, "ucs_posix_memalign");

    return FAILS() ? ENOMEM : uncounted(real, result, alignment, size, name);
}

char *ucs_strdup(const char *text, const char *name)
{
    static auto real = next(ucs_strdup, "ucs_strdup");

    return FAILS() ? NULL : uncounted(real, text, name);
}

/* Interfaces and endpoints */
void *ucs_class_malloc(void *type)
{
    static auto real = next(ucs_class_malloc, "ucs_class_malloc");

    return fails_in_ucx(FAILS()) ? NULL : uncounted(real, type);
}

/* Of the transport's pools, from inside UCX: the transport gave it this name */
int ucs_mpool_chunk_malloc(void *pool, size_t *size, void **chunk)
{
    static auto real = next(ucs_mpool_chunk_malloc, "ucs_mpool_chunk_malloc");

    return fails_in_ucx(is_the_one()) ? -4 /* NO_MEMORY */ :
                                        uncounted(real, pool, size, chunk);
}

} /* extern "C" */

#endif
