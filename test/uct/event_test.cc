/*
 * Sleeping: an interface's descriptor wakes up a sleeper, no wake-up is
 * lost, and an idle pair is not woken. Threads with a worker each.
 */
#include "pending_op.h"

#include "test/fabric/fabric.h"

#include <poll.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <future>

static const unsigned all_events = UCT_EVENT_SEND_COMP | UCT_EVENT_RECV;

class event_test : public uct_test {
protected:
    static int fd_of(node &which)
    {
        int fd = -1;

        EXPECT_EQ(UCS_OK, uct_iface_event_fd_get(which.iface, &fd));
        return fd;
    }

    /* Progress until there is nothing left to do, and arm */
    static void arm(node &which)
    {
        EXPECT_TRUE(until([&] {
            return uct_iface_event_arm(which.iface, all_events) == UCS_OK;
        }));
    }

    static bool is_ready(int fd, int timeout_ms)
    {
        struct pollfd pfd = {fd, POLLIN, 0};

        return poll(&pfd, 1, timeout_ms) == 1;
    }
};

TEST_F(event_test, the_descriptor_and_its_events_are_advertised)
{
    open();
    EXPECT_TRUE(a->attr.cap.event_flags & UCT_IFACE_FLAG_EVENT_FD);
    EXPECT_TRUE(a->attr.cap.event_flags & UCT_IFACE_FLAG_EVENT_RECV);
    EXPECT_TRUE(a->attr.cap.event_flags & UCT_IFACE_FLAG_EVENT_SEND_COMP);
    EXPECT_GE(fd_of(*a), 0);
}

TEST_F(event_test, a_message_wakes_up_the_receiver)
{
    open();
    settle();
    for (int i = 0; i < 100; ++i) {
        unsigned before = settled;

        arm(*b);
        EXPECT_FALSE(is_ready(fd_of(*b), 0)) << i;
        ASSERT_EQ(UCS_OK, ab->retry([&] {
            return uct_ep_am_short(*ab, settle_id, 0, NULL, 0);
        }));
        EXPECT_TRUE(is_ready(fd_of(*b), wait_limit_ms())) << i;
        EXPECT_TRUE(until([&] { return settled == before + 1; }));
    }
}

TEST_F(event_test, a_completion_wakes_up_the_sender)
{
    open();
    settle();
    memory source(*a, 100000), target(*b, 100000);
    for (int i = 0; i < 100; ++i) {
        uct_iov_t iov = source.iov(0, 100000);
        completion comp;
        bool armed = true;

        arm(*a);
        ASSERT_EQ(UCS_INPROGRESS,
                  uct_ep_put_zcopy(*ab, &iov, 1, target.addr(), target.rkey(),
                                   &comp.super));
        while (comp.calls == 0) {
            /* refused: something came since, and it raises no event */
            if (armed) {
                ASSERT_TRUE(is_ready(fd_of(*a), wait_limit_ms())) << i;
            }
            while (a->progress() > 0) {
            }
            armed = (uct_iface_event_arm(a->iface, all_events) == UCS_OK);
        }
    }
    ab.reset();
}

/* The receiver does not run. The sender has nothing to do until it does */
TEST_F(event_test, the_sender_of_a_message_that_waits_for_room_sleeps)
{
    std::string data(1000, 'x');
    unsigned refused = 0;

    open(no_failover());
    settle();

    auto send = [&] {
        bytes message = {data.data(), data.size()};
        ssize_t ret   = uct_ep_am_bcopy(*ab, settle_id, pack_bytes, &message, 0);

        return (ret < 0) ? (ucs_status_t)ret : UCS_OK;
    };
    pending_op req(send);
    struct pollfd pfd = {fd_of(*a), POLLIN, 0};

    while (send() == UCS_OK) {
        (void)a->progress();
    }
    ASSERT_EQ(UCS_OK, uct_ep_pending_add(*ab, &req.super, 0));
    for (double end = now() + 0.2; now() < end;) {
        (void)a->progress();
        if (uct_iface_event_arm(a->iface, all_events) == UCS_OK) {
            (void)poll(&pfd, 1, 10);
        } else {
            ++refused;
        }
    }
    EXPECT_LT(refused, 500u);
    EXPECT_FALSE(req.served);
    EXPECT_TRUE(until([&] { return req.served; }));
}

