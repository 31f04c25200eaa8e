/*
 * The n-th call of each verb fails, for each n, and so does the n-th
 * allocation: in set-up, connecting, transfer and teardown. And completions
 * that are wrong, are missing, or come twice. On the software fabric.
 */
#include "nth_alloc.h"
#include "nth_scenario.h"

#include "test/fabric/fabric.h"

#include <stdlib.h>

#include <algorithm>
#include <iterator>

/* Tests in which destroying fails leave objects: those of @a before are left still */
static void expect_no_more_left(const std::string &when,
                                const vqp_fabric_objects_t &before)
{
    vqp_fabric_objects_t left;

    vqp_fabric()->objects(&left);
    EXPECT_EQ(before.contexts, left.contexts) << when;
    EXPECT_EQ(before.pds, left.pds) << when;
    EXPECT_EQ(before.mrs, left.mrs) << when;
    EXPECT_EQ(before.channels, left.channels) << when;
    EXPECT_EQ(before.cqs, left.cqs) << when;
    EXPECT_EQ(before.srqs, left.srqs) << when;
    EXPECT_EQ(before.qps, left.qps) << when;
    EXPECT_EQ(before.ahs, left.ahs) << when;
}

static void expect_nothing_left(const std::string &when)
{
    expect_no_more_left(when, {});
}

static void expect_no_violations(const std::string &when)
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
        static bool warm = false;

        vqp_fabric()->violations_reset();
        more.clear();
        may_leave = false;
        if (!warm) {
            warm = true;
            warm_up();
        }
    }

    void TearDown() override
    {
        if (vqp_fabric() != nullptr) {
            faults("");
        }
    }

    /* Once for all tests: fills what UCX, the fabric and the log keep until the
     * process ends, which is no leak */
    static void warm_up()
    {
        play(1, false, false, false);
        for (const char *script : {"qp at=0us; garbage count=all",
                                   "call verb=create_qp nth=1 errno=ENOMEM"}) {
            faults(script);
            play(1, false, false, false);
            faults("");
        }
        if (nth_alloc_possible()) {
            nth_alloc_fail(1);
            play(1, false, false, false);
            nth_alloc_fail(0);
        }
        vqp_fabric()->violations_reset();
    }

    /* What no program can help, with some faults */
    enum excuse {
        NONE,
        LEAVES,     /* an object that could not be destroyed, and its memory */
        MISCOUNTS,  /* what was posted: a completion came twice, or none can be
                       asked for any more */
        NEEDS_MORE, /* traffic, before it sees the end of what it sent */
        DOWN        /* no port to open: that is no failure, and not logged */
    };

    /* Options of the interfaces */
    static options more;

    /* Objects may be left */
    static bool may_leave;

    /* Run the program with these faults. @return whether it had any. */
    static bool survives(const std::string &script, excuse excused = NONE)
    {
        ::testing::ScopedTrace trace(__FILE__, __LINE__, script);
        bool met = false;

        may_leave = excused == LEAVES;
        expect_balance(!may_leave, [&] {
            uint64_t hits;

            faults(script);
            play((script.find("resize_cq") == script.npos) ? 1 : 12,
                 excused == NEEDS_MORE, excused == DOWN, is_printed(script));
            hits = vqp_fabric()->fault_hits();
            faults("");
            met = hits > 0;
            if ((excused == LEAVES) || (excused == MISCOUNTS)) {
                vqp_fabric()->violations_reset();
            }
            if (excused != LEAVES) {
                expect_nothing_left(script);
            }
            expect_no_violations(script);
        });
        return met;
    }

    /* Calls whose failure UCX prints by default. A GID that can not be used is passed
     * over, which is no more than a diagnosis */
    static bool is_printed(const std::string &script)
    {
        return (script.find("call ") == 0) && (script.find("query_gid") == script.npos) &&
               (script.find("create_ah") == script.npos);
    }

    /* Run the program once: a failure is explained in the log, by a line that
     * names the object */
    static void play(unsigned endpoints, bool goes_on, bool down, bool printed)
    {
        log_capture log(UCS_LOG_LEVEL_DIAG);
        nth_scenario scenario;

        scenario.more      = more;
        scenario.goes_on   = goes_on;
        scenario.endpoints = endpoints;
        scenario.run();
        if (!scenario.clean() && !nth_alloc_failed_in_ucx() &&
            (!scenario.absent() || !down)) {
            EXPECT_TRUE(names_object(printed ? log.reasons() : log.complaints()))
                    << "it failed, and this was logged:\n" << log.text();
        }
        expect_no_errors(scenario);
    }

    /* A fault that was repaired is no error; what could not be destroyed is one */
    static void expect_no_errors(const nth_scenario &scenario)
    {
        std::string errors = scenario.all_done() ? log_capture::errors() : "";

        if (!may_leave) {
            EXPECT_EQ("", errors) << log_capture::text();
        }
    }

    /* What these lines are about: a device, a connection, a rail, memory */
    static bool names_object(const std::string &lines)
    {
        static const std::string names[] = {
            devices().front(), "vqp ", "rail ", "failed to allocate ", "failed to map ",
            "ibv_get_device_list()",
        };

        return std::any_of(std::begin(names), std::end(names),
                           [&](const std::string &name) {
                               return lines.find(name) != lines.npos;
                           });
    }

    /* Check that @a func frees and unmaps all its memory. Which parts of the
     * program run depends on time: a part that runs for the first time fills a
     * cache. So memory is a leak only if some is left after each of many runs.
     * Another run is reported in a line that contrib/check.sh counts. */
    static void expect_balance(bool must, const std::function<void()> &func)
    {
        const unsigned runs = 20;
        long live = 0, mapped = 0;

        for (unsigned i = 0; i < runs; ++i) {
            if (balanced(func, live, mapped) || !must || HasFailure()) {
                return;
            }
            printf("# retried: %s (%ld pieces of memory, %ld bytes mapped are left)\n",
                   ::testing::UnitTest::GetInstance()->current_test_info()->name(),
                   live, mapped);
        }
        ADD_FAILURE() << live << " pieces of memory leak each time, " << mapped
                      << " bytes stay mapped";
    }

    static bool balanced(const std::function<void()> &func, long &live,
                         long &mapped)
    {
        live   = nth_alloc_live();
        mapped = nth_alloc_mapped();
        func();
        live   = nth_alloc_live() - live;
        mapped = nth_alloc_mapped() - mapped;
        return (live <= 0) && (mapped == 0);
    }
};

