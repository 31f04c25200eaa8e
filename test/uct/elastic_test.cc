/*
 * Endpoints that begin with fewer paths than they may have (UCX_VQP_MIN_PATHS), and get the
 * others when they need them.
 */
#include "flow_fixture.h"

extern "C" {
#include "uct/vqp_status.h"
}

#include <regex>

namespace {

class elastic : public bonded_failover_fixture {
protected:
    static constexpr int control = 4; /* queue pairs: one for each rail of each side */

    void TearDown() override
    {
        bonded_failover_fixture::TearDown();
        if (vqp_fabric() != NULL) {
            vqp_fabric()->device("fab0", 1);
        }
    }

    static options of(unsigned min_paths, options more = {})
    {
        more["NUM_PATHS"] = "4";
        more["MIN_PATHS"] = std::to_string(min_paths);
        return more;
    }

    void start_with(const options &mine, const options &peers, const char *script = "")
    {
        options config = mine;

        config["STATS_FILE"] = stats.name;
        a      = std::make_unique<node>("bond0", config);
        b      = std::make_unique<node>("bond0", peers);
        listen();
        faults(script);
        ab     = std::make_unique<endpoint>(*a, *b);
        source = std::make_unique<memory>(*a, size);
        target = std::make_unique<memory>(*b, size);
        settle();
    }

    void exchange()
    {
        for (size_t length : {8ul, 5000ul, (size_t)size}) {
            put(length);
        }
        messages(100);
    }

    void put(size_t length)
    {
        uct_iov_t iov = source->iov(0, length);

        source->fill((unsigned)length);
        ASSERT_GE(ab->retry([&] {
            return uct_ep_put_zcopy(*ab, &iov, 1, target->addr(), target->rkey(), NULL);
        }), UCS_OK);
        ASSERT_EQ(UCS_OK, ab->flush());
        EXPECT_EQ(0, memcmp(source->data, target->data, length));
    }

