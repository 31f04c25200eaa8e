/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The preload shim: brings the module into programs whose UCX does not look for
 * modules by itself (UCX < 1.22 loads a list that was compiled in). It is made
 * for LD_PRELOAD, so it links to libc only and does nothing until the program's
 * UCX queries its components; in a program without UCX it costs one small
 * mapping.
 *
 * It interposes libuct's uct_query_components, loads libuct_vqp.so.0 on the first
 * call (the module registers itself), and calls the real function.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SHIM_MODULE "libuct_vqp.so.0"

/* ucs_status_t is a packed enumeration: one signed byte */
typedef signed char shim_status_t;

typedef shim_status_t (*shim_query_func_t)(void **components_p,
                                           unsigned *num_components_p);

#define SHIM_ERR_NO_ELEM (-12)

shim_status_t uct_query_components(void **components_p,
                                   unsigned *num_components_p);

/* Where the module is, seen from the shim: installed, moved, in a build tree */
static const char *const shim_places[] = {
    "../ucx/" SHIM_MODULE,
    SHIM_MODULE,
    "../../uct/.libs/" SHIM_MODULE
};

static void shim_find_module(char *path, size_t size)
{
    const char *env = getenv("VQP_MODULE");
    const char *slash;
    Dl_info info;
    size_t i;

    if ((env != NULL) && (env[0] != '\0')) {
        snprintf(path, size, "%s", env);
        return;
    }

    if (dladdr((void*)&shim_places, &info) &&
        ((slash = strrchr(info.dli_fname, '/')) != NULL)) {
        for (i = 0; i < sizeof(shim_places) / sizeof(shim_places[0]); ++i) {
            snprintf(path, size, "%.*s/%s", (int)(slash - info.dli_fname),
                     info.dli_fname, shim_places[i]);
            if (access(path, R_OK) == 0) {
                return;
            }
        }
    }

    /* The loader's own search */
    snprintf(path, size, "%s", SHIM_MODULE);
}

/* Several threads may come here at once: dlopen serializes them, and loading
 * what is loaded already only counts a reference */
static void shim_load_module(void)
{
    static int loaded, reported;
    char path[PATH_MAX];

    if (__atomic_load_n(&loaded, __ATOMIC_ACQUIRE)) {
        return;
    }

    shim_find_module(path, sizeof(path));
    if ((dlopen(path, RTLD_LAZY | RTLD_LOCAL) == NULL) &&
        !__atomic_exchange_n(&reported, 1, __ATOMIC_RELAXED)) {
        fprintf(stderr, "uct_vqp: not loaded: %s\n", dlerror());
    }
    __atomic_store_n(&loaded, 1, __ATOMIC_RELEASE);
}

/* The real function: behind the shim in the search order, or, when the program
 * loaded UCX with dlopen into a local scope, in libuct itself */
static shim_query_func_t shim_next(void)
{
    shim_query_func_t func;
    void *libuct;

    func = (shim_query_func_t)dlsym(RTLD_NEXT, "uct_query_components");
    if (func != NULL) {
        return func;
    }

    libuct = dlopen("libuct.so.0", RTLD_LAZY | RTLD_NOLOAD);
    if (libuct == NULL) {
        return NULL;
    }

    func = (shim_query_func_t)dlsym(libuct, "uct_query_components");
    dlclose(libuct);
    return func;
}

shim_status_t uct_query_components(void **components_p,
                                   unsigned *num_components_p)
{
    shim_query_func_t next;

    shim_load_module();
    next = shim_next();
    if ((next == NULL) || (next == uct_query_components)) {
        fprintf(stderr, "uct_vqp: uct_query_components of libuct not found\n");
        return SHIM_ERR_NO_ELEM;
    }

    return next(components_p, num_components_p);
}
