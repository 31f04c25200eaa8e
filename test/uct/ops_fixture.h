/*
 * Two connected interfaces with memory at both ends, for each of the settings
 * that the tests of the operations are run with (ops_test.cc, am_test.cc).
 */
#ifndef VQP_TEST_OPS_FIXTURE_H
#define VQP_TEST_OPS_FIXTURE_H

#include "uct_fixture.h"

#include <algorithm>
#include <ostream>

struct setting {
    const char *name;
    options     config;
};

/* googletest would print its bytes, and those between its members */
inline void PrintTo(const setting &which, std::ostream *os)
{
    *os << which.name;
}

class ops : public uct_test,
            public ::testing::WithParamInterface<setting> {
protected:
    void SetUp() override
    {
        uct_test::SetUp();
        if (IsSkipped()) {
            return;
        }
        open(GetParam().config);
        source = std::make_unique<memory>(*a, size);
        target = std::make_unique<memory>(*b, size);
        source->fill(1);
        target->fill(2);
    }

    void TearDown() override
    {
        source.reset();
        target.reset();
        uct_test::TearDown();
    }

    /* Nothing but [at, at + length) of dest differs from seed's pattern, and
     * that is what stands in src at `from` */
    static void expect_moved(memory &dest, unsigned seed, size_t at,
                             const memory &src, size_t from, size_t length)
    {
        size_t low  = (at < 64) ? 0 : (at - 64);
        size_t high = std::min(at + length + 64, size);

        EXPECT_EQ(0, memcmp(dest.data + at, src.data + from, length))
                << length << " bytes at " << at;
        for (size_t i = low; i < high; ++i) {
            if ((i < at) || (i >= at + length)) {
                ASSERT_EQ(pattern(seed, i), dest.data[i])
                        << "byte " << i << " is outside of " << length
                        << " bytes at " << at;
            }
        }

        for (size_t i = low; i < high; ++i) {
            dest.data[i] = pattern(seed, i);
        }
    }

    static std::vector<size_t> borders(size_t max)
    {
        std::vector<size_t> all = {0,     1,     2,     7,     8,     9,
                                   31,    32,    33,    63,    64,    65,
                                   127,   128,   129,   255,   256,   257,
                                   511,   512,   513,   4095,  4096,  4097,
                                   8191,  8192,  8193,  16383, 16384, 16385,
                                   65535, 65536, 65537, 300001};
        std::vector<size_t> result;

        for (size_t value : all) {
            if (value < max) {
                result.push_back(value);
            }
        }
        result.push_back(max);
        return result;
    }

    static constexpr size_t size = 1 << 20;
    std::unique_ptr<memory> source, target;
};

#endif
