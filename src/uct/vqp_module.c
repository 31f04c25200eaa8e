/*
 * The module's entry and exit: registers the component `vqp` and its transport
 * with UCX when the library is loaded. May use libuct and libucs, but only after
 * the version guard has passed: UCX's own registration macros
 * (UCT_SINGLE_TL_INIT and the like) would run ahead of it.
 */
#include "uct/compat.h"
#include "uct/vqp_guard.h"

#include <string.h>

/*
 * A component without devices, until the memory domain and the interface stand
 * in files of their own.
 */
static ucs_status_t
uct_vqp_query_md_resources(uct_component_t *component,
                           uct_md_resource_desc_t **resources_p,
                           unsigned *num_resources_p)
{
    return uct_md_query_empty_md_resource(resources_p, num_resources_p);
}

static uct_component_t uct_vqp_component = {
    .query_md_resources = uct_vqp_query_md_resources,
    .md_open            = (uct_component_md_open_func_t)
            ucs_empty_function_return_unsupported,
    .cm_open            = (uct_component_cm_open_func_t)
            ucs_empty_function_return_unsupported,
    .rkey_unpack        = (uct_component_rkey_unpack_func_t)
            ucs_empty_function_return_unsupported,
    .rkey_ptr           = (uct_component_rkey_ptr_func_t)
            ucs_empty_function_return_unsupported,
    .rkey_release       = (uct_component_rkey_release_func_t)
            ucs_empty_function_return_unsupported,
    UCT_VQP_COMPONENT_REST
    .name               = "vqp",
    .md_config          = UCT_MD_DEFAULT_CONFIG_INITIALIZER,
    .cm_config          = UCS_CONFIG_EMPTY_GLOBAL_LIST_ENTRY,
    .tl_list            = UCT_COMPONENT_TL_LIST_INITIALIZER(&uct_vqp_component),
    .flags              = 0,
    .md_vfs_init        = (uct_component_md_vfs_init_func_t)ucs_empty_function
};

static void uct_vqp_component_register(void)
{
    uct_component_register(&uct_vqp_component);
}

static void uct_vqp_component_unregister(void)
{
    uct_component_unregister(&uct_vqp_component);
}

static int uct_vqp_module_registered;

/* A second copy of the module (say the installed one beside one from a build
 * tree, by preload and by UCX's plugin path) stays silent */
static int uct_vqp_module_is_second(void)
{
    uct_component_t *component;

    ucs_list_for_each(component, &uct_components_list, list) {
        if (strcmp(component->name, uct_vqp_component.name) == 0) {
            return 1;
        }
    }

    return 0;
}

static void __attribute__((constructor)) uct_vqp_module_init(void)
{
    if (!uct_vqp_guard_check() || uct_vqp_module_is_second()) {
        return;
    }

    uct_vqp_component_register();
    uct_vqp_module_registered = 1;
}

static void __attribute__((destructor)) uct_vqp_module_cleanup(void)
{
    if (uct_vqp_module_registered) {
        uct_vqp_component_unregister();
    }
}
