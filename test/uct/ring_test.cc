/*
 * Rings of active messages that grow while messages wait for them (UCX_VQP_RING_SIZE,
 * RING_MIN, MAX_MEM), and what happens where they can not.
 */
#include "failover_fixture.h"

namespace {

class ring : public failover_fixture {
protected:
    static constexpr uint8_t id     = 7;
    static constexpr size_t  length = 8000;

    void start_with(const options &mine, const options &peers)
    {
        options config = mine, peers_config = peers;

        for (options *each : {&config, &peers_config}) {
            each->emplace("RING_SIZE", "1m");
            each->emplace("RING_MIN", "64k");
        }
        config["STATS_FILE"] = stats.name;
        a  = std::make_unique<node>(0, config);
        b  = std::make_unique<node>(1, peers_config);
        listen();
        ab = std::make_unique<endpoint>(*a, *b);
        settle();
        b->on_am(id, [this](const char *data, size_t size) {
            EXPECT_EQ(+length, size);
            expect(data, got++);
            return UCS_OK;
        });
    }

    static void expect(const char *data, unsigned seed)
    {
        for (size_t i = 0; i < length; i += 97) {
            ASSERT_EQ(pattern(seed, i), data[i]) << seed << " " << i;
        }
    }

    ssize_t send()
    {
        std::vector<char> data(length);
        bytes all = {data.data(), length};
        ssize_t ret;

        for (size_t i = 0; i < length; ++i) {
            data[i] = pattern(sent, i);
        }
        ret   = uct_ep_am_bcopy(*ab, id, pack_bytes, &all, 0);
        sent += ret >= 0;
        return ret;
    }

    /* Messages until one is refused; the peer does nothing meanwhile. The first one waits
     * for the credit of those before */
    unsigned burst()
    {
        unsigned first = sent;

        EXPECT_EQ((ssize_t)length, ab->retry([&] { return send(); }));
        while (send() >= 0) {
        }
        return sent - first;
    }

    /* Of the last one, how many messages were under way */
    unsigned bursts(unsigned count = 30)
    {
        unsigned most = 0;

        for (unsigned i = 0; i < count; ++i) {
            most = burst();
            EXPECT_TRUE(until([&] { return got == sent; })) << got;
            EXPECT_EQ(UCS_OK, ab->flush());
        }
        return most;
    }

    uint64_t switches()
    {
        EXPECT_EQ(0u, a->errors + b->errors);
        close();
        return stats_sum(stats.name, "ring_switches");
    }

