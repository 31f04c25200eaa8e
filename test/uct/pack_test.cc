/*
 * Small messages share immediates while many are under way: a peer that does not call
 * progress gets more of them than the window has immediates.
 */
#include "failover_fixture.h"

namespace {

class pack : public failover_fixture {
protected:
    static constexpr uint8_t id = 7, answer_id = 8;
    static constexpr unsigned window = 128; /* UCX_VQP_FSN_WINDOW */

    void start_with(const options &config)
    {
        options mine = config;

        mine["STATS_FILE"] = stats.name;
        a  = std::make_unique<node>(0, mine);
        b  = std::make_unique<node>(1, config);
        listen();
        ab = std::make_unique<endpoint>(*a, *b);
        settle();
        b->on_am(id, [this](const char *data, size_t size) {
            EXPECT_EQ(header(got), *(const uint64_t*)data);
            EXPECT_EQ(sizeof(uint64_t) + length(got), size);
            ++got;
            return UCS_OK;
        });
    }

    static uint64_t header(unsigned number)
    {
        return number * 0x9e3779b97f4a7c15ul;
    }

    static unsigned length(unsigned number)
    {
        return number % 29;
    }

    ucs_status_t send()
    {
        static const char data[32] = {};
        ucs_status_t status        = uct_ep_am_short(*ab, id, header(sent), data,
                                                     length(sent));

        sent += status == UCS_OK;
        return status;
    }

    /* Messages until one is refused. The peer does nothing meanwhile */
    unsigned burst()
    {
        unsigned first = sent;
        unsigned idle  = 0;

        while (idle < 1000) {
            idle = (send() == UCS_OK) ? 0 : idle + 1;
            a->progress();
        }
        return sent - first;
    }

    void expect_all()
    {
        EXPECT_TRUE(until([&] { return got == sent; })) << got << " of " << sent;
        EXPECT_EQ(UCS_OK, ab->flush());
    }

    uint64_t packed()
    {
        EXPECT_EQ(0u, a->errors + b->errors);
        close();
        return stats_sum(stats.name, "packed");
    }

    unsigned sent = 0, got = 0;
};

TEST_F(pack, a_peer_that_computes_gets_more_than_the_window)
{
    log_capture log(UCS_LOG_LEVEL_DIAG);

    start_with({});
    for (int i = 0; i < 5; ++i) {
        EXPECT_GT(burst(), 4 * window);
        expect_all();
    }
    EXPECT_GT(packed(), 5 * 3 * window);
    EXPECT_EQ("", log_capture::complaints());
}

/* Half of the window is for messages that go at once; the next one waits for others,
 * until progress of the sender finds that none has come */
TEST_F(pack, a_message_that_waits_goes_by_progress_of_the_sender)
{
    start_with({});
    for (unsigned i = 0; i < window / 2 + 2; ++i) {
        ASSERT_EQ(UCS_OK, send());
    }
    for (int i = 0; i < 4; ++i) {
        a->progress();
    }
    for (int i = 0; (i < 1000000) && (got < sent); ++i) {
        b->progress();
    }
    EXPECT_EQ(sent, got);
}

TEST_F(pack, a_message_that_waits_is_flushed)
{
    start_with({});
    for (unsigned i = 0; i < window / 2 + 8; ++i) {
        ASSERT_EQ(UCS_OK, send());
    }
    EXPECT_EQ(UCS_OK, ab->flush());
    expect_all();
}

TEST_F(pack, an_endpoint_that_ends_sends_what_waits)
{
    start_with({});
    for (unsigned i = 0; i < window / 2 + 8; ++i) {
        ASSERT_EQ(UCS_OK, send());
    }
    ab.reset();
    EXPECT_TRUE(until([&] { return got == sent; })) << got << " of " << sent;
}

/* The handler of one record sends, while the next one waits in the ring */
TEST_F(pack, handlers_answer_each_message)
{
    unsigned answered = 0, answers = 0;

    start_with({});
    connect_back();
    a->on_am(answer_id, [&](const char *data, size_t) {
        EXPECT_EQ(header(answers++), *(const uint64_t*)data);
        return UCS_OK;
    });
    b->on_am(id, [&](const char*, size_t) {
        ++got;
        while ((answered < got) &&
               (uct_ep_am_short(*ba, answer_id, header(answered), NULL, 0) == UCS_OK)) {
            ++answered;
        }
        return UCS_OK;
    });
    burst();
    EXPECT_TRUE(until([&] { return got == sent; })) << got;
    while (answered < sent) {
        ASSERT_EQ(UCS_OK, ba->retry([&] {
            return uct_ep_am_short(*ba, answer_id, header(answered), NULL, 0);
        }));
        ++answered;
    }
    EXPECT_TRUE(until([&] { return answers == sent; })) << answers;
    EXPECT_GT(packed(), 3 * window);
}

TEST_F(pack, packed_messages_survive_a_path)
{
    start_with({{"NUM_PATHS", "2"}, {"MIN_PATHS", "2"}});
    for (int i = 0; i < 8; ++i) {
        faults("wr nth=" + std::to_string(5 + 17 * i) + " status=RETRY_EXC_ERR");
        for (int k = 0; k < 2; ++k) {
            burst();
            expect_all();
        }
        faults("");
    }
    EXPECT_GT(packed(), 8 * window);
}

} /* namespace */
