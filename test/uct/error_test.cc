/*
 * What fails, fails once: the error handler is called once per endpoint, each
 * completion runs once, and other endpoints of the interface go on.
 */
#include "uct_fixture.h"

#include <poll.h>
#include <sstream>
#include <stdlib.h>
#include <unistd.h>

/* Dead peers are noticed within tenths of a second */
static const options fast = {{"TIMEOUT", "2ms"}, {"RETRY_COUNT", "3"}};

/* A peer in a process of its own: lets its memory be read and written, takes
 * AMs, and connects back to the address that it reads. Runs until its input ends. */
VQP_ROLE(peer)
{
    node self(1, fast);
    memory mem(self, 4 << 20);
    std::unique_ptr<endpoint> back;
    struct pollfd input = {3, POLLIN, 0};
    std::string line;

    self.on_am(1, [](const char *, size_t) { return UCS_OK; });
    role_write(to_hex(self.address()));
    role_write(to_hex(mem.packed_key()));
    role_write(std::to_string(mem.addr()));
    for (;;) {
        run_for(0.001);
        if (poll(&input, 1, 0) <= 0) {
            continue;
        }

        line = role_read();
        if (line == "") {
            return 0;
        } else if (line == "stop") { /* no progress any more, but alive */
            role_write("stopped");
            (void)role_read();
            return 0;
        }

        back = std::make_unique<endpoint>(self, from_hex(line));
        EXPECT_EQ(UCS_OK, back->retry([&] {
            return uct_ep_am_short(*back, 1, 0, NULL, 0);
        }));
        role_write((back->flush() == UCS_OK) ? "sent" : "not sent");
    }
}

class error_test : public uct_test {
protected:
    void start(const options &config = fast)
    {
        open(config);
        source = std::make_unique<memory>(*a, size);
        target = std::make_unique<memory>(*b, size);
        settle();
    }

    void start_peer()
    {
        peer    = std::make_unique<process>("peer");
        address = from_hex(peer->read());
        key     = std::make_unique<remote_key>(from_hex(peer->read()));
        raddr   = std::stoull(peer->read());
        ap      = std::make_unique<endpoint>(*a, address);
    }

    /* It makes no progress from then on */
    void stop_peer()
    {
        peer->write("stop");
        EXPECT_EQ("stopped", peer->read());
    }

    void TearDown() override
    {
        ap.reset();
        ab.reset();
        ba.reset();
        key.reset();
        source.reset();
        target.reset();
        peer.reset();
        uct_test::TearDown();
    }

    ucs_status_t put(endpoint &ep, size_t length, completion &comp,
                     uint64_t remote, uct_rkey_t rkey)
    {
        uct_iov_t iov = source->iov(0, length);

        return uct_ep_put_zcopy(ep, &iov, 1, remote, rkey, &comp.super);
    }

    /* a's endpoint to b works */
    void expect_alive(endpoint &ep)
    {
        completion comp;

        EXPECT_EQ(UCS_INPROGRESS, ep.retry([&] {
            return put(ep, 10000, comp, target->addr(), target->rkey());
        }));
        EXPECT_TRUE(until([&] { return comp.calls == 1; }));
        EXPECT_EQ(UCS_OK, comp.status);
    }

    static constexpr size_t size = 4 << 20;
    std::unique_ptr<memory> source, target;
    std::unique_ptr<process> peer;
    std::unique_ptr<remote_key> key;
    std::unique_ptr<endpoint> ap; /* a to the peer */
    std::string address;
    uint64_t raddr = 0;
};

