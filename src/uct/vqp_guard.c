/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The version guard, see vqp_guard.h. It may use compile-time facts of UCX only
 * (macros and sizeof), and calls functions through dlsym.
 */
#include "uct/vqp_guard.h"
#include "uct/compat.h"

#include <ucs/config/global_opts.h>
#include <uct/sm/mm/base/mm_ep.h>

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define GUARD_TEXT_(_x)       #_x
#define GUARD_TEXT(_x)        GUARD_TEXT_(_x)

/* --with-guard-version claims another version, for the test of this file */
#ifdef VQP_GUARD_MAJOR
#  define GUARD_BUILT_MAJOR   VQP_GUARD_MAJOR
#  define GUARD_BUILT_MINOR   VQP_GUARD_MINOR
#  define GUARD_BUILT_STRING \
    GUARD_TEXT(VQP_GUARD_MAJOR) "." GUARD_TEXT(VQP_GUARD_MINOR)
#else
#  define GUARD_BUILT_MAJOR   UCT_VERNO_MAJOR
#  define GUARD_BUILT_MINOR   UCT_VERNO_MINOR
#  define GUARD_BUILT_STRING  UCT_VERNO_STRING
#endif

#define GUARD_VERSION(_major, _minor) ((_major) * 1000u + (_minor))
#define GUARD_BUILT   GUARD_VERSION(GUARD_BUILT_MAJOR, GUARD_BUILT_MINOR)
#define GUARD_FIRST   GUARD_VERSION(1, 13)
#define GUARD_LAST    GUARD_VERSION(1, 23) /* newest that the markers cover */
#define GUARD_FOREVER GUARD_VERSION(999, 0)

/* Symbols of libuct that identify its version: they exist in [since, until) */
static const struct {
    const char *symbol;
    unsigned   since;
    unsigned   until;
} guard_markers[] = {
    {"uct_md_mem_reg_v2",             GUARD_VERSION(1, 14), GUARD_FOREVER},
    {"uct_base_iface_is_reachable_v2", GUARD_VERSION(1, 15),
     GUARD_VERSION(1, 16)},
    {"uct_base_rkey_compare",         GUARD_VERSION(1, 16), GUARD_FOREVER},
    {"uct_md_base_md_query",          GUARD_VERSION(1, 17), GUARD_FOREVER},
    {"uct_iface_fill_info_str_buf",   GUARD_VERSION(1, 18), GUARD_FOREVER},
    {"uct_rkey_unpack_v2",            GUARD_VERSION(1, 19), GUARD_FOREVER},
    {"uct_ep_get_device_ep",          GUARD_VERSION(1, 20), GUARD_FOREVER},
    {"uct_md_mem_elem_pack",          GUARD_VERSION(1, 21), GUARD_FOREVER},
    {"uct_ep_put_sgl_zcopy",          GUARD_VERSION(1, 22), GUARD_FOREVER},
    {"uct_ep_outstanding_purge",      GUARD_VERSION(1, 23), GUARD_FOREVER}
};

/*
 * Sizes that the running libraries provide. A class symbol contains the size of
 * the class's objects. The size of other variables is that of their symbol.
 * Structures without a visible instance in a version are skipped there.
 */
static const struct {
    const char *symbol;
    int        is_class;
    size_t     size;
    const char *type;
} guard_sizes[] = {
    {"uct_base_iface_t_class",     1, sizeof(uct_base_iface_t),
     "uct_base_iface_t"},
    {"uct_base_ep_t_class",        1, sizeof(uct_base_ep_t), "uct_base_ep_t"},
    {"uct_priv_worker_t_class",    1, sizeof(uct_priv_worker_t),
     "uct_priv_worker_t"},
    /* contains an arbiter group, which is larger with UCX's assertions. So is the
     * async context, which has no visible instance */
    {"uct_mm_ep_t_class",          1, sizeof(uct_mm_ep_t), "uct_mm_ep_t"},
    {"uct_tcp_component",          0, sizeof(uct_component_t),
     "uct_component_t"},
    {"uct_tcp_tl",                 0, sizeof(uct_tl_t), "uct_tl_t"},
    {"uct_base_iface_internal_ops", 0, sizeof(uct_iface_internal_ops_t),
     "uct_iface_internal_ops_t"},
    {"ucs_global_opts",            0, sizeof(ucs_global_opts_t),
     "ucs_global_opts_t"}
};

/*
 * Where members are, as the tables of options in the running libuct say: a table has
 * the offset of each option's member. An option that is in no table of a version is
 * skipped. The one that follows the base structure has its size as offset.
 */
