/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The module's entry and exit: registers the component `vqp` and its transport
 * with UCX when the library is loaded. May use libuct and libucs, but only after
 * the version guard has passed: UCX's own registration macros
 * (UCT_SINGLE_TL_INIT and the like) would run before it.
 */
#include "uct/compat.h"
#include "uct/vqp_guard.h"
#include "uct/vqp_iface.h"

#include <string.h>

static void uct_vqp_component_register(void)
{
    uct_component_register(&uct_vqp_component);
    uct_tl_register(&uct_vqp_component, &UCT_TL_NAME(vqp));
}

static void uct_vqp_component_unregister(void)
{
    uct_tl_unregister(&UCT_TL_NAME(vqp));
    uct_component_unregister(&uct_vqp_component);
}

static int uct_vqp_module_registered;

/* A second copy of the module does nothing: the installed one and one of a build
 * tree may both be loaded, by preload and by UCX's plugin path */
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