options nth::more;
bool nth::may_leave;

/* Nothing fails: a busy machine may take long to connect */
static const options never_early = {{"CONNECT_TIMEOUT", "1000s"}, {"GAP_TIMEOUT", "1000s"}};

/* Registrations end with their deregistration, or are kept until the domain ends */
TEST_F(nth, none_fails)
{
    for (const char *is_kept : {"n", "y"}) {
        setenv("UCX_VQP_RCACHE", is_kept, 1);
        expect_balance(true, [] {
            nth_scenario scenario;

            scenario.more = never_early;
            scenario.run();
            EXPECT_TRUE(scenario.clean());
            expect_nothing_left("at the end");
            expect_no_violations("at the end");
        });
    }
    unsetenv("UCX_VQP_RCACHE");
}

/* Many endpoints: the completion queues grow */
TEST_F(nth, none_fails_with_many_endpoints)
{
    nth_scenario scenario;

    scenario.more      = never_early;
    scenario.endpoints = 12;
    faults("call verb=resize_cq nth=1000");
    scenario.run();
    EXPECT_TRUE(scenario.clean());
    EXPECT_GT(vqp_fabric()->calls("resize_cq"), 0u);
    expect_nothing_left("at the end");
    expect_no_violations("at the end");
}

/* ---- verbs ---- */

struct nth_verb_param {
    const char *name;
    const char *error;
    unsigned   each;     /* each call up to this one fails, then every eighth
                            part further one does, to the last that there is */
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

