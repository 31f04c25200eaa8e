/*
 * Timed mode, path by path: delays and rates by list, by seed, by port, and
 * changed while WRs wait. The layout is in main.cc: paths have 1, 4 and some
 * 0.1 to 0.9 ms in turn, and 1000 and 250 Mb/s in turn; fab1's port has 500
 * Mb/s and 3 ms more.
 *
 * The clock is virtual. Faults that have a time are made by the machine's: tests of
 * these are on a layout of their own, and their times are bounds from below.
 */
#include "fabric_fixture.h"

#include <algorithm>

class lists_path : public fabric_test {
protected:
    static vqp_fabric_path_t path(const endpoint &ep)
    {
        vqp_fabric_path_t found = {};

        EXPECT_EQ(0, fabric().qp_path(ep.dev.name().c_str(), ep.qp->qp_num,
                                      &found));
        return found;
    }

    static void act(const std::string &script)
    {
        char error[128] = "";

        EXPECT_EQ(0, fabric().act(script.c_str(), error, sizeof(error)))
                << script << ": " << error;
    }

    static std::string qpn(const endpoint &ep)
    {
        return " qpn=" + std::to_string(ep.qp->qp_num);
    }

    static void post(endpoint &from, endpoint &to, unsigned count,
                     size_t length)
    {
        for (unsigned i = 0; i < count; ++i) {
            ibv_send_wr wr = from.wr(IBV_WR_RDMA_WRITE, to, length);
            wr.wr_id       = i;
            ASSERT_EQ(0, from.post(wr));
        }
    }

    /* Seconds of so many writes, one after the other in one queue */
    static double seconds(endpoint &from, endpoint &to, unsigned count,
                          size_t length)
    {
        double begin = now();

        post(from, to, count, length);
        EXPECT_EQ(count, from.drain(count).size());
        return now() - begin;
    }

    /* Which of two queue pairs of one CQ completed, in order: "aab..." */
    static std::string order(endpoint &first, endpoint &second, unsigned count)
    {
        std::string order;

        for (const ibv_wc &wc : first.drain(count)) {
            EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
            order += (wc.qp_num == first.qp->qp_num) ? 'a' : 'b';
            EXPECT_TRUE((order.back() == 'a') ||
                        (wc.qp_num == second.qp->qp_num));
        }
        return order;
    }

    /* Whether a write of the one overtakes an earlier one of the other */
    static bool overtakes(endpoint &fast, endpoint &fast_to, endpoint &slow,
                          endpoint &slow_to)
    {
        post(slow, slow_to, 1, 8);
        post(fast, fast_to, 1, 8);
        return order(fast, slow, 2) == "ab";
    }
};

TEST_F(lists_path, numbers_go_by_creation_and_are_used_again)
{
    device other(1);
    qp_options datagrams;

    datagrams.type = IBV_QPT_UD;
    endpoint first(*dev), ud(*dev, datagrams), second(*dev), far(other);
    auto third = std::make_unique<endpoint>(*dev);
    endpoint fourth(*dev);

    EXPECT_EQ(0u, path(first).number);
    EXPECT_EQ(1u, path(second).number);
    EXPECT_EQ(2u, path(*third).number);
    EXPECT_EQ(3u, path(fourth).number);
    EXPECT_EQ(0u, path(far).number);
    third.reset();
    endpoint fifth(*dev), sixth(*dev);
    EXPECT_EQ(2u, path(fifth).number);
    EXPECT_EQ(4u, path(sixth).number);
}

