/*
 * Options of vqp for uct_config_modify(). Since UCX 1.17 the name has the prefix of the
 * transport. May include UCX's public headers.
 */
#ifndef VQP_TEST_OPTION_H
#define VQP_TEST_OPTION_H

#include <uct/api/uct.h>
#include <uct/api/version.h>

#include <stdio.h>

#if UCT_API >= UCT_VERSION(1, 17)
#  define VQP_OPTION_PREFIX "VQP_"
#else
#  define VQP_OPTION_PREFIX ""
#endif

/** Set an option of an interface: @a name as in UCX_VQP_<name>. */
static inline ucs_status_t vqp_option_set(uct_iface_config_t *config,
                                          const char *name, const char *value)
{
    char full[128];

    snprintf(full, sizeof(full), VQP_OPTION_PREFIX "%s", name);
    return uct_config_modify(config, full, value);
}

#endif
