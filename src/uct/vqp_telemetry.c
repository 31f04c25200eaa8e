/* SPDX-License-Identifier: BSD-3-Clause */
/* The telemetry file of an interface, see vqp_telemetry.h. */
#include "uct/vqp_telemetry.h"

#include "uct/vqp_flow.h"
#include "uct/vqp_sample.h"
#include "uct/vqp_stats.h"

#include "core/conn/entropy.h"
#include "core/telemetry/telefields.h"

#include <ucs/debug/log.h>
#include <ucs/debug/memtrack_int.h>
#include <ucs/sys/string.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define UCT_VQP_TELEMETRY_TRIES    64 /* names; files of an earlier process with the
                                         same pid stay */

typedef struct uct_vqp_telemetry {
    int                  fd;
    char                 name[PATH_MAX];
    vqp_telemetry_head_t head;
    size_t               size;    /* bytes of records */
    char                *records; /* what the file gets */
} uct_vqp_telemetry_t;

static uint64_t uct_vqp_telemetry_time(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return ((uint64_t)now.tv_sec * 1000000000ul) + (uint64_t)now.tv_nsec;
}

/* The first line of a file of /proc, or "" */
static void uct_vqp_telemetry_proc(const char *name, char *line, size_t size)
{
    FILE *file = fopen(name, "re");

    if ((file == NULL) || (fgets(line, (int)size, file) == NULL)) {
        line[0] = '\0';
    }

    line[strcspn(line, "\n")] = '\0';
    if (file != NULL) {
        fclose(file);
    }
}

/* Field 22 of /proc/self/stat. The second one, the name, may contain anything: what
 * follows it is behind the last parenthesis */
static uint64_t uct_vqp_telemetry_pid_start(void)
{
    unsigned long long start = 0;
    char line[1024];
    const char *rest;

    uct_vqp_telemetry_proc("/proc/self/stat", line, sizeof(line));
    rest = strrchr(line, ')');
    if (rest != NULL) {
        (void)sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u "
                     "%*d %*d %*d %*d %*d %*d %llu", &start);
    }

    return start;
}

static void
uct_vqp_telemetry_init_head(const uct_vqp_iface_t *iface, vqp_telemetry_head_t *head)
{
    const uct_vqp_rail_t *rail = &iface->rails[0];
    char command[64];

    vqp_telemetry_head_init(head, iface->set.num_paths);
    head->pid       = (uint64_t)getpid();
    head->pid_start = uct_vqp_telemetry_pid_start();
    head->created   = uct_vqp_telemetry_time();
    head->iface     = iface->id;
    (void)gethostname(head->host, sizeof(head->host) - 1);
    uct_vqp_telemetry_proc("/proc/self/comm", command, sizeof(command));
    ucs_snprintf_safe(head->command, sizeof(head->command), "%s", command);
    ucs_snprintf_safe(head->device, sizeof(head->device), "%s:%u", rail->dev->name,
                      rail->port.num);
}

/* ---- the file ---- */

static int
uct_vqp_telemetry_write(const uct_vqp_telemetry_t *tele, const void *data, size_t length,
                        uint64_t offset)
{
    struct rlimit limit;
    ssize_t ret;

    /* Beyond the limit pwrite() raises a signal that ends the process */
    if ((getrlimit(RLIMIT_FSIZE, &limit) == 0) && (limit.rlim_cur != RLIM_INFINITY) &&
        (offset + length > limit.rlim_cur)) {
        errno = EFBIG;
        return 0;
    }

    while (length > 0) {
        ret = pwrite(tele->fd, data, length, (off_t)offset);
        if ((ret < 0) && (errno == EINTR)) {
            continue;
        } else if (ret <= 0) {
            return 0;
        }

        data    = (const char*)data + ret;
        length -= (size_t)ret;
        offset += (size_t)ret;
    }

    return 1;
}

/* The first file name that is free. The directory may belong to all users */
static int uct_vqp_telemetry_create(uct_vqp_telemetry_t *tele, const char *dir)
{
    static unsigned next = 0;
    unsigned i;
    int length;

    for (i = 0; i < UCT_VQP_TELEMETRY_TRIES; ++i) {
        length = snprintf(tele->name, sizeof(tele->name), "%s/" UCT_VQP_TELEMETRY_PREFIX
                          "%d.%u", dir, (int)getpid(),
                          __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED));
        if ((length < 0) || ((size_t)length >= sizeof(tele->name))) {
            errno = ENAMETOOLONG;
            return 0;
        }

        tele->fd = open(tele->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                        S_IRUSR | S_IWUSR);
        if (tele->fd >= 0) {
            return 1;
        } else if (errno != EEXIST) {
            return 0;
        }
    }

    return 0;
}

