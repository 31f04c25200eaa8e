/*
 * Loads the transport into stock UCX, as the preload shim does, then runs the
 * tests, or the role of a second process in one of them (uct_fixture.h).
 */
#include "uct_fixture.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

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
    if (!load_module()) {
        return 1;
    }

    if ((argc == 3) && (std::string(argv[1]) == "--role")) {
        return role_run(argv[2]);
    }

    ::testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
