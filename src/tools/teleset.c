/* SPDX-License-Identifier: BSD-3-Clause */
/* The telemetry files of a host, see teleset.h. */
#include "tools/teleset.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TELESET_PREFIX   "uct_vqp."           /* as UCT_VQP_TELEMETRY_PREFIX */
#define TELESET_SIZE_MAX (64l << 20)          /* bytes of a file */
#define TELESET_TRIES    20                   /* copies, until one is consistent... */
#define TELESET_PAUSE    1000000              /* ...and ns in between */

/* Say why a file is left out */
static int teleset_ignore(const teleset_t *set, const char *name, const char *why)
{
    if (set->is_verbose) {
        fprintf(stderr, "vqp-top: %s is ignored: %s\n", name, why);
    }

    return 0;
}

/* ---- a consistent copy ---- */

/* Bytes that were read, or -1 */
static ssize_t teleset_read(int fd, char *data, size_t length, off_t offset)
{
    size_t done = 0;
    ssize_t ret;

    while (done < length) {
        ret = pread(fd, data + done, length - done, offset + (off_t)done);
        if ((ret < 0) && (errno == EINTR)) {
            continue;
        } else if (ret < 0) {
            return -1;
        } else if (ret == 0) {
            break;
        }
        done += (size_t)ret;
    }

    return (ssize_t)done;
}

/* VQP_OK, VQP_INPROGRESS: torn, or an error */
static vqp_status_t teleset_copy_once(int fd, teleset_file_t *file)
{
    uint64_t sequence = 0;
    struct stat info;
    vqp_status_t status;
    ssize_t length;
    char *data;

    if ((fstat(fd, &info) != 0) || (info.st_size > TELESET_SIZE_MAX)) {
        return VQP_ERR_EXCEEDS_LIMIT;
    }

    data = realloc(file->data, (size_t)info.st_size + 1);
    if (data == NULL) {
        return VQP_ERR_NO_MEMORY;
    }

    file->data = data;
    length     = teleset_read(fd, data, (size_t)info.st_size, 0);
    if (length < 0) {
        return VQP_ERR_IO;
    }

    status = vqp_telemetry_parse(&file->tele, data, (size_t)length);
    if (status != VQP_OK) {
        return status;
    }

    if (teleset_read(fd, (char*)&sequence, sizeof(sequence),
                     offsetof(vqp_telemetry_head_t, sequence)) !=
        (ssize_t)sizeof(sequence)) {
        return VQP_ERR_IO;
    }

    return (sequence == file->tele.head.sequence) ? VQP_OK : VQP_INPROGRESS;
}

/* A file that grows may be short of its new connections in the first copy, too */
static vqp_status_t teleset_copy(int fd, teleset_file_t *file)
{
    static const struct timespec pause = {0, TELESET_PAUSE};
    vqp_status_t status = VQP_ERR_PROTOCOL;
    unsigned i;

    for (i = 0; i < TELESET_TRIES; ++i) {
        status = teleset_copy_once(fd, file);
        if ((status != VQP_INPROGRESS) && (status != VQP_ERR_PROTOCOL)) {
            break;
        }
        (void)nanosleep(&pause, NULL);
    }

    return status;
}

/* ---- its process ---- */

static int teleset_is_this_host(const vqp_telemetry_head_t *head)
{
    char host[sizeof(head->host)] = "";

    (void)gethostname(host, sizeof(host) - 1);
    return strcmp(host, head->host) == 0;
}

/* Has a process this pid, did it start when the writer did, and does the file belong
 * to its user? Others know pid and time, too. */
static int teleset_is_running(const vqp_telemetry_head_t *head, uid_t owner)
{
    unsigned long long start = 0;
    char name[64], line[1024];
    const char *rest = NULL;
    struct stat info;
    FILE *file;

    snprintf(name, sizeof(name), "/proc/%llu/stat", (unsigned long long)head->pid);
    file = teleset_is_this_host(head) ? fopen(name, "re") : NULL;
    if (file == NULL) {
        return 0;
    }

    if ((fstat(fileno(file), &info) == 0) && (info.st_uid == owner) &&
        (fgets(line, sizeof(line), file) != NULL)) {
        rest = strrchr(line, ')'); /* the name in front of it may contain anything */
    }
    fclose(file);
    return (rest != NULL) &&
           (sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d "
                   "%*d %*d %*d %*d %*d %llu", &start) == 1) &&
           (start == head->pid_start);
}

static double teleset_age(const vqp_telemetry_head_t *head)
{
    struct timespec now;
    double age;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    age = ((double)now.tv_sec - ((double)head->updated * 1e-9)) +
          ((double)now.tv_nsec * 1e-9);
    return (age > 0) ? age : 0;
}

/* ---- files ---- */

/* Open a file that its owner alone can have written: the user, or for root any user.
 * Neither a link nor a FIFO that would block */
