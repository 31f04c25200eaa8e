/*
 * Making the tree of sysfs files, and paths into it. May call libc; what is
 * called here goes to the fabric's own wrappers too, with paths that they do
 * not change.
 */
#include "fab_sysfs.h"
#include "fab_config.h"
#include "fab_ctx.h"
#include "fab_device.h"
#include "fab_gid.h"
#include "fab_world.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FAB_SYSFS_IB    "/sys/class/infiniband"
#define FAB_SYSFS_VERBS "/sys/class/infiniband_verbs"
#define FAB_SYSFS_DEV   "/dev/infiniband"
#define FAB_SYSFS_PEER  "/sys/module/nvidia_peermem"

/* Drivers of GPUs that the machine may have, and the fabric has not */
#define FAB_SYSFS_OTHER_PEER  "/sys/module/nv_peer_mem"
#define FAB_SYSFS_OLD_PEER    "/sys/kernel/mm/memory_peers"
#define FAB_SYSFS_AMD_PEER    "/dev/kfd"

/* A device has 256 bytes for the path of its files */
#define FAB_SYSFS_ROOT_MAX 200

static char fab_sysfs_path[FAB_SYSFS_ROOT_MAX]; /* of the root */
static int fab_sysfs_ready;               /* path is set, and the tree there */
static pthread_mutex_t fab_sysfs_lock = PTHREAD_MUTEX_INITIALIZER;

/* While a tree is made: its place then, and whether all went well */
typedef struct fab_sysfs_maker {
    char     root[FAB_SYSFS_ROOT_MAX + 16];
    char     dir[PATH_MAX]; /* where files go, below root */
    unsigned failed;
} fab_sysfs_maker_t;

static void fab_sysfs_fail(fab_sysfs_maker_t *maker, const char *path)
{
    if (maker->failed++ == 0) {
        fab_log("can not make %s: %s", path, strerror(errno));
    }
}

/* Go to a directory below the root, made with all above it */
static void __attribute__((format(printf, 2, 3)))
fab_sysfs_dir(fab_sysfs_maker_t *maker, const char *fmt, ...)
{
    size_t root = strlen(maker->root);
    va_list ap;
    char *p;

    memcpy(maker->dir, maker->root, root);
    va_start(ap, fmt);
    vsnprintf(maker->dir + root, sizeof(maker->dir) - root, fmt, ap);
    va_end(ap);

    for (p = maker->dir + root + 1; p != NULL;) {
        p = strchr(p, '/');
        if (p != NULL) {
            *p = '\0';
        }

        if ((mkdir(maker->dir, 0755) != 0) && (errno != EEXIST)) {
            fab_sysfs_fail(maker, maker->dir);
        }

        if (p != NULL) {
            *p++ = '/';
        }
    }
}

/* A file in the directory of the maker; a new line is added to the text */
static void __attribute__((format(printf, 3, 4)))
fab_sysfs_file(fab_sysfs_maker_t *maker, const char *name, const char *fmt, ...)
{
    char path[PATH_MAX + 64];
    va_list ap;
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", maker->dir, name);
    file = fopen(path, "we");
    if (file == NULL) {
        fab_sysfs_fail(maker, path);
        return;
    }

    va_start(ap, fmt);
    vfprintf(file, fmt, ap);
    va_end(ap);
    fputc('\n', file);
    if (fclose(file) != 0) {
        fab_sysfs_fail(maker, path);
    }
}

static void fab_sysfs_link(fab_sysfs_maker_t *maker, const char *name,
                           const char *target)
{
    char path[PATH_MAX + 64];

    snprintf(path, sizeof(path), "%s/%s", maker->dir, name);
    if (symlink(target, path) != 0) {
        fab_sysfs_fail(maker, path);
    }
}

/* A file of this text, or none */
static void fab_sysfs_entry(fab_sysfs_maker_t *maker, unsigned index,
                            const char *text)
{
    char path[PATH_MAX + 64], name[16];

    snprintf(name, sizeof(name), "%u", index);
    if (text != NULL) {
        fab_sysfs_file(maker, name, "%s", text);
        return;
    }

    snprintf(path, sizeof(path), "%s/%s", maker->dir, name);
    if ((unlink(path) != 0) && (errno != ENOENT)) {
        fab_sysfs_fail(maker, path);
    }
}

