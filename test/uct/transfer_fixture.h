/* Two connected interfaces with memory to move data from and to. */
#ifndef VQP_TEST_UCT_TRANSFER_FIXTURE_H
#define VQP_TEST_UCT_TRANSFER_FIXTURE_H

#include "uct_fixture.h"

class transfer_test : public uct_test {
protected:
    /* Memory of that size at both, that of a filled */
    void connect(const options &config, size_t size)
    {
        open(config);
        source = std::make_unique<memory>(*a, size);
        target = std::make_unique<memory>(*b, size);
        source->fill(1);
        settle();
    }

    void TearDown() override
    {
        /* the endpoints first: they may hold on to the memory */
        ab.reset();
        ba.reset();
        source.reset();
        target.reset();
        uct_test::TearDown();
    }

    std::unique_ptr<memory> source, target;
};

#endif
