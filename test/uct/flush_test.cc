/*
 * A completed flush means that everything posted before it is complete, also
 * at the peer. Refused operations wait as pending requests, in order.
 */
#include "nth_alloc.h"
#include "pending_op.h"
#include "transfer_fixture.h"

#include "test/fabric/fabric.h"

#include <uct/api/version.h>

#include <deque>

class flush_test : public transfer_test {
protected:
    void connect(const options &config = {}) { transfer_test::connect(config, size); }

    ucs_status_t put(size_t length, completion *comp)
    {
        uct_iov_t iov = source->iov(0, length);

        return uct_ep_put_zcopy(*ab, &iov, 1, target->addr(), target->rkey(),
                                comp ? &comp->super : NULL);
    }

    /* Post short AMs until one is refused */
    unsigned fill_up()
    {
        unsigned count = 0;

        b->on_am(1, [](const char *, size_t) { return UCS_OK; });
        while (uct_ep_am_short(*ab, 1, count, NULL, 0) == UCS_OK) {
            ++count;
        }
        return count;
    }

    static constexpr size_t size = 1 << 20;
};

TEST_F(flush_test, of_an_idle_endpoint_is_ok)
{
    connect();
    completion comp;

    EXPECT_EQ(UCS_OK, uct_ep_flush(*ab, 0, &comp.super));
    EXPECT_EQ(UCS_OK, uct_ep_flush(*ab, 0, NULL));
    EXPECT_EQ(UCS_OK, uct_iface_flush(a->iface, 0, NULL));
    EXPECT_EQ(0, comp.calls);
}

TEST_F(flush_test, of_an_endpoint_that_was_never_used_is_ok)
{
    open();
    EXPECT_EQ(UCS_OK, ab->flush());
}

TEST_F(flush_test, completes_after_all_that_was_posted_before)
{
    connect();
    completion put_comp, flush_comp;

    ASSERT_EQ(UCS_INPROGRESS, post([&] { return put(size, &put_comp); }));
    EXPECT_EQ(UCS_INPROGRESS, post([&] {
        return uct_ep_flush(*ab, 0, &flush_comp.super);
    }));
    ASSERT_TRUE(until([&] { return flush_comp.calls == 1; }));
    EXPECT_EQ(1, put_comp.calls);
    EXPECT_EQ(&put_comp, completion::order.at(0));
    EXPECT_EQ(0, memcmp(target->data, source->data, size));
}

TEST_F(flush_test, does_not_wait_for_what_comes_later)
{
    connect();
    completion first, flush_comp, later;

    ASSERT_EQ(UCS_INPROGRESS, put(100, &first));
    ASSERT_EQ(UCS_INPROGRESS, uct_ep_flush(*ab, 0, &flush_comp.super));
    for (int i = 0; i < 20; ++i) {
        (void)ab->retry([&] { return put(size, NULL); });
    }
    EXPECT_TRUE(until([&] { return flush_comp.calls == 1; }));
    EXPECT_EQ(UCS_OK, ab->flush());
}

TEST_F(flush_test, confirms_operations_that_have_no_completion)
{
    connect(no_failover()); /* its looks would bring completions of their own */
    uint64_t value = 7;

    for (int i = 0; i < 5; ++i) {
        completion comp;

        ASSERT_EQ(UCS_OK, ab->retry([&] {
            return uct_ep_put_short(*ab, &value, 8, target->addr(),
                                    target->rkey());
        }));
        ASSERT_EQ(UCS_INPROGRESS, uct_ep_flush(*ab, 0, &comp.super));
        ASSERT_TRUE(until([&] { return comp.calls == 1; }));
        EXPECT_EQ(value++, *(uint64_t*)target->data);
    }
}

TEST_F(flush_test, of_the_interface_is_for_all_its_endpoints)
{
    connect();
    endpoint other(*a, *b);
    completion comps[2], flush_comp;
    uct_iov_t iov = source->iov(0, size);

    ASSERT_EQ(UCS_INPROGRESS, put(size, &comps[0]));
    ASSERT_EQ(UCS_INPROGRESS, other.retry([&] {
        return uct_ep_put_zcopy(other, &iov, 1, target->addr(), target->rkey(),
                                &comps[1].super);
    }));
    ASSERT_EQ(UCS_INPROGRESS, uct_iface_flush(a->iface, 0, &flush_comp.super));
    EXPECT_EQ(0, flush_comp.calls);
    ASSERT_TRUE(until([&] { return flush_comp.calls == 1; }));
    EXPECT_EQ(1, comps[0].calls);
    EXPECT_EQ(1, comps[1].calls);
    ASSERT_TRUE(until([&] {
        return uct_iface_flush(a->iface, 0, NULL) == UCS_OK;
    }));
}

