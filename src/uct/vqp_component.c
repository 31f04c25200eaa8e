/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The component: listing, opening and closing memory domains, and the
 * configuration table. See vqp_md.h.
 */
#include "uct/vqp_bonds.h"
#include "uct/vqp_iface.h"
#include "uct/vqp_log.h"
#include "uct/vqp_md.h"

#include "verbs/async.h"

#include <ucs/async/async.h>
#include <ucs/debug/log.h>
#include <ucs/debug/memtrack_int.h>
#include <ucs/sys/string.h>

#include <stdio.h>

#define UCT_VQP_MD_PREFIX "vqp_"

static ucs_config_field_t uct_vqp_md_config_table[] = {
    {"", "", NULL, ucs_offsetof(uct_vqp_md_config_t, super),
     UCS_CONFIG_TYPE_TABLE(uct_md_config_table)},

    {"RELAXED_ORDERING", "no",
     "Let the HCA write into registered user memory in any order (PCIe relaxed\n"
     "ordering). Raises the bandwidth on some CPUs (AMD EPYC); ignored by devices\n"
     "that do not know it. Active messages and atomics never depend on it. Not for\n"
     "programs that poll for a put behind a fence: it may be seen before earlier\n"
     "ones (OpenSHMEM, MPI one-sided operations).",
     ucs_offsetof(uct_vqp_md_config_t, relaxed_ordering),
     UCS_CONFIG_TYPE_BOOL},

    {"RAILS", "",
     "Ports that form one device (a bond): its endpoints use paths on all of them.\n"
     "Names or globs (mlx5_0:1,mlx5_1:1 or mlx5_[01]) separated by commas; several\n"
     "bonds separated by semicolons; up to 4 ports each. The device has the name of\n"
     "its first port; the other ports are no devices of their own.\n"
     "auto: one bond for the active ports of each NUMA node and link layer.\n"
     "Empty: no bonds.",
     ucs_offsetof(uct_vqp_md_config_t, rails), UCS_CONFIG_TYPE_STRING},

    {"REG_PARALLEL", "64m",
     "Memory of at least this size is registered and deregistered on all rails of a\n"
     "bond in parallel, by a temporary thread for each rail but the first.\n"
     "inf: always one rail after the other.",
     ucs_offsetof(uct_vqp_md_config_t, reg_parallel),
     UCS_CONFIG_TYPE_MEMUNITS},

    {"GPU_DIRECT_RDMA", "try",
     "Register memory of GPUs, so that the HCA reads and writes it directly.\n"
     "try: where a driver offers its memory to RDMA devices (nvidia_peermem,\n"
     "     amdgpu), or the kernel takes dmabuf descriptors.\n"
     "y:   the same, and an error where there is neither.\n"
     "n:   host memory only.",
     ucs_offsetof(uct_vqp_md_config_t, gpu_direct), UCS_CONFIG_TYPE_TERNARY},

#if UCT_VQP_HAS_RCACHE
    {"RCACHE", "try",
     "Keep memory registered that UCP has deregistered, until it is unmapped. Only with\n"
     "UCX before 1.16: since then UCP keeps it.\n"
     "try: where UCX sees that memory is unmapped, and nothing limits locked memory\n"
     "     (ulimit -l).\n"
     "y:   with a limit, too, and an error where UCX does not see it.\n"
     "n:   register memory for each message that needs it.",
     ucs_offsetof(uct_vqp_md_config_t, rcache.enable), UCS_CONFIG_TYPE_TERNARY},

    {"", "", NULL, ucs_offsetof(uct_vqp_md_config_t, rcache.ucx),
     UCS_CONFIG_TYPE_TABLE(uct_md_config_rcache_table)},
#endif

    {NULL}
};

/* Remove the handler of a device's events, once: the handler does it for a device that is
 * gone, or the cleanup of the domain. The lock is held until the descriptor is out of use,
 * since cleanup closes it: another file may have its number then.
 *
 * @param [in] is_cleanup  Wait until the handler does not run. Otherwise it has to return
 *                         at once: the domain may be freed. */
