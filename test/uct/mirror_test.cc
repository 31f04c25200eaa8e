/*
 * Memory that active messages are sent from: an endpoint has it while it sends. Many
 * endpoints share little of it.
 */
#include "failover_fixture.h"
#include "pending_op.h"

#include <algorithm>
#include <string.h>

namespace {

class mirror : public failover_fixture {
protected:
    static constexpr uint8_t  id    = 9, small_id = 10;
    static constexpr unsigned count = 12;
    static constexpr size_t   length = 4000;

    void connect()
    {
        open({});
        b->on_am(id, [this](const char *data, size_t size) {
            unsigned number = (unsigned char)data[0];

            EXPECT_EQ(+length, size);
            EXPECT_LT(number, +count);
            for (size_t i = 1; i < size; i += 97) {
                EXPECT_EQ(pattern(got[number], i), data[i]) << number << " " << i;
            }
            ++got[number];
            return UCS_OK;
        });
        for (unsigned i = 0; i < count; ++i) {
            all.push_back(std::make_unique<endpoint>(*a, *b));
        }
        for (auto &ep : all) {
            ASSERT_EQ(UCS_OK, ep->flush()); /* connected, without a message */
        }
    }

    ssize_t send(unsigned number)
    {
        std::vector<char> data(length);
        bytes message = {data.data(), length};
        ssize_t ret;

        data[0] = (char)number;
        for (size_t i = 1; i < length; ++i) {
            data[i] = pattern(sent[number], i);
        }
        ret           = uct_ep_am_bcopy(*all[number], id, pack_bytes, &message, 0);
        sent[number] += ret >= 0;
        return ret;
    }

    ucs_status_t try_send(unsigned number)
    {
        ssize_t ret = send(number);

        return (ret < 0) ? (ucs_status_t)ret : UCS_OK;
    }

    void send_all()
    {
        for (unsigned i = 0; i < count; ++i) {
            ASSERT_EQ((ssize_t)length, all[i]->retry([&] { return send(i); })) << i;
        }
    }

    void expect_all()
    {
        EXPECT_TRUE(until([&] { return got == sent; }));
    }

    static unsigned registrations()
    {
        vqp_fabric_objects_t objects;

        vqp_fabric()->objects(&objects);
        return objects.mrs;
    }