TEST_F(flush_test, of_the_interface_ends_well_when_an_endpoint_is_destroyed)
{
    connect();
    completion put_comp, flush_comp;

    ASSERT_EQ(UCS_INPROGRESS, put(size, &put_comp));
    ASSERT_EQ(UCS_INPROGRESS, uct_iface_flush(a->iface, 0, &flush_comp.super));
    ab->destroy();
    ASSERT_TRUE(until([&] { return flush_comp.calls == 1; }));
    EXPECT_EQ(UCS_OK, flush_comp.super.status);
    EXPECT_EQ(1, put_comp.calls);
    EXPECT_EQ(UCS_ERR_CANCELED, put_comp.super.status);
}

TEST_F(flush_test, of_the_interface_does_not_begin_without_memory)
{
    if (!nth_alloc_possible()) {
        GTEST_SKIP() << "a sanitizer has the allocators";
    }

    connect();
    completion put_comp, flush_comp;
    log_capture quiet;

    ASSERT_EQ(UCS_INPROGRESS, put(size, &put_comp));
    nth_alloc_fail(1);
    EXPECT_EQ(UCS_ERR_NO_MEMORY,
              uct_iface_flush(a->iface, 0, &flush_comp.super));
    EXPECT_TRUE(nth_alloc_failed());
    nth_alloc_fail(0);
    EXPECT_TRUE(until([&] { return put_comp.calls == 1; }));
    EXPECT_EQ(UCS_OK, ab->flush());
    EXPECT_EQ(0, flush_comp.calls);
}

/* Each flush takes a slot of its connection until it ends. That of the interface
 * begins on all connections or on none. */
TEST_F(flush_test, waits_for_a_slot_of_each_connection)
{
    connect({{"MAX_OPS", "8"}});
    endpoint other(*a, *b);
    uct_iov_t iov = source->iov(0, size);
    completion puts(2), flushes(1 << 20), flush_comp;
    ucs_status_t status;
    int room = -1;

    ASSERT_EQ(UCS_OK, other.flush());
    ASSERT_EQ(UCS_INPROGRESS,
              uct_ep_put_zcopy(other, &iov, 1, target->addr(), target->rkey(),
                               &puts.super));
    ASSERT_EQ(UCS_INPROGRESS, put(size, &puts));
    do {
        status = uct_ep_flush(*ab, 0, &flushes.super);
        ++room;
    } while (status == UCS_INPROGRESS);
    if (status == UCS_OK) {
        GTEST_SKIP() << "operations end as soon as they are posted here";
    }

    EXPECT_EQ(UCS_ERR_NO_RESOURCE, status);
    EXPECT_EQ(6, room); /* the put has a slot, and a close would have one */
    EXPECT_EQ(UCS_ERR_NO_RESOURCE,
              uct_iface_flush(a->iface, 0, &flush_comp.super));
    EXPECT_EQ(0, flush_comp.calls);
    EXPECT_TRUE(until([&] { return flushes.super.count == (1 << 20) - room; }));
    status = uct_iface_flush(a->iface, 0, &flush_comp.super);
    if (status == UCS_INPROGRESS) {
        EXPECT_TRUE(until([&] { return flush_comp.calls == 1; }));
        status = flush_comp.status;
    }
    EXPECT_EQ(UCS_OK, status);
    EXPECT_TRUE(until([&] { return puts.calls == 1; }));
}

TEST_F(flush_test, is_not_ok_while_requests_are_pending)
{
    connect();
    int sent = 0;
    pending_op req([&] {
        ucs_status_t status = uct_ep_am_short(*ab, 1, 0, NULL, 0);

        sent += (status == UCS_OK);
        return status;
    });

    fill_up();
    ASSERT_EQ(UCS_OK, uct_ep_pending_add(*ab, &req.super, 0));
    EXPECT_NE(UCS_OK, uct_ep_flush(*ab, 0, NULL));
    EXPECT_NE(UCS_OK, uct_iface_flush(a->iface, 0, NULL));
    EXPECT_EQ(UCS_OK, ab->flush());
    EXPECT_EQ(1, sent);
    ASSERT_TRUE(until([&] {
        return uct_iface_flush(a->iface, 0, NULL) == UCS_OK;
    }));
}