    unsigned sent = 0, got = 0;
};

TEST_F(ring, grows_while_messages_wait_for_it)
{
    log_capture log(UCS_LOG_LEVEL_DIAG);

    start_with({}, {});
    EXPECT_LT(burst(), 9u); /* a record takes 8,016 bytes, the ring has 64 KiB */
    EXPECT_GT(bursts(), 40u); /* 256 KiB have 32 */
    EXPECT_EQ(2u, switches()); /* 256 KiB, 1 MiB */
    EXPECT_EQ("", log_capture::complaints());
}

/* What lies in the user's memory is copied while more than half of the window is in use, and
 * then shares immediates: the window does not end a burst. The header goes with it */
TEST_F(ring, zcopy_messages_share_immediates_if_these_are_few)
{
    const unsigned window  = 128, most = 1024;
    const uint64_t header  = 0x1122334455667788;
    const size_t   payload = length - sizeof(header);
    std::list<completion> posted;
    unsigned copied = 0;

    start_with({{"RING_MIN", "1m"}}, {{"RING_MIN", "1m"}});
    source = std::make_unique<memory>(*a, window * payload);
    use_all_slots();
    b->on_am(id, [&](const char *data, size_t size) {
        EXPECT_EQ(+length, size);
        EXPECT_EQ(header, *(const uint64_t*)data);
        for (size_t i = 0; i < payload; i += 97) {
            EXPECT_EQ(pattern(got, i), data[sizeof(header) + i]) << got << " " << i;
        }
        ++got;
        return UCS_OK;
    });
    for (ucs_status_t status = UCS_OK; (status >= 0) && (sent < most);) {
        char *data    = source->data + ((posted.size() % window) * payload);
        uct_iov_t iov = source->iov((size_t)(data - source->data), payload / 2);

        iov.count = 2; /* two times the length */
        ASSERT_LT(posted.size(), window);
        for (size_t i = 0; i < payload; ++i) {
            data[i] = pattern(sent, i);
        }
        posted.emplace_back();
        status = uct_ep_am_zcopy(*ab, id, &header, sizeof(header), &iov, 1, 0,
                                 &posted.back().super);
        if (status != UCS_INPROGRESS) {
            posted.pop_back();
            memset(data, 0, payload); /* it may be used again */
        }
        copied += status == UCS_OK;
        sent   += status >= 0;
    }
    EXPECT_GT(copied, 0u);
    EXPECT_EQ(sent, copied + posted.size());
    EXPECT_GE(sent, 129u); /* 1 MiB has 130, its end may be too short for one */
    EXPECT_TRUE(until([&] { return got == sent; })) << got;
    EXPECT_EQ(UCS_OK, ab->flush());
    for (const completion &comp : posted) {
        EXPECT_EQ(1, comp.calls);
        EXPECT_EQ(UCS_OK, comp.status);
    }
    EXPECT_EQ(0u, switches());
    EXPECT_GE(stats_sum(stats.name, "packed"), copied / 2);
}

/* The messages share immediates: 64 have one each, and 62 up to eight */
TEST_F(ring, grows_to_four_megabytes_by_default)
{
    unsigned most = 0;

    start_with({{"RING_SIZE", "auto"}}, {{"RING_SIZE", "auto"}});
    for (unsigned i = 0; (most <= 450) && (i < 200); ++i) {
        unsigned first = sent;

        (void)burst();
        run_for_one(*a, 1e-4); /* what waits for others is posted */
        while (send() >= 0) {
        }
        most = std::max(most, sent - first);
        ASSERT_TRUE(until([&] { return got == sent; })) << got;
        ASSERT_EQ(UCS_OK, ab->flush());
    }
    EXPECT_GT(most, 450u); /* 4 MiB have 523 */
}

TEST_F(ring, is_smaller_by_default_with_a_large_window)
{
    for (const char *window : {"16", "1024", "2048"}) {
        start_with({{"RING_SIZE", "auto"}, {"FSN_WINDOW", window}, {"NUM_PATHS", "2"}},
                   {{"RING_SIZE", "auto"}, {"FSN_WINDOW", window}, {"NUM_PATHS", "2"}});
        messages(10);
        close();
    }
}

TEST_F(ring, does_not_grow_for_a_message_at_a_time)
{
    start_with({}, {});
    for (int i = 0; i < 500; ++i) {
        messages(1);
    }
    EXPECT_EQ(0u, switches());
}

TEST_F(ring, grows_in_both_directions_apart)
{
    start_with({{"NUM_PATHS", "1"}}, {{"NUM_PATHS", "1"}});
    connect_back();
    bursts();
    for (int i = 0; i < 500; ++i) {
        ASSERT_EQ(UCS_OK, ba->retry([&] {
            return uct_ep_am_short(*ba, settle_id, 0, NULL, 0);
        }));
        ASSERT_EQ(UCS_OK, ba->flush());
    }
    bursts();
    EXPECT_EQ(2u, switches());
}

TEST_F(ring, has_the_smaller_size_of_both_sides)
{
    start_with({{"RING_SIZE", "128k"}}, {});
    bursts();
    EXPECT_EQ(1u, switches());
}

TEST_F(ring, has_the_smaller_size_of_the_receiver)
{
    start_with({}, {{"RING_SIZE", "128k"}});
    bursts();
    EXPECT_EQ(1u, switches());
}

TEST_F(ring, does_not_grow_if_the_sender_wants_none)
{
    start_with({{"RING_SIZE", "64k"}}, {});
    EXPECT_LT(bursts(), 9u);
    EXPECT_EQ(0u, switches());
}

/* Beyond MAX_MEM the sender waits, as before */
TEST_F(ring, stays_where_its_share_of_the_memory_ends)
{
    log_capture log(UCS_LOG_LEVEL_DIAG);

    start_with({}, {{"MAX_MEM", "1m"}}); /* a quarter of 1 MiB, then of the rest */
    EXPECT_LT(bursts(60), 40u);
    EXPECT_EQ(1u, switches());
    EXPECT_EQ("", log_capture::complaints());
}

TEST_F(ring, stays_without_memory_for_larger_ones)
{
    start_with({{"MAX_MEM", "0"}}, {});
    EXPECT_LT(bursts(60), 9u);
    EXPECT_EQ(0u, switches());
}

/* Beside the mirror of 256 KiB there is no quarter for one of 512 */
TEST_F(ring, is_refused_if_the_mirror_exceeds_the_memory)
{
    log_capture log(UCS_LOG_LEVEL_DIAG);

    start_with({{"MAX_MEM", "2m"}}, {});
    EXPECT_LT(bursts(100), 40u);
    EXPECT_EQ(1u, switches());
    EXPECT_EQ("", log_capture::complaints());
}

TEST_F(ring, stays_if_it_can_not_be_registered)
{
    log_capture log(UCS_LOG_LEVEL_WARN);

    start_with({}, {});
    faults("call verb=reg_mr nth=1 count=all errno=ENOMEM");
    EXPECT_LT(bursts(60), 9u);
    faults("");
    EXPECT_EQ("", log_capture::complaints());
    EXPECT_GT(bursts(100), 9u); /* it is asked for again */
    EXPECT_LT(0u, switches());
}

TEST_F(ring, that_has_grown_survives_a_path)
{
    start_with({{"NUM_PATHS", "2"}, {"MIN_PATHS", "2"}},
               {{"NUM_PATHS", "2"}, {"MIN_PATHS", "2"}});
    for (int i = 0; i < 8; ++i) {
        faults("wr nth=" + std::to_string(5 + 7 * i) + " status=RETRY_EXC_ERR");
        bursts(2);
        faults("");
    }
    EXPECT_EQ(2u, switches());
}

/* A peer that closes while rings change, and comes back */
TEST_F(ring, ends_with_its_endpoint_at_any_time)
{
    start_with({}, {});
    for (unsigned count = 0; count < 12; ++count) {
        bursts(count);
        (void)burst();
        ab.reset();
        ASSERT_TRUE(until([&] { return got == sent; })) << got;
        ab = std::make_unique<endpoint>(*a, *b);
        settle();
    }
    EXPECT_LT(0u, switches());
}

} /* namespace */