static void fab_sysfs_make_gids(fab_sysfs_maker_t *maker, const char *port_dir,
                                unsigned device, unsigned port)
{
    enum fab_gid_type types[FAB_CONFIG_MAX_GIDS];
    union ibv_gid gid;
    char text[48];
    unsigned i, j;
    int len;

    fab_sysfs_dir(maker, "%s/gids", port_dir);
    for (i = 0; fab_gid_get(device, port, (int)i, &gid, &types[i]) == 0; ++i) {
        for (j = 0, len = 0; j < sizeof(gid.raw); j += 2) {
            len += snprintf(text + len, sizeof(text) - len, "%s%02x%02x",
                            (j == 0) ? "" : ":", gid.raw[j], gid.raw[j + 1]);
        }
        fab_sysfs_entry(maker, i, text);
    }

    /* In sysfs the attributes of an empty entry can not be read, and those
     * of InfiniBand have no interface */
    fab_sysfs_dir(maker, "%s/gid_attrs/types", port_dir);
    for (j = 0; j < i; ++j) {
        fab_sysfs_entry(maker, j, (types[j] == FAB_GID_EMPTY) ?
                                  NULL : fab_gid_type_name(types[j]));
    }

    fab_sysfs_dir(maker, "%s/gid_attrs/ndevs", port_dir);
    for (j = 0; j < i; ++j) {
        fab_sysfs_entry(maker, j, ((types[j] == FAB_GID_EMPTY) ||
                                   (types[j] == FAB_GID_IB)) ?
                                  NULL : fab_config.ndev);
    }
}

static void fab_sysfs_make_state(fab_sysfs_maker_t *maker, int up)
{
    fab_sysfs_file(maker, "state", up ? "4: ACTIVE" : "1: DOWN");
    fab_sysfs_file(maker, "phys_state", up ? "5: LinkUp" : "3: Disabled");
}

static void fab_sysfs_make_port(fab_sysfs_maker_t *maker, const char *dev_dir,
                                unsigned device, unsigned port)
{
    int eth = (fab_config.link == FAB_LINK_ETHERNET);
    char port_dir[160];

    snprintf(port_dir, sizeof(port_dir), "%s/ports/%u", dev_dir, port);
    fab_sysfs_make_gids(maker, port_dir, device, port);
    fab_sysfs_dir(maker, "%s/pkeys", port_dir);
    fab_sysfs_file(maker, "0", "0xffff");

    fab_sysfs_dir(maker, "%s", port_dir);
    fab_sysfs_make_state(maker, 1);
    fab_sysfs_file(maker, "link_layer", "%s", eth ? "Ethernet" : "InfiniBand");
    fab_sysfs_file(maker, "rate", "%" PRIu64 " Gb/sec (%" PRIu64 "X)",
                   fab_config_link_mbps(&fab_config) / 1000, fab_config.width);
    fab_sysfs_file(maker, "lid", "0x%x", fab_gid_lid(device, port));
    fab_sysfs_file(maker, "lid_mask_count", "0");
    fab_sysfs_file(maker, "sm_lid", "0x%x", eth ? 0 : 1);
    fab_sysfs_file(maker, "sm_sl", "0");
    fab_sysfs_file(maker, "cap_mask", "0x%08x", FAB_DEVICE_PORT_CAP);
}

/* The function of a PCI slot that the device is, as its driver shows it */
static void fab_sysfs_make_pci(fab_sysfs_maker_t *maker, const char *parent)
{
    long cpus = sysconf(_SC_NPROCESSORS_CONF);
    char mask[1 + 9 * 32];
    int len = 0, word;

    for (word = (int)((cpus - 1) / 32); (word >= 0) && (word < 32); --word) {
        len += snprintf(mask + len, sizeof(mask) - len, "%s%08x",
                        (len == 0) ? "" : ",",
                        (cpus >= 32 * (word + 1)) ? UINT32_MAX :
                                                    (1u << (cpus % 32)) - 1);
    }

    fab_sysfs_dir(maker, "%s", parent);
    fab_sysfs_file(maker, "vendor", "0x%04x", FAB_DEVICE_VENDOR);
    fab_sysfs_file(maker, "device", "0x%04x", FAB_DEVICE_PART);
    fab_sysfs_file(maker, "class", "0x020700");
    fab_sysfs_file(maker, "numa_node", "%" PRIu64, fab_config.numa_node);
    fab_sysfs_file(maker, "local_cpus", "%s", mask);
    /* As much as the port has: the bus is no part of what is simulated */
    fab_sysfs_file(maker, "current_link_speed", "16.0 GT/s PCIe");
    fab_sysfs_file(maker, "current_link_width", "%u",
                   (fab_config_link_mbps(&fab_config) > 200000) ? 32 : 16);
}

/* The link by which the name of the PCI function is found */
static void fab_sysfs_link_parent(fab_sysfs_maker_t *maker, const char *parent)
{
    char target[256];

    snprintf(target, sizeof(target), "../../../%s", strrchr(parent, '/') + 1);
    fab_sysfs_link(maker, "device", target);
}

