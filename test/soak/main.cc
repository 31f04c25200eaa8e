/*
 * vqp_soak: long runs of the transport through UCT, with checks of its
 * guarantees. "order" has many senders and one receiver (order.cc). Loads the
 * module as a program in UCX does. Made for the software fabric; runs on any
 * RDMA devices.
 */
#include "mix.h"
#include "order.h"

#include "test/lib/process.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include <string>

static bool load_module()
{
    const char *path = getenv("VQP_TEST_MODULE");

    if (path == NULL) {
        path = VQP_TEST_MODULE;
    }

    if (dlopen(path, RTLD_NOW | RTLD_GLOBAL) == NULL) {
        fprintf(stderr, "the module does not load: %s\n", dlerror());
        return false;
    }

    return true;
}

int main(int argc, char **argv)
{
    std::string what = (argc > 1) ? argv[1] : "";

    if (!load_module()) {
        return 1;
    }
    if ((argc == 3) && (what == "--role")) {
        return role_run(argv[2]);
    }
    if (what == "order") {
        return order_main(argc - 2, argv + 2);
    }
    if (what == "mix") {
        return mix_main(argc - 2, argv + 2);
    }

    fprintf(stderr, "usage: vqp_soak order|mix [--NAME VALUE]... "
                    "[OPTION=VALUE]...\n");
    return 2;
}