static int
uct_vqp_telemetry_create_any(uct_vqp_telemetry_t *tele, const char *where)
{
    const char *dir = getenv("XDG_RUNTIME_DIR");

    if ((strcmp(where, "on") != 0) && (strcmp(where, "y") != 0)) {
        return uct_vqp_telemetry_create(tele, where);
    }

    /* in a batch job the variable may name a directory of another host */
    return ((dir != NULL) && (dir[0] == '/') && uct_vqp_telemetry_create(tele, dir)) ||
           uct_vqp_telemetry_create(tele, "/dev/shm");
}

/* An error of the file ends telemetry, not the interface */
static void uct_vqp_telemetry_give_up(uct_vqp_iface_t *iface, const char *what)
{
    ucs_warn("UCX_VQP_TELEMETRY: failed to %s %s: %m; there is no telemetry of this "
             "interface", what, iface->telemetry->name);
    uct_vqp_telemetry_close(iface);
}

void uct_vqp_telemetry_open(uct_vqp_iface_t *iface, const char *where)
{
    uct_vqp_telemetry_t *tele;
    uint32_t num;
    const vqp_telemetry_field_t *fields = vqp_telemetry_fields(&num);

    if ((where[0] == '\0') || (strcmp(where, "off") == 0) || (strcmp(where, "n") == 0)) {
        return;
    }

    tele = ucs_calloc(1, sizeof(*tele), "vqp_telemetry");
    if (tele == NULL) {
        ucs_warn("UCX_VQP_TELEMETRY: failed to allocate memory");
        return;
    }

    if (!uct_vqp_telemetry_create_any(tele, where)) {
        ucs_warn("UCX_VQP_TELEMETRY: failed to create %s: %m", tele->name);
        ucs_free(tele);
        return;
    }

    UCS_ASYNC_BLOCK(iface->super.worker->async);
    iface->telemetry = tele;
    uct_vqp_telemetry_init_head(iface, &tele->head);
    if (uct_vqp_telemetry_write(tele, fields, num * sizeof(*fields),
                                sizeof(tele->head))) {
        uct_vqp_iface_start_sampling(iface);
        uct_vqp_telemetry_update(iface, uct_vqp_now());
    } else {
        uct_vqp_telemetry_give_up(iface, "write to");
    }
    UCS_ASYNC_UNBLOCK(iface->super.worker->async);
}

void uct_vqp_telemetry_close(uct_vqp_iface_t *iface)
{
    uct_vqp_telemetry_t *tele = iface->telemetry;

    if (tele == NULL) {
        return;
    }

    iface->telemetry = NULL;
    uct_vqp_iface_stop_sampling(iface);
    /* not in a process that was forked: the file belongs to its parent */
    if (tele->head.pid == (uint64_t)getpid()) {
        (void)unlink(tele->name);
    }
    close(tele->fd);
    ucs_free(tele->records);
    ucs_free(tele);
}

/* ---- snapshots ---- */

void uct_vqp_telemetry_path(uct_vqp_t *vqp, unsigned index, vqp_telemetry_path_t *record)
{
    const vqp_path_t *path     = &vqp->paths[index];
    const uct_vqp_rail_t *rail = &vqp->iface->rails[path->rail];

    ucs_snprintf_safe(record->device, sizeof(record->device), "%s", rail->dev->name);
    ucs_snprintf_safe(record->source, sizeof(record->source), "%s",
                      uct_vqp_rail_source(vqp->iface, path->rail));
    record->port = rail->port.num;
    record->qpn  = vqp->ib_paths[index].rc.qpn;

    /* What was counted stays when the path is not used any more */
    record->downs = path->fo.downs;
    record->stats = path->stats;
    if (vqp->latency != NULL) {
        record->latency = vqp->latency[index];
    }

    if (!vqp_is_connected(&vqp->core) || (index >= vqp->core.tx.paths.count) ||
        vqp_path_is_off(path)) {
        ucs_snprintf_safe(record->state, sizeof(record->state), "%s", "UNUSED");
        return;
    }

    ucs_snprintf_safe(record->state, sizeof(record->state), "%s",
                      vqp_path_state_name(path->fo.state));
    record->flow_label      = uct_vqp_flow_label(vqp, index);
    record->source_port     = vqp_entropy_port((uint32_t)record->flow_label);
    record->lag_port        = vqp->ib_paths[index].lag.configured;
    record->peer_qpn        = path->fo.peer_qpn;
    record->in_flight       = vqp_path_outstanding(path);
    record->in_flight_bytes = path->bytes;
    if (vqp->balance != NULL) {
        record->rate = vqp->balance[index].rate;
        record->low  = vqp->balance[index].is_low;
    }
}

