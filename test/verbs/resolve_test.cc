/* Addresses that are resolved in threads. On Soft-RoCE a missing host is noticed after
 * about a second, on the software fabric at once. */
#include "verbs_fixture.h"

#include "test/fabric/fabric.h"

#include <set>
#include <time.h>

extern "C" {
#include "verbs/resolve.h"
}

namespace {

class resolve : public verbs_test {
protected:
    void SetUp() override
    {
        verbs_test::SetUp();
        if (IsSkipped()) {
            return;
        }

        if ((a->port.link != VQP_IB_LINK_ETH) || !a->gid.is_ipv4) {
            GTEST_SKIP() << "makes addresses by their IPv4 form";
        }

        ASSERT_EQ(VQP_OK, vqp_ib_resolver_init(&m_resolver, &a->dev, 1));
        m_is_open = true;
    }

    void TearDown() override
    {
        if (vqp_fabric() != nullptr) {
            stall(""); /* threads that wait for its end */
        }
        if (m_is_open) {
            vqp_ib_resolver_cleanup(&m_resolver);
        }
        verbs_test::TearDown();
    }

    vqp_ib_av_t av(uint8_t host)
    {
        vqp_ib_av_t av = {};

        av.is_global  = 1;
        av.port       = 1;
        av.sgid_index = a->gid.index;
        av.hop_limit  = 64;
        memcpy(av.dgid, a->gid.raw, sizeof(av.dgid));
        if (host != 0) {
            av.dgid[15] = host; /* the same network */
        }
        return av;
    }

    /* No address resolves, and calls take so long */
    void stall(const std::string &time)
    {
        std::string script = "resolve count=all stall=" + time;
        vqp_fabric()->faults(time.empty() ? NULL : script.c_str(), NULL, 0);
    }

    /* ms, of the clock of the resolver */
    static uint64_t now()
    {
        struct timespec time;

        clock_gettime(CLOCK_MONOTONIC, &time);
        return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
    }

    vqp_status_t once(const vqp_ib_av_t &av)
    {
        return vqp_ib_resolve(&m_resolver, &av);
    }

    /* Ask until it is known */
    vqp_status_t ask(const vqp_ib_av_t &av)
    {
        vqp_status_t status = VQP_INPROGRESS;

        EXPECT_TRUE(eventually([&] {
            status = once(av);
            return status != VQP_INPROGRESS;
        }));
        return status;
    }

    vqp_ib_resolver_t m_resolver;
    bool              m_is_open = false;
};

TEST_F(resolve, address_of_a_host_that_is_there)
{
    for (int i = 0; i < 100; ++i) {
        EXPECT_EQ(VQP_OK, ask(av(0)));
    }
}

TEST_F(resolve, question_does_not_wait_for_a_host_that_is_not_there)
{
    log_capture log;

    for (int i = 0; i < 3; ++i) {
        vqp_status_t status = once(av(250));

        EXPECT_TRUE((status == VQP_INPROGRESS) || (status == VQP_ERR_UNREACHABLE))
                << status;
    }
    EXPECT_EQ(VQP_ERR_UNREACHABLE, ask(av(250)));
    EXPECT_TRUE(log.has("ibv_create_ah"));
    /* It is looked for again. Another address does not wait for that */
    EXPECT_EQ(VQP_OK, ask(av(0)));
    EXPECT_EQ(VQP_ERR_UNREACHABLE, ask(av(250)));
}

/* More than threads, and with those of the second round more than are known */
TEST_F(resolve, many_addresses_that_do_not_resolve_stop_nothing)
{
    if (vqp_fabric() == nullptr) {
        GTEST_SKIP() << "needs the software fabric";
    }

    const unsigned num = VQP_IB_RESOLVE_ADDRS + 8;
    std::set<unsigned> failed;
    unsigned rounds = 0;

    stall("300ms");
    EXPECT_TRUE(eventually([&] {
        ++rounds;
        for (unsigned n = 0; n < num; ++n) {
            unsigned i = (rounds + n) % num; /* timers come in any order */

            if (once(av((uint8_t)(150 + i))) == VQP_ERR_UNREACHABLE) {
                failed.insert(i);
            }
        }
        return failed.size() == num;
    }));
    stall("");
    EXPECT_EQ(VQP_OK, ask(av(0)));
}

/* One question waits for 50 ms, and those of the next second for 2 ms */
TEST_F(resolve, many_questions_do_not_wait_one_after_the_other)
{
    unsigned checked = 0;

    if (vqp_fabric() == nullptr) {
        GTEST_SKIP() << "needs the software fabric";
    }

    stall("10s");
    EXPECT_EQ(VQP_INPROGRESS, once(av(150)));
    for (uint8_t host = 151; (host < 255) && (checked < 3); ++host) {
        uint64_t end = m_resolver.no_wait;

        EXPECT_EQ(VQP_INPROGRESS, once(av(host)));
        if (now() < end) { /* the second was not over */
            EXPECT_EQ(end, m_resolver.no_wait) << "it waited long";
            ++checked;
        }
    }
    EXPECT_EQ(3u, checked);
    stall("");
}

/* As many threads as there may be wait for an answer: then nobody asks */
TEST_F(resolve, questions_wait_for_no_answer)
{
    if (vqp_fabric() == nullptr) {
        GTEST_SKIP() << "needs the software fabric";
    }

    stall("10s");
    for (unsigned i = 0; i < VQP_IB_RESOLVE_ADDRS; ++i) {
        EXPECT_EQ(VQP_INPROGRESS, once(av((uint8_t)(150 + i))));
    }
    EXPECT_TRUE(eventually([] {
        return vqp_fabric()->stalled() == VQP_IB_RESOLVE_THREADS;
    }));
    stall("");
}

TEST_F(resolve, answer_that_is_asked_for_again_needs_no_thread)
{
    if (vqp_fabric() == nullptr) {
        GTEST_SKIP() << "needs the software fabric";
    }

    bool is_checked = false;

    stall("1ms");
    ASSERT_EQ(VQP_ERR_UNREACHABLE, ask(av(0)));
    for (uint8_t host = 150; (host < 255) && !is_checked; ++host) {
        uint64_t start = now(), hits;

        ASSERT_EQ(VQP_ERR_UNREACHABLE, ask(av(host)));
        hits = vqp_fabric()->fault_hits();
        for (int i = 0; i < 3; ++i) {
            EXPECT_EQ(VQP_ERR_UNREACHABLE, once(av(host)));
        }
        if (now() < start + 1000) { /* the answer was good all the time */
            EXPECT_EQ(hits, vqp_fabric()->fault_hits());
            is_checked = true;
        }
    }
    EXPECT_TRUE(is_checked);
    stall("");
    /* It is looked for again, a second later */
    EXPECT_TRUE(eventually([&] {
        return once(av(0)) == VQP_OK;
    }));
}

/* The call that follows has the error */
TEST_F(resolve, wrong_address_is_left_to_others)
{
    vqp_ib_av_t wrong = av(0);

    wrong.port = 77;
    EXPECT_EQ(VQP_OK, ask(wrong));
}

TEST_F(resolve, cleanup_waits_for_the_threads)
{
    (void)once(av(251));
    vqp_ib_resolver_cleanup(&m_resolver);
    ASSERT_EQ(VQP_OK, vqp_ib_resolver_init(&m_resolver, &a->dev, 0));
    /* Not of RoCE: there is nothing to resolve */
    EXPECT_EQ(VQP_OK, once(av(251)));
}

} /* namespace */
