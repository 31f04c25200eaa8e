/*
 * Functions of libc that take a path, so that those who read sysfs for RDMA
 * devices read the fabric's tree. Each asks for the path to use and calls the
 * function that it hides. A path that is relative to a descriptor needs
 * nothing: the descriptor is in the tree already.
 *
 * Not here: glob() and fts(), which reach the kernel without these functions;
 * nothing that reads RDMA devices was seen to use them.
 */
#undef _FORTIFY_SOURCE /* would define some of them in headers */

#include "fab_sysfs.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

/* The function that is hidden; it exists: somebody has called it. It is looked
 * for when the library is loaded: a sanitizer may call these while it is in no
 * state for dlsym(), which frees memory. */
static void *fab_interpose_next(void **next, const char *name)
{
    void *func = __atomic_load_n(next, __ATOMIC_RELAXED);

    if (func == NULL) {
        func = dlsym(RTLD_NEXT, name);
        if (func == NULL) {
            abort();
        }
        __atomic_store_n(next, func, __ATOMIC_RELAXED);
    }

    return func;
}

#define FAB_INTERPOSE_NEXT(_name) \
    static void *fab_next_##_name; \
    \
    __attribute__((constructor)) static void fab_find_##_name(void) \
    { \
        fab_next_##_name = dlsym(RTLD_NEXT, #_name); \
    }

/* A wrapper whose parameter `path` is translated. The prototype stands first,
 * because not all of them are in headers. */