void uct_vqp_telemetry_conn(uct_vqp_t *vqp, uint64_t now, vqp_telemetry_conn_t *record)
{
    record->vqp  = vqp->number;
    record->peer = vqp->conn.peer_id;
    record->conn = vqp->conn.number;
    ucs_snprintf_safe(record->state, sizeof(record->state), "%s",
                      vqp_state_name(vqp->core.state));
    ucs_snprintf_safe(record->handshake, sizeof(record->handshake), "%s",
                      vqp_conn_state_name(vqp->conn.state));
    record->stats                = vqp->core.stats;
    record->stats.hs_retransmits = vqp->conn.retransmits;
    if (vqp_is_connected(&vqp->core)) {
        record->ahead       = vqp->core.rx.window.ahead;
        record->outage_usec = vqp->core.in_outage ?
                                      (now - vqp->core.outage_since) / 1000 : 0;
    }
}

/* Room for all connections, zeroed. @return 0: there is no memory */
static int uct_vqp_telemetry_reserve(uct_vqp_iface_t *iface)
{
    uct_vqp_telemetry_t *tele = iface->telemetry;
    size_t conn = sizeof(vqp_telemetry_conn_t) +
                  (iface->set.num_paths * sizeof(vqp_telemetry_path_t));
    size_t size = sizeof(vqp_telemetry_iface_t) + (iface->num_vqps * conn);
    char *records;

    if ((tele->records == NULL) || (size > tele->size)) {
        records = ucs_realloc(tele->records, size, "vqp_telemetry_records");
        if (records == NULL) {
            return 0;
        }
        tele->records = records;
    }

    tele->size = size;
    memset(tele->records, 0, size);
    return 1;
}

static void uct_vqp_telemetry_fill(uct_vqp_iface_t *iface, uint64_t now)
{
    vqp_telemetry_iface_t *sum = (vqp_telemetry_iface_t*)iface->telemetry->records;
    char *record               = (char*)(sum + 1);
    vqp_telemetry_conn_t *conn;
    uct_vqp_t *vqp;
    unsigned i;

    sum->num_vqps = iface->num_vqps;
    sum->control  = iface->conntab.stats;
    sum->stats    = iface->stats;
    ucs_list_for_each(vqp, &iface->vqp_list, list) {
        conn = (vqp_telemetry_conn_t*)record;
        uct_vqp_telemetry_conn(vqp, now, conn);
        uct_vqp_stats_add(&sum->stats, &conn->stats);
        record = (char*)(conn + 1);
        for (i = 0; i < iface->set.num_paths; ++i) {
            uct_vqp_telemetry_path(vqp, i, (vqp_telemetry_path_t*)record);
            record += sizeof(vqp_telemetry_path_t);
        }
    }
}

static int uct_vqp_telemetry_write_sequence(uct_vqp_telemetry_t *tele)
{
    ++tele->head.sequence;
    return uct_vqp_telemetry_write(tele, &tele->head.sequence,
                                   sizeof(tele->head.sequence),
                                   offsetof(vqp_telemetry_head_t, sequence));
}

/* The sequence is odd in the file before anything else changes there, and even when
 * all of it has changed */
static int uct_vqp_telemetry_write_snapshot(uct_vqp_telemetry_t *tele)
{
    uint64_t offset = sizeof(tele->head) + (tele->head.num_fields *
                                            sizeof(vqp_telemetry_field_t));

    return uct_vqp_telemetry_write_sequence(tele) &&
           uct_vqp_telemetry_write(tele, &tele->head, sizeof(tele->head), 0) &&
           uct_vqp_telemetry_write(tele, tele->records, tele->size, offset) &&
           uct_vqp_telemetry_write_sequence(tele);
}

void uct_vqp_telemetry_update(uct_vqp_iface_t *iface, uint64_t now)
{
    uct_vqp_telemetry_t *tele = iface->telemetry;

    if ((tele == NULL) || (tele->head.pid != (uint64_t)getpid())) {
        return;
    }

    if (!uct_vqp_telemetry_reserve(iface)) {
        ucs_warn("UCX_VQP_TELEMETRY: failed to allocate memory");
        uct_vqp_telemetry_close(iface);
        return;
    }

    uct_vqp_telemetry_fill(iface, now);
    tele->head.num_conns = iface->num_vqps;
    tele->head.updated   = uct_vqp_telemetry_time();
    if (!uct_vqp_telemetry_write_snapshot(tele)) {
        uct_vqp_telemetry_give_up(iface, "write to");
    }
}