TEST_F(error_test, a_killed_peer_fails_its_endpoint_once_and_no_other)
{
    std::vector<std::unique_ptr<completion>> comps;
    uct_iov_t iov;
    unsigned failed = 0;
    completion flush_comp;

    start();
    start_peer();
    ASSERT_EQ(UCS_OK, ap->retry([&] {
        return uct_ep_am_short(*ap, 1, 0, NULL, 0);
    }));
    ASSERT_EQ(UCS_OK, ap->flush());

    iov = source->iov(0, size);
    for (int i = 0; i < 30; ++i) {
        comps.push_back(std::make_unique<completion>());
        ASSERT_EQ(UCS_INPROGRESS, (i % 2) ?
                  put(*ap, size, *comps.back(), raddr, key->bundle.rkey) :
                  uct_ep_get_zcopy(*ap, &iov, 1, raddr, key->bundle.rkey,
                                   &comps.back()->super));
    }
    ASSERT_EQ(UCS_INPROGRESS, uct_ep_flush(*ap, 0, &flush_comp.super));
    peer->kill();

    ASSERT_TRUE(until([&] { return ap->errors > 0; }));
    ASSERT_TRUE(until([&] {
        bool all = true;
        for (auto &comp : comps) {
            all = all && (comp->calls > 0);
        }
        return all && (flush_comp.calls > 0);
    }));
    run_for(0.5);
    for (auto &comp : comps) {
        EXPECT_EQ(1, comp->calls);
        failed += comp->status != UCS_OK;
    }
    EXPECT_GT(failed, 20u);
    EXPECT_EQ(1, flush_comp.calls);
    EXPECT_NE(UCS_OK, flush_comp.status);
    EXPECT_EQ(1u, ap->errors);
    EXPECT_EQ(0u, ab->errors);
    EXPECT_TRUE((ap->error == UCS_ERR_ENDPOINT_TIMEOUT) ||
                (ap->error == UCS_ERR_CONNECTION_RESET))
            << ucs_status_string(ap->error);

    /* it stays failed, and the other one goes on */
    EXPECT_TRUE(UCS_STATUS_IS_ERR(uct_ep_am_short(*ap, 1, 0, NULL, 0)));
    EXPECT_NE(UCS_ERR_NO_RESOURCE, uct_ep_am_short(*ap, 1, 0, NULL, 0));
    EXPECT_TRUE(UCS_STATUS_IS_ERR(uct_ep_flush(*ap, 0, NULL)));
    EXPECT_EQ(UCS_OK, uct_ep_flush(*ap, UCT_FLUSH_FLAG_CANCEL, NULL));
    expect_alive(*ab);
    ap.reset();
    expect_alive(*ab);
}

TEST_F(error_test, a_killed_peer_fails_unsignaled_operations_too)
{
    start();
    start_peer();
    ASSERT_EQ(UCS_OK, ap->retry([&] {
        return uct_ep_am_short(*ap, 1, 0, NULL, 0);
    }));
    ASSERT_EQ(UCS_OK, ap->flush());
    peer->kill();
    for (int i = 0; i < 5; ++i) {
        ASSERT_EQ(UCS_OK, uct_ep_am_short(*ap, 1, 0, NULL, 0));
    }
    EXPECT_TRUE(until([&] {
        return UCS_STATUS_IS_ERR(uct_ep_flush(*ap, 0, NULL));
    }));
    EXPECT_TRUE(until([&] { return ap->errors == 1; }));
}

TEST_F(error_test, pending_requests_of_a_failed_endpoint_are_run_or_purged)
{
    struct request {
        uct_pending_req_t super;
        endpoint         *ep;
        int               failed;
    } req;
    unsigned purged = 0;

    start();
    start_peer();
    ASSERT_EQ(UCS_OK, ap->retry([&] {
        return uct_ep_am_short(*ap, 1, 0, NULL, 0);
    }));
    ASSERT_EQ(UCS_OK, ap->flush());
    peer->kill();
    while (uct_ep_am_short(*ap, 1, 0, NULL, 0) == UCS_OK) {
    }
    req.super.func = [](uct_pending_req_t *super) {
        request *self       = (request*)super;
        ucs_status_t status = uct_ep_am_short(*self->ep, 1, 0, NULL, 0);

        if (status == UCS_ERR_NO_RESOURCE) {
            return status;
        }
        ++self->failed;
        return UCS_OK;
    };
    req.ep     = ap.get();
    req.failed = 0;
    ASSERT_EQ(UCS_OK, uct_ep_pending_add(*ap, &req.super, 0));
    ASSERT_TRUE(until([&] { return ap->errors == 1; }));
    until([&] { return req.failed == 1; }, 1);
    uct_ep_pending_purge(*ap, [](uct_pending_req_t *, void *arg) {
        ++*(unsigned*)arg;
    }, &purged);
    EXPECT_EQ(1u, req.failed + purged);
}