static const struct {
    const char *table;
    const char *option;
    size_t     offset;
    const char *member;
} guard_offsets[] = {
    {"uct_iface_config_table",    "ALLOC",
     offsetof(uct_iface_config_t, alloc_methods), "uct_iface_config_t.alloc_methods"},
    {"uct_iface_config_table",    "FAILURE",
     offsetof(uct_iface_config_t, failure), "uct_iface_config_t.failure"},
    {"uct_iface_config_table",    "MAX_NUM_EPS",
     offsetof(uct_iface_config_t, max_num_eps), "uct_iface_config_t.max_num_eps"},
    {"uct_sm_iface_config_table", "BW", sizeof(uct_iface_config_t),
     "what follows uct_iface_config_t"},
    {"uct_mm_md_config_table",    "HUGETLB_MODE",
     offsetof(uct_mm_md_config_t, hugetlb_mode), "what follows uct_md_config_t"}
};

/*
 * Functions, each added by the commit that added a member to a structure which has no
 * visible size. configure says in VQP_GUARD_FUNCTIONS, as :NAME:NAME:, which of them the
 * headers declare that this module is compiled with. config/m4/ucx.m4 has the same list.
 */
static const struct {
    const char *name;
    const char *type;
} guard_functions[] = {
    {"uct_md_mem_attach",          "uct_md_ops_t"},
    {"uct_ep_connect_to_ep_v2",    "uct_iface_internal_ops_t"},
    {"uct_ep_is_connected",        "uct_iface_internal_ops_t"},
    {"uct_rkey_compare",           "uct_component_t"},
    {"uct_rkey_unpack_v2",         "uct_component_t"},
    {"uct_iface_mem_element_pack", "uct_iface_internal_ops_t"},
    {"uct_iface_query_v2",         "uct_iface_internal_ops_t"},
    {"uct_ep_get_device_ep",       "uct_iface_internal_ops_t"},
    {"uct_md_mem_elem_pack",       "uct_md_ops_t"},
    {"uct_md_mem_query_v2",        "uct_md_ops_t"},
    {"uct_ep_put_sgl_zcopy",       "uct_iface_internal_ops_t"},
    {"uct_ep_outstanding_purge",   "uct_iface_internal_ops_t"},
    {"uct_ep_get_sgl_zcopy",       "uct_iface_internal_ops_t"},
    {"uct_md_mem_elem_release",    "uct_md_ops_t"}
};

#define guard_count(_array) (sizeof(_array) / sizeof((_array)[0]))

static int guard_has_symbol(const char *symbol)
{
    return dlsym(RTLD_DEFAULT, symbol) != NULL;
}

static int guard_matches_markers(unsigned version)
{
    size_t i;
    int expected;

    for (i = 0; i < guard_count(guard_markers); ++i) {
        expected = (version >= guard_markers[i].since) &&
                   (version < guard_markers[i].until);
        if (expected != guard_has_symbol(guard_markers[i].symbol)) {
            return 0;
        }
    }

    return 1;
}

/* Get the version of libucp as text; 0 when no libucp is loaded */
static unsigned guard_ucp_version(char *text, size_t size)
{
    void (*get_version)(unsigned *major, unsigned *minor, unsigned *release);
    unsigned major, minor, release;
    void *libucp;

    get_version = dlsym(RTLD_DEFAULT, "ucp_get_version");
    if (get_version == NULL) {
        /* libucp may be in a local scope, as with Open MPI */
        libucp = dlopen("libucp.so.0", RTLD_LAZY | RTLD_NOLOAD);
        if (libucp == NULL) {
            return 0;
        }

        get_version = dlsym(libucp, "ucp_get_version");
        dlclose(libucp);
        if (get_version == NULL) {
            return 0;
        }
    }

    get_version(&major, &minor, &release);
    snprintf(text, size, "%u.%u.%u", major, minor, release);
    return GUARD_VERSION(major, minor);
}

/* Get the version by the symbols of libuct; 0 when they fit none */
static unsigned guard_marker_version(char *text, size_t size)
{
    unsigned version;

    for (version = GUARD_FIRST; version <= GUARD_LAST; ++version) {
        if (guard_matches_markers(version)) {
            snprintf(text, size, "%u.%u%s", version / 1000, version % 1000,
                     (version == GUARD_LAST) ? " or newer" : "");
            return version;
        }
    }

    snprintf(text, size, "of an unknown version");
    return 0;
}

/* Size of the variable behind a symbol; 0 when it is unknown */
static size_t guard_symbol_size(const void *address)
{
    const ElfW(Sym) *sym = NULL;
    Dl_info info;

    if (!dladdr1(address, &info, (void**)&sym, RTLD_DL_SYMENT) ||
        (sym == NULL)) {
        return 0;
    }

    return sym->st_size;
}

/* Describe a structure whose size differs from the one compiled with.
 * @return 0: there is none */