static void uct_vqp_md_unwatch(uct_vqp_md_t *md, unsigned rail, int is_cleanup)
{
    int fd = vqp_ib_dev_async_fd(&md->devs[rail]);
    int is_watched;

    pthread_mutex_lock(&md->lock);
    is_watched         = !md->detached[rail];
    md->detached[rail] = 1;
    if (is_watched && !is_cleanup) {
        ucs_async_remove_handler(fd, 0);
    }
    pthread_mutex_unlock(&md->lock);

    if (is_watched && is_cleanup) {
        ucs_async_remove_handler(fd, 1);
    }
}

/* Runs in UCX's async thread: add an event to the interfaces, which they handle
 * in progress */
static void
uct_vqp_md_async_handler(int fd, ucs_event_set_types_t events, void *arg)
{
    uct_vqp_md_t *md = arg;
    uct_vqp_iface_t *iface;
    vqp_ib_async_t event;
    vqp_status_t status;
    unsigned i;

    for (i = 0; i < md->num_rails; ++i) {
        if (vqp_ib_dev_async_fd(&md->devs[i]) != fd) {
            continue;
        }

        while ((status = vqp_ib_async_get(&md->devs[i], &event)) == VQP_OK) {
            if (event.type == VQP_IB_ASYNC_DEVICE_FATAL) {
                vqp_ib_dev_set_broken(&md->devs[i]);
            }

            pthread_mutex_lock(&md->lock);
            ucs_list_for_each(iface, &md->ifaces, md_list) {
                uct_vqp_iface_async_event(iface, i, &event);
            }
            pthread_mutex_unlock(&md->lock);
        }

        /* The descriptor of a device that was removed stays readable */
        if ((status != VQP_INPROGRESS) && vqp_ib_dev_is_broken(&md->devs[i])) {
            uct_vqp_md_unwatch(md, i, 0);
        }
        return;
    }
}

static void uct_vqp_md_cleanup(uct_vqp_md_t *md, unsigned num_open)
{
    while (md->num_async > 0) {
        uct_vqp_md_unwatch(md, --md->num_async, 1);
    }

    uct_vqp_rcache_cleanup(&md->rcache);
    while (num_open > 0) {
        vqp_ib_dev_close(&md->devs[--num_open]);
    }

    pthread_mutex_destroy(&md->lock);
    ucs_free(md);
}

void uct_vqp_md_close(uct_md_h tl_md)
{
    uct_vqp_md_t *md = ucs_derived_of(tl_md, uct_vqp_md_t);

    uct_vqp_md_cleanup(md, md->num_rails);
}

/* Identify the devices of a bond and their order; never 0 */
static uint16_t uct_vqp_md_key_layout(const uct_vqp_md_t *md)
{
    uint64_t hash = 0xcbf29ce484222325ull;
    unsigned i;

    for (i = 0; i < md->num_rails; ++i) {
        hash = (hash ^ md->devs[i].node_guid ^ md->ports[i]) *
               0x100000001b3ull;
        hash ^= hash >> 29;
    }

    return (uint16_t)((hash ^ (hash >> 16) ^ (hash >> 32)) | 1);
}

static ucs_status_t uct_vqp_md_open_rail(uct_vqp_md_t *md, const char *dev_name,
                                         uint8_t port)
{
    unsigned rail = md->num_rails;
    ucs_status_t status;

    status = uct_vqp_status(vqp_ib_dev_open(&md->devs[rail], dev_name));
    if (status != UCS_OK) {
        return status;
    }

    md->dev_ptrs[rail] = &md->devs[rail];
    md->ports[rail]    = port;
    ++md->num_rails;
    return UCS_OK;
}

/* Start the handler after all rails are open: it runs in another thread */
static ucs_status_t uct_vqp_md_watch_rails(uct_vqp_md_t *md)
{
    ucs_status_t status;

    for (; md->num_async < md->num_rails; ++md->num_async) {
        status = ucs_async_set_event_handler(
                UCS_ASYNC_THREAD_LOCK_TYPE,
                vqp_ib_dev_async_fd(&md->devs[md->num_async]),
                UCS_EVENT_SET_EVREAD, uct_vqp_md_async_handler, md, NULL);
        if (status != UCS_OK) {
            ucs_error("%s: failed to watch the device's async events: %s",
                      md->devs[md->num_async].name, ucs_status_string(status));
            return status;
        }
    }

    return UCS_OK;
}