/* The uverbs device of the same number, and what opens it */
static void fab_sysfs_make_uverbs(fab_sysfs_maker_t *maker, const char *parent,
                                  unsigned device)
{
    char name[32], link[256];

    snprintf(name, sizeof(name), "uverbs%u", device);
    fab_sysfs_dir(maker, "%s/infiniband_verbs/%s", parent, name);
    fab_sysfs_file(maker, "ibdev", "%s", fab_dev_name(device));
    fab_sysfs_file(maker, "abi_version", "1");
    fab_sysfs_file(maker, "dev", "231:%u", 192 + device);
    fab_sysfs_link_parent(maker, parent);

    fab_sysfs_dir(maker, FAB_SYSFS_VERBS);
    snprintf(link, sizeof(link), "../../..%s/infiniband_verbs/%s", parent,
             name);
    fab_sysfs_link(maker, name, link);

    /* UCX requires a readable and writable character device */
    fab_sysfs_dir(maker, FAB_SYSFS_DEV);
    fab_sysfs_link(maker, name, "/dev/null");
}

static void fab_sysfs_make_device(fab_sysfs_maker_t *maker, unsigned device)
{
    /* As rxe: on no bus */
    int is_virtual  = (fab_config.profile == FAB_PROFILE_RXE);
    uint64_t guid   = fab_gid_guid(device, 0);
    const char *name = fab_dev_name(device);
    char parent[64], dir[128], text[256];
    unsigned port;

    if (is_virtual) {
        snprintf(parent, sizeof(parent), "/sys/devices/virtual");
    } else {
        snprintf(parent, sizeof(parent), "/sys/devices/pcifab0:00/%s",
                 fab_device_pci_name(device, text, 32));
        fab_sysfs_make_pci(maker, parent);
    }

    snprintf(dir, sizeof(dir), "%s/infiniband/%s", parent, name);
    for (port = 1; port <= fab_config.ports; ++port) {
        fab_sysfs_make_port(maker, dir, device, port);
    }

    snprintf(text, sizeof(text), "%04x:%04x:%04x:%04x",
             (unsigned)(guid >> 48), (unsigned)(guid >> 32) & 0xffff,
             (unsigned)(guid >> 16) & 0xffff, (unsigned)guid & 0xffff);
    fab_sysfs_dir(maker, "%s", dir);
    fab_sysfs_file(maker, "node_type",
                   (fab_config.profile == FAB_PROFILE_EFA) ? "7: unspecified" :
                                                             "1: CA");
    fab_sysfs_file(maker, "node_guid", "%s", text);
    fab_sysfs_file(maker, "sys_image_guid", "%s", text);
    fab_sysfs_file(maker, "node_desc", "fabric %s", name);
    fab_sysfs_file(maker, "fw_ver", "%s", FAB_DEVICE_FW);
    if (!is_virtual) {
        fab_sysfs_file(maker, "hca_type", "fabric");
        fab_sysfs_file(maker, "board_id", "fabric");
        fab_sysfs_link_parent(maker, parent);
    }

    fab_sysfs_dir(maker, FAB_SYSFS_IB);
    snprintf(text, sizeof(text), "../../..%s", dir);
    fab_sysfs_link(maker, name, text);
    fab_sysfs_make_uverbs(maker, parent, device);
}

static int fab_sysfs_remove_one(const char *path, const struct stat *st,
                                int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return (remove(path) == 0) ? 0 : -1;
}

