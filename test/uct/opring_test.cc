/*
 * An idle endpoint has few slots for operations. One that was refused an operation for lack of
 * a slot gets all that MAX_OPS allows.
 */
#include "nth_alloc.h"
#include "transfer_fixture.h"

#include <algorithm>

class opring : public transfer_test {
protected:
    static constexpr unsigned FIRST = 32; /* slots of an idle endpoint */
    static constexpr size_t   size  = 64 * 1024;

    void connect(const options &config) { transfer_test::connect(config, size); }

    /* 8 bytes to each place in turn, until one is refused; without a call of progress none
     * is known to be over */
    unsigned puts()
    {
        unsigned count = 0;

        while (uct_ep_put_short(*ab, source->data + 8 * count, 8, target->addr(8 * count),
                                target->rkey()) == UCS_OK) {
            ++count;
        }
        return count;
    }

    /* Adds to one place, until one is refused: each has read another value */
    void expect_results(endpoint &ep, unsigned count)
    {
        std::vector<uint64_t> results(count + 1);
        completion comp(count + 1);
        unsigned done = 0;

        memset(target->data, 0, sizeof(uint64_t));
        ASSERT_EQ(UCS_OK, ep.flush());
        while (uct_ep_atomic64_fetch(ep, UCT_ATOMIC_OP_ADD, 1, &results[done], target->addr(),
                                     target->rkey(), &comp.super) == UCS_INPROGRESS) {
            ASSERT_LE(++done, count);
        }
        ASSERT_EQ(count, done);
        ASSERT_EQ(UCS_OK, ep.flush());
        EXPECT_EQ(1, comp.super.count);
        results.pop_back();
        std::sort(results.begin(), results.end());
        for (unsigned i = 0; i < count; ++i) {
            ASSERT_EQ(i, results[i]);
        }
    }

    unsigned ams()
    {
        unsigned count = 0;

        while (uct_ep_am_short(*ab, 1, count, NULL, 0) == UCS_OK) {
            ++count;
        }
        return count;
    }
};

TEST_F(opring, of_puts_grows_once_it_was_full)
{
    connect({{"MAX_OPS", "100"}});
    EXPECT_EQ(FIRST - 1, puts()); /* a close has a slot */
    ASSERT_EQ(UCS_OK, ab->flush());
    EXPECT_EQ(127u, puts());
    ASSERT_EQ(UCS_OK, ab->flush());
    EXPECT_EQ(127u, puts());
    ASSERT_EQ(UCS_OK, ab->flush());
    EXPECT_EQ(0, memcmp(source->data, target->data, 8 * 127));
}

/* All connections of a slab: behind the memory of the last one nothing is registered */
TEST_F(opring, that_has_grown_has_a_place_for_each_result)
{
    std::vector<std::unique_ptr<endpoint>> all(4);

    connect({{"MAX_OPS", "1024"}, {"TX_QUEUE_LEN", "1024"}});
    SKIP_WITHOUT_ATOMICS(*a);
    all[0] = std::move(ab);
    for (unsigned i = 1; i < all.size(); ++i) {
        all[i] = std::make_unique<endpoint>(*a, *b);
    }
    for (auto &ep : all) {
        expect_results(*ep, FIRST - 1);
        expect_results(*ep, 1023);
    }
}

TEST_F(opring, of_messages_grows_once_it_was_full)
{
    unsigned received = 0, first, second;

    connect({{"MAX_OPS", "64"}, {"FSN_WINDOW", "256"}, {"TX_QUEUE_LEN", "256"}}); /* none waits */
    b->on_am(1, [&](const char *, size_t) { ++received; return UCS_OK; });
    EXPECT_EQ(FIRST, first = ams());
    ASSERT_EQ(UCS_OK, ab->flush());
    EXPECT_EQ(64u, second = ams());
    ASSERT_EQ(UCS_OK, ab->flush());
    EXPECT_TRUE(until([&] { return received == first + second; }));
}

/* Most of the first ones wait for the queue, with keys that the user gives back meanwhile */
TEST_F(opring, that_grows_keeps_the_keys_of_what_is_in_it)
{
    std::unique_ptr<memory> other;
    uct_iov_t iov;
    unsigned count;
    ucs_status_t status;

    connect({{"MAX_OPS", "128"}, {"TX_QUEUE_LEN", "8"}, {"NUM_PATHS", "1"}});
    other = std::make_unique<memory>(*b, size);
    iov   = source->iov(0, 1024);
    for (count = 0;; ++count) {
        memory &to = (count % 2) ? *other : *target;

        iov.buffer = source->data + count * 1024;
        status = uct_ep_put_zcopy(*ab, &iov, 1, to.addr(count * 1024), to.rkey(), NULL);
        if (status != UCS_INPROGRESS) {
            break;
        }
    }
    EXPECT_EQ(UCS_ERR_NO_RESOURCE, status);
    EXPECT_EQ(FIRST - 1, count);
    a->progress(); /* brings the slots */
    ASSERT_EQ(UCS_OK, ab->flush());
    for (unsigned i = 0; i < count; ++i) {
        EXPECT_EQ(0, memcmp(source->data + i * 1024,
                            ((i % 2) ? *other : *target).data + i * 1024, 1024)) << i;
    }
    EXPECT_EQ(127u, puts());
    ASSERT_EQ(UCS_OK, ab->flush());
    EXPECT_EQ(0, memcmp(source->data, target->data, 8 * 127));
}

/* Without failover nothing asks for the completions of idle paths */
TEST_F(opring, that_is_full_of_unsignaled_puts_does_not_hold_a_flush_of_the_interface)
{
    completion comp;
    ucs_status_t status = UCS_ERR_NO_RESOURCE;

    connect({{"NUM_PATHS", "8"}, {"FAILOVER", "n"}, {"TX_QUEUE_LEN", "64"}});
    for (unsigned i = 0; i < FIRST - 1; ++i) {
        ASSERT_EQ(UCS_OK, uct_ep_put_short(*ab, source->data, 8, target->addr(),
                                           target->rkey()));
    }
    EXPECT_TRUE(until([&] {
        status = uct_iface_flush(a->iface, 0, &comp.super);
        return status != UCS_ERR_NO_RESOURCE;
    }, 5));
    EXPECT_TRUE(until([&] { return (status == UCS_OK) || (comp.calls == 1); }));
}

TEST_F(opring, goes_on_as_it_is_without_memory)
{
    if (!nth_alloc_possible()) {
        GTEST_SKIP() << "a sanitizer has the allocators";
    }
    connect({{"MAX_OPS", "128"}});
    EXPECT_EQ(FIRST - 1, puts());
    nth_alloc_fail(1);
    EXPECT_TRUE(until([&] { return nth_alloc_failed(); }));
    nth_alloc_fail(0);
    ASSERT_EQ(UCS_OK, ab->flush());
    EXPECT_EQ(FIRST - 1, puts()); /* it asks again */
    ASSERT_EQ(UCS_OK, ab->flush());
    EXPECT_EQ(127u, puts());
    ASSERT_EQ(UCS_OK, ab->flush());
}
