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

    void look(uint64_t step)
    {
        uint64_t last = m_now;

        m_now += step;
        vqp_balance_look(m_balance, m_paths, 4, m_weights, (step == 0) ? 0 : last, m_now,
                         m_is_full);
    }

    /* Seconds with these rates of the paths, in MB/s */
    void run(unsigned seconds, const std::vector<uint64_t> &rates)
    {
        for (unsigned s = 0; s < seconds; ++s) {
            for (unsigned i = 0; i < 4; ++i) {
                m_paths[i].stats.bytes += rates[i] * MB;
            }
            look(SECOND);
        }
    }

    /* Half a minute with small parts of these rates, as if there was little to send */
    void pause(const std::vector<uint64_t> &rates)
    {
        for (unsigned s = 0; s < 30; ++s) {
            for (unsigned i = 0; i < 4; ++i) {
                m_paths[i].stats.bytes += rates[i] * MB / 1000;
            }
            look(SECOND);
        }
    }

    /* What the owner does */
    std::vector<unsigned> log()
    {
        std::vector<unsigned> logged;

        for (unsigned i = 0; i < 4; ++i) {
            if (m_balance[i].is_low && !m_balance[i].logged) {
                m_balance[i].logged = 1;
                logged.push_back(i);
            }
        }
        return logged;
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
    uint64_t      m_now     = 7 * SECOND;
    int           m_is_full = 1;
    uint32_t      m_weights[VQP_MAX_RAILS] = {1, 1, 1, 1};
};

TEST_F(balance, rates_are_bytes_per_second_since_the_last_look) {
    m_paths[0].stats.bytes += 30 * MB;
    m_paths[1].stats.bytes += 10 * MB;
    look(2 * SECOND);
    EXPECT_EQ(5 * MB, m_balance[0].share);
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
    EXPECT_EQ(100 * MB, m_balance[3].share);
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
    run(10, {120, 120, 120, 40}); /* the first one of them was not full at its begin */
    m_is_full = 0; /* what was counted stays */
    run(3, {120, 120, 120, 40});
    EXPECT_EQ(list({}), low());
    m_is_full = 1;
    run(1, {120, 120, 120, 40});
    EXPECT_EQ(list({}), low());
    run(1, {120, 120, 120, 40});
    EXPECT_EQ(list({3}), low());
}

TEST_F(balance, one_full_look_says_nothing) {
    for (unsigned i = 0; i < 60; ++i) {
        m_is_full = (i % 3) == 0;
        run(1, {120, 120, 120, 40});
        ASSERT_EQ(list({}), low()) << i;
    }
}

TEST_F(balance, five_looks_that_were_not_full_begin_the_time_anew) {
    run(9, {120, 120, 120, 40});
    m_is_full = 0;
    run(4, {120, 120, 120, 40});
    EXPECT_EQ(9 * SECOND, m_balance[3].low);
    run(1, {120, 120, 120, 40});
    EXPECT_EQ(0u, m_balance[3].low);
    m_is_full = 1;
    run(10, {120, 120, 120, 40});
    EXPECT_EQ(list({}), low());
    run(1, {120, 120, 120, 40});
    EXPECT_EQ(list({3}), low());
}

TEST_F(balance, a_pause_is_no_recovery) {
    run(10, {120, 120, 120, 40});
    EXPECT_EQ(list({3}), log());
    pause({120, 120, 120, 40});
    EXPECT_EQ(list({}), low());
    run(20, {120, 120, 120, 40});
    EXPECT_EQ(list({3}), low());
    EXPECT_EQ(list({}), log());
    m_is_full = 0; /* nor is an equal share of little work */
    run(20, {100, 100, 100, 100});
    m_is_full = 1;
    run(20, {120, 120, 120, 40});
    EXPECT_EQ(list({}), log());
}

TEST_F(balance, a_path_that_has_recovered_is_reported_again) {
    run(10, {120, 120, 120, 40});
    EXPECT_EQ(list({3}), log());
    run(1, {100, 100, 100, 100});
    run(10, {120, 120, 120, 40});
    EXPECT_EQ(list({3}), log());
}

TEST_F(balance, rails_share_by_their_weights) {
    m_weights[0]    = 400;
    m_weights[1]    = 100;
    m_paths[1].rail = m_paths[3].rail = 1;
    run(30, {200, 50, 200, 50});
    EXPECT_EQ(list({}), low());
    EXPECT_EQ(200 * MB, m_balance[2].share);
    EXPECT_EQ(50 * MB, m_balance[3].share);
    run(11, {200, 50, 230, 20});
    EXPECT_EQ(list({3}), low());
    run(11, {125, 125, 125, 125}); /* the large rail may have half of its share */
    EXPECT_EQ(list({}), low());
    run(11, {90, 160, 90, 160});
    EXPECT_EQ(list({0, 2}), low());
}

TEST_F(balance, paths_of_a_rail_share_what_it_has) {
    for (unsigned i = 1; i < 4; ++i) {
        m_paths[i].rail = 1;
    }
    run(30, {300, 100, 100, 100});
    EXPECT_EQ(list({}), low());
    EXPECT_EQ(300 * MB, m_balance[0].share);
    EXPECT_EQ(100 * MB, m_balance[1].share);
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
    EXPECT_EQ(100 * MB, m_balance[0].share);
    EXPECT_EQ(0u, m_balance[3].share);
    m_paths[3].up = 1;
    run(10, {100, 100, 100, 0}); /* up during nine of them */
    EXPECT_EQ(list({}), low());
    run(1, {100, 100, 100, 0});
    EXPECT_EQ(list({3}), low());
}

} // namespace