static void fab_sysfs_remove_tree(const char *root)
{
    nftw(root, fab_sysfs_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Create it under another name and rename it: no process sees an incomplete
 * tree. The second of two processes finds the same tree in place. */
static int fab_sysfs_make(const char *root)
{
    fab_sysfs_maker_t maker = {.failed = 0};
    unsigned device;

    snprintf(maker.root, sizeof(maker.root), "%s.%d", root, (int)getpid());
    if (mkdir(maker.root, 0755) != 0) {
        fab_sysfs_fail(&maker, maker.root);
        return -1;
    }

    fab_sysfs_dir(&maker, FAB_SYSFS_IB);
    fab_sysfs_dir(&maker, FAB_SYSFS_DEV);
    fab_sysfs_dir(&maker, FAB_SYSFS_VERBS);
    fab_sysfs_file(&maker, "abi_version", "6");
    if (fab_config.peer_mem) {
        fab_sysfs_dir(&maker, FAB_SYSFS_PEER);
        fab_sysfs_file(&maker, "version", "fabric");
    }
    for (device = 0; device < fab_config.devices; ++device) {
        fab_sysfs_make_device(&maker, device);
    }

    if (maker.failed == 0) {
        if (rename(maker.root, root) == 0) {
            return 0;
        }

        if ((errno != EEXIST) && (errno != ENOTEMPTY)) {
            fab_log("can not make %s: %s", root, strerror(errno));
            maker.failed = 1;
        }
    }

    fab_sysfs_remove_tree(maker.root);
    return (maker.failed == 0) ? 0 : -1;
}

/* FNV-1a over the contents of the files */
static uint32_t fab_sysfs_hash(void)
{
    const uint64_t values[] = {
        fab_config.profile,     fab_config.devices, fab_config.ports,
        fab_config.link,        fab_config.speed,   fab_config.width,
        fab_config.gid_tbl_len, fab_config.numa_node, fab_config.peer_mem
    };
    const char *texts[]     = {fab_config.gids, fab_config.ndev};
    uint32_t hash           = 2166136261u;
    const uint8_t *bytes    = (const uint8_t*)values;
    const char *p;
    size_t i;

    for (i = 0; i < sizeof(values); ++i) {
        hash = (hash ^ bytes[i]) * 16777619u;
    }

    for (i = 0; i < sizeof(texts) / sizeof(texts[0]); ++i) {
        for (p = texts[i]; *p != '\0'; ++p) {
            hash = (hash ^ (uint8_t)*p) * 16777619u;
        }
    }

    return hash;
}

const char *fab_sysfs_root(void)
{
    const char *result = fab_sysfs_path;
    struct stat st;
    int saved = errno;

    if (__atomic_load_n(&fab_sysfs_ready, __ATOMIC_ACQUIRE)) {
        return result;
    }

    /* The tree goes with the last process of the world: so be one of it. What
     * can not attach learns so when it opens a device. */
    fab_device_init();
    fab_world_attach();
    pthread_mutex_lock(&fab_sysfs_lock);
    if (!fab_sysfs_ready) {
        snprintf(fab_sysfs_path, sizeof(fab_sysfs_path),
                 "%.90s/vqp-fabric.%u.%.64s.sys.%08x", fab_config.dir,
                 (unsigned)getuid(), fab_config.world,
                 fab_sysfs_hash());
        if ((stat(fab_sysfs_path, &st) == 0) ||
            (fab_sysfs_make(fab_sysfs_path) == 0)) {
            __atomic_store_n(&fab_sysfs_ready, 1, __ATOMIC_RELEASE);
        } else {
            result = NULL;
        }
    }

    pthread_mutex_unlock(&fab_sysfs_lock);
    errno = saved;
    return result;
}

void fab_sysfs_set_port(unsigned device, unsigned port, int up)
{
    const char *root        = fab_sysfs_root();
    fab_sysfs_maker_t maker = {.failed = 0};

    if (root != NULL) {
        snprintf(maker.dir, sizeof(maker.dir), "%s" FAB_SYSFS_IB "/%s/ports/%u",
                 root, fab_dev_name(device), port);
        fab_sysfs_make_state(&maker, up);
    }
}

void fab_sysfs_set_gids(unsigned device, unsigned port)
{
    const char *root        = fab_sysfs_root();
    fab_sysfs_maker_t maker = {.failed = 0};
    char port_dir[160];

    if (root != NULL) {
        snprintf(maker.root, sizeof(maker.root), "%s", root);
        snprintf(port_dir, sizeof(port_dir), FAB_SYSFS_IB "/%s/ports/%u",
                 fab_dev_name(device), port);
        fab_sysfs_make_gids(&maker, port_dir, device, port);
    }
}

void fab_sysfs_remove(void)
{
    pthread_mutex_lock(&fab_sysfs_lock);
    if (fab_sysfs_ready) {
        __atomic_store_n(&fab_sysfs_ready, 0, __ATOMIC_RELEASE);
        fab_sysfs_remove_tree(fab_sysfs_path);
    }
    pthread_mutex_unlock(&fab_sysfs_lock);
}

/* Whether the path is this directory, or in it */
static int fab_sysfs_is_in(const char *path, const char *dir, size_t dir_len)
{
    return !strncmp(path, dir, dir_len) &&
           ((path[dir_len] == '/') || (path[dir_len] == '\0'));
}

static int fab_sysfs_has(const char *path)
{
    static const char *const dirs[] = {
        FAB_SYSFS_IB, FAB_SYSFS_VERBS, FAB_SYSFS_DEV, FAB_SYSFS_PEER,
        FAB_SYSFS_OTHER_PEER, FAB_SYSFS_OLD_PEER, FAB_SYSFS_AMD_PEER
    };
    size_t i;

    for (i = 0; i < sizeof(dirs) / sizeof(dirs[0]); ++i) {
        if (fab_sysfs_is_in(path, dirs[i], strlen(dirs[i]))) {
            return 1;
        }
    }

    return 0;
}

const char *fab_sysfs_translate(const char *path, char *buf, size_t size)
{
    const char *root;

    if ((path == NULL) || (path[0] != '/') || !fab_sysfs_has(path)) {
        return path;
    }

    root = fab_sysfs_root();
    if ((root == NULL) ||
        ((size_t)snprintf(buf, size, "%s%s", root, path) >= size)) {
        return path;
    }

    return buf;
}
