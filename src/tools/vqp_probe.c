/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vqp-probe: what `vqp-run --check` can find out only by trying it. Prints lines of
 * its own, and lines that begin with "problem:" or "warning:". May call libibverbs
 * through src/verbs, and libc; no UCX. It is installed beside the shim.
 */
#include "verbs/dev.h"
#include "verbs/gid.h"
#include "verbs/mr.h"
#include "verbs/pinned.h"
#include "verbs/port.h"

#include <errno.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* Open files of a process that UCX needs beside those of vqp, and those that a port
 * needs: the device's two, two completion channels, four of an interface. Measured
 * with ucx_perftest, rounded up. Endpoints need none. */
#define PROBE_FILES_PROCESS 32
#define PROBE_FILES_PORT    10

/* KiB; a smaller limit is worth a warning, although an endpoint works */
#define PROBE_MEMLOCK_FEW 65536

#define PROBE_KIB(_bytes) (((_bytes) + 1023) / 1024)

#define PROBE_RAISE \
    "'memlock unlimited' belongs into /etc/security/limits.conf (ulimit -l); a " \
    "container needs --ulimit memlock=-1, or --cap-add IPC_LOCK if it is not rootless"

static int probe_problems;

/* The last error of the verbs layer */
static char probe_reason[512];

static void probe_log(vqp_ib_log_level_t level, const char *file, unsigned line,
                      const char *message)
{
    (void)file;
    (void)line;
    if (level > VQP_IB_LOG_WARN) { /* a device without RC or UD queue pairs */
        printf("refused   %s\n", message);
        return;
    }

    snprintf(probe_reason, sizeof(probe_reason), "%s", message);
}

/* As much as an interface and a connection pin, in a registration of each size */
static vqp_status_t probe_register(vqp_ib_dev_t *dev)
{
    static const size_t sizes[2] = {VQP_IB_PINNED_IFACE, VQP_IB_PINNED_PEER};
    const size_t total           = VQP_IB_PINNED_IFACE + VQP_IB_PINNED_PEER;
    vqp_ib_mr_params_t params    = {
        .access    = VQP_IB_ACCESS_LOCAL_WRITE | VQP_IB_ACCESS_REMOTE_WRITE,
        .log_level = VQP_IB_LOG_ERROR
    };
    vqp_status_t status          = VQP_OK;
    vqp_ib_mr_t mr[2];
    unsigned i, done;
    void *memory;

    memory = mmap(NULL, total, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        snprintf(probe_reason, sizeof(probe_reason), "%s: no memory to register: %s",
                 dev->name, strerror(errno));
        return VQP_ERR_NO_MEMORY;
    }

    params.address = memory;
    for (done = 0; done < 2; ++done) {
        params.length = sizes[done];
        status        = vqp_ib_mr_reg(&mr[done], &dev, 1, &params);
        if (status != VQP_OK) {
            break;
        }
        params.address = (char*)params.address + params.length;
    }

    for (i = 0; i < done; ++i) {
        (void)vqp_ib_mr_dereg(&mr[i]);
    }

    munmap(memory, total);
    return status;
}

static void probe_problem(const char *remedy)
{
    ++probe_problems;
    printf("problem: %s%s%s\n", probe_reason, (*remedy != '\0') ? ": " : "", remedy);
}

static void probe_queues(const vqp_ib_dev_t *dev)
{
    vqp_ib_port_t port;
    vqp_ib_gid_t gid;
    uint8_t i;

    printf("queues    %s: at most %u queue pairs of all processes: an interface takes "
           "one, a path of a peer one\n", dev->name, dev->caps.max_qp);
    for (i = 1; i <= dev->num_ports; ++i) {
        if ((vqp_ib_port_query(dev, i, &port) != VQP_OK) || !port.active) {
            continue;
        }

        printf("mtu       %s:%u: %u bytes in a packet\n", dev->name, i, port.mtu);
        if (vqp_ib_gid_select(dev, &port, VQP_IB_GID_AUTO, &gid) != VQP_OK) {
            printf("warning: %s:%u is left out, it has no usable GID: is its network "
                   "interface up, with an address?\n", dev->name, i);
        }
    }
}

/* @return whether vqp could use the device. Else probe_reason has the reason, unless it is
 * a problem for each device, which was printed */
static int probe_device(const char *name)
{
    vqp_ib_dev_t dev;
    vqp_status_t status;

    status = vqp_ib_dev_open(&dev, name);
    if (status != VQP_OK) {
        return 0;
    }

    if (!vqp_ib_dev_has_ud(&dev)) {
        probe_reason[0] = '\0'; /* printed as refused */
        vqp_ib_dev_close(&dev);
        return 0;
    }

    probe_queues(&dev);
    status = probe_register(&dev);
    if (status == VQP_OK) {
        printf("pinning   %s: tried, %u KiB of an interface and %u KiB of a "
               "peer\n", dev.name, PROBE_KIB(VQP_IB_PINNED_IFACE),
               PROBE_KIB(VQP_IB_PINNED_PEER));
    } else if (status == VQP_ERR_EXCEEDS_LIMIT) {
        probe_problem(PROBE_RAISE);
        probe_reason[0] = '\0';
    }

    vqp_ib_dev_close(&dev);
    return status == VQP_OK;
}

/* A device that does not work is a problem if none works: else it is one that the user may
 * not want. @return how many devices there are */