TEST_F(event_test, arming_is_refused_while_something_waits)
{
    int fd;

    open();
    settle();
    fd = fd_of(*b); /* once: who asks for it has to progress before arming */
    for (int i = 0; i < 20; ++i) {
        unsigned before = settled;

        arm(*a);
        arm(*b);
        ASSERT_EQ(UCS_OK, uct_ep_am_short(*ab, settle_id, 0, NULL, 0));
        ASSERT_TRUE(is_ready(fd, wait_limit_ms())) << i;
        EXPECT_EQ(UCS_ERR_BUSY, uct_iface_event_arm(b->iface, all_events));
        EXPECT_EQ(UCS_ERR_BUSY, uct_iface_event_arm(b->iface, all_events));
        EXPECT_TRUE(until([&] { return settled == before + 1; }));
    }
}

/* With faults of its device. UCP ends the process if arming returns an error. */
class event_fault_test : public event_test {
protected:
    void SetUp() override
    {
        event_test::SetUp();
        if (!IsSkipped() && ((vqp_fabric() == NULL) || (devices()[0].find("bond") == 0))) {
            GTEST_SKIP() << "needs the software fabric, and unbonded devices";
        }
    }

    void start()
    {
        open();
        settle();
        fd_of(*a);
        arm(*a);
    }
};

TEST_F(event_fault_test, the_only_device_is_given_up_when_it_can_not_be_armed)
{
    log_capture log(UCS_LOG_LEVEL_WARN);

    start();
    faults("call verb=req_notify_cq count=all errno=EIO");
    for (unsigned i = 0; i < 1000; ++i) {
        if (uct_iface_event_arm(a->iface, all_events) == UCS_OK) {
            break;
        }
        (void)a->progress();
    }
    EXPECT_EQ(1u, ab->errors);
    arm(*a); /* nothing is to come, and UCP has other transports to wait for */
    faults("");
    EXPECT_NE(std::string::npos, log.errors().find("failed for good")) << log.errors();
}

TEST_F(event_fault_test, what_fails_once_is_repeated)
{
    log_capture log(UCS_LOG_LEVEL_ERROR);

    start();
    for (const char *verb : {"req_notify_cq", "poll_cq"}) {
        for (unsigned i = 0; i < 20; ++i) { /* more than in succession */
            faults(std::string("call count=1 errno=EIO verb=") + verb);
            EXPECT_EQ(UCS_ERR_BUSY, uct_iface_event_arm(a->iface, all_events)) << verb;
            arm(*a);
            faults("");
            settle();
        }
    }
    EXPECT_EQ(0u, ab->errors);
}

TEST_F(event_fault_test, the_only_device_is_given_up_when_it_can_not_be_polled)
{
    log_capture log(UCS_LOG_LEVEL_ERROR);

    start();
    faults("call verb=poll_cq count=all errno=EIO");
    EXPECT_EQ(UCS_ERR_BUSY, uct_iface_event_arm(a->iface, all_events));
    EXPECT_TRUE(until([&] { return ab->errors == 1; }));
    arm(*a);
    faults("");
}

TEST_F(event_test, a_failure_wakes_up_a_sleeper)
{
    std::unique_ptr<node> gone;
    std::string address;
    double end;

    open({{"CONNECT_TIMEOUT", "500ms"}});
    gone    = std::make_unique<node>(1);
    address = gone->address();
    gone.reset();
    endpoint ep(*a, address);
    EXPECT_EQ(UCS_ERR_NO_RESOURCE, uct_ep_am_short(ep, 1, 0, NULL, 0));
    end = now() + wait_limit();
    while ((ep.errors == 0) && (now() < end)) {
        while (a->progress() > 0) {
        }
        if (uct_iface_event_arm(a->iface, all_events) == UCS_OK) {
            EXPECT_TRUE(is_ready(fd_of(*a), wait_limit_ms()));
        }
    }
    EXPECT_EQ(1u, ep.errors);
}

/* Two paths, a fast one that stops and a slow one: an op waits for the fast path
 * until it is late, and goes to the slow one. Completions do not end this wait, so
 * the sender may not sleep meanwhile. */