    for (n = 1;; n += 1 + n / 16) {
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
    unsigned n, met = 0;

    for (n = 1;; n += (n < verb.each) ? 1 : n / 8) {
        if (!survives(std::string("call verb=") + verb.name + " nth=" +
                      std::to_string(n) + " errno=" + verb.error,
                      verb.destroys ? LEAVES : NONE) ||
            HasFailure()) {
            break;
        }
        ++met;
    }

    EXPECT_GT(met, 0u) << "it is never called";
    if (met == n - 1) {
        printf("    %u calls, each failed\n", met);
    } else {
        printf("    %u of less than %u calls failed: each of the first %u\n",
               met, n, verb.each);
    }
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

    more["TELEMETRY"] = "on"; /* it allocates, too */
    do {
        ::testing::ScopedTrace trace(__FILE__, __LINE__, std::to_string(++n));
        bool met = false;

        expect_balance(true, [&] {
            nth_alloc_fail(n);
            play(1, false, false, true);
            met = nth_alloc_failed();
            nth_alloc_fail(0);
            expect_nothing_left("allocation " + std::to_string(n));
        });
        most = n - 1;
        n    = met ? n : 0;
    } while ((n > 0) && (n < 1000) && !HasFailure());
    EXPECT_EQ(0u, n);
    printf("    %u allocations\n", most);
    expect_no_violations("allocations");
}

/* ---- while a path fails and comes back ---- */

class nth_failover : public nth {
protected:
    void SetUp() override
    {
        static bool warm = false;

        nth::SetUp();
        if (!IsSkipped() && !warm) {
            warm = true;
            fail_in_failover("", 0, true);
        }
    }

    /* A path fails with requests that were executed and not acknowledged, in front
     * of the n-th call (of @a script) or allocation (not 0), which fails. The endpoint
     * must live, and the path come back. @return whether the call did fail. */
    static bool survives(const std::string &script, unsigned allocation,
                         bool leaves, bool exact)
    {
        ::testing::ScopedTrace trace(__FILE__, __LINE__,
                                     script + std::to_string(allocation));
        vqp_fabric_objects_t before;
        bool met = false;

        may_leave = leaves;
        vqp_fabric()->objects(&before);
        expect_balance(!leaves, [&] {
            met = fail_in_failover(script, allocation, exact);
            if (leaves || only_qps_left(script)) {
                vqp_fabric()->violations_reset();
            }
            if (!leaves) {
                expect_no_more_left(script, before);
            }
            expect_no_violations(script);
        });
        return met;
    }

private:
    /* A queue pair that can not be moved to ERR is destroyed with its completions */
    static bool only_qps_left(const std::string &script)
    {
        return (script.find("verb=modify_qp") != script.npos) &&
               (vqp_fabric()->violations(NULL) == vqp_fabric()->violations("qp_left"));
    }

    static bool fail_in_failover(const std::string &script, unsigned allocation,
                                 bool exact)
    {
        log_capture log(UCS_LOG_LEVEL_DIAG);
        nth_scenario scenario;
        bool met = false;

        scenario.exact     = exact;
        scenario.more      = never_early;
        scenario.fail_path = [&] {
            faults("unacked nth=3 more=2; " + script);
            nth_alloc_fail(allocation);
        };
        scenario.is_over   = [] { return ups() >= 2; };
        scenario.run();
        /* the request that was not acknowledged is a fault, too */
        met = (allocation == 0) ? (vqp_fabric()->fault_hits() > 1) :
                                  nth_alloc_failed();
        nth_alloc_fail(0);
        faults("");
        EXPECT_TRUE(scenario.all_done()) << log_capture::text();
        expect_no_errors(scenario);
        return met;
    }

