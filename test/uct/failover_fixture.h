/*
 * A pair of interfaces with failover, and faults of the software fabric that take
 * their paths down.
 */
#ifndef VQP_TEST_UCT_FAILOVER_FIXTURE_H
#define VQP_TEST_UCT_FAILOVER_FIXTURE_H

#include "uct_fixture.h"

#include "test/fabric/fabric.h"

#include <dlfcn.h>
#include <list>
#include <set>
#include <stdlib.h>
#include <string.h>

class failover_fixture : public uct_test {
protected:
    static constexpr size_t  size     = 1 << 20;
    static constexpr uint8_t count_id = 30; /* of messages() */

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

    /* A function of the module that is there for tools and debuggers */
    template <typename func_t> static func_t exported(const char *name)
    {
        void *func = dlsym(RTLD_DEFAULT, name);

        EXPECT_TRUE(func != NULL) << "the module does not export " << name;
        return (func_t)func;
    }

    /* Does the first device count what it executes (source psn)? */
    static bool counts()
    {
        static int known = -1;

        if (known < 0) {
            log_capture log(UCS_LOG_LEVEL_DIAG);
            node prober(0, {{"FAILOVER", "y"}});

            known = !log_capture::has("does not count what it executes");
        }
        return known != 0;
    }

    void start(options config)
    {
        config["FAILOVER"]   = "y";
        config["STATS_FILE"] = stats.name;
        config.emplace("NUM_PATHS", "4");
        open(config);
        source = std::make_unique<memory>(*a, size);
        target = std::make_unique<memory>(*b, size);
        settle();
    }

    /* Lengths of the send queues of all queue pairs on a device */
    static std::multiset<uint64_t> depths(const std::string &device)
    {
        uint32_t qpns[64];
        int count = vqp_fabric()->qps(device.c_str(), qpns, 64);
        std::multiset<uint64_t> all;

        for (int i = 0; i < count; ++i) {
            vqp_fabric_traffic_t traffic {};

            if (vqp_fabric()->qp_traffic(device.c_str(), qpns[i], &traffic) == 0) {
                all.insert(traffic.depth);
            }
        }
        return all;
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

    /* Atomics of the first counter: each is executed once. Those that are lost if the
     * device does not count are undecided, see expect_survived(), and the flush says so.
     * Without atomics: messages. */
    void adds(unsigned count)
    {
        ucs_status_t status;

        if (!a->has_atomics()) {
            messages(count);
            return;
        }

        memset(target->data, 0, sizeof(uint64_t));
        for (unsigned i = 0; i < count; ++i) {
            ASSERT_EQ(UCS_OK, ab->retry([&] {
                return uct_ep_atomic64_post(*ab, UCT_ATOMIC_OP_ADD, 1,
                                            target->addr(), target->rkey());
            }));
        }
        status = ab->flush();
        ASSERT_TRUE((status == UCS_OK) || (!counts() && (status == UCS_ERR_IO_ERROR)))
                << status;
        expect_added(count);
    }

    void messages(unsigned count)
    {
        unsigned got = 0;

        b->on_am(count_id, [&](const char*, size_t) {
            ++got;
            return UCS_OK;
        });
        for (unsigned i = 0; i < count; ++i) {
            ASSERT_EQ(UCS_OK, ab->retry([&] {
                return uct_ep_am_short(*ab, count_id, i, NULL, 0);
            }));
        }
        ASSERT_EQ(UCS_OK, ab->flush());
        EXPECT_TRUE(until([&] { return got == count; })) << got;
    }

    /* The first counter, after so many atomics: with source imm some may be missing */
    void expect_added(uint64_t count)
    {
        uint64_t value = *(uint64_t*)target->data;

        EXPECT_LE(value, count);
        missing = count - value;
        if (counts()) {
            EXPECT_EQ(0u, missing);
        }
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
        EXPECT_LE(missing, stats_sum(stats.name, "undecided"));
    }

    /* How often a side has logged, to a log_capture, that it has a path back */
    static unsigned ups() { return log_capture::count("is up again"); }

    /* A completion that outlives the endpoints, also if the test has failed */
    completion &kept_completion()
    {
        completions.emplace_back();
        return completions.back();
    }

    std::list<completion>   completions;
    temp_file               stats;
    uint64_t                missing = 0; /* atomics that were not executed */
    std::unique_ptr<memory> source, target;
};

/* On a bond of two devices that form none by themselves */
class bonded_failover_fixture : public failover_fixture {
protected:
    void SetUp() override
    {
        failover_fixture::SetUp();
        if (IsSkipped()) {
            return;
        }
        if ((devices().size() < 2) || (devices()[0] != "fab0")) {
            GTEST_SKIP() << "needs two devices that form no bond";
        }
        setenv("UCX_VQP_RAILS", "fab0:1,fab1:1", 1);
    }

    void TearDown() override
    {
        failover_fixture::TearDown();
        unsetenv("UCX_VQP_RAILS");
    }
};

#endif
