/*
 * The table of docs/failover.md, "What is guaranteed": each of its lines, with each
 * source of the count of executed requests. One path fails at a certain request, which
 * was executed or was not. The endpoint goes on. On the software fabric.
 */
#include "failover_fixture.h"

namespace {
ucs_status_t flush_once(const node &side)
{
    return uct_iface_flush(side.iface, UCT_FLUSH_FLAG_LOCAL, NULL);
}

/* Without a completion: repeated until nothing is under way */
ucs_status_t flush_all(const node &side)
{
    ucs_status_t status = UCS_INPROGRESS;

    EXPECT_TRUE(until([&] {
        status = flush_once(side);
        return status != UCS_INPROGRESS;
    }));
    return status;
}

class guarantee_test : public failover_fixture,
                       public ::testing::WithParamInterface<const char*> {
protected:
    /* With source imm the device can not be asked when the interfaces are opened */
    void SetUp() override
    {
        failover_fixture::SetUp();
        if (IsSkipped()) {
            return;
        }
        if (is_exact() && !counts()) {
            GTEST_SKIP() << "the device does not count what it executes";
        }
        if (!is_exact()) {
            log_capture log; /* the query that fails is an error there */

            faults("call verb=query_qp count=all errno=EIO");
            start({{"NUM_PATHS", "1"}});
            faults("");
        } else {
            start({{"NUM_PATHS", "1"}});
        }
        memset(target->data, 0, size);
        source->fill(1);
        b->on_am(1, [this](const char*, size_t) {
            ++messages;
            return UCS_OK;
        });
    }

    bool is_exact() const { return std::string(GetParam()) == "psn"; }

    void message()
    {
        ASSERT_EQ(UCS_OK, ab->retry([&] {
            return uct_ep_am_short(*ab, 1, 0, NULL, 0);
        }));
    }

    void put()
    {
        uct_iov_t iov = source->iov(0, length);

        ASSERT_GE(ab->retry([&] {
            return uct_ep_put_zcopy(*ab, &iov, 1, target->addr(), target->rkey(), NULL);
        }), UCS_OK);
    }

    void add()
    {
        ASSERT_EQ(UCS_OK, ab->retry([&] {
            return uct_ep_atomic64_post(*ab, UCT_ATOMIC_OP_ADD, 1, target->addr(),
                                        target->rkey());
        }));
    }

    completion &fetch(uint64_t *result)
    {
        completion &comp = kept_completion();

        EXPECT_EQ(UCS_INPROGRESS, ab->retry([&] {
            return uct_ep_atomic64_fetch(*ab, UCT_ATOMIC_OP_ADD, 1, result,
                                         target->addr(), target->rkey(), &comp.super);
        }));
        return comp;
    }

    uint64_t counter() const { return *(volatile uint64_t*)target->data; }

    bool has_put() const { return !memcmp(source->data, target->data, length); }

    void flush() { ASSERT_EQ(UCS_OK, ab->flush()); }

    /* The next flush of the endpoint, and of the interface, reports an atomic of which
     * nobody knows whether it was executed */
    void flush_lost(bool is_lost)
    {
        ucs_status_t status = is_lost ? UCS_ERR_IO_ERROR : UCS_OK;

        ASSERT_EQ(status, ab->flush());
        ASSERT_EQ(status, flush_once(*a));
        ASSERT_EQ(UCS_OK, flush_once(*a));
        flush();
    }

    /* Nothing but what the table says was lost, and the endpoint works */
    void end(unsigned undecided)
    {
        unsigned before = messages;

        faults("");
        put();
        message();
        flush();
        EXPECT_TRUE(has_put());
        EXPECT_TRUE(until([&] { return messages == before + 1; }));
        expect_survived();
        EXPECT_EQ(undecided, stats_sum(stats.name, "undecided"));
    }

    static constexpr size_t length = 1000;
    unsigned                messages = 0;
};

/* ---- active messages ---- */

TEST_P(guarantee_test, a_message_comes_once_and_in_order)
{
    unsigned next = 0, bad = 0;

    b->on_am(2, [&](const char *data, size_t) {
        unsigned number;

        memcpy(&number, data, sizeof(number));
        bad += number != next++;
        return UCS_OK;
    });
    for (unsigned i = 0; i < 200; ++i) {
        if ((i % 20) == 5) {
            faults((i % 40) == 5 ? "unacked nth=3 more=2" : "wr nth=3");
        }
        ASSERT_EQ(UCS_OK, ab->retry([&] {
            return uct_ep_am_short(*ab, 2, i, NULL, 0);
        }));
    }
    EXPECT_TRUE(until([&] { return next == 200; })) << next;
    EXPECT_EQ(0u, bad);
    end(0);
    EXPECT_EQ(200u, next);
}

/* ---- puts ---- */

TEST_P(guarantee_test, a_put_that_was_not_executed_is_sent_again)
{
    faults("wr nth=1 op=RDMA_WRITE");
    put();
    flush();
    EXPECT_TRUE(has_put());
    end(0);
}

/* The target is written by somebody else before the put is complete */
TEST_P(guarantee_test, an_executed_put_is_written_again_only_in_the_unknown_part)
{
    faults("unacked nth=1 op=RDMA_WRITE");
    put();
    ASSERT_TRUE(until([&] { return has_put(); }));
    memset(target->data, 0, length);
    flush();
    EXPECT_EQ(!is_exact(), has_put());
    end(0);
}

TEST_P(guarantee_test, a_put_in_front_of_a_received_message_is_not_written_again)
{
    faults("unacked nth=1 op=RDMA_WRITE more=1");
    put();
    message();
    ASSERT_TRUE(until([&] { return messages == 1; }));
    memset(target->data, 0, length);
    flush();
    EXPECT_FALSE(has_put());
    end(0);
}

/* ---- gets ---- */

TEST_P(guarantee_test, a_get_whose_answer_is_lost_is_read_again)
{
    completion &comp = kept_completion();
    uct_iov_t iov;

    target->fill(2);
    iov = source->iov(0, length);
    faults("unacked nth=1 op=RDMA_READ");
    ASSERT_EQ(UCS_INPROGRESS, uct_ep_get_zcopy(*ab, &iov, 1, target->addr(),
                                               target->rkey(), &comp.super));
    EXPECT_TRUE(until([&] { return comp.calls == 1; }));
    EXPECT_EQ(UCS_OK, comp.status);
    EXPECT_TRUE(has_put()); /* they are equal */
    end(0);
    EXPECT_EQ(1, comp.calls);
}

/* ---- atomics without a result ---- */

class guarantee_atomic_test : public guarantee_test {
protected:
    void SetUp() override
    {
        guarantee_test::SetUp();
        if (!IsSkipped()) {
            SKIP_WITHOUT_ATOMICS(*a);
        }
    }
};

TEST_P(guarantee_atomic_test, an_executed_add_is_not_repeated)
{
    faults("unacked nth=1 op=ATOMIC_FETCH_AND_ADD");
    add();
    flush_lost(!is_exact());
    EXPECT_EQ(1u, counter());
    end(is_exact() ? 0 : 1);
}

TEST_P(guarantee_atomic_test, an_executed_add_in_front_of_a_received_message_is_decided)
{
    faults("unacked nth=1 op=ATOMIC_FETCH_AND_ADD more=1");
    add();
    message();
    ASSERT_TRUE(until([&] { return messages == 1; }));
    flush();
    EXPECT_EQ(1u, counter());
    end(0);
}

TEST_P(guarantee_atomic_test, an_add_that_was_not_executed_is_repeated_only_if_that_is_known)
{
    log_capture log(UCS_LOG_LEVEL_WARN);

    faults("wr nth=1 op=ATOMIC_FETCH_AND_ADD");
    add();
    flush_lost(!is_exact());
    EXPECT_EQ(is_exact() ? 1u : 0u, counter());
    end(is_exact() ? 0 : 1);
    EXPECT_EQ(is_exact() ? 0u : 1u, log_capture::count("went down with atomics"));
}

/* A port that fails takes down many paths: one line is enough for an administrator */
TEST_P(guarantee_atomic_test, only_the_first_loss_is_a_warning)
{
    log_capture log(UCS_LOG_LEVEL_WARN);

    for (unsigned i = 0; i < 2; ++i) {
        faults("wr nth=1 op=ATOMIC_FETCH_AND_ADD");
        add();
        flush_lost(!is_exact());
        faults("");
        put();
        flush();
    }
    end(is_exact() ? 0 : 2);
    EXPECT_EQ(is_exact() ? 0u : 1u, log_capture::count("went down with atomics"));
}

/* Flushes with a completion, which wait while the path fails */
TEST_P(guarantee_atomic_test, flushes_that_wait_report_a_lost_add)
{
    ucs_status_t status = is_exact() ? UCS_OK : UCS_ERR_IO_ERROR;
    completion &own = kept_completion(), &all = kept_completion();

    faults("wr nth=1 op=ATOMIC_FETCH_AND_ADD");
    add();
    ASSERT_EQ(UCS_INPROGRESS, uct_ep_flush(*ab, UCT_FLUSH_FLAG_LOCAL, &own.super));
    ASSERT_EQ(UCS_INPROGRESS, uct_iface_flush(a->iface, UCT_FLUSH_FLAG_LOCAL, &all.super));
    EXPECT_TRUE(until([&] { return (own.calls == 1) && (all.calls == 1); }));
    EXPECT_EQ(status, own.status);
    EXPECT_EQ(status, all.status);
    flush_lost(false);
    end(is_exact() ? 0 : 1);
}

TEST_P(guarantee_atomic_test, a_lost_add_of_an_endpoint_that_was_destroyed_is_reported)
{
    ucs_status_t status = is_exact() ? UCS_OK : UCS_ERR_IO_ERROR;
    int qps             = count_qps();

    faults("wr nth=1 op=ATOMIC_FETCH_AND_ADD");
    add();
    ASSERT_EQ(status, ab->flush());
    faults("");
    ab.reset();
    EXPECT_TRUE(until([&] { return count_qps() == qps - 2; }));
    EXPECT_EQ(status, flush_once(*a));
    EXPECT_EQ(UCS_OK, flush_once(*a));
}

TEST_P(guarantee_atomic_test, a_new_endpoint_reports_no_loss_of_an_older_one)
{
    unsigned back = 0;

    a->on_am(2, [&](const char*, size_t) {
        ++back;
        return UCS_OK;
    });
    connect_back();
    EXPECT_EQ(UCS_OK, ba->retry([&] { return uct_ep_am_short(*ba, 2, 0, NULL, 0); }));
    EXPECT_TRUE(until([&] { return back == 1; }));
    faults("wr nth=1 op=ATOMIC_FETCH_AND_ADD");
    add();
    EXPECT_EQ(is_exact() ? UCS_OK : UCS_ERR_IO_ERROR, flush_all(*a));
    faults("");
    ab.reset(); /* the connection stays: the peer uses it */
    run_for(0.1); /* both sides have agreed on that */
    ab = std::make_unique<endpoint>(*a, *b);
    EXPECT_EQ(UCS_OK, ab->flush());
    put();
    EXPECT_EQ(UCS_OK, ab->flush());
}

TEST_P(guarantee_atomic_test, a_loss_waits_until_no_connection_has_ops_in_flight)
{
    endpoint other(*a, *b);
    uct_iov_t iov       = source->iov(0, length);
    ucs_status_t status = is_exact() ? UCS_OK : UCS_ERR_IO_ERROR;

    ASSERT_EQ(UCS_OK, other.retry([&] {
        return uct_ep_am_short(other, 1, 0, NULL, 0);
    }));
    ASSERT_EQ(UCS_OK, other.flush());
    faults("wr nth=1 op=ATOMIC_FETCH_AND_ADD");
    add();
    ASSERT_EQ(status, ab->flush());
    faults("");
    ASSERT_GE(uct_ep_put_zcopy(other, &iov, 1, target->addr(), target->rkey(), NULL),
              UCS_OK);
    EXPECT_EQ(UCS_INPROGRESS, flush_once(*a));
    EXPECT_EQ(status, flush_all(*a));
    EXPECT_EQ(UCS_OK, flush_once(*a));
}

TEST_P(guarantee_atomic_test, a_flush_that_cancels_keeps_a_loss_for_the_interface)
{
    ucs_status_t status = is_exact() ? UCS_OK : UCS_ERR_IO_ERROR;

    faults("wr nth=1 op=ATOMIC_FETCH_AND_ADD");
    add();
    ASSERT_EQ(status, ab->flush());
    faults("");
    (void)uct_ep_flush(*ab, UCT_FLUSH_FLAG_CANCEL, NULL);
    EXPECT_EQ(status, flush_once(*a));
    EXPECT_EQ(UCS_OK, flush_once(*a));
}

/* UCP flushes several lanes at a time, and looks at the completions */
TEST_P(guarantee_atomic_test, a_flush_with_a_completion_brings_a_loss_to_it)
{
    completion &comp = kept_completion();
    ucs_status_t status;

    faults("wr nth=1 op=ATOMIC_FETCH_AND_ADD");
    add();
    (void)flush_all(*a);
    faults("");
    status = uct_ep_flush(*ab, UCT_FLUSH_FLAG_LOCAL, &comp.super);
    if (is_exact()) {
        EXPECT_EQ(UCS_OK, status);
        return;
    }
    EXPECT_EQ(UCS_INPROGRESS, status);
    EXPECT_TRUE(until([&] { return comp.calls == 1; }));
    EXPECT_EQ(UCS_ERR_IO_ERROR, comp.status);
    flush();
}

/* With auto the connection fails after its endpoint was destroyed: nobody but a flush of
 * the interface says so, whether it waits or comes later */
TEST_F(failover_fixture, a_lost_add_is_reported_although_its_endpoint_is_gone)
{
    for (bool waits : {true, false}) {
        completion &comp = kept_completion();
        log_capture log;
        int qps;

        faults("call verb=query_qp count=all errno=EIO");
        open({{"NUM_PATHS", "1"}, {"FAILOVER", "auto"}});
        faults("");
        SKIP_WITHOUT_ATOMICS(*a);
        source = std::make_unique<memory>(*a, size);
        target = std::make_unique<memory>(*b, size);
        settle();
        qps = count_qps();
        faults("wr nth=1 op=ATOMIC_FETCH_AND_ADD");
        ASSERT_EQ(UCS_OK, ab->retry([&] {
            return uct_ep_atomic64_post(*ab, UCT_ATOMIC_OP_ADD, 1, target->addr(),
                                        target->rkey());
        }));
        if (waits) {
            ASSERT_EQ(UCS_INPROGRESS, uct_iface_flush(a->iface, UCT_FLUSH_FLAG_LOCAL,
                                                      &comp.super));
        }
        ab.reset();
        if (waits) {
            EXPECT_TRUE(until([&] { return comp.calls == 1; }));
            EXPECT_EQ(UCS_ERR_IO_ERROR, comp.status);
        } else {
            EXPECT_TRUE(until([&] { return count_qps() <= qps - 2; }));
            EXPECT_EQ(UCS_ERR_IO_ERROR, flush_all(*a));
        }
        faults("");
        EXPECT_EQ(UCS_OK, flush_once(*a));
        close();
    }
}

/* ---- fetching atomics ---- */

TEST_P(guarantee_atomic_test, a_fetch_whose_result_is_lost_ends_alone_in_an_error)
{
    uint64_t results[3] = {7, 7, 7};
    completion *comps[3];

    comps[0] = &fetch(&results[0]);
    flush();
    faults("unacked nth=1 op=ATOMIC_FETCH_AND_ADD");
    comps[1] = &fetch(&results[1]);
    put();
    flush();
    EXPECT_EQ(UCS_ERR_IO_ERROR, comps[1]->status);
    EXPECT_TRUE(has_put());
    memset(target->data, 0, length);
    comps[2] = &fetch(&results[2]);
    flush();
    EXPECT_EQ(UCS_OK, comps[0]->status);
    EXPECT_EQ(UCS_OK, comps[2]->status);
    EXPECT_EQ(0u, results[0]);
    EXPECT_EQ(0u, results[2]);
    EXPECT_EQ(1u, counter());
    end(1);
    for (completion *comp : comps) {
        EXPECT_EQ(1, comp->calls);
    }
}

TEST_P(guarantee_atomic_test, a_lost_result_is_an_error_in_front_of_a_received_message_too)
{
    uint64_t result = 7;
    completion *comp;

    faults("unacked nth=1 op=ATOMIC_FETCH_AND_ADD more=1");
    comp = &fetch(&result);
    message();
    ASSERT_TRUE(until([&] { return messages == 1; }));
    flush();
    EXPECT_EQ(UCS_ERR_IO_ERROR, comp->status);
    EXPECT_EQ(1u, counter());
    end(1);
    EXPECT_EQ(1, comp->calls);
}

TEST_P(guarantee_atomic_test, a_fetch_that_was_not_executed_is_repeated_only_if_that_is_known)
{
    uint64_t result = 7;
    completion *comp;

    faults("wr nth=1 op=ATOMIC_FETCH_AND_ADD");
    comp = &fetch(&result);
    flush();
    if (is_exact()) {
        EXPECT_EQ(UCS_OK, comp->status);
        EXPECT_EQ(0u, result);
        EXPECT_EQ(1u, counter());
    } else {
        EXPECT_EQ(UCS_ERR_IO_ERROR, comp->status);
        EXPECT_EQ(0u, counter());
    }
    end(is_exact() ? 0 : 1);
    EXPECT_EQ(1, comp->calls);
}

std::string source_name(const ::testing::TestParamInfo<const char*> &info)
{
    return info.param;
}

INSTANTIATE_TEST_SUITE_P(source, guarantee_test, ::testing::Values("psn", "imm"),
                         source_name);
INSTANTIATE_TEST_SUITE_P(source, guarantee_atomic_test,
                         ::testing::Values("psn", "imm"), source_name);

} /* namespace */