static ucs_status_t uct_vqp_md_open_bond(uct_vqp_md_t *md,
                                         const uct_vqp_bonds_t *bonds,
                                         const vqp_bond_t *bond)
{
    const vqp_bond_port_t *port;
    ucs_status_t status;
    unsigned i;

    for (i = 0; i < bond->num_rails; ++i) {
        port   = &bonds->ports[bond->rails[i]];
        status = uct_vqp_md_open_rail(md, port->dev, port->num);
        if (status != UCS_OK) {
            return status;
        }
        ucs_debug("rail %u of the bond is %s:%u", i, port->dev, port->num);
    }

    md->key_layout = uct_vqp_md_key_layout(md);
    return UCS_OK;
}

/* One device, or all devices of the bond "bond<N>" */
static ucs_status_t
uct_vqp_md_open_rails(uct_vqp_md_t *md, const char *name,
                      const uct_vqp_bonds_t *bonds)
{
    unsigned number;
    char end;

    if ((sscanf(name, UCT_VQP_BOND_PREFIX "%u%c", &number, &end) == 1) &&
        (number < bonds->num_bonds)) {
        return uct_vqp_md_open_bond(md, bonds, &bonds->bonds[number]);
    }

    if ((uct_vqp_bonds_free_ports(bonds, name, &md->bonded) == 0) &&
        (md->bonded != 0)) {
        /* The list of domains comes from the environment alone */
        ucs_warn("%s: all its ports are bonded by RAILS, but it was asked for by "
                 "itself: UCX_VQP_RAILS has to be set in the environment", name);
        md->bonded = 0;
    }

    return uct_vqp_md_open_rail(md, name, 0);
}

static ucs_status_t
uct_vqp_md_open(uct_component_t *component, const char *md_name,
                const uct_md_config_t *tl_config, uct_md_h *md_p)
{
    const uct_vqp_md_config_t *config = ucs_derived_of(tl_config,
                                                       uct_vqp_md_config_t);
    const char *name                  = md_name;
    const uct_vqp_bonds_t *bonds;
    ucs_status_t status;
    uct_vqp_md_t *md;

    uct_vqp_log_init();
    if (strncmp(md_name, UCT_VQP_MD_PREFIX, strlen(UCT_VQP_MD_PREFIX)) == 0) {
        name += strlen(UCT_VQP_MD_PREFIX);
    }

    md = ucs_calloc(1, sizeof(*md), "uct_vqp_md");
    if (md == NULL) {
        ucs_error("failed to allocate a memory domain");
        return UCS_ERR_NO_MEMORY;
    }

    md->super.ops       = &uct_vqp_md_ops;
    md->super.component = component;
    ucs_list_head_init(&md->ifaces);
    pthread_mutex_init(&md->lock, NULL);
    vqp_ib_fork_init();

    bonds = uct_vqp_bonds_get(config->rails);
    if (bonds == NULL) {
        status = UCS_ERR_INVALID_PARAM;
        goto err_cleanup;
    }

    status = uct_vqp_md_open_rails(md, name, bonds);
    if (status != UCS_OK) {
        goto err_cleanup;
    }

    status = uct_vqp_memtypes_init(&md->memtypes, md->dev_ptrs, md->num_rails,
                                   config->gpu_direct);
    if (status != UCS_OK) {
        goto err_cleanup;
    }

    md->reg = (uct_vqp_reg_t){
        .devs             = md->dev_ptrs,
        .num_rails        = md->num_rails,
        .relaxed_ordering = config->relaxed_ordering,
        .is_all_host      = md->memtypes.is_all_host,
        .parallel         = config->reg_parallel
    };
    status = uct_vqp_rcache_init(&md->rcache, &md->reg, &config->rcache, md_name,
                                 md->memtypes.reg != UCS_BIT(UCS_MEMORY_TYPE_HOST));
    if (status != UCS_OK) {
        goto err_cleanup;
    }

    status = uct_vqp_md_watch_rails(md);
    if (status != UCS_OK) {
        goto err_cleanup;
    }

    *md_p = &md->super;
    return UCS_OK;

err_cleanup:
    uct_vqp_md_cleanup(md, md->num_rails);
    return status;
}

/* Get the bonds of UCX_VQP_RAILS. UCX passes the configuration to an open domain
 * only, but the list of domains depends on it. */
static const uct_vqp_bonds_t *uct_vqp_read_bonds(uct_component_t *component)
{
    const uct_vqp_bonds_t *bonds;
    uct_md_config_t *config;

    if (uct_md_config_read(component, NULL, NULL, &config) != UCS_OK) {
        return NULL;
    }

    bonds = uct_vqp_bonds_get(ucs_derived_of(config,
                                             uct_vqp_md_config_t)->rails);
    uct_config_release(config);
    return bonds;
}

