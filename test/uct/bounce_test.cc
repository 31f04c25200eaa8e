/*
 * The bounce slots of an interface are shared by its endpoints. When all are
 * in use, the holders may have no completion to report: puts without a
 * flush. An endpoint that needs a slot still gets one without another call.
 */
#include "pending_op.h"

class bounce_test : public uct_test {
protected:
    static constexpr unsigned slots = 8;

    void SetUp() override
    {
        uct_test::SetUp();
        if (IsSkipped()) {
            return;
        }
        /* the looks of failover would bring completions of their own */
        open(no_failover({{"TX_MAX_BUFS", std::to_string(slots)},
                          {"TX_BUFS_GROW", std::to_string(slots)}}));
        target = std::make_unique<memory>(*b, 4096 * 64);
        for (unsigned i = 0; i < 2; ++i) {
            more.push_back(std::make_unique<endpoint>(*a, *b));
            ASSERT_EQ(UCS_OK, more.back()->flush());
        }
        settle();
    }

    void TearDown() override
    {
        ab.reset();
        more.clear();
        target.reset();
        uct_test::TearDown();
    }

    /* A put of @a value to word @a index, of 100 bytes */
    ucs_status_t put(endpoint &ep, unsigned index, char value)
    {
        char text[100];
        bytes source = {text, sizeof(text)};
        ssize_t ret;

        memset(text, value, sizeof(text));
        ret = uct_ep_put_bcopy(ep, pack_bytes, &source,
                               target->addr(index * sizeof(text)),
                               target->rkey());
        return (ret < 0) ? (ucs_status_t)ret :
               (ret == sizeof(text)) ? UCS_OK : UCS_ERR_INVALID_PARAM;
    }

    /* Take so many slots on this endpoint, without requesting completions */
    void take(endpoint &ep, unsigned count, unsigned first = 0)
    {
        for (unsigned i = 0; i < count; ++i) {
            ASSERT_EQ(UCS_OK, put(ep, first + i, 'a'));
        }
    }

    bool arrived(unsigned index, char value) const
    {
        volatile const char *data = target->data + index * 100;

        return (data[0] == value) && (data[99] == value);
    }

    std::unique_ptr<memory>                target;
    std::vector<std::unique_ptr<endpoint>> more;
};

TEST_F(bounce_test, puts_beyond_the_slots_are_refused)
{
    take(*ab, slots);
    EXPECT_EQ(UCS_ERR_NO_RESOURCE, put(*ab, 0, 'b'));
    EXPECT_EQ(UCS_ERR_NO_RESOURCE, put(*more[0], 0, 'b'));
    EXPECT_EQ(UCS_OK, ab->flush());
    for (unsigned i = 0; i < slots; ++i) {
        EXPECT_TRUE(arrived(i, 'a'));
    }
}

/* The puts of the other endpoints are unsignaled: the transport has to request
 * a completion */
TEST_F(bounce_test, another_endpoint_that_tries_again_gets_one)
{
    take(*ab, slots);
    ASSERT_EQ(UCS_ERR_NO_RESOURCE, put(*more[0], 20, 'b'));
    EXPECT_EQ(UCS_OK, more[0]->retry([&] { return put(*more[0], 20, 'b'); }));
    EXPECT_EQ(UCS_OK, more[0]->flush());
    EXPECT_TRUE(arrived(20, 'b'));
}

TEST_F(bounce_test, slots_held_by_several_endpoints_are_reclaimed)
{
    for (unsigned round = 0; round < 20; ++round) {
        take(*ab, slots / 2);
        take(*more[0], slots - slots / 2, slots);
        /* all of them */
        for (unsigned i = 0; i < slots; ++i) {
            ASSERT_EQ(UCS_OK, more[1]->retry([&] {
                return put(*more[1], 20 + i, (char)('b' + round));
            })) << round << " " << i;
        }
        ASSERT_EQ(UCS_OK, more[1]->flush());
        for (unsigned i = 0; i < slots; ++i) {
            EXPECT_TRUE(arrived(20 + i, (char)('b' + round)));
        }
        ASSERT_EQ(UCS_OK, ab->flush());
        ASSERT_EQ(UCS_OK, more[0]->flush());
    }
}

TEST_F(bounce_test, an_endpoint_that_holds_all_slots_reclaims_one)
{
    take(*ab, slots);
    EXPECT_EQ(UCS_OK, ab->retry([&] { return put(*ab, 20, 'b'); }));
    EXPECT_EQ(UCS_OK, ab->flush());
    EXPECT_TRUE(arrived(20, 'b'));
}