TEST_F(flush_test, is_not_ok_while_requests_wait_for_the_connection)
{
    open();
    int sent = 0, got = 0;
    pending_op req([&] {
        ucs_status_t status = uct_ep_am_short(*ab, 1, 0, NULL, 0);

        sent += (status == UCS_OK);
        return status;
    });

    b->on_am(1, [&](const char *, size_t) { ++got; return UCS_OK; });
    ASSERT_EQ(UCS_ERR_NO_RESOURCE, uct_ep_am_short(*ab, 1, 0, NULL, 0));
    ASSERT_EQ(UCS_OK, uct_ep_pending_add(*ab, &req.super, 0));
    EXPECT_NE(UCS_OK, uct_ep_flush(*ab, 0, NULL));
    EXPECT_EQ(UCS_OK, ab->flush());
    EXPECT_EQ(1, sent);
    EXPECT_TRUE(until([&] { return got == 1; }));
}

/* ---- pending ---- */

TEST_F(flush_test, pending_add_is_refused_when_there_is_room)
{
    connect();
    pending_op req([] { return UCS_OK; });

    EXPECT_EQ(UCS_ERR_BUSY, uct_ep_pending_add(*ab, &req.super, 0));
    run_for(0.05);
    EXPECT_EQ(0, req.calls);
}

static bool posts_execute_at_once()
{
    const char *mode = getenv("VQP_FABRIC_MODE");

    return (vqp_fabric() != NULL) &&
           ((mode == NULL) || (strcmp(mode, "immediate") == 0));
}

/* What was refused behind requests that are served now may be tried again: no
 * completion would come that serves a request which is added instead */
TEST_F(flush_test, pending_add_is_refused_when_the_last_request_was_served)
{
    connect({{"NUM_PATHS", "1"}, {"MAX_OPS", "8"}});
    endpoint other(*a, *b);
    uint64_t value       = 1;
    ucs_status_t refused = UCS_OK;
    uct_iov_t iov        = source->iov(0, 8);
    auto put_word        = [&] {
        return uct_ep_put_short(*ab, &value, 8, target->addr(), target->rkey());
    };
    completion comp(1, [&] { refused = put_word(); });
    pending_op first(put_word), late(put_word);

    ASSERT_EQ(UCS_OK, other.flush());
    ASSERT_EQ(UCS_INPROGRESS,
              uct_ep_put_zcopy(other, &iov, 1, target->addr(), target->rkey(),
                               &comp.super));
    while (put_word() == UCS_OK) {
    }
    ASSERT_EQ(UCS_OK, uct_ep_pending_add(*ab, &first.super, 0));
    ASSERT_TRUE(until([&] { return (first.calls > 0) && (comp.calls > 0); }));
    if (refused == UCS_OK) {
        /* where posts execute at once, the order is always the same */
        EXPECT_FALSE(posts_execute_at_once());
        GTEST_SKIP() << "the completion came later than the room";
    }

    if (uct_ep_pending_add(*ab, &late.super, 0) != UCS_ERR_BUSY) {
        EXPECT_TRUE(until([&] { return late.calls > 0; }, 1));
        uct_ep_pending_purge(*ab, [](uct_pending_req_t*, void*) {}, NULL);
        FAIL() << "it was accepted, although there is room";
    }
    EXPECT_EQ(UCS_OK, put_word());
    EXPECT_EQ(UCS_OK, ab->flush());
}

TEST_F(flush_test, pending_requests_run_in_order_and_nothing_overtakes_them)
{
    connect();
    std::vector<std::unique_ptr<pending_op>> reqs;
    std::vector<uint64_t> got;
    unsigned sent = fill_up();

    b->on_am(2, [&](const char *data, size_t) {
        uint64_t number;

        memcpy(&number, data, 8);
        got.push_back(number);
        return UCS_OK;
    });
    ASSERT_GT(sent, 0u);
    for (uint64_t i = 0; i < 200; ++i) {
        reqs.push_back(std::make_unique<pending_op>([&, i] {
            return uct_ep_am_short(*ab, 2, i, source->data, 64);
        }));
        ASSERT_EQ(UCS_OK, uct_ep_pending_add(*ab, &reqs.back()->super, 0));
    }

    /* smaller than those that wait, and another kind */
    uint64_t next = 200;
    ASSERT_TRUE(until([&] {
        if (uct_ep_am_short(*ab, 2, next, NULL, 0) == UCS_OK) {
            ++next;
        }
        return next == 300;
    }));
    ASSERT_TRUE(until([&] { return got.size() == 300; }));
    for (uint64_t i = 0; i < got.size(); ++i) {
        EXPECT_EQ(i, got[i]);
    }
}