TEST_F(error_test, the_error_handler_may_destroy_the_endpoint)
{
    std::vector<std::unique_ptr<completion>> comps;

    start();
    start_peer();
    ASSERT_EQ(UCS_OK, ap->retry([&] {
        return uct_ep_am_short(*ap, 1, 0, NULL, 0);
    }));
    a->on_error = [&](endpoint *which, ucs_status_t) {
        EXPECT_EQ(ap.get(), which);
        which->destroy();
        return UCS_OK;
    };
    for (int i = 0; i < 10; ++i) {
        comps.push_back(std::make_unique<completion>());
        ASSERT_EQ(UCS_INPROGRESS, put(*ap, size, *comps.back(), raddr,
                                      key->bundle.rkey));
    }
    peer->kill();
    ASSERT_TRUE(until([&] { return a->errors == 1; }));
    run_for(0.5);
    for (auto &comp : comps) {
        EXPECT_EQ(1, comp->calls);
    }
    EXPECT_EQ(1u, a->errors);
    expect_alive(*ab);
}

TEST_F(error_test, check_finds_a_dead_peer_of_an_idle_endpoint)
{
    start();
    start_peer();
    ASSERT_EQ(UCS_OK, ap->retry([&] {
        return uct_ep_am_short(*ap, 1, 0, NULL, 0);
    }));
    ASSERT_EQ(UCS_OK, ap->flush());
    peer->kill();
    run_for(0.3);
    EXPECT_EQ(0u, ap->errors);
    EXPECT_EQ(UCS_OK, uct_ep_check(*ap, 0, NULL));
    EXPECT_TRUE(until([&] { return ap->errors == 1; }));
}

TEST_F(error_test, check_finds_a_dead_peer_although_requests_are_pending)
{
    uct_pending_req_t req;

    start();
    start_peer();
    ASSERT_EQ(UCS_OK, ap->retry([&] {
        return uct_ep_am_short(*ap, 1, 0, NULL, 0);
    }));
    stop_peer(); /* it gives no credit back */
    while (uct_ep_am_short(*ap, 1, 0, NULL, 0) == UCS_OK) {
    }
    req.func = [](uct_pending_req_t *) { return UCS_ERR_NO_RESOURCE; };
    ASSERT_EQ(UCS_OK, uct_ep_pending_add(*ap, &req, 0));
    run_for(0.5); /* all that was sent is confirmed */
    peer->kill();
    run_for(0.3);
    EXPECT_EQ(0u, ap->errors);
    EXPECT_EQ(UCS_OK, uct_ep_check(*ap, 0, NULL));
    EXPECT_TRUE(until([&] { return ap->errors == 1; }));
    uct_ep_pending_purge(*ap, [](uct_pending_req_t *, void *) {}, NULL);
}

TEST_F(error_test, a_peer_that_does_not_progress_is_not_dead)
{
    start();
    start_peer();
    ASSERT_EQ(UCS_OK, ap->retry([&] {
        return uct_ep_am_short(*ap, 1, 0, NULL, 0);
    }));
    ASSERT_EQ(UCS_OK, ap->flush());
    stop_peer();
    EXPECT_EQ(UCS_OK, uct_ep_check(*ap, 0, NULL));
    /* more than ring and window hold: they wait, nothing fails */
    while (uct_ep_am_short(*ap, 1, 0, NULL, 0) == UCS_OK) {
    }
    run_for(2);
    EXPECT_EQ(0u, ap->errors);
}

