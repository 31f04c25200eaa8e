/*
 * Creating, joining and leaving a world, and removing dead processes. May
 * call libc, fab_config, and the reapers of the objects.
 */
#include "fab_world.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "fab_async.h"
#include "fab_engine.h"
#include "fab_mr.h"
#include "fab_path.h"
#include "fab_qp.h"
#include "fab_sysfs.h"

/* Changes with the layout of what is in the world */
#define FAB_WORLD_MAGIC 0x6661622d76717033ULL
/* Of address space: the file is sparse */
#define FAB_WORLD_SIZE  (16ULL << 30)
/* Of memory: what a few processes with some hundred QPs may come to use */
#define FAB_WORLD_SPACE (64ULL << 20)

struct fab_world *fab_world;
uint32_t         fab_world_self = FAB_MAX_PROCS;
uint32_t         fab_world_entry;

static pthread_mutex_t fab_attach_lock = PTHREAD_MUTEX_INITIALIZER;
static char            fab_world_path[4096];
static int             fab_first_use = 1;

/* Field 22 of /proc/PID/stat; 0: no such process, or one that has ended */
static uint64_t fab_start_time(uint32_t pid)
{
    unsigned long long start = 0;
    char path[64], text[1024], state;
    const char *end;
    ssize_t n;
    int fd;

    snprintf(path, sizeof(path), "/proc/%u/stat", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }

    n = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (n <= 0) {
        return 0;
    }

    /* the name, in parentheses, may hold anything */
    text[n] = '\0';
    end     = strrchr(text, ')');
    if ((end == NULL) ||
        (sscanf(end + 1,
                " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                "%*s %*s %*s %*s %llu",
                &state, &start) != 2) ||
        (state == 'Z') || (state == 'X')) {
        return 0;
    }
    return start;
}

int fab_proc_alive(uint32_t proc)
{
    const struct fab_proc *entry = &fab_world->procs[proc];
    uint32_t pid                 = entry->pid;

    if (proc == fab_world_self) {
        return 1;
    }
    return (pid != 0) && (fab_start_time(pid) == entry->start_time);
}

int fab_proc_alive_cached(uint32_t proc)
{
    static uint64_t looked[FAB_MAX_PROCS];
    const struct fab_proc *entry = &fab_world->procs[proc];
    uint64_t now                 = fab_now();
    struct iovec local, remote;
    char byte;

    if ((now - __atomic_load_n(&looked[proc], __ATOMIC_RELAXED)) < 1000000) {
        return 1;
    }

    local.iov_base  = &byte;
    local.iov_len   = 1;
    remote.iov_base = (void*)(uintptr_t)entry->probe;
    remote.iov_len  = 1;
    if ((process_vm_readv((pid_t)entry->pid, &local, 1, &remote, 1, 0) < 0) &&
        (errno == ESRCH)) {
        return 0;
    }

    __atomic_store_n(&looked[proc], now, __ATOMIC_RELAXED);
    return 1;
}

/* QPs first: the other objects are reached through them */
static void fab_proc_reap(uint32_t proc)
{
    fab_qp_reap(proc);
    fab_mr_reap(proc);
    fab_async_reap(proc);
    fab_heap_reap(proc);
    fab_world->procs[proc].exiting = 0;
    __atomic_store_n(&fab_world->procs[proc].pid, 0, __ATOMIC_RELEASE);
}

/* With the file locked */
static void fab_world_reap(void)
{
    uint32_t i;

    for (i = 0; i < FAB_MAX_PROCS; ++i) {
        if ((fab_world->procs[i].pid != 0) && !fab_proc_alive(i)) {
            fab_proc_reap(i);
        }
    }
}

/* Whether anybody else is there to stay; with the file locked */
static int fab_world_others(const struct fab_world *world)
{
    uint32_t i;

    for (i = 0; i < FAB_MAX_PROCS; ++i) {
        const struct fab_proc *entry = &world->procs[i];

        if ((entry->pid != 0) && !entry->exiting && (i != fab_world_self) &&
            (fab_start_time(entry->pid) == entry->start_time)) {
            return 1;
        }
    }
    return 0;
}

