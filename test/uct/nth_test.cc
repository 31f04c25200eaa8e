/*
 * The n-th call of each verb fails, for each n, and so does the n-th
 * allocation: in set-up, connecting, transfer and teardown. And completions
 * that lie, are missing, or come twice. On the software fabric.
 */
#include "nth_alloc.h"
#include "nth_scenario.h"

#include "test/fabric/fabric.h"

#include <stdlib.h>

static void expect_nothing_left(const std::string &when)
{
    vqp_fabric_objects_t left;

    vqp_fabric()->objects(&left);
    EXPECT_EQ(0u, left.contexts) << when;
    EXPECT_EQ(0u, left.pds) << when;
    EXPECT_EQ(0u, left.mrs) << when;
    EXPECT_EQ(0u, left.channels) << when;
    EXPECT_EQ(0u, left.cqs) << when;
    EXPECT_EQ(0u, left.srqs) << when;
    EXPECT_EQ(0u, left.qps) << when;
    EXPECT_EQ(0u, left.ahs) << when;
}

static void expect_good_manners(const std::string &when)
{
    char text[400];

    vqp_fabric()->violation_text(text, sizeof(text));
    EXPECT_EQ(0u, vqp_fabric()->violations(NULL)) << when << ": " << text;
    vqp_fabric()->violations_reset();
}

class nth : public ::testing::Test {
protected:
    void SetUp() override
    {
        if (vqp_fabric() == nullptr) {
            GTEST_SKIP() << "not on the software fabric";
        }
        vqp_fabric()->violations_reset();
    }

    void TearDown() override
    {
        if (vqp_fabric() != nullptr) {
            faults("");
        }
    }

    static void faults(const std::string &script)
    {
        char error[128] = "";

        ASSERT_EQ(0, vqp_fabric()->faults(script.c_str(), error,
                                          sizeof(error))) << error;
    }

    /* What no program can help, with some faults */
    enum excuse {
        NONE,
        LEAVES,     /* an object that could not be destroyed, and its memory */
        MISCOUNTS,  /* what was posted: a completion came twice, or none can be
                       asked for any more */
        NEEDS_MORE, /* traffic, before it sees the end of what it sent */
    };

    /* Run the program with these faults. @return whether it had any. */
    static bool survives(const std::string &script, excuse excused = NONE)
    {
        ::testing::ScopedTrace trace(__FILE__, __LINE__, script);
        nth_scenario scenario;
        log_capture log;
        uint64_t hits;

        scenario.goes_on   = excused == NEEDS_MORE;
        scenario.endpoints = (script.find("resize_cq") == script.npos) ? 1 : 12;
        faults(script);
        scenario.run();
        hits = vqp_fabric()->fault_hits();
        faults("");
        if ((excused == LEAVES) || (excused == MISCOUNTS)) {
            vqp_fabric()->violations_reset();
        }
        if (excused != LEAVES) {
            expect_nothing_left(script);
        }
        expect_good_manners(script);
        return hits > 0;
    }
};

TEST_F(nth, none_fails)
{
    nth_scenario scenario;

    scenario.run();
    EXPECT_TRUE(scenario.clean());
    expect_nothing_left("at the end");
    expect_good_manners("at the end");
}

/* Many endpoints: the completion queues grow */
TEST_F(nth, none_fails_with_many_endpoints)
{
    nth_scenario scenario;

    scenario.endpoints = 12;
    faults("call verb=resize_cq nth=1000");
    scenario.run();
    EXPECT_TRUE(scenario.clean());
    EXPECT_GT(vqp_fabric()->calls("resize_cq"), 0u);
    expect_nothing_left("at the end");
    expect_good_manners("at the end");
}

/* ---- verbs ---- */

struct nth_verb_param {
    const char *name;
    const char *error;
    unsigned   most;     /* this call is the last that fails */
    bool       destroys; /* it leaves an object behind when it fails */
};

static void PrintTo(const nth_verb_param &param, std::ostream *out)
{
    *out << param.name;
}

class nth_verb : public nth,
                 public ::testing::WithParamInterface<nth_verb_param> {
};

TEST_P(nth_verb, fails_from_then_on)
{
    const nth_verb_param &verb = GetParam();
    unsigned n;

    if (verb.destroys) {
        GTEST_SKIP() << "all that is made would be left";
    }

    for (n = 1; n <= verb.most; n += 1 + n / 16) {
        if (!survives(std::string("call verb=") + verb.name + " nth=" +
                      std::to_string(n) + " count=all errno=" + verb.error,
                      MISCOUNTS) ||
            HasFailure()) {
            break;
        }
    }
}

TEST_P(nth_verb, fails)
{
    const nth_verb_param &verb = GetParam();
    unsigned n;

    for (n = 1; n <= verb.most; ++n) {
        if (!survives(std::string("call verb=") + verb.name + " nth=" +
                      std::to_string(n) + " errno=" + verb.error,
                      verb.destroys ? LEAVES : NONE) ||
            HasFailure()) {
            break;
        }
    }

    EXPECT_GT(n, 1u) << "it is never called";
    printf("    %u calls\n", n - 1);
}

