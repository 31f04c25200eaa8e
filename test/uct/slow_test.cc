/*
 * A path whose flow has a slow link is moved to another flow, while operations are
 * under way. On the software fabric in timed mode, with links that queue pairs take by
 * their flow labels: contrib/fabric-run --mode timed -o CLOCK=virtual -o LINKS=8
 * -o PATH_RATE=8000 -o PORT_RATE=1000000
 */
#include "failover_fixture.h"

#include <stdlib.h>

#include <set>

namespace {

class slow_flow : public failover_fixture {
protected:
    static constexpr unsigned num_paths = 4, num_puts = 8;
    static constexpr size_t put_size = size / num_puts;

    void SetUp() override
    {
        const char *links = getenv("VQP_FABRIC_LINKS");

        failover_fixture::SetUp();
        if (!IsSkipped() && ((links == NULL) || (atoi(links) < 4))) {
            GTEST_SKIP() << "needs links of the fabric";
        }
    }

    /* Links of the sender's paths, some more than once */
    std::multiset<unsigned> links()
    {
        uint32_t qpns[2 * num_paths];
        int count = vqp_fabric()->qps(a->name.c_str(), qpns, 2 * num_paths);
        std::multiset<unsigned> all;

        for (int i = 0; i < count; ++i) {
            vqp_fabric_path_t path {};

            if (vqp_fabric()->qp_path(a->name.c_str(), qpns[i], &path) == 0) {
                all.insert(path.link);
            }
        }
        return all;
    }

    static void act(const std::string &script)
    {
        char error[128] = "";

        ASSERT_EQ(0, vqp_fabric()->act(script.c_str(), error, sizeof(error)))
                << error;
    }

    void start(options config = {})
    {
        std::set<unsigned> taken;

        if (devices().size() < 2) {
            GTEST_SKIP() << "needs two devices";
        }
        config["NUM_PATHS"] = std::to_string(num_paths);
        /* connections that differ by their labels */
        for (unsigned tries = 0; (taken.size() < num_paths) && (tries < 200); ++tries) {
            close();
            failover_fixture::start(config);
            std::multiset<unsigned> all = links();
            taken = std::set<unsigned>(all.begin(), all.end());
        }
        ASSERT_EQ(num_paths, taken.size());
        prepare();
    }

    void prepare()
    {
        source->fill(1);
        for (completion &comp : comps) {
            comp.calls  = 1;
            comp.status = UCS_OK;
        }
    }

    /* Puts without a pause, until the condition holds */
    bool stream(const std::function<bool()> &condition, double seconds)
    {
        return until([&] {
            for (unsigned i = 0; i < num_puts; ++i) {
                if (comps[i].calls == 0) {
                    continue;
                }
                EXPECT_EQ(UCS_OK, comps[i].status);
                uct_iov_t iov        = source->iov(i * put_size, put_size);
                comps[i].calls       = 0;
                comps[i].super.count = 1;
                if (uct_ep_put_zcopy(*ab, &iov, 1, target->addr(i * put_size),
                                     target->rkey(), &comps[i].super) !=
                    UCS_INPROGRESS) {
                    comps[i].calls = 1;
                }
            }
            return condition();
        }, seconds);
    }

    void finish()
    {
        EXPECT_TRUE(until([&] {
            for (completion &comp : comps) {
                if (comp.calls == 0) {
                    return false;
                }
            }
            return true;
        }));
        EXPECT_EQ(0, memcmp(source->data, target->data, size));
        EXPECT_EQ(0u, a->errors + b->errors);
        settle();
        close();
    }

    completion comps[num_puts];
};

TEST_F(slow_flow, that_has_a_slow_link_is_moved_to_another_one)
{
    start();
    if (IsSkipped()) {
        return;
    }
    unsigned link = *links().begin();
    EXPECT_FALSE(stream([] { return false; }, 0.01));
    act("rate path=" + std::to_string(link) + " to=400");
    /* it may get the same one again, and be moved again */
    EXPECT_TRUE(stream([&] { return links().count(link) == 0; }, 20));
    act("rate path=" + std::to_string(link) + " to=8000");
    finish();
    EXPECT_GT(stats_sum(stats.name, "moves"), 0u);
    EXPECT_EQ(0u, stats_sum(stats.name, "replayed"));
    EXPECT_EQ(0u, stats_sum(stats.name, "silences"));
}

TEST_F(slow_flow, that_was_set_stays)
{
    failover_fixture::start({{"NUM_PATHS", "8"}, {"SLOW_PATH", "1ms"},
                             {"PATH_ENTROPY", "1,2,3,4,5,6,7,8"}});
    prepare();
    act("rate path=" + std::to_string(*links().begin()) + " to=400");
    EXPECT_FALSE(stream([] { return false; }, 0.06));
    finish();
    EXPECT_EQ(0u, stats_sum(stats.name, "moves"));
}

TEST_F(slow_flow, stays_with_inf)
{
    start({{"SLOW_PATH", "inf"}});
    if (IsSkipped()) {
        return;
    }
    act("rate path=" + std::to_string(*links().begin()) + " to=400");
    EXPECT_FALSE(stream([] { return false; }, 0.06));
    finish();
    EXPECT_EQ(0u, stats_sum(stats.name, "moves"));
}

} /* namespace */