/* What all processes of a world must agree on */
static uint64_t fab_world_config(void)
{
    char text[2048];
    uint64_t hash = 14695981039346656037ULL;
    int i;

    snprintf(text, sizeof(text), "%u %lu %lu %u %lu %lu %s %s %s", fab_config.mode,
             (unsigned long)fab_config.devices, (unsigned long)fab_config.ports,
             fab_config.link, (unsigned long)fab_config.mtu,
             (unsigned long)fab_config.gid_tbl_len, fab_config.gids,
             fab_config.port_mbps.text, fab_config.port_delay.text);
    for (i = 0; text[i] != '\0'; ++i) {
        hash = (hash ^ (uint8_t)text[i]) * 1099511628211ULL;
    }
    return hash;
}

/* Fill a world that is all zeroes; the heap is what the tables leave */
static void fab_world_make(struct fab_world *world)
{
    uint64_t pos = (sizeof(*world) + 4095) & ~4095ULL;
    unsigned i;

    world->token  = fab_now() ^ ((uint64_t)getpid() << 40);
    world->config = fab_world_config();
    world->size   = FAB_WORLD_SIZE;
    world->mrs    = pos;
    pos          += sizeof(struct fab_mr) * (uint64_t)FAB_MR_SLOTS;
    for (i = 0; i < FAB_MAX_DEVS; ++i) {
        world->devs[i].index    = i;
        world->devs[i].next_qpn = 17;
        world->devs[i].qps      = pos;
        pos += sizeof(struct fab_qp) * (uint64_t)FAB_QP_SLOTS;
    }
    fab_path_init_ports(world);
    world->heap_first = pos;
    world->heap_end   = pos;
    __atomic_store_n(&world->magic, FAB_WORLD_MAGIC, __ATOMIC_RELEASE);
}

/* The file, locked, and still the one of that name. @return -1: see errno */
static int fab_world_open(void)
{
    struct stat st, now;
    int fd;

    for (;;) {
        fd = open(fab_world_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0) {
            return -1;
        }

        if ((flock(fd, LOCK_EX) == 0) && (fstat(fd, &st) == 0) &&
            (stat(fab_world_path, &now) == 0) && (st.st_ino == now.st_ino)) {
            return fd;
        }
        close(fd);
    }
}

/* The file is sparse, and where its file system is full there is only SIGBUS */
static void fab_world_check_space(int fd)
{
    struct statvfs vfs;

    if ((fstatvfs(fd, &vfs) == 0) &&
        (((uint64_t)vfs.f_bavail * vfs.f_frsize) < FAB_WORLD_SPACE)) {
        fab_log("%s: less than %llu MiB are free there: VQP_FABRIC_DIR names "
                "another place", fab_config.dir, FAB_WORLD_SPACE >> 20);
    }
}

/* A mapping keeps the lock of a closed descriptor */
static void fab_world_close(int fd)
{
    if (fd >= 0) {
        flock(fd, LOCK_UN);
        close(fd);
    }
}

/* Map the file, making a new world where there is none or a deserted one */
static int fab_world_map(int *fd_p)
{
    struct fab_world *world;
    struct stat st;
    int fd, ret;

    for (;;) {
        fd = fab_world_open();
        if ((fd < 0) || (fstat(fd, &st) != 0)) {
            goto err;
        }

        if ((st.st_size == 0) && (ftruncate(fd, FAB_WORLD_SIZE) != 0)) {
            goto err;
        }

        world = mmap(NULL, FAB_WORLD_SIZE, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_NORESERVE, fd, 0);
        if (world == MAP_FAILED) {
            goto err;
        }

        if (st.st_size == 0) {
            fab_world_check_space(fd);
            fab_world_make(world);
            break;
        } else if ((st.st_size == FAB_WORLD_SIZE) &&
                   (world->magic == FAB_WORLD_MAGIC) &&
                   fab_world_others(world)) {
            break;
        }

        munmap(world, FAB_WORLD_SIZE);
        unlink(fab_world_path);
        fab_world_close(fd);
    }

    madvise(world, FAB_WORLD_SIZE, MADV_DONTDUMP);
    fab_world = world;
    *fd_p     = fd;
    return 0;

err:
    ret = errno;
    fab_world_close(fd);
    return ret;
}