class deferred_test : public event_test {
protected:
    static constexpr size_t frag = 64 << 10;
    static constexpr size_t cap  = 2 * frag;

    bool open_asymmetric()
    {
        const char *mode = getenv("VQP_FABRIC_MODE");

        if ((vqp_fabric() == NULL) || (mode == NULL) || strcmp(mode, "timed")) {
            return false;
        }

        /* else the slow path is moved, and the stopped one given up */
        open(no_failover({{"NUM_PATHS", "2"}, {"SCHED", "left"}, {"FRAG_SIZE", "64k"},
                          {"PATH_BYTES", std::to_string(cap)}}));
        settle();
        act("rate dev=" + a->name + " path=0/2 to=8000");
        act("rate dev=" + a->name + " path=1/2 to=50");
        source = std::make_unique<memory>(*a, 1 << 20);
        target = std::make_unique<memory>(*b, 1 << 20);
        return true;
    }

    static void act(const std::string &script)
    {
        char error[128] = "";

        EXPECT_EQ(0, vqp_fabric()->act(script.c_str(), error, sizeof(error)))
                << error;
    }

    void put(size_t size, completion &comp)
    {
        uct_iov_t iov = source->iov(0, size);

        EXPECT_EQ(UCS_INPROGRESS, ab->retry([&] {
            return uct_ep_put_zcopy(*ab, &iov, 1, target->addr(),
                                    target->rkey(), &comp.super);
        }));
    }

    /* The stop is longer than a busy machine keeps a thread from running */
    void stop_fast_path(bool stop)
    {
        act("delay dev=" + a->name + " path=0/2 to=" + (stop ? "1s" : "1us"));
    }

    void TearDown() override
    {
        ab.reset();
        source.reset();
        target.reset();
        event_test::TearDown();
    }

    std::unique_ptr<memory> source, target;
};

TEST_F(deferred_test, a_sleeper_does_not_leave_an_op_beside_an_idle_path)
{
    if (!open_asymmetric()) {
        GTEST_SKIP() << "needs the software fabric in timed mode";
    }

    completion measured, stopped, waiting;

    put(1 << 20, measured);
    ASSERT_TRUE(until([&] { return measured.calls == 1; }));
    stop_fast_path(true);
    put(cap, stopped);
    put(frag, waiting);
    while ((stopped.calls == 0) && (waiting.calls == 0)) {
        while (a->progress() > 0) {
        }
        if ((stopped.calls == 0) && (waiting.calls == 0) &&
            (uct_iface_event_arm(a->iface, all_events) == UCS_OK)) {
            ASSERT_TRUE(is_ready(fd_of(*a), wait_limit_ms()));
        }
    }
    EXPECT_EQ(1, waiting.calls);
    EXPECT_EQ(0, stopped.calls);
    stop_fast_path(false);
    ASSERT_TRUE(until([&] { return stopped.calls && waiting.calls; }));
}