TEST_F(error_test, the_passive_side_finds_a_dead_peer_by_a_probe)
{
    options config = fast;
    int before, with_peer;

    config["PROBE_INTERVAL"] = "1s";
    start(config);
    before = count_qps(a->name);
    if ((before <= 0) || (a->name == b->name)) {
        GTEST_SKIP() << "queue pairs can not be counted, or only one device";
    }

    a->on_am(1, [](const char *, size_t) { return UCS_OK; });
    peer    = std::make_unique<process>("peer");
    address = from_hex(peer->read());
    peer->read();
    peer->read();
    peer->write(to_hex(a->address()));
    /* the line comes when the peer's message is through */
    ASSERT_TRUE(until([&] { return peer->ready(); }));
    EXPECT_EQ("sent", peer->read());
    with_peer = count_qps(a->name);
    EXPECT_EQ(before + 1, with_peer); /* an endpoint begins with one path */
    run_for(3);
    EXPECT_EQ(with_peer, count_qps(a->name)) << "a silent peer was taken for dead";
    peer->kill();
    EXPECT_TRUE(until([&] {
        run_for(0.2);
        return count_qps(a->name) == before;
    })) << "it was not released";
    EXPECT_EQ(0u, a->errors);
    expect_alive(*ab);
}

/* ---- keys ---- */

/* The peer consumes no messages any more, the window is full, the endpoint is
 * destroyed, and then the peer dies: its queue pairs go nevertheless */
TEST_F(error_test, a_closed_endpoint_of_a_dead_peer_without_credit_is_released)
{
    options config = fast;
    ucs_status_t status;
    int before;

    config.insert({{"NUM_PATHS", "3"}, {"FSN_WINDOW", "64"},
                   {"PROBE_INTERVAL", "0.2s"}});
    start(config);
    before = count_qps(a->name);
    if (before < 0) {
        GTEST_SKIP() << "queue pairs can not be counted here";
    }

    setenv("UCX_VQP_FSN_WINDOW", "64", 1);
    start_peer();
    unsetenv("UCX_VQP_FSN_WINDOW");
    ASSERT_EQ(UCS_OK, ap->flush());
    stop_peer();
    for (int i = 0; i < 2; ++i) { /* it gets more slots meanwhile */
        do {
            status = uct_ep_am_short(*ap, 1, 0, NULL, 0);
        } while (status == UCS_OK);
        EXPECT_EQ(UCS_ERR_NO_RESOURCE, status);
        run_for(0.2);
    }
    EXPECT_EQ(UCS_ERR_NO_RESOURCE, uct_ep_am_short(*ap, 1, 0, NULL, 0));
    ap.reset();
    run_for(0.2);
    peer->kill();
    EXPECT_TRUE(until([&] { return count_qps(a->name) <= before; }));
}

TEST_F(error_test, a_remote_key_that_is_not_valid_any_more_fails_the_endpoint)
{
    endpoint *other;
    completion comps[3];

    start();
    endpoint second(*a, *b);
    other = &second;
    target->revoke();
    for (completion &comp : comps) {
        ASSERT_EQ(UCS_INPROGRESS, put(*ab, 100000, comp, target->addr(),
                                      target->rkey()));
    }
    ASSERT_TRUE(until([&] { return ab->errors == 1; }));
    ASSERT_TRUE(until([&] {
        return comps[0].calls && comps[1].calls && comps[2].calls;
    }));
    run_for(0.3);
    for (completion &comp : comps) {
        EXPECT_EQ(1, comp.calls);
    }
    EXPECT_NE(UCS_OK, comps[0].status);
    EXPECT_EQ(1u, ab->errors);

    memory fresh(*b, size);
    completion comp;
    EXPECT_EQ(UCS_INPROGRESS, other->retry([&] {
        return put(*other, 10000, comp, fresh.addr(), fresh.rkey());
    }));
    EXPECT_TRUE(until([&] { return comp.calls == 1; }));
    EXPECT_EQ(UCS_OK, comp.status);
    EXPECT_EQ(0u, second.errors);
    expect_violations("remote_key");
}