#define FAB_INTERPOSE(_ret, _name, _params, _args) \
    FAB_INTERPOSE_NEXT(_name) \
    \
    _ret _name _params; \
    _ret _name _params \
    { \
        _ret(*func) _params; \
        char buf[PATH_MAX]; \
        \
        func = (_ret(*) _params)fab_interpose_next(&fab_next_##_name, #_name); \
        path = fab_sysfs_translate(path, buf, sizeof(buf)); \
        return func _args; \
    }

/* open() and openat() have a mode only with flags that create a file */
#define FAB_INTERPOSE_OPEN(_name, _params, _func_params, _args) \
    FAB_INTERPOSE_NEXT(_name) \
    \
    int _name _params; \
    int _name _params \
    { \
        int(*func) _func_params; \
        char buf[PATH_MAX]; \
        mode_t mode = 0; \
        va_list ap; \
        \
        if ((flags & O_CREAT) || ((flags & O_TMPFILE) == O_TMPFILE)) { \
            va_start(ap, flags); \
            mode = va_arg(ap, mode_t); \
            va_end(ap); \
        } \
        \
        func = (int(*) _func_params)fab_interpose_next(&fab_next_##_name, #_name); \
        path = fab_sysfs_translate(path, buf, sizeof(buf)); \
        return func _args; \
    }

FAB_INTERPOSE_OPEN(open, (const char *path, int flags, ...),
                   (const char *, int, ...), (path, flags, mode))
FAB_INTERPOSE_OPEN(open64, (const char *path, int flags, ...),
                   (const char *, int, ...), (path, flags, mode))
FAB_INTERPOSE_OPEN(openat, (int fd, const char *path, int flags, ...),
                   (int, const char *, int, ...), (fd, path, flags, mode))
FAB_INTERPOSE_OPEN(openat64, (int fd, const char *path, int flags, ...),
                   (int, const char *, int, ...), (fd, path, flags, mode))
FAB_INTERPOSE(int, __open_2, (const char *path, int flags), (path, flags))
FAB_INTERPOSE(int, __open64_2, (const char *path, int flags), (path, flags))
FAB_INTERPOSE(int, __openat_2, (int fd, const char *path, int flags),
              (fd, path, flags))
FAB_INTERPOSE(int, __openat64_2, (int fd, const char *path, int flags),
              (fd, path, flags))
FAB_INTERPOSE(FILE *, fopen, (const char *path, const char *mode),
              (path, mode))
FAB_INTERPOSE(FILE *, fopen64, (const char *path, const char *mode),
              (path, mode))

FAB_INTERPOSE(DIR *, opendir, (const char *path), (path))
FAB_INTERPOSE(int, scandir,
              (const char *path, struct dirent ***list,
               int (*filter)(const struct dirent *),
               int (*compare)(const struct dirent **, const struct dirent **)),
              (path, list, filter, compare))
FAB_INTERPOSE(int, scandir64,
              (const char *path, struct dirent64 ***list,
               int (*filter)(const struct dirent64 *),
               int (*compare)(const struct dirent64 **,
                              const struct dirent64 **)),
              (path, list, filter, compare))

FAB_INTERPOSE(int, chdir, (const char *path), (path))
FAB_INTERPOSE(int, access, (const char *path, int mode), (path, mode))
FAB_INTERPOSE(int, euidaccess, (const char *path, int mode), (path, mode))
FAB_INTERPOSE(int, eaccess, (const char *path, int mode), (path, mode))
FAB_INTERPOSE(int, faccessat, (int fd, const char *path, int mode, int flags),
              (fd, path, mode, flags))

FAB_INTERPOSE(int, stat, (const char *path, struct stat *st), (path, st))
FAB_INTERPOSE(int, stat64, (const char *path, struct stat64 *st), (path, st))
FAB_INTERPOSE(int, lstat, (const char *path, struct stat *st), (path, st))
FAB_INTERPOSE(int, lstat64, (const char *path, struct stat64 *st), (path, st))
FAB_INTERPOSE(int, fstatat,
              (int fd, const char *path, struct stat *st, int flags),
              (fd, path, st, flags))
FAB_INTERPOSE(int, fstatat64,
              (int fd, const char *path, struct stat64 *st, int flags),
              (fd, path, st, flags))
FAB_INTERPOSE(int, statx,
              (int fd, const char *path, int flags, unsigned int mask,
               struct statx *st),
              (fd, path, flags, mask, st))

/* What programs call that were linked with a glibc before 2.33 */
FAB_INTERPOSE(int, __xstat, (int version, const char *path, struct stat *st),
              (version, path, st))
FAB_INTERPOSE(int, __xstat64,
              (int version, const char *path, struct stat64 *st),
              (version, path, st))
FAB_INTERPOSE(int, __lxstat, (int version, const char *path, struct stat *st),
              (version, path, st))
FAB_INTERPOSE(int, __lxstat64,
              (int version, const char *path, struct stat64 *st),
              (version, path, st))
FAB_INTERPOSE(int, __fxstatat,
              (int version, int fd, const char *path, struct stat *st,
               int flags),
              (version, fd, path, st, flags))
FAB_INTERPOSE(int, __fxstatat64,
              (int version, int fd, const char *path, struct stat64 *st,
               int flags),
              (version, fd, path, st, flags))

FAB_INTERPOSE(ssize_t, readlink, (const char *path, char *out, size_t size),
              (path, out, size))
FAB_INTERPOSE(ssize_t, __readlink_chk,
              (const char *path, char *out, size_t size, size_t out_size),
              (path, out, size, out_size))
FAB_INTERPOSE(ssize_t, readlinkat,
              (int fd, const char *path, char *out, size_t size),
              (fd, path, out, size))
FAB_INTERPOSE(char *, realpath, (const char *path, char *out), (path, out))
FAB_INTERPOSE(char *, __realpath_chk,
              (const char *path, char *out, size_t out_size),
              (path, out, out_size))
FAB_INTERPOSE(char *, canonicalize_file_name, (const char *path), (path))

/* What ls asks for each file */
FAB_INTERPOSE(ssize_t, getxattr,
              (const char *path, const char *name, void *value, size_t size),
              (path, name, value, size))
FAB_INTERPOSE(ssize_t, lgetxattr,
              (const char *path, const char *name, void *value, size_t size),
              (path, name, value, size))