    uint64_t counted(const char *counter)
    {
        EXPECT_EQ(0u, a->errors + b->errors);
        close();
        return stats_sum(stats.name, counter);
    }
};

TEST_F(elastic, endpoint_begins_with_one_queue_pair)
{
    start_with(of(1), of(1));
    EXPECT_EQ(control + 2, count_qps());
    exchange();
    adds(100);
    EXPECT_EQ(control + 2, count_qps());
    EXPECT_EQ((std::multiset<uint64_t> {32, 32}), depths("fab0"));
    EXPECT_EQ(0u, counted("path_adds"));
}

/* Of each of two rails, one queue pair at each side */
TEST_F(elastic, queues_are_short_where_a_path_can_be_replaced)
{
    static const struct {
        options  config;
        uint64_t depth;
    } cases[] = {
        {{{"NUM_PATHS", "4"}, {"MIN_PATHS", "2"}}, 32},
        {{{"NUM_PATHS", "3"}, {"MIN_PATHS", "2"}}, 64}, /* one rail has no other path */
        {{{"NUM_PATHS", "2"}, {"MIN_PATHS", "2"}}, 64},
        {{{"NUM_PATHS", "4"}, {"MIN_PATHS", "2"}, {"TX_QUEUE_LEN", "100"}}, 100},
        {{{"NUM_PATHS", "2"}, {"MIN_PATHS", "1"}, {"FAILOVER", "n"}}, 64},
    };

    for (auto &each : cases) {
        start_with(each.config, each.config);
        exchange();
        for (const char *device : {"fab0", "fab1"}) {
            EXPECT_EQ((std::multiset<uint64_t> {each.depth, each.depth}), depths(device));
        }
        close();
    }
}

/* On each rail by a path of that rail: the atomics find theirs */
TEST_F(elastic, short_queues_of_both_rails_are_replaced)
{
    /* In immediate mode nothing waits unless more is posted than a call of progress moves */
    options config = {{"NUM_PATHS", "4"}, {"MIN_PATHS", "2"}, {"PATH_BYTES", "256k"}};

    start_with(config, config);
    source->fill(1);
    EXPECT_TRUE(until([&] {
        uct_iov_t iov = source->iov(0, size);

        (void)uct_ep_put_zcopy(*ab, &iov, 1, target->addr(), target->rkey(), NULL);
        return (depths("fab0").count(32) == 0) && (depths("fab1").count(32) == 0);
    }));
    ASSERT_EQ(UCS_OK, ab->flush());
    EXPECT_EQ(0, memcmp(source->data, target->data, size));
    exchange();
    adds(100);
    for (const char *device : {"fab0", "fab1"}) {
        EXPECT_LE(2u, depths(device).count(128)) << device;
    }
    EXPECT_EQ(0u, counted("replayed"));
}

TEST_F(elastic, endpoint_begins_with_what_is_asked_for)
{
    start_with(of(3), of(3));
    EXPECT_EQ(control + 2 * 3, count_qps());
    exchange();
    EXPECT_EQ(0u, counted("path_adds"));
}

TEST_F(elastic, device_that_dies_is_replaced_by_another)
{
    log_capture log(UCS_LOG_LEVEL_ERROR);

    start_with(of(1), of(1));
    exchange();
    ASSERT_EQ(0, vqp_fabric()->device("fab0", 0));
    exchange();
    EXPECT_LT(0u, counted("path_adds"));
    EXPECT_LT(0u, stats_sum(stats.name, "path_downs"));
}

TEST_F(elastic, side_that_wants_more_paths_gets_them)
{
    start_with(of(4), of(1));
    EXPECT_TRUE(until([&] { return count_qps() == control + 2 * 4; })) << count_qps();
    exchange();
    EXPECT_EQ(3u, counted("path_adds"));
}

TEST_F(elastic, peer_that_wants_more_paths_gets_them)
{
    start_with(of(1), of(4));
    EXPECT_TRUE(until([&] { return count_qps() == control + 2 * 4; })) << count_qps();
    exchange();
    EXPECT_EQ(3u, counted("path_adds"));
}

TEST_F(elastic, peer_without_queue_pairs_says_so)
{
    log_capture log(UCS_LOG_LEVEL_WARN);

    a = std::make_unique<node>("bond0", of(1));
    b = std::make_unique<node>("bond0", of(1));
    faults("call verb=create_qp nth=2 count=all errno=ENOMEM");
    ab = std::make_unique<endpoint>(*a, *b);
    EXPECT_TRUE(until([&] { return ab->errors == 1; })); /* CONNECT_TIMEOUT is 15 s */
    EXPECT_EQ(UCS_ERR_NO_MEMORY, ab->error);
    EXPECT_EQ(1u, log_capture::count("has no queue pair, completion queue or memory"));
    EXPECT_TRUE(log_capture::has("ibv_create_qp")) << log.text(); /* a warning, too */
    EXPECT_EQ(std::string::npos, log.errors().find("ibv_create_qp"));
}

/* The peer's request is repeated, and what is missing is no error here */
TEST_F(elastic, peer_without_a_queue_pair_accepts_later)
{
    log_capture log(UCS_LOG_LEVEL_WARN);

    start_with(of(1), of(1), "call verb=create_qp nth=2 count=2 errno=ENOMEM");
    exchange();
    EXPECT_GT(vqp_fabric()->fault_hits(), 0u);
    EXPECT_EQ(1u, log_capture::count("is not accepted: Out of memory")) << log.text();
    EXPECT_TRUE(log_capture::has("ibv_create_qp")) << log.text(); /* a warning, too */
    EXPECT_EQ(std::string::npos, log.errors().find("ibv_create_qp"));
    EXPECT_EQ(0u, counted("path_downs"));
}

TEST_F(elastic, path_that_can_not_be_added_is_no_error)
{
    log_capture log(UCS_LOG_LEVEL_WARN);

    start_with(of(4), of(1), "call verb=create_qp nth=6 count=all errno=ENOMEM");
    exchange();
    run_for(0.1);
    EXPECT_GT(vqp_fabric()->fault_hits(), 0u);
    EXPECT_EQ("", log.text());
    EXPECT_EQ(0u, counted("path_adds"));
}

TEST_F(elastic, side_without_failover_keeps_the_paths_of_the_handshake)
{
    start_with(of(4, {{"FAILOVER", "n"}}), of(1));
    EXPECT_EQ(control + 4 + 1, count_qps());
    exchange();
    EXPECT_EQ(control + 4 + 1, count_qps());
    EXPECT_EQ(0u, counted("path_adds"));
}

/* A path is added where it pays */
class elastic_flow : public flow_fixture {
protected:
    static constexpr unsigned num_paths = 4;