TEST_F(error_test, beyond_the_end_of_registered_memory_nothing_is_written)
{
    start();
    for (bool get : {false, true}) {
        endpoint ep(*a, *b);
        completion comp;
        uct_iov_t iov = source->iov(0, 8192);

        ASSERT_EQ(UCS_INPROGRESS, ep.retry([&] {
            return get ? uct_ep_get_zcopy(ep, &iov, 1,
                                          target->addr(size - 4096),
                                          target->rkey(), &comp.super) :
                         uct_ep_put_zcopy(ep, &iov, 1,
                                          target->addr(size - 4096),
                                          target->rkey(), &comp.super);
        }));
        EXPECT_TRUE(until([&] { return comp.calls == 1; }));
        EXPECT_NE(UCS_OK, comp.status);
        EXPECT_TRUE(until([&] { return ep.errors == 1; }));
    }
    expect_alive(*ab);
    expect_violations("remote_key");
}

/* ---- a peer that breaks the protocol ---- */

TEST_F(error_test, a_malformed_message_is_reported_once_and_none_follows)
{
    const std::string message = "malformed active message";
    const size_t header    = 16; /* of a record in the ring, which is aligned so */
    log_capture log(UCS_LOG_LEVEL_ERROR);
    unsigned delivered = 0;
    size_t first;

    start();
    b->on_am(1, [&](const char *data, size_t length) {
        char *next = (char*)data + (length + header - 1) / header * header;

        memset(next, 0xff, sizeof(uint32_t)); /* the length of the next one */
        ++delivered;
        return UCS_OK;
    });
    for (uint64_t i = 0; i < 20; ++i) {
        ASSERT_EQ(UCS_OK, uct_ep_am_short(*ab, 1, i, NULL, 0));
    }
    run_for_one(*a, 0.2); /* they arrive, and are acknowledged */

    EXPECT_TRUE(until([&] { return ab->errors == 1; }));
    run_for(0.1);
    EXPECT_EQ(1u, delivered);
    first = log.text().find(message);
    ASSERT_NE(std::string::npos, first) << log.text();
    EXPECT_EQ(std::string::npos, log.text().find(message, first + 1))
            << log.text();
}

/* ---- peers that are busy ---- */

/* The last frag of a sprayed message is announced after all its frags are
 * acknowledged, when the sender polls. A later message of one frag arrives before */
TEST_F(error_test, a_spraying_peer_that_does_not_progress_is_not_dead)
{
    unsigned got = 0;

    start({{"NOTIFY", "spray"}, {"GAP_TIMEOUT", "0.2s"}, {"NUM_PATHS", "4"},
           {"RING_MIN", "64k"}});
    b->on_am(1, [&](const char *, size_t) { ++got; return UCS_OK; });

    completion comp;
    uct_iov_t iov = source->iov(0, 30000);

    ASSERT_EQ(UCS_INPROGRESS, uct_ep_am_zcopy(*ab, 1, NULL, 0, &iov, 1, 0,
                                              &comp.super));
    ASSERT_EQ(UCS_OK, uct_ep_am_short(*ab, 1, 0, NULL, 0));
    run_for_one(*b, 2.5); /* its clock for gaps ticks once a second */
    EXPECT_EQ(0u, got);
    EXPECT_TRUE(until([&] { return got == 2; }));
    EXPECT_EQ(0u, ab->errors);
    EXPECT_EQ(UCS_OK, ab->flush());
}

/* ---- ports ---- */

/* All connections fail at once, and are reported one after the other: an
 * endpoint that is created from an error handler gets none of them */
