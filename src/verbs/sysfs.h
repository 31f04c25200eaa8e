/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading small text files of sysfs. libc only; private to this layer.
 */
#ifndef VQP_IB_SYSFS_H
#define VQP_IB_SYSFS_H

#include <stddef.h>

/**
 * Read a file of one line, without its line end.
 *
 * @param fmt  printf format of the path.
 * @return Length of the text; -1: it can not be read (not logged; many files
 *         are optional). @a buf is always terminated.
 */
int vqp_ib_sysfs_read(char *buf, size_t size, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));

#endif