INSTANTIATE_TEST_SUITE_P(
        each, nth_verb,
        ::testing::Values(nth_verb_param{"get_device_list", "EIO", 99, 0},
                          nth_verb_param{"open_device", "EPERM", 99, 0},
                          nth_verb_param{"query_device", "EIO", 99, 0},
                          nth_verb_param{"query_port", "EIO", 99, 0},
                          nth_verb_param{"query_gid", "EIO", 99, 0},
                          nth_verb_param{"query_pkey", "EIO", 99, 0},
                          nth_verb_param{"alloc_pd", "ENOMEM", 99, 0},
                          nth_verb_param{"reg_mr", "ENOMEM", 99, 0},
                          nth_verb_param{"create_comp_channel", "EMFILE", 99,
                                         0},
                          nth_verb_param{"create_cq", "ENOMEM", 99, 0},
                          nth_verb_param{"resize_cq", "ENOMEM", 99, 0},
                          nth_verb_param{"req_notify_cq", "EIO", 60, 0},
                          nth_verb_param{"get_cq_event", "EIO", 60, 0},
                          nth_verb_param{"poll_cq", "EIO", 60, 0},
                          nth_verb_param{"create_qp", "ENOMEM", 99, 0},
                          nth_verb_param{"modify_qp", "EINVAL", 99, 0},
                          nth_verb_param{"post_send", "ENOMEM", 99, 0},
                          nth_verb_param{"post_recv", "ENOMEM", 400, 0},
                          nth_verb_param{"create_ah", "ENOMEM", 99, 0},
                          nth_verb_param{"destroy_ah", "EBUSY", 99, 1},
                          nth_verb_param{"destroy_qp", "EBUSY", 99, 1},
                          nth_verb_param{"destroy_cq", "EBUSY", 99, 1},
                          nth_verb_param{"destroy_comp_channel", "EBUSY", 99,
                                         1},
                          nth_verb_param{"dereg_mr", "EBUSY", 99, 1},
                          nth_verb_param{"dealloc_pd", "EBUSY", 99, 1},
                          nth_verb_param{"close_device", "EBUSY", 99, 1}),
        [](const ::testing::TestParamInfo<nth_verb_param> &info) {
            return std::string(info.param.name);
        });

/* ---- allocations ---- */

TEST_F(nth, allocation_fails)
{
    unsigned most = 0;
    unsigned n    = 0;

    if (!nth_alloc_possible()) {
        GTEST_SKIP() << "a sanitizer has the allocators";
    }

    do {
        ::testing::ScopedTrace trace(__FILE__, __LINE__, std::to_string(++n));
        log_capture log;
        nth_scenario scenario;

        nth_alloc_fail(n);
        scenario.run();
        most = n - 1;
        n    = nth_alloc_failed() ? n : 0;
        nth_alloc_fail(0);
        expect_nothing_left("allocation " + std::to_string(n));
    } while ((n > 0) && (n < 1000) && !HasFailure());
    EXPECT_EQ(0u, n);
    printf("    %u allocations\n", most);
    expect_good_manners("allocations");
}

/* ---- work requests and completions ---- */

/* The program, its n-th send with a fault of this kind, for each n */
#define NTH_WR_TEST(_name, _script, _excuse, _most) \
    TEST_F(nth, _name) \
    { \
        unsigned n; \
        for (n = 1; n <= (_most); ++n) { \
            if (!survives(std::string(_script) + " nth=" + \
                          std::to_string(n) + "; garbage count=all", \
                          _excuse) || \
                HasFailure()) { \
                break; \
            } \
        } \
        EXPECT_GT(n, 1u) << "it met nothing"; \
    }

NTH_WR_TEST(send_is_not_answered, "wr status=RETRY_EXC_ERR", NONE, 40)
NTH_WR_TEST(send_is_refused, "wr status=REM_ACCESS_ERR", NONE, 40)
NTH_WR_TEST(send_fails_at_the_responder, "wr status=REM_OP_ERR", NONE, 40)
NTH_WR_TEST(send_is_executed_and_not_acknowledged, "unacked", NONE, 40)
NTH_WR_TEST(send_completion_is_withheld, "withhold dir=send", NEEDS_MORE, 40)
NTH_WR_TEST(receive_completion_is_withheld, "withhold dir=recv", NEEDS_MORE,
            8)
NTH_WR_TEST(send_completion_comes_twice, "duplicate dir=send", NONE, 20)
NTH_WR_TEST(receive_completion_comes_twice, "duplicate dir=recv", MISCOUNTS,
            20)

TEST_F(nth, receives_are_missing)
{
    nth_scenario scenario;

    faults("rnr p=0.3 count=all; seed value=3");
    scenario.run();
    EXPECT_GT(vqp_fabric()->fault_hits(), 0u);
    faults("");
    expect_nothing_left("RNR");
    expect_good_manners("RNR");
}

TEST_F(nth, all_queue_pairs_break_at_some_time)
{
    for (unsigned us = 0; us <= 4000; us += 200) {
        survives("qp at=" + std::to_string(us) + "us; garbage count=all");
        if (HasFailure()) {
            break;
        }
    }
}

TEST_F(nth, port_goes_down_at_some_time)
{
    for (unsigned us = 0; us <= 4000; us += 400) {
        survives("port dev=" + devices().front() + " at=" +
                 std::to_string(us) + "us for=5s; garbage count=all");
        if (HasFailure()) {
            break;
        }
    }
}