    /* Sides that have the path back */
    static unsigned ups() { return log_capture::count("is up again"); }
};

TEST_F(nth_failover, none_fails)
{
    EXPECT_FALSE(survives("", 0, false, true));
}

TEST_F(nth_failover, allocation_fails)
{
    unsigned n = 1;

    if (!nth_alloc_possible()) {
        GTEST_SKIP() << "a sanitizer has the allocators";
    }
    while (survives("", n, false, true) && !HasFailure() && (n < 200)) {
        ++n;
    }
    printf("    %u allocations\n", n - 1);
}

class nth_failover_verb : public nth_failover,
                          public ::testing::WithParamInterface<nth_verb_param> {
};

TEST_P(nth_failover_verb, fails)
{
    const nth_verb_param &verb = GetParam();
    std::string name           = verb.name;
    unsigned n, met            = 0;

    for (n = 1;; n += (n < verb.each) ? 1 : n / 4) {
        /* a queue pair that can not be moved to ERR or queried has source imm */
        if (!survives("call verb=" + name + " nth=" + std::to_string(n) + " errno=" +
                      verb.error, 0, verb.destroys,
                      (name != "query_qp") && (name != "modify_qp")) ||
            HasFailure()) {
            break;
        }
        ++met;
    }
    EXPECT_GT(met, 0u) << "it is never called";
    printf("    %u of less than %u calls failed\n", met, n);
}

INSTANTIATE_TEST_SUITE_P(
        each, nth_failover_verb,
        ::testing::Values(nth_verb_param{"query_port", "EIO", 40, 0},
                          nth_verb_param{"query_qp", "EIO", 40, 0},
                          nth_verb_param{"create_qp", "ENOMEM", 40, 0},
                          nth_verb_param{"modify_qp", "EINVAL", 40, 0},
                          nth_verb_param{"poll_cq", "EIO", 20, 0},
                          nth_verb_param{"post_send", "ENOMEM", 40, 0},
                          nth_verb_param{"post_recv", "ENOMEM", 40, 0},
                          nth_verb_param{"destroy_qp", "EBUSY", 40, 1}),
        [](const ::testing::TestParamInfo<nth_verb_param> &info) {
            return std::string(info.param.name);
        });

/* ---- work requests and completions ---- */

/* The program, its n-th send with a fault of this kind, for each n */
#define NTH_WR_TEST(_name, _script, _excuse, ...) \
    TEST_F(nth, _name) \
    { \
        unsigned n, met = 0; \
        more = options{__VA_ARGS__}; \
        for (n = 1;; n += (n < 40) ? 1 : n / 8) { \
            if (!survives(std::string(_script) + " nth=" + \
                          std::to_string(n) + "; garbage count=all", \
                          _excuse) || \
                HasFailure()) { \
                break; \
            } \
            ++met; \
        } \
        EXPECT_GT(met, 0u) << "it met nothing"; \
        printf("    %u of them, in a program of less than %u\n", met, n); \
    }

NTH_WR_TEST(send_is_not_answered, "wr status=RETRY_EXC_ERR", NONE)
NTH_WR_TEST(send_is_refused, "wr status=REM_ACCESS_ERR", NONE)
NTH_WR_TEST(send_fails_at_the_responder, "wr status=REM_OP_ERR", NONE)
NTH_WR_TEST(send_is_executed_and_not_acknowledged, "unacked", NONE)
/* A path that fails waits for the completion of each of its sends: no such device can
 * have failover */
NTH_WR_TEST(send_completion_is_withheld, "withhold dir=send", NEEDS_MORE,
            {"FAILOVER", "n"}, {"SCHED", "rr"}) /* left does not use such a path */
NTH_WR_TEST(receive_completion_is_withheld, "withhold dir=recv", NEEDS_MORE)
NTH_WR_TEST(send_completion_comes_twice, "duplicate dir=send", NONE,
            {"FAILOVER", "n"})
NTH_WR_TEST(receive_completion_comes_twice, "duplicate dir=recv", MISCOUNTS)

TEST_F(nth, receives_are_missing)
{
    nth_scenario scenario;

    faults("rnr p=0.3 count=all; seed value=3");
    scenario.run();
    EXPECT_GT(vqp_fabric()->fault_hits(), 0u);
    faults("");
    expect_nothing_left("RNR");
    expect_no_violations("RNR");
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
                 std::to_string(us) + "us for=5s; garbage count=all", DOWN);
        if (HasFailure()) {
            break;
        }
    }
}
