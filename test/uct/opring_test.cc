/*
 * An idle endpoint has few slots for operations. One that was refused an operation for lack of
 * a slot gets all that MAX_OPS allows.
 */
#include "nth_alloc.h"
#include "transfer_fixture.h"

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
