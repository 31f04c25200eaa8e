/*
 * What the tests of GPU memory share: the software fabric, and the virtual GPU known to
 * UCX. Whether devices reach GPU memory is an option of the fabric.
 */
#ifndef VQP_TEST_UCT_GPU_FIXTURE_H
#define VQP_TEST_UCT_GPU_FIXTURE_H

#include "uct_fixture.h"
#include "vgpu.h"

#include "test/fabric/fabric.h"

#include <uct/api/version.h>

class gpu_test : public uct_test {
protected:
    void SetUp() override
    {
        uct_test::SetUp();
        if (IsSkipped()) {
            return;
        }
        if (vqp_fabric() == nullptr) {
            GTEST_SKIP() << "needs the software fabric";
        }
        vgpu_attach();
        is_attached = true;
    }

    void TearDown() override
    {
        uct_test::TearDown();
        if (is_attached) {
            vgpu_detach();
        }
    }

    /* Does a driver offer device memory by its address? */
    static bool is_offered() { return option_is_yes("PEER_MEM"); }

    /* Are dmabuf descriptors registered? */
    static bool takes_dmabuf()
    {
        return (UCT_API >= UCT_VERSION(1, 14)) && option_is_yes("DMABUF");
    }

    /* Does UCP register device memory with vqp? */
    static bool is_direct() { return is_offered() || takes_dmabuf(); }

    bool is_attached = false;

private:
    static bool option_is_yes(const char *name)
    {
        char value[16] = "";

        vqp_fabric()->option(name, value, sizeof(value));
        return std::string(value) == "yes";
    }
};

#endif