TEST_F(error_test, a_connection_that_has_failed_is_not_adopted)
{
    const unsigned count = 6;
    std::vector<std::unique_ptr<endpoint>> own, others, fresh;
    log_capture quiet;

    if (!ports_go_down()) {
        GTEST_SKIP() << "no faults may be made here";
    }

    a = std::make_unique<node>(0, no_failover());
    b = std::make_unique<node>(1, no_failover());
    b->on_am(settle_id, [](const char *, size_t) { return UCS_OK; });
    for (unsigned i = 0; i < count; ++i) {
        others.push_back(std::make_unique<endpoint>(*b, *a));
        EXPECT_EQ(UCS_OK, others[i]->flush());
    }
    for (unsigned i = 0; i < count; ++i) { /* all of them adopt */
        own.push_back(std::make_unique<endpoint>(*a, *b));
        EXPECT_EQ(UCS_OK, own[i]->flush());
    }
    /* The first ones and the last ones are passive again, whatever the order in
     * which they are reported */
    for (unsigned i : {0u, 1u, count - 2, count - 1}) {
        own[i].reset();
    }
    run_for(0.1);
    a->on_error = [&](endpoint *, ucs_status_t) {
        EXPECT_TRUE(fault("up " + a->name));
        fresh.push_back(std::make_unique<endpoint>(*a, *b));
        return UCS_OK;
    };
    ASSERT_TRUE(fault("down " + a->name));
    EXPECT_TRUE(until([&] { return fresh.size() == 2; }));
    a->on_error = nullptr;
    for (auto &ep : fresh) {
        EXPECT_EQ(UCS_OK, ep->retry([&] {
            return uct_ep_am_short(*ep, settle_id, 0, NULL, 0);
        }));
        EXPECT_EQ(UCS_OK, ep->flush());
        EXPECT_EQ(0u, ep->errors);
    }
}

TEST_F(error_test, a_port_that_goes_down_fails_endpoints_and_serves_when_it_is_up)
{
    completion comp;
    log_capture quiet;

    if (!ports_go_down()) {
        GTEST_SKIP() << "no faults may be made here";
    }

    start();
    connect_back();
    ASSERT_EQ(UCS_OK, ba->retry([&] {
        return uct_ep_am_short(*ba, settle_id, 0, NULL, 0);
    }));
    ASSERT_EQ(UCS_OK, ba->flush());
    ASSERT_TRUE(fault("down " + a->name));
    ASSERT_EQ(UCS_INPROGRESS, put(*ab, size, comp, target->addr(),
                                  target->rkey()));
    EXPECT_TRUE(until([&] { return ab->errors == 1; }));
    EXPECT_TRUE(until([&] { return comp.calls == 1; }));
    EXPECT_NE(UCS_OK, comp.status);
    ASSERT_TRUE(fault("up " + a->name));
    run_for(1);
    (void)uct_ep_check(*ba, 0, NULL);
    EXPECT_TRUE(until([&] { return ba->errors == 1; }));
    EXPECT_EQ(1u, ab->errors);

    endpoint again(*a, *b);
    expect_alive(again);
}

/* ---- the other interface ---- */

TEST_F(error_test, a_closed_interface_fails_the_endpoints_to_it_once)
{
    completion comp;

    start();
    target.reset();
    b->close();
    run_for(0.2);
    ASSERT_TRUE(until([&] {
        (void)uct_ep_check(*ab, 0, NULL);
        return ab->errors > 0;
    }));
    EXPECT_TRUE(UCS_STATUS_IS_ERR(uct_ep_am_short(*ab, 1, 0, NULL, 0)));
    run_for(0.3);
    EXPECT_EQ(1u, ab->errors);
}

/* What the peer's device has acknowledged succeeds before the endpoint fails,
 * although the process hears of the peer's end before it looks at its completions.
 * UCP gives up all requests of an endpoint that fails. */
