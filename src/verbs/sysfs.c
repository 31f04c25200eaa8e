/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading small text files of sysfs. libc only.
 */
#include "verbs/sysfs.h"

#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

int vqp_ib_sysfs_read(char *buf, size_t size, const char *fmt, ...)
{
    char path[PATH_MAX];
    va_list ap;
    ssize_t len;
    int fd;

    buf[0] = '\0';

    va_start(ap, fmt);
    len = vsnprintf(path, sizeof(path), fmt, ap);
    va_end(ap);
    if ((len < 0) || ((size_t)len >= sizeof(path))) {
        return -1;
    }

    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }

    len = read(fd, buf, size - 1);
    close(fd);
    if (len < 0) {
        return -1;
    }

    while ((len > 0) && (buf[len - 1] == '\n')) {
        --len;
    }

    buf[len] = '\0';
    return (int)len;
}