/* A caller that sleeps after an idle progress call relies on its count: a
 * request was sent, and no other event wakes the caller */
TEST_F(flush_test, progress_counts_pending_requests)
{
    connect();
    bool sent = false;
    pending_op req([&] {
        ucs_status_t status = uct_ep_am_short(*ab, 1, 0, NULL, 0);

        sent = (status == UCS_OK);
        return status;
    });
    unsigned count = 0;

    fill_up();
    ASSERT_EQ(UCS_OK, uct_ep_pending_add(*ab, &req.super, 0));
    for (int i = 0; !sent && (i < 1000000); ++i) {
        b->progress();
        count = a->progress();
    }

    ASSERT_TRUE(sent);
    EXPECT_GT(count, 0u);
    EXPECT_EQ(UCS_OK, ab->flush());
}

TEST_F(flush_test, a_completion_does_not_overtake_pending_requests)
{
    connect();
    bool completed       = false;
    bool sent            = false;
    uint64_t value       = 0;
    ucs_status_t refused = UCS_OK;
    /* it waits for the completion, whichever of the two is served first */
    pending_op req([&] {
        ucs_status_t status =
                completed ? uct_ep_am_short(*ab, 1, 0, NULL, 0) :
                            UCS_ERR_NO_RESOURCE;

        sent = (status == UCS_OK);
        return status;
    });
    completion comp(1, [&] {
        /* there is room for it, but earlier requests are pending */
        completed = true;
        refused   = uct_ep_put_short(*ab, &value, sizeof(value),
                                     target->addr(), target->rkey());
    });

    fill_up();
    ASSERT_EQ(UCS_INPROGRESS, put(100, &comp));
    ASSERT_EQ(UCS_OK, uct_ep_pending_add(*ab, &req.super, 0));
    EXPECT_TRUE(until([&] { return sent; }));
    EXPECT_EQ(UCS_ERR_NO_RESOURCE, refused);
    EXPECT_EQ(UCS_OK, ab->flush());
}

TEST_F(flush_test, a_pending_request_may_add_itself_again)
{
    connect();
    int left = 10;
    pending_op req([&] {
        ucs_status_t status = uct_ep_am_short(*ab, 1, 0, NULL, 0);

        if ((status == UCS_OK) && (--left > 0)) {
            return UCS_INPROGRESS; /* more to send */
        }
        return status;
    });

    fill_up();
    ASSERT_EQ(UCS_OK, uct_ep_pending_add(*ab, &req.super, 0));
    EXPECT_TRUE(until([&] { return left == 0; }));
    EXPECT_EQ(UCS_OK, ab->flush());
}

TEST_F(flush_test, a_purge_returns_pending_requests_in_order)
{
    connect();
    std::vector<std::unique_ptr<pending_op>> reqs;
    std::vector<uct_pending_req_t*> purged;

    fill_up();
    for (int i = 0; i < 5; ++i) {
        reqs.push_back(std::make_unique<pending_op>([&] {
            return uct_ep_am_short(*ab, 1, 0, NULL, 0);
        }));
        ASSERT_EQ(UCS_OK, uct_ep_pending_add(*ab, &reqs.back()->super, 0));
    }

    uct_ep_pending_purge(*ab, [](uct_pending_req_t *req, void *arg) {
        ((std::vector<uct_pending_req_t*>*)arg)->push_back(req);
    }, &purged);
    ASSERT_EQ(5u, purged.size());
    for (int i = 0; i < 5; ++i) {
        EXPECT_EQ(&reqs[i]->super, purged[i]);
        EXPECT_EQ(0, reqs[i]->calls);
    }
    EXPECT_EQ(UCS_OK, ab->flush());
}

/* As UCP does when a send that was pending completes, and the user's callback closes the
 * endpoint by force */