/* An entry for this process; with the file locked */
static int fab_world_enter(void)
{
    struct fab_proc *entry;
    uint32_t i;

    fab_world_reap();
    for (i = 0; i < FAB_MAX_PROCS; ++i) {
        entry = &fab_world->procs[i];
        if (entry->pid == 0) {
            entry->start_time = fab_start_time((uint32_t)getpid());
            entry->probe      = (uintptr_t)&fab_world_self;
            entry->exiting    = 0;
            ++entry->generation;
            fab_world_entry   = ++fab_world->num_entered;
            __atomic_store_n(&entry->pid, (uint32_t)getpid(),
                             __ATOMIC_RELEASE);
            fab_lock_self = fab_lock_name(i, entry->generation);
            /* last: a process that sees it sees all of the above */
            __atomic_store_n(&fab_world_self, i, __ATOMIC_RELEASE);
            return 0;
        }
    }
    return ENOSPC;
}

/* The child has its parent's memory, and no part in its parent's objects */
static void fab_world_forked(void)
{
    fab_world_self = FAB_MAX_PROCS;
    fab_lock_self  = fab_lock_name(FAB_MAX_PROCS, 0);
    fab_engine_forked();
    fab_clock_forked();
    pthread_mutex_init(&fab_attach_lock, NULL);
}

static void fab_world_first_use(void)
{
    const char *world = fab_config.world;

    if (*world != '\0') {
        snprintf(fab_world_path, sizeof(fab_world_path), "%s/vqp-fabric-%s",
                 fab_config.dir, world);
    } else {
        snprintf(fab_world_path, sizeof(fab_world_path), "%s/vqp-fabric-u%u",
                 fab_config.dir, (unsigned)getuid());
    }

    /* else a security module may keep peers from our memory */
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    pthread_atfork(NULL, NULL, fab_world_forked);
    fab_first_use = 0;
}

static int fab_world_attach_locked(void)
{
    int fd = -1;
    int ret;

    if (fab_first_use) {
        fab_world_first_use();
    }

    if (fab_world == NULL) {
        ret = fab_world_map(&fd);
    } else {
        fd  = fab_world_open();
        ret = (fd < 0) ? errno : 0;
    }
    if (ret != 0) {
        fab_log("%s: %s", fab_world_path, strerror(ret));
    } else if (fab_world->config != fab_world_config()) {
        ret = EINVAL;
        fab_log("%s: processes of other VQP_FABRIC_ settings are there",
                fab_world_path);
    } else {
        ret = fab_world_enter();
    }

    fab_world_close(fd);
    return ret;
}

int fab_world_attach(void)
{
    int ret = 0;

    if (__atomic_load_n(&fab_world_self, __ATOMIC_ACQUIRE) < FAB_MAX_PROCS) {
        return 0;
    }

    pthread_mutex_lock(&fab_attach_lock);
    if (fab_world_self == FAB_MAX_PROCS) {
        ret = fab_world_attach_locked();
    }
    pthread_mutex_unlock(&fab_attach_lock);
    return ret;
}

/*
 * Other threads may still be at work on what is ours, so that nothing is freed
 * here: whoever attaches next does so once the process has ended.
 */
static void __attribute__((destructor)) fab_world_leave(void)
{
    int fd;

    if (fab_world_self == FAB_MAX_PROCS) {
        return;
    }

    fd = fab_world_open();
    if (fd < 0) {
        return;
    }

    fab_world->procs[fab_world_self].exiting = 1;
    if (!fab_world_others(fab_world)) {
        unlink(fab_world_path);
        fab_sysfs_remove();
    }
    fab_world_close(fd);
}