    unsigned links_used()
    {
        std::multiset<unsigned> all = links();

        return (unsigned)std::set<unsigned>(all.begin(), all.end()).size();
    }

    /* Puts until trials have shown how many links there are. @a most paths are left */
    void stream_over(unsigned want, unsigned most = num_paths)
    {
        start({{"NUM_PATHS", std::to_string(num_paths)}, {"MIN_PATHS", "1"}});
        prepare();
        EXPECT_TRUE(stream([&] { return links_used() >= want; }, 5));
        EXPECT_FALSE(stream([] { return false; }, 0.2)); /* trials of the last ones */
        EXPECT_LE(want, links_used());
        /* The last trial remains, for which there is no traffic now */
        EXPECT_TRUE(until([&] { return links().size() <= most; }, 1)) << links().size();
        finish();
        EXPECT_EQ(0u, stats_sum(stats.name, "replayed"));
        EXPECT_EQ(0u, stats_sum(stats.name, "silences"));
    }
};

/* The first path under load, without a judgement. What it has counted stays */
TEST_F(elastic_flow, replaces_the_path_with_a_short_queue)
{
    const std::regex replaced("\n    path=0 state=UNUSED [^\n]* frags=[^\n]* bytes=");
    auto status   = exported<decltype(&vqp_status)>("vqp_status");
    bool has_kept = false;

    ASSERT_TRUE(status != NULL);
    start({{"NUM_PATHS", "2"}, {"MIN_PATHS", "1"}});
    prepare();
    EXPECT_EQ((std::multiset<uint64_t> {32}), depths(a->name));
    EXPECT_EQ((std::multiset<uint64_t> {32}), depths(b->name));
    EXPECT_TRUE(stream([&] {
        has_kept |= std::regex_search(status(), replaced);
        return has_kept && (depths(a->name).count(32) == 0) &&
               (depths(b->name).count(32) == 0);
    }, 5));
    EXPECT_LE(1u, depths(a->name).count(256));
    finish();
    EXPECT_EQ(0u, stats_sum(stats.name, "replayed"));
    EXPECT_LT(0u, stats_sum(stats.name, "path_adds"));
    EXPECT_LT(0u, stats_sum(stats.name, "path_drops"));
}

/* The path that was replaced is tried later. It keeps its completion queue */
TEST_F(elastic_flow, tries_a_short_queue_where_there_are_no_more_entries)
{
    bool is_replaced = false;

    start({{"NUM_PATHS", "2"}, {"MIN_PATHS", "1"}});
    prepare();
    faults("call verb=resize_cq nth=1 count=all errno=ENOMEM");
    EXPECT_TRUE(stream([&] {
        is_replaced |= depths(a->name) == std::multiset<uint64_t> {256};
        return is_replaced && (depths(a->name) == std::multiset<uint64_t> {32, 256});
    }, 5));
    EXPECT_GT(vqp_fabric()->fault_hits(), 0u);
    finish();
}

/* All but one: a label takes the last one of four with a chance of 1/4 only, and sixteen of
 * them in a row may miss it */
TEST_F(elastic_flow, uses_links)
{
    unsigned num_links = (unsigned)atoi(getenv("VQP_FABRIC_LINKS"));

    stream_over(std::max(1u, std::min(num_paths, num_links) - 1));
    EXPECT_LT(0u, stats_sum(stats.name, "path_adds"));
}

TEST_F(elastic_flow, ends_trials_on_a_link_that_is_full)
{
    if (atoi(getenv("VQP_FABRIC_LINKS")) > 1) {
        GTEST_SKIP() << "is for a single link";
    }
    stream_over(1, 2);
    EXPECT_LT(0u, stats_sum(stats.name, "path_adds"));
    EXPECT_LT(0u, stats_sum(stats.name, "path_drops"));
}

} /* namespace */