TEST_F(flush_test, a_purge_from_a_request_returns_those_behind_it)
{
    connect();
    std::vector<uct_pending_req_t*> purged;
    std::vector<std::unique_ptr<pending_op>> reqs;

    fill_up();
    for (int i = 0; i < 3; ++i) {
        reqs.emplace_back(new pending_op([&] {
            uct_ep_pending_purge(*ab, [](uct_pending_req_t *req, void *arg) {
                ((std::vector<uct_pending_req_t*>*)arg)->push_back(req);
            }, &purged);
            return UCS_OK;
        }));
        ASSERT_EQ(UCS_OK, uct_ep_pending_add(*ab, &reqs.back()->super, 0));
    }
    EXPECT_TRUE(until([&] { return reqs[0]->served; }));
    EXPECT_EQ((std::vector<uct_pending_req_t*>{&reqs[1]->super, &reqs[2]->super}), purged);

    /* and one is served that comes later */
    fill_up();
    ASSERT_EQ(UCS_OK, uct_ep_pending_add(*ab, &reqs[1]->super, 0));
    EXPECT_TRUE(until([&] { return reqs[1]->served; }));
    EXPECT_EQ(2u, purged.size());
    EXPECT_EQ(0, reqs[2]->calls);
    EXPECT_EQ(UCS_OK, ab->flush());
}

/* The callback of a send submits another one, and then closes the endpoint */
TEST_F(flush_test, a_request_that_runs_may_purge_what_it_has_added)
{
    connect();
    unsigned purged = 0;
    pending_op added([] { return UCS_OK; });
    pending_op first([&] {
        EXPECT_EQ(UCS_OK, uct_ep_pending_add(*ab, &added.super, 0));
        uct_ep_pending_purge(*ab, [](uct_pending_req_t*, void *arg) {
            ++*(unsigned*)arg;
        }, &purged);
        return UCS_OK;
    });

    fill_up();
    ASSERT_EQ(UCS_OK, uct_ep_pending_add(*ab, &first.super, 0));
    EXPECT_TRUE(until([&] { return first.served; }));
    run_for(0.02);
    EXPECT_EQ(1u, purged);
    EXPECT_EQ(0, added.calls);

    fill_up();
    ASSERT_EQ(UCS_OK, uct_ep_pending_add(*ab, &added.super, 0));
    EXPECT_TRUE(until([&] { return added.served; }));
    EXPECT_EQ(1, first.calls);
    EXPECT_EQ(UCS_OK, ab->flush());
}

TEST_F(flush_test, a_request_that_runs_may_add_others)
{
    connect();
    pending_op last([] { return UCS_OK; });
    pending_op first([&] {
        EXPECT_EQ(UCS_OK, uct_ep_pending_add(*ab, &last.super, 0));
        return UCS_OK;
    });

    fill_up();
    ASSERT_EQ(UCS_OK, uct_ep_pending_add(*ab, &first.super, 0));
    EXPECT_TRUE(until([&] { return last.served; }));
    EXPECT_EQ(1, first.calls);
    EXPECT_EQ(UCS_OK, ab->flush());
}

TEST_F(flush_test, a_purge_before_the_connection_returns_pending_requests_too)
{
    open();
    pending_op req([] { return UCS_OK; });
    int purged = 0;

    ASSERT_EQ(UCS_ERR_NO_RESOURCE, uct_ep_am_short(*ab, 1, 0, NULL, 0));
    ASSERT_EQ(UCS_OK, uct_ep_pending_add(*ab, &req.super, 0));
    uct_ep_pending_purge(*ab, [](uct_pending_req_t*, void *arg) {
        ++*(int*)arg;
    }, &purged);
    EXPECT_EQ(1, purged);
    EXPECT_EQ(UCS_OK, ab->flush());
}

/* As UCP does for an endpoint that connects */
TEST_F(flush_test, purged_requests_are_taken_again)
{
    open();
    b->on_am(1, [](const char *, size_t) { return UCS_OK; });
    pending_op req([this] { return uct_ep_am_short(*ab, 1, 0, NULL, 0); });

    ASSERT_EQ(UCS_ERR_NO_RESOURCE, uct_ep_am_short(*ab, 1, 0, NULL, 0));
    for (int i = 0; i < 2; ++i) {
        ASSERT_EQ(UCS_OK, uct_ep_pending_add(*ab, &req.super, 0)) << i;
        uct_ep_pending_purge(*ab, NULL, NULL);
    }
    ASSERT_EQ(UCS_OK, uct_ep_pending_add(*ab, &req.super, 0));
    EXPECT_TRUE(until([&] { return req.served; }));
    EXPECT_EQ(UCS_OK, ab->flush());
}

