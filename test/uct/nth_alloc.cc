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
static std::atomic<bool> failed(false);

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
    countdown = n;
}

bool nth_alloc_failed()
{
    return failed;
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

/* The same for a call that may be anybody's */
static bool fails(const void *caller)
{
    uintptr_t address = (uintptr_t)caller;

    return (countdown != 0) && (address >= code_begin) &&
           (address < code_end) && is_the_one();
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

void *malloc(size_t size)
{
    return FAILS() ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return FAILS() ? NULL : __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
    return FAILS() ? NULL : __libc_realloc(old, size);
}

int posix_memalign(void **result, size_t alignment, size_t size)
{
    if (FAILS()) {
        return ENOMEM;
    }

    *result = __libc_memalign(alignment, size);
    return (*result == NULL) ? ENOMEM : 0;
}

char *strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy  = FAILS() ? NULL : (char*)__libc_malloc(size);

    return (copy == NULL) ? NULL : (char*)memcpy(copy, text, size);
}

void *mmap(void *address, size_t length, int protection, int flags, int fd,
           off_t offset)
{
    if (FAILS()) {
        return MAP_FAILED;
    }

    return (void*)syscall(SYS_mmap, address, length, protection, flags, fd,
                          offset);
}

/* UCX's own, which the transport calls */

void *ucs_malloc(size_t size, const char *name)
{
    static auto real = next(ucs_malloc, "ucs_malloc");

    return FAILS() ? NULL : real(size, name);
}

void *ucs_calloc(size_t count, size_t size, const char *name)
{
    static auto real = next(ucs_calloc, "ucs_calloc");

    return FAILS() ? NULL : real(count, size, name);
}

int ucs_posix_memalign(void **result, size_t alignment, size_t size,
                       const char *name)
{
    static auto real = next(ucs_posix_memalign, "ucs_posix_memalign");

    return FAILS() ? ENOMEM : real(result, alignment, size, name);
}

char *ucs_strdup(const char *text, const char *name)
{
    static auto real = next(ucs_strdup, "ucs_strdup");

    return FAILS() ? NULL : real(text, name);
}

/* Interfaces and endpoints */
void *ucs_class_malloc(void *type)
{
    static auto real = next(ucs_class_malloc, "ucs_class_malloc");

    return FAILS() ? NULL : real(type);
}

/* Of the transport's pools, from inside UCX: the transport gave it this name */
int ucs_mpool_chunk_malloc(void *pool, size_t *size, void **chunk)
{
    static auto real = next(ucs_mpool_chunk_malloc, "ucs_mpool_chunk_malloc");

    return is_the_one() ? -4 : real(pool, size, chunk); /* NO_MEMORY */
}

} /* extern "C" */

#endif
