/*
 * What is not ordered (docs/ordering.md): these tests see it happen. A sentence
 * that nothing is promised would otherwise be one that nobody has tried. They
 * need paths of unequal delay: the fabric's timed mode with jitter, or devices
 * whose flows get different delays (test/rxe/fault skew).
 *
 * What may not happen is asserted everywhere. What may happen is asserted on the
 * fabric, where a path is made so slow that it must; on other devices it is
 * likely only, and a test that does not see it there is skipped.
 */
#include "uct_fixture.h"

#include "test/fabric/fabric.h"

#include <stdlib.h>

class overtaking : public uct_test {
protected:
    static constexpr unsigned words = 8;

    /* Longer than a busy machine keeps a thread from running */
    static constexpr const char *long_delay = "300ms";

    /* False, and the test is to be skipped, where all paths are alike. On the
     * fabric these paths get the long delay, by number and modulus ("2/4"). */
    bool open_asymmetric(const options &config,
                         const std::vector<const char*> &slow = {})
    {
        const char *mode = getenv("VQP_FABRIC_MODE");

        if (vqp_fabric() != NULL) {
            if ((mode == NULL) || (strcmp(mode, "timed") != 0)) {
                return false;
            }
        } else if (!faults_allowed() || (devices().size() < 2)) {
            return false;
        }

        open(no_failover(config)); /* else slow paths are given up */
        settle();
        if (vqp_fabric() == NULL) {
            EXPECT_TRUE(fault("skew " + a->name + " 2"));
        } else {
            slow_down(slow);
        }
        return true;
    }

    void slow_down(const std::vector<const char*> &paths)
    {
        char error[128] = "";

        for (const char *path : paths) {
            std::string script = "delay dev=" + a->name + " path=" + path +
                                 " to=" + long_delay;

            EXPECT_EQ(0, vqp_fabric()->act(script.c_str(), error,
                                           sizeof(error))) << error;
        }
    }

    /* Rounds of a test that waits for what may happen */
    static unsigned wait_limit() { return (vqp_fabric() != NULL) ? 10 : 1000; }

    static void expect_seen(unsigned seen)
    {
        if (vqp_fabric() != NULL) {
            EXPECT_GT(seen, 0u);
        } else if (seen == 0) {
            GTEST_SKIP() << "it did not happen, and on these devices need not";
        }
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

        return overtaken(eps, rounds, all_rounds, target, between);
    }

    /* In this memory, which is empty */
    unsigned overtaken(const std::vector<endpoint*> &eps, unsigned rounds,
                       bool all_rounds, const memory &target,
                       const std::function<void()> &between)
    {
        unsigned seen = 0;

        for (uint64_t round = 1; round <= rounds; ++round) {
            for (unsigned i = 0; i < words; ++i) {
                put_word(*eps[i % eps.size()], target, i, round);
                between();
            }
            EXPECT_TRUE(until([&] { return check(target, round, seen); }));
            for (endpoint *ep : eps) {
                EXPECT_EQ(UCS_OK, ep->flush());
            }
            if ((seen > 0) && !all_rounds) {
                break;
            }
        }

        return seen;
    }

    /* Reads the later value first: puts in order are never counted as reordered */
    static bool check(const memory &target, uint64_t round, unsigned &seen)
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
    unsigned seen;

    if (!open_asymmetric({{"NUM_PATHS", "4"}, {"SCHED", "rr"}}, {"2/4", "3/4"})) {
        GTEST_SKIP() << alike;
    }

    seen = overtaken({ab.get()}, wait_limit(), false, [] {});
    expect_seen(seen);
}

TEST_F(overtaking, puts_of_one_path_stay_in_order)
{
    if (!open_asymmetric({{"NUM_PATHS", "1"}})) {
        GTEST_SKIP() << alike;
    }

    EXPECT_EQ(0u, overtaken({ab.get()}, 100, true, [] {}));
}

TEST_F(overtaking, a_fence_keeps_puts_in_order)
{
    if (!open_asymmetric({{"NUM_PATHS", "4"}})) {
        GTEST_SKIP() << alike;
    }

    EXPECT_EQ(0u, overtaken({ab.get()}, 20, true, [&] {
        EXPECT_EQ(UCS_OK, uct_ep_fence(*ab, 0));
    }));
}

/* Puts that messages stand between overtake each other, and yet each message
 * finds the puts before it */
TEST_F(overtaking, am_order_all_does_not_order_puts)
{
    std::unique_ptr<memory> target;
    uint64_t sent = 0, got = 0;
    unsigned seen;

    if (!open_asymmetric({{"NUM_PATHS", "4"}, {"SCHED", "rr"}, {"AM_ORDER", "all"}},
                     {"2/4", "3/4"})) {
        GTEST_SKIP() << alike;
    }

    target.reset(new memory(*b, 4096));
    b->on_am(1, [&](const char *data, size_t) {
        uint64_t number;

        memcpy(&number, data, 8);
        EXPECT_EQ(got++, number);
        for (unsigned i = 0; i <= number % words; ++i) {
            EXPECT_LE(1 + number / words, word(*target, i))
                    << "put " << i << " before message " << number;
        }
        return UCS_OK;
    });
    seen = overtaken({ab.get()}, wait_limit(), false, *target, [&] {
        EXPECT_EQ(UCS_OK, ab->retry([&] {
            return uct_ep_am_short(*ab, 1, sent, NULL, 0);
        }));
        ++sent;
    });
    EXPECT_TRUE(until([&] { return got == sent; }));
    ab.reset();
    expect_seen(seen);
}

TEST_F(overtaking, endpoints_overtake_each_other)
{
    unsigned seen;

    if (!open_asymmetric({{"NUM_PATHS", "1"}}, {"0"})) {
        GTEST_SKIP() << alike;
    }

    endpoint second(*a, *b), third(*a, *b);
    for (endpoint *ep : {&second, &third}) {
        EXPECT_EQ(UCS_OK, ep->retry([&] {
            return uct_ep_am_short(*ep, settle_id, 0, NULL, 0);
        }));
    }
    seen = overtaken({ab.get(), &second, &third}, wait_limit(), false, [] {});
    expect_seen(seen);
}

TEST_F(overtaking, the_last_bytes_of_a_put_arrive_before_others)
{
    /* five fragments: with each round another path takes the last one */
    static constexpr size_t size  = 5 * (64 << 10);
    static constexpr size_t count = size / 8;
    unsigned seen = 0;

    if (!open_asymmetric({{"NUM_PATHS", "4"}, {"SCHED", "rr"}}, {"2/4", "3/4"})) {
        GTEST_SKIP() << alike;
    }

    memory source(*a, size), target(*b, size);
    uct_iov_t iov = source.iov(0, size);
    for (uint64_t round = 1; (round <= wait_limit()) && (seen == 0); ++round) {
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
    expect_seen(seen);
}