/* ---- cancel ---- */

TEST_F(flush_test, cancel_ends_what_is_under_way_once_and_reports_no_error)
{
    connect();
    completion comps[8], flush_comp;
    ucs_status_t status;

    for (completion &comp : comps) {
        ASSERT_EQ(UCS_INPROGRESS, ab->retry([&] { return put(size, &comp); }));
    }

    status = post([&] {
        return uct_ep_flush(*ab, UCT_FLUSH_FLAG_CANCEL, &flush_comp.super);
    });
    EXPECT_EQ(UCS_INPROGRESS, status);
    ASSERT_TRUE(until([&] { return flush_comp.calls == 1; }));
    EXPECT_EQ(UCS_OK, flush_comp.status);
    for (completion &comp : comps) {
        EXPECT_EQ(1, comp.calls);
    }
    EXPECT_EQ(UCS_ERR_CANCELED, comps[7].status);
    EXPECT_EQ(0u, a->errors);
}

/* UCP closes an endpoint whose ring of operations is full: the flush is refused, and comes
 * again from a pending request */
class refused_cancel_test : public flush_test {
protected:
    void fill()
    {
        ucs_status_t status;

        connect({{"MAX_OPS", "8"}});
        do {
            puts.emplace_back();
            status = put(64, &puts.back());
        } while (status == UCS_INPROGRESS);
        puts.pop_back();
        ASSERT_EQ(UCS_ERR_NO_RESOURCE, status);
    }

    ucs_status_t cancel()
    {
        ucs_status_t status = uct_ep_flush(*ab, UCT_FLUSH_FLAG_CANCEL, &flush.super);

        if (status == UCS_OK) { /* nothing was left to be canceled */
            flush.calls  = 1;
            flush.status = UCS_OK;
        }
        return (status == UCS_ERR_NO_RESOURCE) ? status : UCS_OK;
    }

    /* The endpoint, and its interface, have no request left */
    void expect_over()
    {
        completion after;

        EXPECT_TRUE(until([&] { return flush.calls == 1; }));
        EXPECT_EQ(UCS_OK, flush.status);
        for (const completion &comp : puts) {
            EXPECT_EQ(1, comp.calls);
        }
        EXPECT_NE(UCS_ERR_NO_RESOURCE, uct_ep_flush(*ab, 0, NULL));
        EXPECT_NE(UCS_ERR_NO_RESOURCE, uct_iface_flush(a->iface, 0, &after.super));
        EXPECT_TRUE(until([&] { return uct_iface_flush(a->iface, 0, NULL) == UCS_OK; }));
    }

    std::deque<completion> puts;
    completion             flush;
};

TEST_F(refused_cancel_test, comes_again_from_a_pending_request)
{
    pending_op req([&] { return cancel(); });

    fill();
    ASSERT_EQ(UCS_ERR_NO_RESOURCE, cancel());
    ASSERT_EQ(UCS_OK, uct_ep_pending_add(*ab, &req.super, 0));
    EXPECT_TRUE(until([&] { return req.served; }));
    expect_over();
}

TEST_F(refused_cancel_test, from_a_request_cancels_those_behind_it)
{
    pending_op req([&] { return cancel(); });
    pending_op next([] { return UCS_OK; });

    fill();
    ASSERT_EQ(UCS_OK, uct_ep_pending_add(*ab, &req.super, 0));
    ASSERT_EQ(UCS_OK, uct_ep_pending_add(*ab, &next.super, 0));
    EXPECT_TRUE(until([&] { return req.served; }));
    expect_over();
    EXPECT_EQ(0, next.calls);
}

/* UCP's strong fence flushes with this flag: what was posted before is in the peer's
 * memory, whatever completion it has */
