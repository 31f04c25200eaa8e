/*
 * What comes after a fence sees all that was before it, although the paths
 * between are of different length: the flows of a device get different delays
 * here (test/rxe/fault skew), where that is possible.
 */
#include "uct_fixture.h"

#include "test/fabric/fabric.h"

#include <ostream>

struct fence_setting {
    const char *name;
    options     config;
    bool        explicit_fence;
};

static void PrintTo(const fence_setting &which, std::ostream *os)
{
    *os << which.name;
}

static const fence_setting fence_settings[] = {
    {"one_path",  {{"NUM_PATHS", "1"}}, true},
    {"auto",      {{"NUM_PATHS", "4"}}, true},
    {"dqplb",     {{"NUM_PATHS", "4"}, {"NOTIFY", "dqplb"}}, true},
    {"spray",     {{"NUM_PATHS", "4"}, {"NOTIFY", "spray"}}, true},
    {"tail",      {{"NUM_PATHS", "4"}, {"NOTIFY", "tail"},
                   {"MIN_FRAG", "2k"}, {"FRAG_SIZE", "4k"}}, true},
    {"rr",        {{"NUM_PATHS", "3"}, {"SCHED", "rr"}}, true},
    {"order_all", {{"NUM_PATHS", "4"}, {"AM_ORDER", "all"}}, false},
    {"tail_all",  {{"NUM_PATHS", "4"}, {"NOTIFY", "tail"}, {"MIN_FRAG", "2k"},
                   {"FRAG_SIZE", "4k"}, {"AM_ORDER", "all"}}, false}
};

class fence : public uct_test,
              public ::testing::WithParamInterface<fence_setting> {
protected:
    void SetUp() override
    {
        uct_test::SetUp();
        if (IsSkipped()) {
            return;
        }
        open(GetParam().config);
        source = std::make_unique<memory>(*a, slots * slot);
        target = std::make_unique<memory>(*b, slots * slot);
        settle();
        if (faults_allowed() && (devices().size() > 1)) {
            ASSERT_TRUE(fault("skew " + a->name + " 2"));
        }
    }

    void TearDown() override
    {
        if (ab != nullptr) {
            EXPECT_EQ(UCS_OK, ab->flush()); /* before its memory is freed */
        }
        ab.reset();
        source.reset();
        target.reset();
        uct_test::TearDown();
    }

    void put_fence()
    {
        if (GetParam().explicit_fence) {
            EXPECT_EQ(UCS_OK, uct_ep_fence(*ab, 0));
        }
    }

    void put(unsigned index, size_t length, unsigned seed)
    {
        uct_iov_t iov = source->iov(index * slot, length);

        for (size_t i = 0; i < length; ++i) {
            source->data[index * slot + i] = pattern(seed, i);
        }
        EXPECT_EQ(UCS_INPROGRESS, ab->retry([&] {
            return uct_ep_put_zcopy(*ab, &iov, 1, target->addr(index * slot),
                                    target->rkey(), NULL);
        }));
    }

    void am(uint64_t value)
    {
        EXPECT_EQ(UCS_OK, ab->retry([&] {
            return uct_ep_am_short(*ab, 1, value, NULL, 0);
        }));
    }

    bool arrived(unsigned index, size_t length, unsigned seed) const
    {
        for (size_t i = 0; i < length; ++i) {
            if (target->data[index * slot + i] != pattern(seed, i)) {
                return false;
            }
        }
        return true;
    }

    static constexpr size_t   slot  = 256 << 10;
    static constexpr unsigned slots = 16;
    std::unique_ptr<memory> source, target;
};

TEST_P(fence, an_active_message_sees_the_puts_before_it)
{
    static constexpr size_t sizes[] = {8, 4000, 65536, 200000, slot};
    unsigned got = 0, bad = 0;

    b->on_am(1, [&](const char *data, size_t) {
        uint64_t value;

        memcpy(&value, data, 8);
        EXPECT_EQ(got, value);
        bad += !arrived(value % slots, sizes[value % 5], (unsigned)value);
        ++got;
        return UCS_OK;
    });
    for (unsigned i = 0; i < 20 * slots; ++i) {
        if ((i % slots) == 0) {
            ASSERT_TRUE(until([&] { return got == i; })) << got << " of " << i;
            ASSERT_EQ(UCS_OK, ab->flush()); /* the source is written again */
        }
        put(i % slots, sizes[i % 5], i);
        put_fence();
        am(i);
    }
    ASSERT_TRUE(until([&] { return got == 20 * slots; }));
    EXPECT_EQ(0u, bad);
}

