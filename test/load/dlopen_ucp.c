/*
 * Loads libucp into a local scope, as plug-in hosts such as mpirun do, starts a
 * context, and prints the names of the libraries of vqp that are loaded then.
 */
#include <ucp/api/ucp.h>

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

static int print_vqp_library(struct dl_phdr_info *info, size_t size, void *arg)
{
    const char *name = strrchr(info->dlpi_name, '/');

    (void)size;
    (void)arg;
    if ((name != NULL) && (strstr(name, "vqp") != NULL)) {
        printf("%s\n", name + 1);
    }
    return 0;
}

int main(void)
{
    ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES,
        .features   = UCP_FEATURE_TAG
    };
    __typeof__(&ucp_init_version) init_version;
    __typeof__(&ucp_cleanup) cleanup;
    ucp_context_h context;
    void *libucp;

    libucp = dlopen("libucp.so.0", RTLD_LAZY | RTLD_LOCAL);
    if (libucp == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }

    init_version = (__typeof__(init_version))dlsym(libucp, "ucp_init_version");
    cleanup      = (__typeof__(cleanup))dlsym(libucp, "ucp_cleanup");
    if ((init_version == NULL) || (cleanup == NULL)) {
        fprintf(stderr, "libucp lacks ucp_init_version\n");
        return 1;
    }

    if (init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, NULL, &context) !=
        UCS_OK) {
        fprintf(stderr, "ucp_init_version failed\n");
        return 1;
    }

    dl_iterate_phdr(print_vqp_library, NULL);
    cleanup(context);
    return 0;
}