static double cpu_time()
{
    struct timespec ts;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* An idle pair is not woken, and no thread of the process works, for two seconds. The
 * CPU time of a thread is compared with that of polling for the same time: on a busy
 * machine both get less. */
TEST_F(event_test, an_armed_idle_pair_sleeps)
{
    static constexpr double seconds = 2;
    double start, polling, sleeping, end, limit;
    struct pollfd fds[2];
    unsigned wakeups = 0;

    open();
    connect_back();
    settle();
    fds[0] = {fd_of(*a), POLLIN, 0};
    fds[1] = {fd_of(*b), POLLIN, 0};
    start = cpu_time();
    run_for(seconds);
    polling = cpu_time() - start;

    /* late answers may wake it at first; what goes on never ends */
    limit = now() + wait_limit();
    do {
        wakeups = 0;
        start   = cpu_time();
        end     = now() + seconds;
        while (now() < end) {
            arm(*a);
            arm(*b);
            wakeups += poll(fds, 2, std::max(1, (int)((end - now()) * 1000) + 1)) > 0;
        }
        sleeping = cpu_time() - start;
    } while (((wakeups > 0) || (sleeping >= polling / 10)) && (now() < limit) &&
             !HasFailure());
    EXPECT_EQ(0u, wakeups);
    EXPECT_LT(sleeping, polling / 10);
}

/* Each side of a ping-pong in a thread of its own, with its own worker, and
 * asleep while it has nothing to do */
static std::string sleepy_player(unsigned device, bool begins, unsigned rounds,
                                 std::promise<std::string> &own,
                                 std::future<std::string> &other,
                                 std::atomic<int> &done)
{
    node self(device);
    unsigned got = 0, sent = 0;
    std::string error;
    int fd, epoll_fd;

    self.on_am(1, [&](const char *, size_t) { ++got; return UCS_OK; });
    own.set_value(self.address());
    endpoint ep(self, other.get());
    EXPECT_EQ(UCS_OK, uct_iface_event_fd_get(self.iface, &fd));
    epoll_fd = epoll_create1(0);
    struct epoll_event event = {EPOLLIN, {.fd = fd}};
    EXPECT_EQ(0, epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event));

    while ((got < rounds) || (sent < rounds)) {
        while (self.progress() > 0) {
        }
        if ((sent < rounds) && (sent < got + begins)) {
            ucs_status_t status = uct_ep_am_short(ep, 1, sent, NULL, 0);

            if (status == UCS_OK) {
                ++sent;
                continue;
            } else if (status != UCS_ERR_NO_RESOURCE) {
                error = ucs_status_string(status);
                break;
            }
        }
        if (((got < rounds) || (sent < rounds)) &&
            (uct_iface_event_arm(self.iface, all_events) == UCS_OK) &&
            (epoll_wait(epoll_fd, &event, 1, wait_limit_ms()) != 1)) {
            error = "no wake-up after " + std::to_string(got) + " received, " +
                    std::to_string(sent) + " sent";
            break;
        }
    }
    ::close(epoll_fd);
    EXPECT_EQ(UCS_OK, ep.flush());
    ++done; /* the side that closes first ends the connection of the other */
    EXPECT_TRUE(until([&] { return done == 2; }));
    return error;
}

TEST_F(event_test, ten_thousand_sleepy_ping_pongs_never_hang)
{
    const unsigned rounds = 10000;
    std::promise<std::string> addresses[2];
    std::future<std::string> from[2] = {addresses[0].get_future(),
                                        addresses[1].get_future()};
    std::atomic<int> done{0};

    auto first = std::async(std::launch::async, [&] {
        return sleepy_player(0, true, rounds, addresses[0], from[1], done);
    });
    auto second = std::async(std::launch::async, [&] {
        return sleepy_player(1, false, rounds, addresses[1], from[0], done);
    });
    EXPECT_EQ("", first.get());
    EXPECT_EQ("", second.get());
}

/* ---- threads ---- */

static std::string play(unsigned seed)
{
    node a(0), b(1);
    unsigned got = 0;
    std::string error;

    b.on_am(1, [&](const char *data, size_t length) {
        uint64_t value;

        memcpy(&value, data, 8);
        if ((value != got) || (length != 8 + value % 50)) {
            error += "AM " + std::to_string(value) + " ";
        }
        ++got;
        return UCS_OK;
    });
    endpoint ab(a, b);
    memory source(a, 1 << 18), target(b, 1 << 18);
    source.fill(seed);
    for (uint64_t i = 0; i < 500; ++i) {
        uct_iov_t iov = source.iov(0, 1 + (i * 7919) % source.length);

        ab.retry([&] {
            return uct_ep_put_zcopy(ab, &iov, 1, target.addr(), target.rkey(),
                                    NULL);
        });
        ab.retry([&] {
            return uct_ep_am_short(ab, 1, i, source.data, i % 50);
        });
    }
    if (ab.flush() != UCS_OK) {
        error += "flush ";
    }
    if (!until([&] { return got == 500; })) {
        error += "only " + std::to_string(got) + " AMs ";
    }
    if (memcmp(source.data, target.data, 1000)) {
        error += "data ";
    }
    return error;
}

TEST_F(event_test, threads_with_a_worker_each_do_not_disturb_each_other)
{
    std::vector<std::future<std::string>> players;

    for (unsigned i = 0; i < 3; ++i) {
        players.push_back(std::async(std::launch::async, play, i));
    }
    for (auto &player : players) {
        EXPECT_EQ("", player.get());
    }
}