    std::vector<std::unique_ptr<endpoint>> all;
    std::vector<unsigned> sent = std::vector<unsigned>(count), got = sent;
};

/* There is memory for a few when the first one connects */
TEST_F(mirror, of_few_endpoints_serve_all_that_send)
{
    log_capture log(UCS_LOG_LEVEL_WARN);

    connect();
    faults("call verb=reg_mr nth=1 count=all errno=ENOMEM");
    for (int i = 0; i < 50; ++i) {
        send_all();
    }
    expect_all();
    EXPECT_LT(0u, vqp_fabric()->fault_hits()); /* more of it was asked for */
    faults("");
    EXPECT_EQ("", log_capture::complaints());
    all.clear();
}

TEST_F(mirror, of_few_endpoints_serve_many_that_wait_at_a_time)
{
    unsigned waited = 0;

    connect();
    faults("call verb=reg_mr nth=1 count=all errno=ENOMEM");
    for (int round = 0; round < 20; ++round) {
        std::vector<std::unique_ptr<pending_op>> reqs;

        for (unsigned i = 0; i < count; ++i) {
            if (try_send(i) == UCS_OK) {
                continue;
            }
            reqs.push_back(std::make_unique<pending_op>([this, i] { return try_send(i); }));
            ASSERT_EQ(UCS_OK, uct_ep_pending_add(*all[i], &reqs.back()->super, 0));
        }
        waited += reqs.size();
        EXPECT_TRUE(until([&] {
            return std::all_of(reqs.begin(), reqs.end(), [](auto &r) { return r->served; });
        })) << round;
        for (auto &ep : all) {
            uct_ep_pending_purge(*ep, NULL, NULL);
        }
    }
    EXPECT_LT(0u, waited);
    expect_all();
    faults("");
    all.clear();
}

/* Those that have them always have something in flight, which has no completion */
TEST_F(mirror, of_endpoints_that_send_without_a_pause_serve_another_one)
{
    connect();
    b->on_am(small_id, [](const char *, size_t) { return UCS_OK; });
    faults("call verb=reg_mr nth=1 count=all errno=ENOMEM");
    send_all(); /* the last four have them */
    for (int i = 0; i < 3; ++i) {
        EXPECT_TRUE(until([&] {
            for (unsigned j = count - 4; j < count; ++j) {
                (void)uct_ep_am_short(*all[j], small_id, 0, NULL, 0);
            }
            return send(0) >= 0;
        }));
    }
    expect_all();
    faults("");
    all.clear();
}

/* Those that have them send nothing more. No completion of its own wakes the one that waits */
TEST_F(mirror, that_is_awaited_wakes_a_sleeper)
{
    int fd;

    connect();
    ASSERT_EQ(UCS_OK, uct_iface_event_fd_get(a->iface, &fd));
    faults("call verb=reg_mr nth=1 count=all errno=ENOMEM");
    for (unsigned i = 0; i < 2 * count; ++i) {
        uct_ep_h ep = *all[i % count];
        pending_op req([&] { return try_send(i % count); });

        /* four others have the memory, and messages in flight */
        ASSERT_TRUE(until([&] {
            unsigned j = i + 1;

            while ((j < i + 5) && (send(j % count) >= 0)) {
                ++j;
            }
            return j == i + 5;
        })) << i;
        ASSERT_EQ(UCS_ERR_NO_RESOURCE, req.func());
        ASSERT_EQ(UCS_OK, uct_ep_pending_add(ep, &req.super, 0));
        EXPECT_TRUE(req.is_served_to_a_sleeper(*a, fd)) << i;
        uct_ep_pending_purge(ep, NULL, NULL);
    }
    expect_all();
    faults("");
    all.clear();
}

/* Messages that share an immediate are sent with the gaps between them */
TEST_F(mirror, holds_nothing_of_the_connection_that_had_it)
{
    unsigned small_sent = 0, small_got = 0;
    char gaps = 0;

    connect();
    b->on_am(small_id, [&](const char *data, size_t size) {
        for (size_t i = size; i % 16 != 0; ++i) { /* records are aligned */
            gaps |= data[i];
        }
        ++small_got;
        return UCS_OK;
    });
    faults("call verb=reg_mr nth=1 count=all errno=ENOMEM");
    for (unsigned i = 0; i < 40; ++i) { /* the whole memory of four */
        unsigned number = 1 + i % 4;

        ASSERT_EQ((ssize_t)length, all[number]->retry([&] { return send(number); }));
    }
    expect_all();
    ASSERT_EQ(UCS_OK, all[0]->retry([&] {
        return uct_ep_am_short(*all[0], small_id, 0, "x", 1);
    }));
    ++small_sent;
    for (unsigned idle = 0; idle < 1000;) {
        if (uct_ep_am_short(*all[0], small_id, 0, "x", 1) == UCS_OK) {
            ++small_sent;
            idle = 0;
        } else {
            ++idle;
        }
        a->progress();
    }
    EXPECT_LT(128u, small_sent); /* FSN_WINDOW: some share an immediate */
    EXPECT_TRUE(until([&] { return small_got == small_sent; }));
    EXPECT_EQ(0, gaps);
    faults("");
    all.clear();
}

/* All that it has in flight is lost with it, but not the memory */
TEST_F(mirror, of_endpoints_that_have_failed_serve_others)
{
    connect();
    faults("call verb=reg_mr nth=1 count=all errno=ENOMEM");
    for (unsigned i = 0; i < 4; ++i) {
        ASSERT_EQ((ssize_t)length, all[i]->retry([&] { return send(i); }));
        (void)uct_ep_flush(*all[i], UCT_FLUSH_FLAG_CANCEL, NULL);
    }
    for (unsigned i = 4; i < count; ++i) {
        ASSERT_EQ((ssize_t)length, all[i]->retry([&] { return send(i); })) << i;
    }
    EXPECT_TRUE(until([&] {
        return std::equal(got.begin() + 4, got.end(), sent.begin() + 4);
    }));
    faults("");
    all.clear();
}

/* With the virtual clock: it takes seconds */
class mirror_idle : public mirror {
protected:
    void SetUp() override
    {
        char clock[32] = "";

        mirror::SetUp();
        if (IsSkipped()) {
            return;
        }
        (void)vqp_fabric()->option("CLOCK", clock, sizeof(clock));
        if (strcmp(clock, "virtual") != 0) {
            GTEST_SKIP() << "needs the virtual clock of the fabric";
        }
    }
};

TEST_F(mirror_idle, goes_back_after_seconds_without_messages)
{
    connect();

    unsigned before = registrations();

    for (int i = 0; i < 2; ++i) {
        send_all();
        EXPECT_EQ(before + 2, registrations()); /* for four of them each, beside the first */
        expect_all();
        EXPECT_TRUE(until([&] { return registrations() == before; }));
    }
    send_all();
    expect_all();
    all.clear();
}

} /* namespace */