TEST_P(fence, an_active_message_sees_short_puts_on_all_paths)
{
    uint64_t *cells = (uint64_t*)target->data;
    unsigned got = 0, bad = 0;

    b->on_am(1, [&](const char *data, size_t) {
        uint64_t value;

        memcpy(&value, data, 8);
        for (unsigned j = 0; j < 8; ++j) {
            bad += cells[(value % 64) * 8 + j] != value;
        }
        ++got;
        return UCS_OK;
    });
    for (uint64_t i = 1; i <= 512; ++i) {
        if ((i % 64) == 0) {
            ASSERT_TRUE(until([&] { return got == i - 1; }));
        }
        for (unsigned j = 0; j < 8; ++j) {
            EXPECT_EQ(UCS_OK, ab->retry([&] {
                return uct_ep_put_short(*ab, &i, 8,
                                        target->addr(((i % 64) * 8 + j) * 8),
                                        target->rkey());
            }));
        }
        put_fence();
        am(i);
    }
    ASSERT_TRUE(until([&] { return got == 512; }));
    EXPECT_EQ(0u, bad);
}

TEST_P(fence, an_active_message_sees_atomics_before_it)
{
    uint64_t *cell = (uint64_t*)target->data;
    unsigned got = 0, bad = 0;

    SKIP_WITHOUT_ATOMICS(*a);

    b->on_am(1, [&](const char *data, size_t) {
        uint64_t value;

        memcpy(&value, data, 8);
        bad += *(volatile uint64_t*)cell < value;
        ++got;
        return UCS_OK;
    });
    for (uint64_t i = 1; i <= 200; ++i) {
        EXPECT_EQ(UCS_OK, ab->retry([&] {
            return uct_ep_atomic64_post(*ab, UCT_ATOMIC_OP_ADD, 1,
                                        target->addr(), target->rkey());
        }));
        put_fence();
        am(i);
    }
    ASSERT_TRUE(until([&] { return got == 200; }));
    EXPECT_EQ(0u, bad);
    EXPECT_EQ(200u, *cell);
}

/* The receiver of the message may change the source of the read */
TEST_P(fence, a_get_has_read_before_the_message_behind_it_is_delivered)
{
    static constexpr size_t length = 200000;
    uct_iov_t iov                  = source->iov(0, length);
    unsigned got = 0, bad = 0;

    b->on_am(1, [&](const char *data, size_t) {
        uint64_t value;

        memcpy(&value, data, 8);
        memset(target->data, (char)(value + 1), length);
        ++got;
        return UCS_OK;
    });
    memset(target->data, 0, length);
    for (unsigned i = 0; i < 50; ++i) {
        completion comp;

        EXPECT_EQ(UCS_INPROGRESS, ab->retry([&] {
            return uct_ep_get_zcopy(*ab, &iov, 1, target->addr(),
                                    target->rkey(), &comp.super);
        }));
        put_fence();
        am(i);
        ASSERT_TRUE(until([&] { return (got == i + 1) && comp.calls; }));
        for (size_t j = 0; j < length; ++j) {
            bad += source->data[j] != (char)i;
        }
    }
    EXPECT_EQ(0u, bad);
}

TEST_P(fence, a_put_comes_after_the_puts_before_it)
{
    uint64_t value;

    for (unsigned round = 0; round < 100; ++round) {
        for (value = 1; value <= 4; ++value) {
            EXPECT_EQ(UCS_OK, ab->retry([&] {
                return uct_ep_put_short(*ab, &value, 8, target->addr(),
                                        target->rkey());
            }));
            EXPECT_EQ(UCS_OK, uct_ep_fence(*ab, 0));
        }
        ASSERT_EQ(UCS_OK, ab->flush());
        ASSERT_EQ(4u, *(uint64_t*)target->data) << round;
    }
}

TEST_P(fence, a_get_and_an_atomic_see_the_puts_before_them)
{
    uint64_t result, value;

    if (!(a->attr.cap.atomic64.fop_flags & UCS_BIT(UCT_ATOMIC_OP_ADD))) {
        GTEST_SKIP() << "the device has no atomics";
    }

    for (value = 1; value <= 50; ++value) {
        completion get_comp, add_comp;
        uct_iov_t iov = source->iov(slot, slot / 2);

        put(0, slot / 2, (unsigned)value);
        EXPECT_EQ(UCS_OK, ab->retry([&] {
            return uct_ep_put_short(*ab, &value, 8, target->addr(slot),
                                    target->rkey());
        }));
        EXPECT_EQ(UCS_OK, uct_ep_fence(*ab, 0));
        EXPECT_EQ(UCS_INPROGRESS, ab->retry([&] {
            return uct_ep_get_zcopy(*ab, &iov, 1, target->addr(),
                                    target->rkey(), &get_comp.super);
        }));
        if (a->has_atomics()) {
            EXPECT_EQ(UCS_INPROGRESS, ab->retry([&] {
                return uct_ep_atomic64_fetch(*ab, UCT_ATOMIC_OP_ADD, 1, &result,
                                             target->addr(slot), target->rkey(),
                                             &add_comp.super);
            }));
            ASSERT_TRUE(until([&] { return add_comp.calls != 0; }));
            EXPECT_EQ(value, result);
        }
        ASSERT_TRUE(until([&] { return get_comp.calls != 0; }));
        EXPECT_EQ(0, memcmp(source->data, source->data + slot, slot / 2));
    }
}