#if UCT_API >= UCT_VERSION(1, 14)
TEST_F(flush_test, remote_completes_when_the_peer_s_memory_is_updated)
{
    connect({{"NUM_PATHS", "4"}});
    completion flush;
    const size_t counter = sizeof(uint64_t); /* the atomic adds to it */

    target->fill(2);
    ASSERT_EQ(UCS_INPROGRESS, ab->retry([&] { return put(size, NULL); }));
    ASSERT_EQ(UCS_OK, ab->retry([&] {
        return uct_ep_atomic64_post(*ab, UCT_ATOMIC_OP_ADD, 1, target->addr(),
                                    target->rkey());
    }));
    ASSERT_EQ(UCS_INPROGRESS, post([&] {
        return uct_ep_flush(*ab, UCT_FLUSH_FLAG_REMOTE, &flush.super);
    }));
    ASSERT_TRUE(until([&] { return flush.calls == 1; }));
    EXPECT_EQ(UCS_OK, flush.status);
    EXPECT_EQ(0, memcmp(target->data + counter, source->data + counter,
                        size - counter));
}

TEST_F(flush_test, remote_and_cancel_are_refused_together)
{
    connect();
    log_capture log;

    EXPECT_EQ(UCS_ERR_INVALID_PARAM,
              uct_ep_flush(*ab, UCT_FLUSH_FLAG_REMOTE | UCT_FLUSH_FLAG_CANCEL, NULL));
    EXPECT_TRUE(log_capture::has("cancels")) << log_capture::text();
    EXPECT_EQ(UCS_OK, ab->flush());
}
#endif

TEST_F(flush_test, cancel_reports_ok_behind_a_flush_that_it_fails)
{
    connect();
    completion comp, flush, cancel;

    ASSERT_EQ(UCS_INPROGRESS, ab->retry([&] { return put(size, &comp); }));
    ASSERT_EQ(UCS_INPROGRESS, post([&] {
        return uct_ep_flush(*ab, 0, &flush.super);
    }));
    ASSERT_EQ(UCS_INPROGRESS, post([&] {
        return uct_ep_flush(*ab, UCT_FLUSH_FLAG_CANCEL, &cancel.super);
    }));
    ASSERT_TRUE(until([&] { return cancel.calls == 1; }));
    EXPECT_EQ(1, flush.calls);
    EXPECT_EQ(UCS_OK, cancel.status);
}

TEST_F(flush_test, of_the_interface_does_not_end_a_destroyed_endpoint_s_messages)
{
    connect();
    completion flush_comp;
    std::string text(4000, 'x');
    int received = 0;

    b->on_am(3, [&](const char *, size_t) {
        ++received;
        return UCS_OK;
    });
    ASSERT_EQ((ssize_t)text.size(), uct_ep_am_bcopy(*ab, 3,
            [](void *dest, void *arg) -> size_t {
                const std::string *from = (const std::string*)arg;
                memcpy(dest, from->data(), from->size());
                return from->size();
            }, &text, 0));
    ASSERT_EQ(UCS_INPROGRESS, uct_iface_flush(a->iface, 0, &flush_comp.super));
    ab.reset();
    ASSERT_TRUE(until([&] { return flush_comp.calls == 1; }));
    EXPECT_EQ(UCS_OK, flush_comp.status);
    EXPECT_TRUE(until([&] { return received == 1; }));
}

TEST_F(flush_test, cancel_ends_although_acknowledged_frags_have_no_cqe)
{
    connect();
    completion flush_comp;
    uint64_t value = 1;

    /* fewer than what asks for a completion queue entry */
    for (int i = 0; i < 3; ++i) {
        ASSERT_EQ(UCS_OK, uct_ep_put_short(*ab, &value, 8, target->addr(),
                                           target->rkey()));
    }
    run_for(0.2);
    ucs_status_t status = uct_ep_flush(*ab, UCT_FLUSH_FLAG_CANCEL,
                                       &flush_comp.super);
    if (status == UCS_INPROGRESS) {
        EXPECT_TRUE(until([&] { return flush_comp.calls == 1; }));
    } else {
        EXPECT_EQ(UCS_OK, status);
    }
}

TEST_F(flush_test, cancel_before_the_connection_is_there_is_ok)
{
    open();
    EXPECT_EQ(UCS_OK, uct_ep_flush(*ab, UCT_FLUSH_FLAG_CANCEL, NULL));
    run_for(0.1);
    EXPECT_EQ(0u, a->errors);
}

/* ---- destroy ---- */