TEST_F(lists_path, lists_begin_anew_and_ranges_are_drawn)
{
    std::vector<std::unique_ptr<endpoint>> all;
    std::vector<uint64_t> drawn;

    for (unsigned i = 0; i < 12; ++i) {
        all.push_back(std::make_unique<endpoint>(*dev));
        vqp_fabric_path_t found = path(*all.back());
        EXPECT_EQ(i, found.number);
        EXPECT_EQ((i % 2) ? 250u : 1000u, found.mbps);
        EXPECT_EQ((i % 4 == 3) ? 5000u : 0u, found.jitter);
        if (i % 3 < 2) {
            EXPECT_EQ((i % 3) ? 4000000u : 1000000u, found.delay);
        } else {
            EXPECT_GE(found.delay, 100000u);
            EXPECT_LE(found.delay, 900000u);
            for (uint64_t before : drawn) {
                EXPECT_NE(before, found.delay);
            }
            drawn.push_back(found.delay);
        }
    }

    /* the same path has the same delay again: the seed is the same */
    all.erase(all.begin() + 2);
    all.push_back(std::make_unique<endpoint>(*dev));
    EXPECT_EQ(drawn[0], path(*all.back()).delay);
}

TEST_F(lists_path, each_has_its_delay)
{
    endpoint fast(*dev);
    qp_options shared;

    shared.cq = fast.cq;
    endpoint slow(*dev, shared);
    fast.connect(slow);
    slow.connect(fast);
    EXPECT_GE(seconds(fast, slow, 1, 8), 0.002);
    EXPECT_GE(seconds(slow, fast, 1, 8), 0.008);
    EXPECT_TRUE(overtakes(fast, slow, slow, fast));
}

TEST_F(lists_path, what_is_posted_and_not_complete_is_pending)
{
    vqp_fabric_traffic_t traffic = {};

    open();
    post(*a, *b, 3, 1000);
    ASSERT_EQ(0, fabric().qp_traffic(dev->name().c_str(), a->qp->qp_num,
                                     &traffic));
    EXPECT_EQ(3000u, traffic.pending);
    EXPECT_EQ(3u, a->drain(3).size());
    ASSERT_EQ(0, fabric().qp_traffic(dev->name().c_str(), a->qp->qp_num,
                                     &traffic));
    EXPECT_EQ(0u, traffic.pending);
}

TEST_F(lists_path, queue_pairs_are_listed_by_age)
{
    uint32_t qpns[3] = {};
    qp_options datagrams;

    datagrams.type = IBV_QPT_UD;
    endpoint first(*dev), ud(*dev, datagrams), second(*dev);

    EXPECT_EQ(2, fabric().qps(dev->name().c_str(), qpns, 3));
    EXPECT_EQ(second.qp->qp_num, qpns[0]);
    EXPECT_EQ(first.qp->qp_num, qpns[1]);
    EXPECT_EQ(0u, qpns[2]);
    EXPECT_EQ(2, fabric().qps(dev->name().c_str(), qpns, 0));
    EXPECT_EQ(-1, fabric().qps("nonsense", qpns, 3));
}

TEST_F(lists_path, a_port_delays_what_leaves_it)
{
    device other(1);
    endpoint here(*dev), there(other);

    here.connect(there);
    there.connect(here);
    EXPECT_GE(seconds(here, there, 1, 8), 0.005);  /* 1 there, 1 + 3 back */
    EXPECT_GE(seconds(there, here, 1, 8), 0.005);
}

TEST_F(lists_path, each_has_its_rate)
{
    open();
    EXPECT_GE(seconds(*a, *b, 10, 100000), 0.008);
    EXPECT_GE(seconds(*b, *a, 10, 100000), 0.032);
}

TEST_F(lists_path, one_with_much_to_send_does_not_hold_up_another)
{
    qp_options shared;

    open();
    shared.cq = a->cq;
    endpoint other(*dev, shared), sink(*dev);
    other.connect(sink);
    sink.connect(other);
    post(*a, *b, 20, 100000);  /* 16 ms */
    post(other, sink, 1, 8);
    size_t position = order(*a, other, 21).find('b');
    EXPECT_LT(position, 10u);
}

TEST_F(lists_path, those_of_a_port_share_its_rate)
{
    device port(1);
    qp_options shared;
    endpoint first(port), first_sink(port);

    shared.cq = first.cq;
    endpoint second(port, shared), second_sink(port);
    first.connect(first_sink);
    first_sink.connect(first);
    second.connect(second_sink);
    second_sink.connect(second);
    act("rate dev=fab1 to=0"); /* all that the port has */

    double begin = now();
    post(first, first_sink, 10, 100000);
    post(second, second_sink, 10, 100000);
    std::string found = order(first, second, 20);
    EXPECT_GE(now() - begin, 0.032);
    for (unsigned i = 4; i <= 16; i += 4) {
        auto firsts = std::count(found.begin(), found.begin() + i, 'a');
        EXPECT_NEAR(i / 2.0, (double)firsts, 1.5) << found;
    }
}

