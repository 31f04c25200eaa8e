/* Whether a device counts what it executes, as an interface with failover finds out. */
#include "failover_fixture.h"

class source_test : public failover_fixture {
protected:
    /* Is the line in the log that says that it does not? */
    bool is_uncounted(const std::string &script)
    {
        log_capture log(UCS_LOG_LEVEL_DIAG);

        faults(script);
        a = std::make_unique<node>(devices()[0], options{{"FAILOVER", "y"}});
        faults("");
        return log_capture::has("does not count what it executes");
    }

    /* Not while a log is captured: it may be the first to ask the device */
    static std::string source_name() { return counts() ? "psn" : "imm"; }
};

/* Whatever the device is like (RQ_PSN of the fabric), that is what is found */
TEST_F(source_test, probe_finds_what_the_device_is_like)
{
    char rq_psn[16] = "";

    ASSERT_EQ(0, vqp_fabric()->option("RQ_PSN", rq_psn, sizeof(rq_psn)));
    EXPECT_EQ(std::string(rq_psn) != "exact", is_uncounted(""));
}

/* In timed mode the writes take time, as on a network: ERR comes in their middle */
TEST_F(source_test, probe_is_cut_in_the_middle_of_its_writes)
{
    char mode[16] = "";

    ASSERT_EQ(0, vqp_fabric()->option("MODE", mode, sizeof(mode)));
    if (std::string(mode) != "timed") {
        GTEST_SKIP() << "requests are executed at once";
    }

    log_capture log(UCS_LOG_LEVEL_DEBUG);

    a = std::make_unique<node>(devices()[0], options{{"FAILOVER", "y"}});
    EXPECT_TRUE(log_capture::has("ERR came in the middle"));
}

TEST_F(source_test, log_names_the_source)
{
    std::string line = devices()[0] + ": executed requests are counted by source " +
                       source_name();
    log_capture log(UCS_LOG_LEVEL_DEBUG);

    a = std::make_unique<node>(devices()[0], options{{"FAILOVER", "y"}});
    EXPECT_TRUE(log_capture::has(line));
}

TEST_F(source_test, statistics_name_the_source_of_each_rail)
{
    a = std::make_unique<node>(devices()[0], options{{"FAILOVER", "y"},
                                                     {"STATS_FILE", stats.name}});
    b = std::make_unique<node>(devices()[0], options{{"FAILOVER", "n"},
                                                     {"STATS_FILE", stats.name}});
    a.reset();
    b.reset();

    std::string text = read_file(stats.name);

    EXPECT_NE(text.npos, text.find("\"rails\":[{\"port\":\"" + devices()[0] +
                                   ":1\",\"source\":\"" + source_name() + "\",\"lag\":"));
    EXPECT_NE(text.npos, text.find("\"source\":\"-\"")) << "no failover";
}

TEST_F(source_test, probe_is_repeated)
{
    if (!counts()) {
        GTEST_SKIP() << "the device does not count what it executes";
    }
    EXPECT_FALSE(is_uncounted("wr count=2 status=RETRY_EXC_ERR"));
}

TEST_F(source_test, lost_packet_of_the_probe_is_repeated)
{
    if (!counts()) {
        GTEST_SKIP() << "the device does not count what it executes";
    }
    EXPECT_FALSE(is_uncounted("lose count=2"));
}

TEST_F(source_test, nothing_comes_through)
{
    EXPECT_TRUE(is_uncounted("wr count=all status=RETRY_EXC_ERR"));
}

/* A second interface of the memory domain sends nothing */
TEST_F(source_test, result_is_remembered)
{
    if (!counts()) {
        GTEST_SKIP() << "the device does not count what it executes";
    }
    EXPECT_FALSE(is_uncounted(""));

    log_capture log(UCS_LOG_LEVEL_DIAG);

    faults("wr count=all status=RETRY_EXC_ERR");
    b = std::make_unique<node>(0, options{{"FAILOVER", "y"}}, a.get());
    faults("");
    EXPECT_FALSE(log_capture::has("does not count what it executes"));
    b.reset();
}

/* That nothing came through proves nothing: the next interface tries again */
TEST_F(source_test, silence_is_not_remembered)
{
    if (!counts()) {
        GTEST_SKIP() << "the device does not count what it executes";
    }
    EXPECT_TRUE(is_uncounted("wr count=all status=RETRY_EXC_ERR"));

    log_capture log(UCS_LOG_LEVEL_DIAG);

    b = std::make_unique<node>(0, options{{"FAILOVER", "y"}}, a.get());
    EXPECT_FALSE(log_capture::has("does not count what it executes"));
    b.reset();
}

/* That is no error, but what the device is like */
TEST_F(source_test, count_can_not_be_asked_for)
{
    EXPECT_TRUE(is_uncounted("call verb=query_qp count=all errno=EIO"));
    EXPECT_FALSE(log_capture::has("ibv_query_qp"));
}

TEST_F(source_test, one_query_that_fails_decides_nothing)
{
    if (!counts()) {
        GTEST_SKIP() << "the device does not count what it executes";
    }
    EXPECT_FALSE(is_uncounted("call verb=query_qp count=1 errno=EIO"));
}