/* The domains: one for each bond, then one for each device with an unbonded port */
static unsigned uct_vqp_fill_md_resources(const vqp_ib_dev_list_t *list,
                                          const uct_vqp_bonds_t *bonds,
                                          uct_md_resource_desc_t *resources)
{
    unsigned count = 0;
    const char *name;
    uint64_t bonded;
    unsigned i;

    for (i = 0; i < bonds->num_bonds; ++i) {
        ucs_snprintf_zero(resources[count].md_name,
                          sizeof(resources[count].md_name),
                          UCT_VQP_MD_PREFIX UCT_VQP_BOND_PREFIX "%u", i);
        ++count;
    }

    for (i = 0; i < list->count; ++i) {
        if ((uct_vqp_bonds_free_ports(bonds, vqp_ib_dev_list_name(list, i),
                                      &bonded) == 0) && (bonded != 0)) {
            continue;
        }
        /* without the prefix where the name is too long for both */
        name = vqp_ib_dev_list_name(list, i);
        ucs_snprintf_zero(resources[count].md_name,
                          sizeof(resources[count].md_name), "%s%s",
                          (strlen(UCT_VQP_MD_PREFIX) + strlen(name) <
                           sizeof(resources[count].md_name)) ?
                                  UCT_VQP_MD_PREFIX : "", name);
        ++count;
    }

    return count;
}

static ucs_status_t
uct_vqp_query_md_resources(uct_component_t *component,
                           uct_md_resource_desc_t **resources_p,
                           unsigned *num_resources_p)
{
    uct_md_resource_desc_t *resources;
    const uct_vqp_bonds_t *bonds;
    vqp_ib_dev_list_t list;
    ucs_status_t status;

    uct_vqp_log_init();
    status = uct_vqp_status(vqp_ib_dev_list_get(&list));
    if (status != UCS_OK) {
        return status;
    }

    if (list.count == 0) {
        vqp_ib_dev_list_free(&list);
        return uct_md_query_empty_md_resource(resources_p, num_resources_p);
    }

    /* An error here would fail all transports of UCP: an invalid setting, which was
     * logged, results in no domains */
    bonds = uct_vqp_read_bonds(component);
    if (bonds == NULL) {
        vqp_ib_dev_list_free(&list);
        return uct_md_query_empty_md_resource(resources_p, num_resources_p);
    }

    resources = ucs_calloc(list.count + bonds->num_bonds, sizeof(*resources),
                           "vqp resources");
    if (resources == NULL) {
        ucs_error("failed to allocate the list of memory domains");
        status = UCS_ERR_NO_MEMORY;
        goto out;
    }

    *num_resources_p = uct_vqp_fill_md_resources(&list, bonds, resources);
    *resources_p     = resources;
    status           = UCS_OK;

out:
    vqp_ib_dev_list_free(&list);
    return status;
}

static ucs_status_t
uct_vqp_cm_open(uct_component_t *component, uct_worker_h worker,
                const uct_cm_config_t *config, uct_cm_h *cm_p)
{
    return UCS_ERR_UNSUPPORTED;
}

uct_component_t uct_vqp_component = {
    .query_md_resources = uct_vqp_query_md_resources,
    .md_open            = uct_vqp_md_open,
    .cm_open            = uct_vqp_cm_open,
    .rkey_unpack        = uct_vqp_rkey_unpack,
    .rkey_ptr           = uct_vqp_rkey_ptr,
    .rkey_release       = uct_vqp_rkey_release,
    UCT_VQP_COMPONENT_REST(uct_vqp_rkey_compare)
    .name               = "vqp",
    .md_config          = {
        .name           = "vqp memory domain",
        .prefix         = "VQP_",
        .table          = uct_vqp_md_config_table,
        .size           = sizeof(uct_vqp_md_config_t),
    },
    .cm_config          = UCS_CONFIG_EMPTY_GLOBAL_LIST_ENTRY,
    .tl_list            = UCT_COMPONENT_TL_LIST_INITIALIZER(&uct_vqp_component),
    .flags              = 0,
    .md_vfs_init        = (uct_component_md_vfs_init_func_t)ucs_empty_function
};
