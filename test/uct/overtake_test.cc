/*
 * What is not ordered (docs/ordering.md): these tests see it happen. A sentence
 * that nothing is promised would otherwise be one that nobody has tried. They
 * need paths of unequal delay: the fabric's timed mode with jitter, or devices
 * whose flows get different delays (test/rxe/fault skew).
 */
#include "uct_fixture.h"

#include "test/fabric/fabric.h"

#include <stdlib.h>

class overtaking : public uct_test {
protected:
    static constexpr unsigned words = 8;

    /* False, and the test is to be skipped, where all paths are alike */
    bool open_uneven(const options &config)
    {
        const char *mode = getenv("VQP_FABRIC_MODE");

        if (vqp_fabric() != NULL) {
            if ((mode == NULL) || (strcmp(mode, "timed") != 0)) {
                return false;
            }
        } else if (!faults_allowed() || (devices().size() < 2)) {
            return false;
        }

        open(config);
        settle();
        if (vqp_fabric() == NULL) {
            EXPECT_TRUE(fault("skew " + a->name + " 2"));
        }
        return true;
    }

    static uint64_t word(const memory &mem, size_t index)
    {
        return __atomic_load_n((uint64_t*)mem.data + index, __ATOMIC_ACQUIRE);
    }

    void put_word(endpoint &ep, const memory &to, unsigned index,
                  uint64_t value)
    {
        EXPECT_EQ(UCS_OK, ep.retry([&] {
            return uct_ep_put_short(ep, &value, 8, to.addr(index * 8),
                                    to.rkey());
        }));
    }

    /* Put words one after the other, by turns on these endpoints, with what
     * stands between. @return how often one was there and an earlier one was
     * not: in so many rounds, or until that has been seen. */
    unsigned overtaken(const std::vector<endpoint*> &eps, unsigned rounds,
                       bool all_rounds, const std::function<void()> &between)
    {
        memory target(*b, 4096);
        unsigned seen = 0;

        for (uint64_t round = 1; round <= rounds; ++round) {
            for (unsigned i = 0; i < words; ++i) {
                put_word(*eps[i % eps.size()], target, i, round);
                between();
            }
            EXPECT_TRUE(until([&] { return look(target, round, seen); }));
            for (endpoint *ep : eps) {
                EXPECT_EQ(UCS_OK, ep->flush());
            }
            if ((seen > 0) && !all_rounds) {
                break;
            }
        }

        return seen;
    }

    /* The later one is looked at first: so in order is never taken for not */
    static bool look(const memory &target, uint64_t round, unsigned &seen)
    {
        bool later = false;

        for (unsigned i = words; i > 0; --i) {
            bool here = word(target, i - 1) == round;

            seen  += later && !here;
            later |= here;
        }
        return later && (word(target, 0) == round) && all_here(target, round);
    }

    static bool all_here(const memory &target, uint64_t round)
    {
        for (unsigned i = 0; i < words; ++i) {
            if (word(target, i) != round) {
                return false;
            }
        }
        return true;
    }

    static constexpr const char *alike = "all paths are alike here";
};

TEST_F(overtaking, puts_of_several_paths_overtake_each_other)
{
    if (!open_uneven({{"NUM_PATHS", "4"}})) {
        GTEST_SKIP() << alike;
    }

    EXPECT_GT(overtaken({ab.get()}, 1000, false, [] {}), 0u);
}

TEST_F(overtaking, puts_of_one_path_do_not)
{
    if (!open_uneven({{"NUM_PATHS", "1"}})) {
        GTEST_SKIP() << alike;
    }

    EXPECT_EQ(0u, overtaken({ab.get()}, 100, true, [] {}));
}

TEST_F(overtaking, a_fence_keeps_puts_from_it)
{
    if (!open_uneven({{"NUM_PATHS", "4"}})) {
        GTEST_SKIP() << alike;
    }

    EXPECT_EQ(0u, overtaken({ab.get()}, 20, true, [&] {
        EXPECT_EQ(UCS_OK, uct_ep_fence(*ab, 0));
    }));
}

TEST_F(overtaking, order_all_orders_no_puts)
{
    unsigned got = 0;

    if (!open_uneven({{"NUM_PATHS", "4"}, {"AM_ORDER", "all"}})) {
        GTEST_SKIP() << alike;
    }

    b->on_am(1, [&](const char *, size_t) { ++got; return UCS_OK; });
    EXPECT_GT(overtaken({ab.get()}, 1000, false, [&] {
        EXPECT_EQ(UCS_OK, ab->retry([&] {
            return uct_ep_am_short(*ab, 1, 0, NULL, 0);
        }));
    }), 0u);
    EXPECT_TRUE(until([&] { return got > 0; }));
}

TEST_F(overtaking, endpoints_overtake_each_other)
{
    if (!open_uneven({{"NUM_PATHS", "1"}})) {
        GTEST_SKIP() << alike;
    }

    endpoint second(*a, *b), third(*a, *b);
    for (endpoint *ep : {&second, &third}) {
        EXPECT_EQ(UCS_OK, ep->retry([&] {
            return uct_ep_am_short(*ep, settle_id, 0, NULL, 0);
        }));
    }
    EXPECT_GT(overtaken({ab.get(), &second, &third}, 1000, false, [] {}), 0u);
}

TEST_F(overtaking, the_last_bytes_of_a_put_arrive_before_others)
{
    static constexpr size_t size  = 256 << 10;
    static constexpr size_t count = size / 8;
    unsigned seen = 0;

    if (!open_uneven({{"NUM_PATHS", "4"}})) {
        GTEST_SKIP() << alike;
    }

    memory source(*a, size), target(*b, size);
    uct_iov_t iov = source.iov(0, size);
    for (uint64_t round = 1; (round <= 1000) && (seen == 0); ++round) {
        for (size_t i = 0; i < count; ++i) {
            ((uint64_t*)source.data)[i] = round;
        }
        EXPECT_EQ(UCS_INPROGRESS, ab->retry([&] {
            return uct_ep_put_zcopy(*ab, &iov, 1, target.addr(), target.rkey(),
                                    NULL);
        }));
        ASSERT_TRUE(until([&] { return word(target, count - 1) == round; }));
        for (size_t i = 0; i < count; i += 4096) {
            seen += word(target, i) != round;
        }
        EXPECT_EQ(UCS_OK, ab->flush());
    }
    EXPECT_GT(seen, 0u);
}