static int teleset_open(const teleset_t *set, const char *name)
{
    int fd = open(name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    const char *why = NULL;
    struct stat info;

    if (fd < 0) {
        if (errno != ENOENT) {
            (void)teleset_ignore(set, name, strerror(errno));
        }
        return -1;
    }

    if (fstat(fd, &info) != 0) {
        why = strerror(errno);
    } else if (!S_ISREG(info.st_mode)) {
        why = "not a regular file";
    } else if ((geteuid() != 0) && (info.st_uid != geteuid())) {
        why = "it belongs to another user";
    } else if (info.st_mode & (S_IWGRP | S_IWOTH)) {
        why = "other users can write it";
    }

    if (why != NULL) {
        (void)teleset_ignore(set, name, why);
        close(fd);
        return -1;
    }

    return fd;
}

int teleset_add_file(teleset_t *set, const char *name)
{
    teleset_file_t file = {.data = NULL};
    teleset_file_t *files;
    vqp_status_t status;
    struct stat info;
    uid_t owner;
    int fd;

    if (snprintf(file.name, sizeof(file.name), "%s", name) >= (int)sizeof(file.name)) {
        return teleset_ignore(set, name, "its name is too long");
    }

    fd = teleset_open(set, name);
    if (fd < 0) {
        return 0;
    }

    owner  = (fstat(fd, &info) == 0) ? info.st_uid : (uid_t)-1;
    status = teleset_copy(fd, &file);
    close(fd);
    if (status < VQP_OK) {
        free(file.data);
        return teleset_ignore(set, name,
                              (status == VQP_ERR_UNSUPPORTED) ?
                                      "of another version or byte order" :
                              (status == VQP_ERR_PROTOCOL) ?
                                      "not a telemetry file, or damaged" :
                                      "it can not be read");
    }

    file.is_torn    = (status == VQP_INPROGRESS);
    file.is_running = teleset_is_running(&file.tele.head, owner);
    file.age        = teleset_age(&file.tele.head);
    files           = realloc(set->files, (set->num + 1) * sizeof(*files));
    if (files == NULL) {
        free(file.data);
        return teleset_ignore(set, name, "no memory");
    }

    set->files             = files;
    set->files[set->num++] = file;
    return 1;
}

/* uct_vqp.PID.N */
static int teleset_is_name(const char *name)
{
    size_t length = strlen(TELESET_PREFIX);
    size_t pid, number;

    if (strncmp(name, TELESET_PREFIX, length) != 0) {
        return 0;
    }

    name  += length;
    pid    = strspn(name, "0123456789");
    number = (name[pid] == '.') ? strspn(name + pid + 1, "0123456789") : 0;
    return (pid > 0) && (number > 0) && (name[pid + 1 + number] == '\0');
}

int teleset_add_dir(teleset_t *set, const char *dir)
{
    DIR *list = opendir(dir);
    char name[PATH_MAX];
    struct dirent *entry;

    if (list == NULL) {
        return errno;
    }

    while ((entry = readdir(list)) != NULL) {
        if (teleset_is_name(entry->d_name) &&
            (snprintf(name, sizeof(name), "%s/%s", dir, entry->d_name) <
             (int)sizeof(name))) {
            (void)teleset_add_file(set, name);
        }
    }

    closedir(list);
    return 0;
}

void teleset_add_default(teleset_t *set)
{
    const char *dir = getenv("XDG_RUNTIME_DIR");
    int is_new      = (dir != NULL) && (dir[0] == '/') && (strcmp(dir, "/dev/shm") != 0);
    char pattern[64];
    glob_t users;
    size_t i;

    /* where the variable points to in a session of a user, also if it is not set here */
    if (geteuid() == 0) {
        snprintf(pattern, sizeof(pattern), "/run/user/[0-9]*");
    } else {
        snprintf(pattern, sizeof(pattern), "/run/user/%u", (unsigned)geteuid());
    }

    (void)teleset_add_dir(set, "/dev/shm");
    if (glob(pattern, GLOB_ONLYDIR, NULL, &users) == 0) {
        for (i = 0; i < users.gl_pathc; ++i) {
            (void)teleset_add_dir(set, users.gl_pathv[i]);
            is_new = is_new && (strcmp(dir, users.gl_pathv[i]) != 0);
        }
        globfree(&users);
    }

    if (is_new) {
        (void)teleset_add_dir(set, dir);
    }
}

static int teleset_compare(const void *a, const void *b)
{
    const teleset_file_t *left = a, *right = b;

    if (left->tele.head.pid != right->tele.head.pid) {
        return (left->tele.head.pid < right->tele.head.pid) ? -1 : 1;
    }

    return strcmp(left->name, right->name);
}

void teleset_sort(teleset_t *set)
{
    if (set->num > 1) {
        qsort(set->files, set->num, sizeof(*set->files), teleset_compare);
    }
}

void teleset_clear(teleset_t *set)
{
    size_t i;

    for (i = 0; i < set->num; ++i) {
        free(set->files[i].data);
    }

    free(set->files);
    set->files = NULL;
    set->num   = 0;
}

unsigned teleset_clean(const teleset_t *set)
{
    unsigned count = 0;
    struct stat info;
    size_t i;

    for (i = 0; i < set->num; ++i) {
        if (!set->files[i].is_running && teleset_is_this_host(&set->files[i].tele.head) &&
            (lstat(set->files[i].name, &info) == 0) && (info.st_uid == geteuid()) &&
            (unlink(set->files[i].name) == 0)) {
            ++count;
        }
    }

    return count;
}
