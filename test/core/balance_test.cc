/* Which paths are low: the measured rates, the time, and what has no share. */
#include <gtest/gtest.h>

#include <vector>

extern "C" {
#include "core/telemetry/balance.h"
}

namespace {

constexpr uint64_t SECOND = 1000000000;
constexpr uint64_t MB     = 1000000;

class balance : public ::testing::Test {
protected:
    void SetUp() override
    {
        for (auto &path : m_paths) {
            path.up = 1;
        }
        look(0);
    }

    uint64_t look(uint64_t step)
    {
        uint64_t last = m_now;

        m_now += step;
        return vqp_balance_look(m_balance, m_paths, 4, (step == 0) ? 0 : last, m_now,
                                m_is_full);
    }

    /* Seconds with these rates of the paths, in MB/s */
    void run(unsigned seconds, const std::vector<uint64_t> &rates)
    {
        for (unsigned s = 0; s < seconds; ++s) {
            for (unsigned i = 0; i < 4; ++i) {
                m_paths[i].stats.bytes += rates[i] * MB;
            }
            m_share = look(SECOND);
        }
    }

    std::vector<unsigned> low() const
    {
        std::vector<unsigned> found;

        for (unsigned i = 0; i < 4; ++i) {
            if (m_balance[i].is_low) {
                found.push_back(i);
            }
        }
        return found;
    }

    typedef std::vector<unsigned> list;

    vqp_path_t    m_paths[4] {};
    vqp_balance_t m_balance[4] {};
    uint64_t      m_now   = 7 * SECOND;
    uint64_t      m_share = 0;
    int           m_is_full = 1;
};

TEST_F(balance, rates_are_bytes_per_second_since_the_last_look) {
    m_paths[0].stats.bytes += 30 * MB;
    m_paths[1].stats.bytes += 10 * MB;
    EXPECT_EQ(5 * MB, look(2 * SECOND));
    EXPECT_EQ(15 * MB, m_balance[0].rate);
    EXPECT_EQ(5 * MB, m_balance[1].rate);
    EXPECT_EQ(0u, m_balance[2].rate);
}

TEST_F(balance, the_first_look_measures_nothing) {
    m_paths[0].stats.bytes = 30 * MB;
    look(0);
    EXPECT_EQ(0u, m_balance[0].rate);
}

TEST_F(balance, many_bytes_do_not_overflow) {
    m_paths[0].stats.bytes += 1ull << 40;
    look(SECOND);
    EXPECT_NEAR((double)(1ull << 40), (double)m_balance[0].rate, 2e6);
    m_paths[0].stats.bytes += 400ull << 30;
    look(10 * SECOND);
    EXPECT_NEAR((double)(40ull << 30), (double)m_balance[0].rate, 2e6);
}

TEST_F(balance, less_than_half_of_a_share_for_ten_seconds_is_low) {
    run(9, {120, 120, 120, 40});
    EXPECT_EQ(list({}), low());
    run(1, {120, 120, 120, 40});
    EXPECT_EQ(list({3}), low());
    EXPECT_EQ(100 * MB, m_share);
}

TEST_F(balance, half_of_a_share_is_enough) {
    run(30, {120, 120, 110, 50});
    EXPECT_EQ(list({}), low());
}

TEST_F(balance, one_good_second_begins_the_time_anew) {
    run(9, {120, 120, 120, 40});
    run(1, {100, 100, 100, 100});
    run(9, {120, 120, 120, 40});
    EXPECT_EQ(list({}), low());
    run(1, {120, 120, 120, 40});
    EXPECT_EQ(list({3}), low());
    run(1, {100, 100, 100, 100});
    EXPECT_EQ(list({}), low());
}

TEST_F(balance, a_low_share_counts_only_while_the_paths_are_full) {
    m_is_full = 0;
    run(30, {120, 120, 120, 40});
    EXPECT_EQ(list({}), low());
    m_is_full = 1;
    run(9, {120, 120, 120, 40});
    m_is_full = 0; /* what was counted stays */
    run(5, {120, 120, 120, 40});
    EXPECT_EQ(list({}), low());
    m_is_full = 1;
    run(1, {120, 120, 120, 40});
    EXPECT_EQ(list({3}), low());
}

TEST_F(balance, a_long_time_between_two_looks_counts_as_two_seconds) {
    run(5, {120, 120, 120, 40});
    for (auto &path : m_paths) {
        path.stats.bytes += (&path == &m_paths[3]) ? 0 : 1000 * 120 * MB;
    }
    look(1000 * SECOND);
    run(2, {120, 120, 120, 40});
    EXPECT_EQ(list({}), low());
    run(1, {120, 120, 120, 40});
    EXPECT_EQ(list({3}), low());
}

TEST_F(balance, several_paths_may_be_low) {
    run(11, {400, 400, 0, 1});
    EXPECT_EQ(list({2, 3}), low());
}

TEST_F(balance, little_traffic_has_no_shares) {
    m_paths[0].stats.bytes += 4 * MB - 4;
    look(SECOND);
    for (unsigned i = 0; i < 30; ++i) {
        m_paths[0].stats.bytes += 4 * MB - 4;
        look(SECOND);
    }
    EXPECT_EQ(list({}), low());
    run(11, {4, 0, 0, 0});
    EXPECT_EQ(list({1, 2, 3}), low());
}

TEST_F(balance, a_path_that_is_down_has_no_share) {
    m_paths[3].up = 0;
    run(20, {100, 100, 100, 0});
    EXPECT_EQ(list({}), low());
    EXPECT_EQ(100 * MB, m_share);
    m_paths[3].up = 1;
    run(10, {100, 100, 100, 0}); /* up during nine of them */
    EXPECT_EQ(list({}), low());
    run(1, {100, 100, 100, 0});
    EXPECT_EQ(list({3}), low());
}

} // namespace