TEST_F(flush_test, destroy_completes_what_is_under_way_once_as_canceled)
{
    connect();
    completion puts[4], gets[4], ams[4], flush_comp;
    uct_iov_t iov   = source->iov(0, size);
    uct_iov_t small = source->iov(0, 3000);
    unsigned posted = 0, canceled = 0;

    for (int i = 0; i < 4; ++i) {
        ASSERT_EQ(UCS_INPROGRESS, put(size, &puts[i]));
        ASSERT_EQ(UCS_INPROGRESS, uct_ep_get_zcopy(*ab, &iov, 1,
                                                   target->addr(),
                                                   target->rkey(),
                                                   &gets[i].super));
        /* with a small ring not all of them are accepted */
        posted += uct_ep_am_zcopy(*ab, settle_id, NULL, 0, &small, 1, 0,
                                  &ams[posted].super) == UCS_INPROGRESS;
    }
    ASSERT_GT(posted, 0u);
    ASSERT_EQ(UCS_INPROGRESS, uct_ep_flush(*ab, 0, &flush_comp.super));
    ab->destroy();
    for (unsigned i = 0; i < 4; ++i) {
        EXPECT_EQ(1, puts[i].calls);
        EXPECT_EQ(1, gets[i].calls);
        EXPECT_EQ(i < posted, ams[i].calls);
        canceled += (puts[i].status == UCS_ERR_CANCELED) +
                    (gets[i].status == UCS_ERR_CANCELED);
    }
    EXPECT_GT(canceled, 4u);
    EXPECT_EQ(1, flush_comp.calls);
    run_for(0.5);
    EXPECT_EQ(1, flush_comp.calls);
    EXPECT_EQ(1, puts[3].calls);
    EXPECT_EQ(0u, a->errors);
}

TEST_F(flush_test, destroy_delivers_what_needs_no_memory_of_the_user)
{
    connect();
    unsigned got = 0;

    b->on_am(3, [&](const char *, size_t) { ++got; return UCS_OK; });
    for (int i = 0; i < 20; ++i) {
        ASSERT_EQ(UCS_OK, ab->retry([&] {
            return uct_ep_am_short(*ab, 3, i, NULL, 0);
        }));
    }
    ab->destroy();
    EXPECT_TRUE(until([&] { return got == 20; }));
}

TEST_F(flush_test, destroy_in_a_completion_is_safe)
{
    connect();
    completion first(1, [&] { ab->destroy(); });
    completion second;

    ASSERT_EQ(UCS_INPROGRESS, put(100, &first));
    ASSERT_EQ(UCS_INPROGRESS, put(size, &second));
    EXPECT_TRUE(until([&] { return first.calls && second.calls; }));
    run_for(0.3);
    EXPECT_EQ(1, second.calls);
}

TEST_F(flush_test, destroy_in_an_active_message_handler_is_safe)
{
    connect();
    connect_back();
    unsigned got = 0;

    a->on_am(4, [&](const char *, size_t) {
        ++got;
        ab->destroy();
        return UCS_OK;
    });
    for (int i = 0; i < 3; ++i) {
        ASSERT_EQ(UCS_OK, ba->retry([&] {
            return uct_ep_am_short(*ba, 4, i, NULL, 0);
        }));
    }
    EXPECT_TRUE(until([&] { return got > 0; }));
    run_for(0.3);
}

TEST_F(flush_test, operations_from_a_handler_and_a_completion_are_possible)
{
    connect();
    connect_back();
    unsigned got = 0, done = 0;
    completion comp(1, [&] {
        EXPECT_EQ(UCS_OK, ab->retry([&] {
            return uct_ep_am_short(*ab, 5, 1, NULL, 0);
        }));
        ++done;
    });

    b->on_am(5, [&](const char *data, size_t length) {
        ++got;
        EXPECT_EQ(UCS_OK, uct_ep_am_short(*ba, 6, 2, data, length));
        return UCS_OK;
    });
    a->on_am(6, [&](const char *, size_t) { ++done; return UCS_OK; });
    ASSERT_EQ(UCS_OK, ba->retry([&] {
        return uct_ep_am_short(*ba, 31, 0, NULL, 0);
    }));
    ASSERT_EQ(UCS_INPROGRESS, put(100, &comp));
    EXPECT_TRUE(until([&] { return done == 2; }));
    EXPECT_EQ(1u, got);
}

/* ---- check ---- */

TEST_F(flush_test, check_of_a_live_peer_reports_nothing)
{
    connect();
    for (int i = 0; i < 300; ++i) {
        EXPECT_EQ(UCS_OK, uct_ep_check(*ab, 0, NULL));
    }
    EXPECT_EQ(UCS_OK, ab->flush());
    EXPECT_EQ(0u, a->errors);
}