/* Nothing of this endpoint is under way, so no completion of its own serves the
 * request */
TEST_F(bounce_test, a_pending_request_of_another_endpoint_is_served)
{
    pending_op req([&] { return put(*more[0], 20, 'b'); });

    take(*ab, slots);
    ASSERT_EQ(UCS_ERR_NO_RESOURCE, put(*more[0], 20, 'b'));
    ASSERT_EQ(UCS_OK, uct_ep_pending_add(*more[0], &req.super, 0));
    EXPECT_TRUE(until([&] { return req.served; }));
    uct_ep_pending_purge(*more[0], NULL, NULL);
    EXPECT_EQ(UCS_OK, more[0]->flush());
    EXPECT_TRUE(arrived(20, 'b'));
}

TEST_F(bounce_test, pending_requests_of_several_endpoints_are_all_served)
{
    for (unsigned round = 0; round < 20; ++round) {
        std::vector<std::unique_ptr<pending_op>> reqs;

        take(*ab, slots);
        for (unsigned i = 0; i < 10; ++i) {
            endpoint &ep = *more[i % 2];

            reqs.push_back(std::make_unique<pending_op>([&, i, round] {
                return put(ep, 20 + i, (char)('b' + round));
            }));
            ASSERT_EQ(UCS_ERR_NO_RESOURCE, put(ep, 20 + i, 0));
            ASSERT_EQ(UCS_OK, uct_ep_pending_add(ep, &reqs.back()->super, 0));
        }
        bool all = until([&] {
            bool served = true;

            for (auto &req : reqs) {
                served = served && req->served;
            }
            return served;
        });
        for (auto &ep : more) {
            uct_ep_pending_purge(*ep, NULL, NULL);
        }
        ASSERT_TRUE(all) << round;
        for (auto &ep : more) {
            ASSERT_EQ(UCS_OK, ep->flush());
        }
        for (unsigned i = 0; i < 10; ++i) {
            EXPECT_TRUE(arrived(20 + i, (char)('b' + round)));
        }
        ASSERT_EQ(UCS_OK, ab->flush());
    }
}

/* A caller that sleeps between progress calls, as uct_iface_event_arm allows,
 * must not be left with an unserved request */
TEST_F(bounce_test, a_sleeper_s_request_is_served)
{
    pending_op req([&] { return put(*more[0], 20, 'b'); });
    int fd;

    ASSERT_EQ(UCS_OK, uct_iface_event_fd_get(a->iface, &fd));
    take(*ab, slots);
    ASSERT_EQ(UCS_ERR_NO_RESOURCE, put(*more[0], 20, 'b'));
    ASSERT_EQ(UCS_OK, uct_ep_pending_add(*more[0], &req.super, 0));
    EXPECT_TRUE(req.is_served_to_a_sleeper(*a, fd));
    uct_ep_pending_purge(*more[0], NULL, NULL);
    EXPECT_EQ(UCS_OK, more[0]->flush());
}

/* Gets hold slots until their data has been unpacked */
TEST_F(bounce_test, gets_return_their_slots)
{
    static unsigned unpacked;
    std::vector<std::unique_ptr<completion>> comps;

    unpacked = 0;
    target->fill(3);
    for (unsigned i = 0; i < 10 * slots; ++i) {
        comps.push_back(std::make_unique<completion>());
        ASSERT_EQ(UCS_INPROGRESS, more[i % 2]->retry([&] {
            return uct_ep_get_bcopy(
                    *more[i % 2], [](void *, const void *data, size_t length) {
                        unpacked += (length == 100) &&
                                    (*(const char*)data == pattern(3, 0));
                    }, NULL, 100, target->addr(), target->rkey(),
                    &comps.back()->super);
        })) << i;
    }
    EXPECT_TRUE(until([&] { return unpacked == 10 * slots; }));
    for (auto &comp : comps) {
        EXPECT_EQ(1, comp->calls);
        EXPECT_EQ(UCS_OK, comp->status);
    }
}

/* What an endpoint held that is gone comes back, too */
TEST_F(bounce_test, a_destroyed_endpoint_returns_its_slots)
{
    for (unsigned round = 0; round < 4; ++round) {
        auto ep = std::make_unique<endpoint>(*a, *b);

        ASSERT_EQ(UCS_OK, ep->flush());
        take(*ep, slots);
        ep.reset();
        for (unsigned i = 0; i < slots; ++i) {
            ASSERT_EQ(UCS_OK, ab->retry([&] { return put(*ab, 20 + i, 'b'); },
                                        5)) << round << " " << i;
        }
        ASSERT_EQ(UCS_OK, ab->flush());
    }
}