TEST_F(lists_path, fences_and_the_depth_of_reads_hold_back)
{
    qp_options one;

    one.max_rd_atomic = 1;
    open(one);
    double begin = now();
    for (unsigned i = 0; i < 3; ++i) {
        ibv_send_wr wr = a->wr(IBV_WR_RDMA_READ, *b, 8);
        ASSERT_EQ(0, a->post(wr));
    }
    ibv_send_wr fenced = a->wr(IBV_WR_RDMA_WRITE, *b, 8);
    fenced.send_flags |= IBV_SEND_FENCE;
    ASSERT_EQ(0, a->post(fenced));
    EXPECT_EQ(4u, a->drain(4).size());
    EXPECT_GE(now() - begin, 0.008); /* each a round trip */
}

TEST_F(lists_path, a_change_is_felt_by_what_waits)
{
    open();
    double begin = now();
    post(*a, *b, 10, 100000);
    act("rate to=100" + qpn(*a));
    double changed = now();
    EXPECT_EQ(100u, path(*a).mbps);
    EXPECT_EQ(250u, path(*b).mbps);
    EXPECT_EQ(10u, a->drain(10).size());
    /* 8 ms each, but for those that had left before: one in 0.8 ms, and one more */
    EXPECT_GE(now() - changed,
              0.008 * (9 - (changed - begin) / 0.0008) - 0.001);
}

TEST_F(lists_path, a_change_by_number)
{
    std::vector<std::unique_ptr<endpoint>> all;

    for (unsigned i = 0; i < 8; ++i) {
        all.push_back(std::make_unique<endpoint>(*dev));
    }
    act("rate path=1/4 to=77; delay path=6 to=9ms");
    for (unsigned i = 0; i < 8; ++i) {
        EXPECT_EQ((i % 4 == 1) ? 77u : (i % 2) ? 250u : 1000u,
                  path(*all[i]).mbps);
    }
    EXPECT_EQ(9000000u, path(*all[6]).delay);
    EXPECT_EQ(1000000u, path(*all[0]).delay);
}

/* With the machine's time */
class changing_path : public lists_path {
};

TEST_F(changing_path, at_a_time_and_for_a_time)
{
    open();
    faults("rate path=0 at=1ms to=10; delay path=1 at=0ms to=1s for=5ms;"
           "rate path=1 at=0ms to=20 for=1000s");
    EXPECT_TRUE(eventually([&] { return path(*a).mbps == 10; }));
    EXPECT_TRUE(eventually([&] {
        return (path(*b).delay == 4000000) && (fabric().fault_hits() == 3);
    }));
    EXPECT_EQ(20u, path(*b).mbps);
    faults(""); /* what would have ended ends */
    EXPECT_EQ(250u, path(*b).mbps);
    EXPECT_EQ(10u, path(*a).mbps);
}

TEST_F(changing_path, of_a_port)
{
    device port(1);
    endpoint from(port), to(port);

    from.connect(to);
    to.connect(from);
    act("rate dev=fab1 port=1 to=50; delay dev=fab1 port=1 to=20ms");
    EXPECT_GE(seconds(from, to, 1, 100000), 0.016 + 0.042);
    faults("rate dev=fab1 port=1 at=0s to=50 for=1s;"
           "delay dev=fab1 port=1 at=0s to=20ms for=1s");
    EXPECT_TRUE(eventually([&] { return fabric().fault_hits() == 2; }));
    /* One write in less time proves that the change has ended. A thread that does
     * not run meanwhile spoils a try, so there are many */
    EXPECT_TRUE(eventually([&] {
        return seconds(from, to, 1, 100000) < 0.016 + 0.042;
    }));
}