TEST_P(fence, of_the_interface_holds_for_each_endpoint)
{
    endpoint other(*a, *b);
    unsigned got = 0, bad = 0;

    b->on_am(1, [&](const char *data, size_t) {
        uint64_t value;

        memcpy(&value, data, 8);
        bad += !arrived(value % slots, slot, (unsigned)value);
        ++got;
        return UCS_OK;
    });
    for (unsigned i = 0; i < 4 * slots; ++i) {
        if ((i % slots) == 0) {
            ASSERT_TRUE(until([&] { return got == i; }));
            ASSERT_EQ(UCS_OK, ab->flush()); /* the source is written again */
        }
        put(i % slots, slot, i);
        if (GetParam().explicit_fence) {
            EXPECT_EQ(UCS_OK, uct_iface_fence(a->iface, 0));
        }
        am(i);
    }
    ASSERT_TRUE(until([&] { return got == 4 * slots; }));
    EXPECT_EQ(0u, bad);
}

TEST_P(fence, of_an_idle_endpoint_costs_nothing)
{
    unsigned got = 0;

    b->on_am(1, [&](const char *, size_t) { ++got; return UCS_OK; });
    for (unsigned i = 0; i < 100; ++i) {
        EXPECT_EQ(UCS_OK, uct_ep_fence(*ab, 0));
        EXPECT_EQ(UCS_OK, uct_ep_fence(*ab, 0));
        am(i);
    }
    EXPECT_TRUE(until([&] { return got == 100; }));
    EXPECT_EQ(UCS_OK, ab->flush());
}

TEST_P(fence, messages_of_several_frags_stay_in_order_over_asymmetric_paths)
{
    unsigned got = 0;
    std::string bad;
    temp_file stats;

    b->on_am(2, [&](const char *data, size_t length) {
        uint64_t value;

        memcpy(&value, data, 8);
        if ((value != got) || memcmp(data + 8, source->data, length - 8)) {
            bad += std::to_string(value) + " ";
        }
        ++got;
        return UCS_OK;
    });
    source->fill(5);
    for (uint64_t i = 0; i < 300; ++i) {
        uct_iov_t iov = source->iov(0, (i * 7919) %
                                       (a->attr.cap.am.max_zcopy - 8));

        EXPECT_GE(ab->retry([&] {
            return uct_ep_am_zcopy(*ab, 2, &i, 8, &iov, 1, 0, NULL);
        }), UCS_OK);
    }
    EXPECT_TRUE(until([&] { return got == 300; }));
    EXPECT_EQ("", bad);
}

/* What a fence holds back is posted when the user may have released the key */
TEST_P(fence, a_key_may_be_released_when_the_put_is_accepted)
{
    auto key = std::make_unique<remote_key>(target->packed_key());

    put(0, slot, 1);
    EXPECT_EQ(UCS_OK, uct_ep_fence(*ab, 0));
    for (uint64_t i = 0; i < 4; ++i) {
        EXPECT_EQ(UCS_OK, ab->retry([&] {
            return uct_ep_put_short(*ab, &i, 8, target->addr(slot + 8 * i),
                                    key->bundle.rkey);
        }));
    }
    key.reset();
    EXPECT_EQ(UCS_OK, ab->flush());
    EXPECT_EQ(0u, a->errors);
    for (uint64_t i = 0; i < 4; ++i) {
        EXPECT_EQ(i, ((uint64_t*)(target->data + slot))[i]);
    }
}

/* A flush waits for the fence, too: the peer can not deliver the message without
 * it, and an endpoint that ends here takes what is still on the way along */
TEST_P(fence, a_flush_means_that_the_peer_has_all_it_needs_for_a_message)
{
    unsigned got = 0;
    ucs_status_t status;

    b->on_am(1, [&](const char *, size_t) {
        ++got;
        return UCS_OK;
    });
    for (unsigned i = 0; i < 50; ++i) {
        put(i % slots, 4000, i);
        put_fence();
        am(i);
        while ((status = uct_ep_flush(*ab, 0, NULL)) == UCS_INPROGRESS) {
            a->progress();
            if (vqp_fabric() == NULL) { /* a path may fail, which takes both sides */
                b->progress();
            }
        }
        ASSERT_EQ(UCS_OK, status);
        if (vqp_fabric() != NULL) { /* what is acknowledged can be polled */
            b->progress();
            b->progress();
            ASSERT_EQ(i + 1, got);
        }
        ASSERT_TRUE(until([&] { return got == i + 1; }));
    }

    EXPECT_EQ(UCS_OK, ab->retry([&] {
        return uct_ep_put_short(*ab, "x", 1, target->addr(0), target->rkey());
    }));
    put_fence();
    am(50);
    ab.reset();
    EXPECT_TRUE(until([&] { return got == 51; }));
}

INSTANTIATE_TEST_SUITE_P(
        vqp, fence, ::testing::ValuesIn(fence_settings),
        [](const ::testing::TestParamInfo<fence_setting> &info) {
            return info.param.name;
        });