TEST_F(error_test, what_was_executed_before_the_peer_ended_succeeds)
{
    unsigned failed_before = 0;
    auto see               = [&] { failed_before += ab->errors; };
    completion comps[]     = {completion(1, see), completion(1, see),
                              completion(1, see), completion(1, see)};

    start();
    for (auto &comp : comps) {
        ASSERT_EQ(UCS_INPROGRESS, put(*ab, 4096, comp, target->addr(),
                                      target->rkey()));
    }
    usleep(200000); /* the device has no need of progress, */
    target.reset();
    b->close();
    usleep(200000); /* and neither has the handler of the peer's message */
    ASSERT_TRUE(until([&] {
        return (comps[0].calls > 0) && (comps[1].calls > 0) &&
               (comps[2].calls > 0) && (comps[3].calls > 0);
    }));
    for (auto &comp : comps) {
        EXPECT_EQ(UCS_OK, comp.status) << ucs_status_string(comp.status);
    }
    EXPECT_EQ(0u, failed_before);
    EXPECT_TRUE(until([&] {
        (void)uct_ep_check(*ab, 0, NULL);
        return ab->errors == 1;
    }));
}

/* What the peer sent, and the device saw arrive, is delivered before the endpoint fails,
 * although the process hears of the peer's end before it looks at its completions. Who was
 * told of messages can take them: UCP throws away what it has of a stream when its endpoint
 * fails. Also if there are more than the call that sees the end delivers. */
class error_order_test : public error_test,
                         public ::testing::WithParamInterface<const char*> {};

TEST_P(error_order_test, an_endpoint_fails_in_a_call_that_delivers_nothing)
{
    unsigned got = 0, calls = 0, before;
    completion comp;

    start({{"POLL_MAX", GetParam()}});
    connect_back();
    b->on_am(3, [&](const char *, size_t) {
        ++got;
        return UCS_OK;
    });
    for (unsigned i = 0; i < 100; ++i) {
        ASSERT_EQ(UCS_OK, uct_ep_am_short(*ab, 3, 0, NULL, 0)) << i;
        run_for_one(*a, 0.0005); /* each has an immediate of its own */
    }
    if (uct_ep_flush(*ab, 0, &comp.super) == UCS_INPROGRESS) {
        for (double end = now() + wait_limit(); (comp.calls == 0) && (now() < end);) {
            run_for_one(*a, 0.001);
        }
        ASSERT_EQ(1, comp.calls);
    }
    EXPECT_EQ(UCS_OK, uct_ep_flush(*ab, UCT_FLUSH_FLAG_CANCEL, NULL));
    ab->destroy();
    run_for_one(*a, 0.2);
    EXPECT_EQ(0u, got);

    do {
        before = got;
        (void)b->progress();
        calls += (got > before);
        EXPECT_EQ(0u, (got > before) ? ba->errors : 0) << "with " << got << " messages";
    } while (got > before);
    EXPECT_EQ(100u, got);
    EXPECT_GE(5u, calls) << "the end was not known";
    EXPECT_TRUE(until([&] { return ba->errors == 1; }));
}

INSTANTIATE_TEST_SUITE_P(all, error_order_test, ::testing::Values("1", "16"));

/* The same when all that happens while a message is delivered, with an event of
 * another connection behind it */
TEST_F(error_test, what_the_peer_sent_during_a_delivery_is_delivered_first)
{
    unsigned got = 0, late = 0;
    std::unique_ptr<endpoint> other;

    start();
    connect_back();
    b->on_am(3, [&](const char *, size_t) {
        late += ba->errors;
        if (++got == 1) {
            for (int i = 0; i < 40; ++i) {
                EXPECT_EQ(UCS_OK, uct_ep_am_short(*ab, 3, 0, NULL, 0));
            }
            run_for_one(*a, 0.1);
            (void)uct_ep_flush(*ab, UCT_FLUSH_FLAG_CANCEL, NULL);
            ab->destroy();
            run_for_one(*a, 0.2);
        }
        return UCS_OK;
    });
    ASSERT_EQ(UCS_OK, uct_ep_am_short(*ab, 3, 0, NULL, 0));
    other = std::make_unique<endpoint>(*a, *b);
    run_for_one(*a, 0.2);
    EXPECT_EQ(0u, got);
    EXPECT_TRUE(until([&] { return (got == 41) && (ba->errors > 0); }))
            << got << " of 41";
    EXPECT_EQ(0u, late);
}

/* The peer has closed in an orderly way, which is no failure while nothing waits.
 * A later flush fails at once, and not after a timeout */