static int guard_other_layout(char *text, size_t text_size)
{
    const char *type;
    const void *address;
    size_t i, size, built;

    for (i = 0; i < guard_count(guard_sizes); ++i) {
        address = dlsym(RTLD_DEFAULT, guard_sizes[i].symbol);
        if (address == NULL) {
            continue;
        }

        size = guard_symbol_size(address);
        if (size == 0) {
            continue;
        }

        type  = guard_sizes[i].type;
        built = guard_sizes[i].size;
        if (guard_sizes[i].is_class && (size != sizeof(ucs_class_t))) {
            type  = "ucs_class_t";
            built = sizeof(ucs_class_t);
        } else if (guard_sizes[i].is_class) {
            size = ((const ucs_class_t*)address)->size;
        }

        if (size != built) {
            snprintf(text, text_size, "%s has %zu bytes, not %zu", type, size, built);
            return 1;
        }
    }

    return 0;
}

/* Whether a function is in the list that configure made */
static int guard_is_declared(const char *name)
{
#ifdef VQP_GUARD_FUNCTIONS
    static const char declared[] = GUARD_TEXT(VQP_GUARD_FUNCTIONS);
    char item[64];

    snprintf(item, sizeof(item), ":%s:", name);
    return strstr(declared, item) != NULL;
#else
    return guard_has_symbol(name); /* nothing is known */
#endif
}

/* Describe a function that the running libuct lacks, or has beyond those declared.
 * @return 0: there is none */
static int guard_other_function(char *text, size_t size)
{
    size_t i;
    int has;

    for (i = 0; i < guard_count(guard_functions); ++i) {
        has = guard_has_symbol(guard_functions[i].name);
        if (has != guard_is_declared(guard_functions[i].name)) {
            snprintf(text, size, "%s %s, which belongs to a member of %s",
                     has ? "there is" : "there is no", guard_functions[i].name,
                     guard_functions[i].type);
            return 1;
        }
    }

    return 0;
}

/* Whether an address is in the same library as another one, so that it can be read */
static int guard_is_beside(const void *address, const void *other)
{
    Dl_info info, other_info;

    return (address != NULL) && dladdr(address, &info) &&
           dladdr(other, &other_info) && (info.dli_fbase == other_info.dli_fbase);
}

/* The entry of an option in a table of libuct; NULL: there is none, or the entries have
 * another form than here */
static const ucs_config_field_t *guard_option(const char *table, const char *option)
{
    const ucs_config_field_t *field = dlsym(RTLD_DEFAULT, table);
    size_t i, size;

    size = (field == NULL) ? 0 : guard_symbol_size(field);
    if ((size == 0) || (size % sizeof(*field) != 0)) {
        return NULL;
    }

    for (i = 0; (i < size / sizeof(*field)) && guard_is_beside(field[i].name, field);
         ++i) {
        if (!strcmp(field[i].name, option)) {
            return &field[i];
        }
    }

    return NULL;
}

/* Describe a member whose offset differs from the one compiled with.
 * @return 0: there is none */
static int guard_other_offset(char *text, size_t size)
{
    const ucs_config_field_t *field;
    size_t i;

    for (i = 0; i < guard_count(guard_offsets); ++i) {
        field = guard_option(guard_offsets[i].table, guard_offsets[i].option);
        if ((field != NULL) && (field->offset != guard_offsets[i].offset)) {
            snprintf(text, size, "%s begins at byte %zu, not %zu",
                     guard_offsets[i].member, field->offset, guard_offsets[i].offset);
            return 1;
        }
    }

    return 0;
}

/* The file that libuct was loaded from */
static const char *guard_libuct_path(void)
{
    Dl_info info;
    void *address = dlsym(RTLD_DEFAULT, "uct_component_register");

    if ((address == NULL) || !dladdr(address, &info)) {
        return "libuct not found";
    }

    return info.dli_fname;
}

int uct_vqp_guard_check(void)
{
    unsigned built = (GUARD_BUILT < GUARD_LAST) ? GUARD_BUILT : GUARD_LAST;
    char running[64], by_markers[64], difference[128];
    unsigned ucp, markers;

    ucp     = guard_ucp_version(running, sizeof(running));
    markers = guard_marker_version(by_markers, sizeof(by_markers));

    if ((markers != built) || ((ucp != 0) && (ucp != GUARD_BUILT))) {
        fprintf(stderr,
                "uct_vqp: not loaded: this module was compiled for UCX %s, but"
                " the running UCX is %s (%s); rebuild it for that UCX\n",
                GUARD_BUILT_STRING, (ucp != 0) ? running : by_markers,
                guard_libuct_path());
        return 0;
    }

    if (!guard_other_layout(difference, sizeof(difference)) &&
        !guard_other_offset(difference, sizeof(difference)) &&
        !guard_other_function(difference, sizeof(difference))) {
        return 1;
    }

    fprintf(stderr,
            "uct_vqp: not loaded: this module was compiled for UCX %s, and"
            " the running UCX is %s with another build configuration, or of another"
            " commit (%s: %s); rebuild it for that UCX\n",
            GUARD_BUILT_STRING, (ucp != 0) ? running : by_markers,
            guard_libuct_path(), difference);
    return 0;
}