static unsigned probe_devices(void)
{
    char (*reasons)[sizeof(probe_reason)];
    unsigned i, count, passed;
    vqp_ib_dev_list_t list;

    if (vqp_ib_dev_list_get(&list) != VQP_OK) {
        probe_problem("");
        return 0;
    }

    count   = list.count;
    passed  = 0;
    reasons = calloc(count + 1, sizeof(*reasons));
    if (reasons == NULL) {
        fprintf(stderr, "vqp-probe: out of memory\n");
        exit(1);
    }

    for (i = 0; i < count; ++i) {
        if (probe_device(vqp_ib_dev_list_name(&list, i))) {
            ++passed;
        } else {
            memcpy(reasons[i], probe_reason, sizeof(probe_reason));
        }
    }

    for (i = 0; i < count; ++i) {
        if (reasons[i][0] == '\0') {
            continue;
        }

        memcpy(probe_reason, reasons[i], sizeof(probe_reason));
        if (passed == 0) {
            probe_problem("");
        } else {
            printf("warning: %s: vqp works on other devices\n", probe_reason);
        }
    }

    free(reasons);
    vqp_ib_dev_list_free(&list);
    return count;
}

/* Peers that can be connected, in whatever order they send messages: all have a mirror, or
 * the mirrors take what they may */
static size_t probe_peers(size_t limit)
{
    size_t mirrors = limit / VQP_IB_PINNED_MIRRORS_SHARE;
    size_t left, all;

    if (limit < VQP_IB_PINNED_IFACE) {
        return 0;
    }

    all  = (limit - VQP_IB_PINNED_IFACE) / (VQP_IB_PINNED_PEER + VQP_IB_PINNED_MIRROR);
    left = limit - (VQP_IB_PINNED_IFACE - VQP_IB_PINNED_MIRRORS);
    return (left < mirrors) ? all : vqp_max(all, (left - mirrors) / VQP_IB_PINNED_PEER);
}

static void probe_memlock(unsigned devices)
{
    size_t limit = vqp_ib_mr_limit();
    struct rlimit rlimit;
    size_t peers;

    if ((getrlimit(RLIMIT_MEMLOCK, &rlimit) == 0) &&
        (rlimit.rlim_cur == RLIM_INFINITY)) {
        printf("memlock   unlimited\n");
    } else if (limit == SIZE_MAX) {
        printf("memlock   %llu KiB, which CAP_IPC_LOCK lifts\n",
               (unsigned long long)rlimit.rlim_cur / 1024);
    } else {
        peers = probe_peers(limit);
        printf("memlock   %zu KiB for each process: enough for about %zu peers on one "
               "port\n", limit / 1024, peers);
        /* with no peer at all the trial has said so */
        if (((peers > 0) || (devices == 0)) && (limit / 1024 < PROBE_MEMLOCK_FEW)) {
            printf("warning: about %zu peers, and little memory of the program, can "
                   "be pinned: %s\n", peers, PROBE_RAISE);
        }
    }
}

static void probe_files(unsigned devices)
{
    const char *remedy = "'nofile' belongs into /etc/security/limits.conf; a container "
                         "needs --ulimit nofile=1024";
    unsigned one       = PROBE_FILES_PROCESS + PROBE_FILES_PORT;
    unsigned all       = PROBE_FILES_PROCESS + PROBE_FILES_PORT * devices;
    struct rlimit rlimit;

    if ((getrlimit(RLIMIT_NOFILE, &rlimit) != 0) ||
        (rlimit.rlim_cur == RLIM_INFINITY)) {
        printf("files     unlimited\n");
        return;
    }

    printf("files     %llu for each process: a process on all devices needs about "
           "%u, and none for a peer\n", (unsigned long long)rlimit.rlim_cur, all);
    if ((devices > 0) && (rlimit.rlim_cur < one)) {
        snprintf(probe_reason, sizeof(probe_reason),
                 "the limit of open files (ulimit -n) is %llu, about %u are needed",
                 (unsigned long long)rlimit.rlim_cur, one);
        probe_problem(remedy);
    } else if (rlimit.rlim_cur < all) {
        printf("warning: the limit of open files (ulimit -n) is %llu: enough for one "
               "device, about %u are needed for all: %s\n",
               (unsigned long long)rlimit.rlim_cur, all, remedy);
    }
}

/* vqp uses none. Drivers that find the MAC address of a peer in the process do: those
 * of ConnectX-3, hns and pvrdma call ibv_resolve_eth_l2_from_gid() */
static void probe_netlink(void)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

    if (fd >= 0) {
        close(fd);
        printf("netlink   yes\n");
        return;
    }

    printf("netlink   no\n"
           "warning: netlink is refused (%s): vqp needs none with drivers that resolve "
           "addresses in the kernel; mlx4, hns and pvrdma do it in the process; "
           "rc_verbs of newer UCX needs UCX_IB_ROCE_REACHABILITY_MODE=all: check the "
           "seccomp profile\n", strerror(errno));
}

int main(void)
{
    unsigned devices;

    /* a line of libibverbs stays where it belongs */
    setvbuf(stdout, NULL, _IOLBF, 0);
    vqp_ib_log_set(probe_log, VQP_IB_LOG_DIAG);
    devices = probe_devices();
    probe_memlock(devices);
    probe_files(devices);
    probe_netlink();
    return (probe_problems == 0) ? 0 : 1;
}
