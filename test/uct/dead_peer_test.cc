/*
 * A peer that died told apart from an outage: how an endpoint finds out that the process
 * of its peer has gone, and that it waits for one that can not be reached, or that
 * computes. The peer is a process of its own.
 */
#include "failover_fixture.h"

#include <poll.h>
#include <unistd.h>

/* Takes puts on the device that it is told; does not call progress between the lines
 * "stop" and "go" */
VQP_ROLE(target)
{
    node self((unsigned)std::stoul(role_read()), {{"FAILOVER", "try"}});
    memory mem(self, 1 << 20);
    struct pollfd input = {3, POLLIN, 0};

    role_write(to_hex(self.address()));
    role_write(to_hex(mem.packed_key()));
    role_write(std::to_string(mem.addr()));
    for (;;) {
        run_for(0.001);
        if (poll(&input, 1, 0) <= 0) {
            continue;
        }

        if (role_read() != "stop") {
            return 0;
        }
        role_write("stopped");
        (void)role_read();
    }
}

class dead_peer : public failover_fixture {
protected:
    /* a, on the first device, and the peer; b is on the second one */
    void start_peer(unsigned device, options config, bool has_witness)
    {
        config["STATS_FILE"] = stats.name;
        config.emplace("FAILOVER", "try");
        a = std::make_unique<node>(0, config);
        if (has_witness) {
            b  = std::make_unique<node>(1, config);
            ab = std::make_unique<endpoint>(*a, *b);
            EXPECT_EQ(UCS_OK, ab->flush());
        }
        peer = std::make_unique<process>("target");
        peer->write(std::to_string(device));
        address = from_hex(peer->read());
        key     = std::make_unique<remote_key>(from_hex(peer->read()));
        raddr   = std::stoull(peer->read());
        ap      = std::make_unique<endpoint>(*a, address);
        source  = std::make_unique<memory>(*a, size);
        put();
        EXPECT_EQ(UCS_OK, ap->flush());
    }

    void TearDown() override
    {
        ap.reset();
        key.reset();
        peer.reset();
        failover_fixture::TearDown();
    }

    void put()
    {
        uct_iov_t iov    = source->iov(0, size);
        completion &comp = kept_completion();

        EXPECT_EQ(UCS_INPROGRESS, ap->retry([&] {
            return uct_ep_put_zcopy(*ap, &iov, 1, raddr, key->bundle.rkey,
                                    &comp.super);
        }));
    }

    /* Kill it; the endpoint is to fail because of @a reason, or otherwise */
    void kill(bool is_told)
    {
        log_capture log(UCS_LOG_LEVEL_DIAG);
        double begin = now();

        peer->kill();
        put();
        EXPECT_TRUE(until([&] { return ap->errors > 0; }));
        printf("    after %.2f s\n", now() - begin);
        EXPECT_EQ(UCS_ERR_ENDPOINT_TIMEOUT, ap->error);
        EXPECT_EQ(is_told, log_capture::has("has died: its host answers"));
        run_for(0.05);
        EXPECT_EQ(1u, ap->errors);
    }

    /* All operations so far, and some more */
    void expect_works()
    {
        put();
        EXPECT_EQ(UCS_OK, ap->flush());
        EXPECT_EQ(0u, ap->errors);
        for (auto &comp : completions) {
            EXPECT_EQ(1, comp.calls);
            EXPECT_EQ(UCS_OK, comp.status);
        }
    }

    std::unique_ptr<process>    peer;
    std::unique_ptr<remote_key> key;
    std::unique_ptr<endpoint>   ap;
    std::string                 address;
    uint64_t                    raddr = 0;
};

TEST_F(dead_peer, is_found_by_a_witness_on_its_host)
{
    start_peer(1, {{"OUTAGE_TIMEOUT", "100s"}}, true);
    kill(true);
    EXPECT_EQ(UCS_OK, ab->flush());
    EXPECT_EQ(0u, ab->errors);
}

TEST_F(dead_peer, is_found_with_one_path)
{
    start_peer(1, {{"OUTAGE_TIMEOUT", "100s"}, {"NUM_PATHS", "1"}}, true);
    kill(true);
}

TEST_F(dead_peer, is_found_on_the_own_host)
{
    start_peer(0, {{"OUTAGE_TIMEOUT", "100s"}}, false);
    kill(true);
}

TEST_F(dead_peer, is_waited_for_without_a_witness)
{
    start_peer(1, {}, false);
    kill(false);
}

TEST_F(dead_peer, is_noticed_after_the_rc_timeout_without_failover)
{
    start_peer(1, no_failover(), true);
    kill(false);
}

/* No datagram comes through either, nor to the witness */
TEST_F(dead_peer, that_is_cut_off_for_4_seconds_comes_back)
{
    start_peer(1, {{"OUTAGE_TIMEOUT", "100s"}}, true);
    faults("dark at=0s for=4s");
    put();
    run_for(4);
    expect_works();
    EXPECT_EQ(0u, ab->errors);
    faults("");
    ap.reset();
    close();
    EXPECT_GT(stats_sum(stats.name, "path_ups"), 0u);
    EXPECT_GT(stats_sum(stats.name, "outage_ms"), 0u);
}

/* Its paths go down, and the program does not call progress for longer than an outage
 * may last */
TEST_F(dead_peer, that_computes_is_alive)
{
    uint32_t qpns[64];
    int count;

    start_peer(1, {{"OUTAGE_TIMEOUT", "1s"}}, true);
    peer->write("stop");
    EXPECT_EQ("stopped", peer->read());
    count = vqp_fabric()->qps(a->name.c_str(), qpns, 64);
    for (int i = 0; i < count; ++i) {
        EXPECT_EQ(0, vqp_fabric()->qp_error(a->name.c_str(), qpns[i]));
    }
    put();
    run_for(4);
    EXPECT_EQ(0u, ap->errors);
    peer->write("go");
    expect_works();
}
