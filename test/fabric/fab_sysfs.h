/*
 * The files of sysfs that libraries read beside verbs, as a directory tree of
 * the fabric's own: below ROOT are sys/class/infiniband, .../infiniband_verbs,
 * what their links lead to, and dev/infiniband. It is made when somebody asks
 * for a path in it, is the same for all processes of a world with the same
 * configuration, and goes with the world. May call libc.
 */
#ifndef FAB_SYSFS_H
#define FAB_SYSFS_H

#include <stddef.h>

/**
 * The path to use instead of @a path: @a path itself where it is none of the
 * tree's, else a path in the tree, in @a buf. Any thread. errno stays.
 *
 * @param path  May be NULL or relative: not the tree's.
 * @param buf   At least PATH_MAX bytes.
 */
const char *fab_sysfs_translate(const char *path, char *buf, size_t size);

/** Root of the tree, made if it was not there; NULL where that failed, with
 * a message. */
const char *fab_sysfs_root(void);

/** Set the state in the files of a port: up or down. */
void fab_sysfs_set_port(unsigned device, unsigned port, int up);

/** Write the GID table of a port to its files. */
void fab_sysfs_set_gids(unsigned device, unsigned port);

/** Take away the tree, if there is one: the last process leaves the world. */
void fab_sysfs_remove(void);

#endif
