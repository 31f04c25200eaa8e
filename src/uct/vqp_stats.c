/* SPDX-License-Identifier: BSD-3-Clause */
/* Output of the counters, see vqp_stats.h. */
#include "uct/vqp_stats.h"

#include <ucs/async/async.h>
#include <ucs/debug/log.h>
#include <ucs/debug/memtrack_int.h>
#include <ucs/datastruct/string_buffer.h>
#include <ucs/vfs/base/vfs_cb.h>
#include <ucs/vfs/base/vfs_obj.h>

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static void uct_vqp_stats_vfs_fill(uct_vqp_t *vqp)
{
    unsigned i;

    ucs_vfs_obj_add_dir(vqp->iface, vqp, "vqp/%u", vqp->number);
#define UCT_VQP_VFS_COUNTER(_name, _help) \
    ucs_vfs_obj_add_ro_file(vqp, ucs_vfs_show_primitive, &vqp->core.stats._name, \
                            UCS_VFS_TYPE_ULONG, #_name);
    VQP_COUNTERS(UCT_VQP_VFS_COUNTER)
#undef UCT_VQP_VFS_COUNTER

    for (i = 0; i < vqp->core.num_paths; ++i) {
#define UCT_VQP_VFS_PATH_COUNTER(_name, _help) \
        ucs_vfs_obj_add_ro_file(vqp, ucs_vfs_show_primitive, \
                                &vqp->paths[i].stats._name, \
                                UCS_VFS_TYPE_ULONG, \
                                "path/%u/" #_name, i);
        VQP_PATH_COUNTERS(UCT_VQP_VFS_PATH_COUNTER)
#undef UCT_VQP_VFS_PATH_COUNTER
        ucs_vfs_obj_add_ro_file(vqp, ucs_vfs_show_primitive,
                                &vqp->ib_paths[i].lag.configured, UCS_VFS_TYPE_U8,
                                "path/%u/lag_port", i);
    }
}

void uct_vqp_stats_vfs_add(uct_vqp_t *vqp)
{
    if (vqp->iface->is_in_vfs) {
        uct_vqp_stats_vfs_fill(vqp);
    }
}

/* Some 60 nodes of 200 bytes are much for an idle connection: there are none until somebody
 * reads. The reader is another thread, so connections must stay meanwhile */
static void uct_vqp_stats_vfs_fill_all(uct_vqp_iface_t *iface)
{
    uct_vqp_t *vqp;

    UCS_ASYNC_BLOCK(iface->super.worker->async);
    if (!iface->is_in_vfs) {
        iface->is_in_vfs = 1;
        ucs_list_for_each(vqp, &iface->vqp_list, list) {
            uct_vqp_stats_vfs_fill(vqp);
        }
    }
    UCS_ASYNC_UNBLOCK(iface->super.worker->async);
}

void uct_vqp_stats_vfs_refresh(uct_iface_h tl_iface)
{
    uct_vqp_iface_t *iface = ucs_derived_of(tl_iface, uct_vqp_iface_t);

    uct_vqp_stats_vfs_fill_all(iface);
    ucs_vfs_obj_add_ro_file(iface, ucs_vfs_show_primitive, &iface->num_vqps,
                            UCS_VFS_TYPE_U32, "num_vqps");
#define UCT_VQP_VFS_CONN_COUNTER(_name, _help) \
    ucs_vfs_obj_add_ro_file(iface, ucs_vfs_show_primitive, \
                            &iface->conntab.stats._name, \
                            UCS_VFS_TYPE_ULONG, "control/" #_name);
    VQP_CONNTAB_COUNTERS(UCT_VQP_VFS_CONN_COUNTER)
#undef UCT_VQP_VFS_CONN_COUNTER
}

void uct_vqp_stats_add(vqp_stats_t *sum, const vqp_stats_t *stats)
{
    uint64_t ooo_max  = ucs_max(sum->ooo_max, stats->ooo_max);
    uint64_t gap_usec = ucs_max(sum->gap_usec, stats->gap_usec);

#define UCT_VQP_ADD(_name, _help) sum->_name += stats->_name;
    VQP_COUNTERS(UCT_VQP_ADD)
#undef UCT_VQP_ADD
    sum->ooo_max  = ooo_max;
    sum->gap_usec = gap_usec;
}

static void
uct_vqp_stats_add_path(vqp_path_stats_t *sum, const vqp_path_stats_t *stats)
{
#define UCT_VQP_ADD(_name, _help) sum->_name += stats->_name;
    VQP_PATH_COUNTERS(UCT_VQP_ADD)
#undef UCT_VQP_ADD
}

static void
uct_vqp_stats_print(ucs_string_buffer_t *strb, const vqp_stats_t *stats)
{
#define UCT_VQP_PRINT(_name, _help) \
    ucs_string_buffer_appendf(strb, "\"" #_name "\":%lu,", stats->_name);
    VQP_COUNTERS(UCT_VQP_PRINT)
#undef UCT_VQP_PRINT
    ucs_string_buffer_rtrim(strb, ",");
}

static void uct_vqp_stats_print_path(ucs_string_buffer_t *strb, unsigned index,
                                     const vqp_path_stats_t *stats)
{
    ucs_string_buffer_appendf(strb, "{\"path\":%u,", index);
#define UCT_VQP_PRINT(_name, _help) \
    ucs_string_buffer_appendf(strb, "\"" #_name "\":%lu,", stats->_name);
    VQP_PATH_COUNTERS(UCT_VQP_PRINT)
#undef UCT_VQP_PRINT
    ucs_string_buffer_rtrim(strb, ",");
    ucs_string_buffer_appendf(strb, "},");
}

void uct_vqp_stats_collect(uct_vqp_t *vqp)
{
    uct_vqp_iface_t *iface = vqp->iface;
    unsigned i;

    vqp->core.stats.hs_retransmits = vqp->conn.retransmits;
    uct_vqp_stats_add(&iface->stats, &vqp->core.stats);
    for (i = 0; i < vqp->core.num_paths; ++i) {
        uct_vqp_stats_add_path(&iface->path_stats[i], &vqp->paths[i].stats);
    }

    if (iface->stats_file == NULL) {
        return;
    }

    ucs_string_buffer_appendf(&iface->vqp_stats,
                              "{\"peer\":\"%016" PRIx64 "\",\"conn\":%u,",
                              vqp->conn.peer_id, vqp->conn.number);
    uct_vqp_stats_print(&iface->vqp_stats, &vqp->core.stats);
    ucs_string_buffer_appendf(&iface->vqp_stats, ",\"paths\":[");
    for (i = 0; i < vqp->core.num_paths; ++i) {
        uct_vqp_stats_print_path(&iface->vqp_stats, i, &vqp->paths[i].stats);
        ucs_string_buffer_rtrim(&iface->vqp_stats, "},");
        ucs_string_buffer_appendf(&iface->vqp_stats, ",\"lag_port\":%u},",
                                  vqp->ib_paths[i].lag.configured);
    }
    ucs_string_buffer_rtrim(&iface->vqp_stats, ",");
    ucs_string_buffer_appendf(&iface->vqp_stats, "]},");
}

static void uct_vqp_stats_print_rails(ucs_string_buffer_t *strb,
                                      const uct_vqp_iface_t *iface)
{
    unsigned i;

    for (i = 0; i < iface->num_rails; ++i) {
        ucs_string_buffer_appendf(strb, "{\"port\":\"%s:%u\",\"source\":\"%s\","
                                  "\"lag\":\"%s\",\"lag_ports\":%u},",
                                  iface->rails[i].dev->name, iface->rails[i].port.num,
                                  uct_vqp_rail_source(iface, i),
                                  vqp_ib_lag_mode_name((vqp_ib_lag_mode_t)
                                                       iface->rails[i].lag_mode),
                                  iface->rails[i].lag_ports);
    }
    ucs_string_buffer_rtrim(strb, ",");
}

static void
uct_vqp_stats_write(const uct_vqp_iface_t *iface, ucs_string_buffer_t *strb)
{
    size_t length = ucs_string_buffer_length(strb);
    int fd;

    /* One write to a file opened for appending: lines of several processes do
     * not mix */
    fd = open(iface->stats_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
              0644);
    if (fd < 0) {
        ucs_warn("UCX_VQP_STATS_FILE: failed to open %s: %m",
                 iface->stats_file);
        return;
    }

    if (write(fd, ucs_string_buffer_cstr(strb), length) != (ssize_t)length) {
        ucs_warn("UCX_VQP_STATS_FILE: failed to write to %s: %m",
                 iface->stats_file);
    }

    close(fd);
}

static void uct_vqp_stats_log(const uct_vqp_iface_t *iface)
{
    ucs_string_buffer_t strb;
    unsigned i;

    ucs_string_buffer_init(&strb);
    uct_vqp_stats_print(&strb, &iface->stats);
    ucs_info("vqp %s:%u closed: %s", iface->rails[0].dev->name,
             iface->rails[0].port.num, ucs_string_buffer_cstr(&strb));
    ucs_string_buffer_cleanup(&strb);

    for (i = 0; i < iface->set.num_paths; ++i) {
        ucs_string_buffer_init(&strb);
        uct_vqp_stats_print_path(&strb, i, &iface->path_stats[i]);
        ucs_string_buffer_rtrim(&strb, ",");
        ucs_info("vqp %s:%u closed: %s", iface->rails[0].dev->name,
                 iface->rails[0].port.num, ucs_string_buffer_cstr(&strb));
        ucs_string_buffer_cleanup(&strb);
    }
}

void uct_vqp_stats_report(uct_vqp_iface_t *iface)
{
    ucs_string_buffer_t strb;
    unsigned i;

    iface->stats.hs_retransmits = iface->conntab.stats.retransmits;
    uct_vqp_stats_log(iface);
    if (iface->stats_file == NULL) {
        return;
    }

    ucs_string_buffer_init(&strb);
    ucs_string_buffer_appendf(&strb,
                              "{\"pid\":%d,\"dev\":\"%s:%u\",\"iface\":"
                              "\"%016" PRIx64 "\",\"num_paths\":%u,"
                              "\"rails\":[", getpid(),
                              iface->rails[0].dev->name,
                              iface->rails[0].port.num, iface->id,
                              iface->set.num_paths);
    uct_vqp_stats_print_rails(&strb, iface);
    ucs_string_buffer_appendf(&strb, "],\"counters\":{");
    uct_vqp_stats_print(&strb, &iface->stats);
    ucs_string_buffer_appendf(&strb, "},\"control\":{");
#define UCT_VQP_PRINT(_name, _help) \
    ucs_string_buffer_appendf(&strb, "\"" #_name "\":%lu,", \
                              iface->conntab.stats._name);
    VQP_CONNTAB_COUNTERS(UCT_VQP_PRINT)
#undef UCT_VQP_PRINT
    ucs_string_buffer_rtrim(&strb, ",");
    ucs_string_buffer_appendf(&strb, "},\"paths\":[");
    for (i = 0; i < iface->set.num_paths; ++i) {
        uct_vqp_stats_print_path(&strb, i, &iface->path_stats[i]);
    }
    ucs_string_buffer_rtrim(&strb, ",");
    ucs_string_buffer_rtrim(&iface->vqp_stats, ",");
    ucs_string_buffer_appendf(&strb, "],\"vqps\":[%s]}\n",
                              ucs_string_buffer_cstr(&iface->vqp_stats));
    uct_vqp_stats_write(iface, &strb);
    ucs_string_buffer_cleanup(&strb);
}
