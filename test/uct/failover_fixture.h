/*
 * A pair of interfaces with failover, and faults of the software fabric that take
 * their paths down.
 */
#ifndef VQP_TEST_UCT_FAILOVER_FIXTURE_H
#define VQP_TEST_UCT_FAILOVER_FIXTURE_H

#include "uct_fixture.h"

#include "test/fabric/fabric.h"

#include <list>
#include <string.h>

class failover_fixture : public uct_test {
protected:
    static constexpr size_t size = 1 << 20;

    void SetUp() override
    {
        uct_test::SetUp();
        if (vqp_fabric() == NULL) {
            GTEST_SKIP() << "faults are made by the software fabric";
        }
    }

    void TearDown() override
    {
        if (vqp_fabric() != NULL) {
            vqp_fabric()->faults(NULL, NULL, 0);
        }
        close();
        uct_test::TearDown();
    }

    void start(options config)
    {
        config["FAILOVER"]   = "y";
        config["STATS_FILE"] = stats.name;
        open(config);
        source = std::make_unique<memory>(*a, size);
        target = std::make_unique<memory>(*b, size);
        settle();
    }

    static void faults(const std::string &script)
    {
        char error[128] = "";

        ASSERT_EQ(0, vqp_fabric()->faults(script.c_str(), error,
                                          sizeof(error))) << error;
    }

    void close()
    {
        source.reset();
        target.reset();
        ab.reset();
        ba.reset();
        b.reset();
        a.reset();
    }

    /* Atomics of the first counter: each is executed once */
    void adds(unsigned count)
    {
        memset(target->data, 0, sizeof(uint64_t));
        for (unsigned i = 0; i < count; ++i) {
            ASSERT_EQ(UCS_OK, ab->retry([&] {
                return uct_ep_atomic64_post(*ab, UCT_ATOMIC_OP_ADD, 1,
                                            target->addr(), target->rkey());
            }));
        }
        ASSERT_EQ(UCS_OK, ab->flush());
        EXPECT_EQ(count, *(uint64_t*)target->data);
    }

    /* No endpoint has noticed anything, and paths did fail */
    void expect_survived()
    {
        EXPECT_EQ(UCS_OK, ab->flush());
        EXPECT_EQ(0u, ab->errors);
        EXPECT_EQ(0u, a->errors + b->errors);
        faults("");
        settle();
        close();
        EXPECT_GT(stats_sum(stats.name, "path_downs"), 0u);
    }

    /* A completion that outlives the endpoints, also if the test has failed */
    completion &kept_completion()
    {
        completions.emplace_back();
        return completions.back();
    }

    std::list<completion>   completions;
    temp_file               stats;
    std::unique_ptr<memory> source, target;
};

#endif