TEST_F(error_test, a_flush_after_the_peer_has_closed_fails_at_once)
{
    completion comp;
    log_capture quiet;

    start({{"TIMEOUT", "100s"}, {"RETRY_COUNT", "7"}});
    connect_back();
    ASSERT_EQ(UCS_OK, ba->retry([&] {
        return uct_ep_am_short(*ba, settle_id, 0, NULL, 0);
    }));
    ASSERT_EQ(UCS_OK, ba->flush());
    ba.reset();
    run_for(0.2);
    for (int i = 0; i < 3; ++i) {
        ASSERT_EQ(UCS_OK, uct_ep_am_short(*ab, settle_id, 0, NULL, 0));
    }
    target.reset();
    b->close();
    run_for(0.2);
    EXPECT_EQ(0u, ab->errors);

    ASSERT_EQ(UCS_INPROGRESS, uct_ep_flush(*ab, 0, &comp.super));
    if (!until([&] { return comp.calls == 1; })) {
        ab->destroy();
        FAIL() << "it waits for packets to time out";
    }
    EXPECT_TRUE(UCS_STATUS_IS_ERR(comp.status));
    EXPECT_TRUE(until([&] { return ab->errors == 1; }));
}

/* An error of a post says that the user knows: its handler was called. Before that
 * an op is refused, and may be left pending, where the handler finds it */
TEST_F(error_test, an_op_between_the_failure_and_its_report_is_refused)
{
    uct_pending_req_t req;
    unsigned purged = 0;
    log_capture quiet;

    start();
    a->on_error = [&](endpoint *which, ucs_status_t) {
        EXPECT_TRUE(UCS_STATUS_IS_ERR(
                uct_ep_am_short(*which, settle_id, 0, NULL, 0)));
        uct_ep_pending_purge(*which, [](uct_pending_req_t *, void *arg) {
            ++*(unsigned*)arg;
        }, &purged);
        return UCS_OK;
    };
    ASSERT_EQ(UCS_OK, ab->flush());
    target.reset();
    b->close();
    run_for(0.2);
    ASSERT_EQ(0u, ab->errors);

    /* the first op finds out */
    EXPECT_EQ(UCS_ERR_NO_RESOURCE, uct_ep_am_short(*ab, settle_id, 0, NULL, 0));
    req.func = [](uct_pending_req_t *) { return UCS_OK; };
    EXPECT_EQ(UCS_OK, uct_ep_pending_add(*ab, &req, 0));
    EXPECT_EQ(0u, ab->errors);
    ASSERT_TRUE(until([&] { return ab->errors == 1; }));
    EXPECT_EQ(1u, purged);
    EXPECT_TRUE(UCS_STATUS_IS_ERR(
            uct_ep_am_short(*ab, settle_id, 0, NULL, 0)));
    run_for(0.1);
    EXPECT_EQ(1u, ab->errors);
}

TEST_F(error_test, an_interface_closes_with_operations_under_way)
{
    std::vector<std::unique_ptr<completion>> comps;

    start();
    for (int i = 0; i < 10; ++i) {
        comps.push_back(std::make_unique<completion>());
        ASSERT_EQ(UCS_INPROGRESS, put(*ab, size, *comps.back(), target->addr(),
                                      target->rkey()));
    }
    a->close(); /* destroys the endpoint first */
    for (auto &comp : comps) {
        EXPECT_EQ(1, comp->calls);
    }
    run_for(0.2);
    EXPECT_EQ(0u, b->errors);
}

TEST_F(error_test, messages_in_flight_to_a_closed_interface_do_no_harm)
{
    start();
    while (uct_ep_am_short(*ab, settle_id, 0, NULL, 0) == UCS_OK) {
    }
    target.reset();
    b->close();
    (void)until([&] { return ab->errors > 0; }, 5);
    EXPECT_TRUE(until([&] {
        return uct_ep_flush(*ab, 0, NULL) != UCS_INPROGRESS;
    }));
    EXPECT_LE(ab->errors, 1u);
}
