/*
 * Connections: from either side, many, to any peer, and the objects that
 * remain after them.
 */
#include "uct_fixture.h"

#include "test/fabric/fabric.h"

/* C++ has templates in the first, C linkage is for the rest */
#include <infiniband/verbs.h>
extern "C" {
#include "core/conn/addr.h"
#include "verbs/gid.h"
#include "verbs/port.h"
#include "verbs/ud.h"
}

#include <stdio.h>
#include <unistd.h>

#include <regex>

class connect_test : public uct_test {
protected:
    /* One AM each way between two endpoints, or one way */
    static void expect_am(endpoint &from, unsigned &count)
    {
        unsigned before = count;

        EXPECT_EQ(UCS_OK, from.retry([&] {
            return uct_ep_am_short(from, settle_id, 1, NULL, 0);
        }));
        EXPECT_TRUE(until([&] { return count == before + 1; }));
    }

    /* Bytes that this process has pinned */
    static long pinned()
    {
        std::string text = read_file("/proc/self/status");
        size_t pos       = text.find("VmPin:");

        return (pos == std::string::npos) ? -1 :
               std::stol(text.substr(pos + 6)) * 1024;
    }
};

TEST_F(connect_test, one_side_connects_and_the_other_receives)
{
    open();
    expect_am(*ab, settled);
}

TEST_F(connect_test, both_sides_connect_at_once_and_share_queue_pairs)
{
    int qps = -1;

    open({{"NUM_PATHS", "4"}});
    connect_back();
    expect_am(*ab, settled);
    expect_am(*ba, settled);
    qps = count_qps();
    if (qps > 0) {
        EXPECT_EQ(2 + 2 * 4, qps); /* control and four paths at each side */
    }
}

TEST_F(connect_test, a_late_answer_takes_over_the_connection_of_the_peer)
{
    int qps;

    open();
    expect_am(*ab, settled);
    qps = count_qps();
    connect_back();
    expect_am(*ba, settled);
    EXPECT_EQ(qps, count_qps());
    for (int i = 0; i < 100; ++i) {
        expect_am(*ab, settled);
        expect_am(*ba, settled);
    }
}

TEST_F(connect_test, many_endpoints_between_two_interfaces)
{
    std::vector<std::unique_ptr<endpoint>> all;
    const unsigned count = 20;

    open();
    for (unsigned i = 0; i < count; ++i) {
        all.push_back(std::make_unique<endpoint>(*a, *b));
        all.push_back(std::make_unique<endpoint>(*b, *a));
    }
    for (auto &ep : all) {
        expect_am(*ep, settled);
    }
    /* in any order */
    for (size_t i = 0; i < all.size(); ++i) {
        all[(i * 7) % all.size()].reset();
        run_for(0.01);
        for (size_t j = 0; j < all.size(); j += 5) {
            if (all[j]) {
                expect_am(*all[j], settled);
            }
        }
    }
    expect_am(*ab, settled);
}

TEST_F(connect_test, an_interface_connects_to_itself)
{
    open();
    {
        endpoint self(*a, *a);
        endpoint again(*a, *a);

        expect_am(self, settled);
        expect_am(again, settled);
        memory mem(*a, 10000);
        completion comp;
        uct_iov_t iov = mem.iov(0, 4000);

        mem.fill(1);
        ASSERT_EQ(UCS_INPROGRESS, self.retry([&] {
            return uct_ep_put_zcopy(self, &iov, 1, mem.addr(5000), mem.rkey(),
                                    &comp.super);
        }));
        EXPECT_TRUE(until([&] { return comp.calls == 1; }));
        EXPECT_EQ(0, memcmp(mem.data, mem.data + 5000, 4000));
    }
    expect_am(*ab, settled);
}

TEST_F(connect_test, a_hundred_connections_one_after_the_other_leave_nothing)
{
    int qps;
    long pin;

    open();
    expect_am(*ab, settled);
    run_for(0.1);
    qps = count_qps();
    pin = pinned();
    for (int i = 0; i < 100; ++i) {
        endpoint ep(*a, *b);

        if (i % 2) {
            endpoint back(*b, *a);
            expect_am(back, settled);
        }
        expect_am(ep, settled);
    }
    EXPECT_TRUE(until([&] {
        run_for(0.2);
        return count_qps() == qps;
    })) << count_qps() << " queue pairs instead of " << qps;
    EXPECT_LE(pinned(), pin);
    expect_am(*ab, settled);
}

TEST_F(connect_test, endpoints_that_go_before_they_are_connected_leave_nothing)
{
    int qps;

    open();
    expect_am(*ab, settled);
    qps = count_qps();
    for (int i = 0; i < 30; ++i) {
        endpoint ep(*a, *b);
    }
    EXPECT_TRUE(until([&] {
        run_for(0.2);
        return count_qps() == qps;
    })) << count_qps() << " queue pairs instead of " << qps;
    expect_am(*ab, settled);
}

/* The timeout decides when: another side with a much longer one still waits */
TEST_F(connect_test, an_interface_that_is_gone_is_an_error_after_the_timeout)
{
    std::unique_ptr<node> gone, never_early;
    std::string address;
    double start;

    open({{"CONNECT_TIMEOUT", "2s"}});
    never_early = std::make_unique<node>(0, options({{"CONNECT_TIMEOUT", "1000s"}}));
    gone    = std::make_unique<node>(1);
    address = gone->address();
    gone.reset();
    start = now();
    {
        endpoint waits(*never_early, address);
        endpoint ep(*a, address);

        EXPECT_EQ(UCS_ERR_NO_RESOURCE, uct_ep_am_short(ep, 1, 0, NULL, 0));
        EXPECT_TRUE(until([&] { return ep.errors == 1; }));
        if (ep.error == UCS_ERR_ENDPOINT_TIMEOUT) {
            EXPECT_GE(now() - start, 2);
            EXPECT_EQ(0u, waits.errors);
        } else if (ep.error != UCS_ERR_CONNECTION_RESET) {
            EXPECT_EQ(UCS_ERR_UNREACHABLE, ep.error);
        }
        EXPECT_TRUE(UCS_STATUS_IS_ERR(uct_ep_am_short(ep, 1, 0, NULL, 0)));
        run_for(0.5);
        EXPECT_EQ(1u, ep.errors);
    }
    expect_am(*ab, settled);
}

TEST_F(connect_test, pending_requests_end_when_the_peer_does_not_answer)
{
    struct request {
        uct_pending_req_t super;
        endpoint         *ep;
        int               ended;
    } req;
    std::unique_ptr<node> gone;
    std::string address;

    open({{"CONNECT_TIMEOUT", "1s"}});
    gone    = std::make_unique<node>(1);
    address = gone->address();
    gone.reset();
    endpoint ep(*a, address);
    ASSERT_EQ(UCS_ERR_NO_RESOURCE, uct_ep_am_short(ep, 1, 0, NULL, 0));
    req.super.func = [](uct_pending_req_t *super) {
        request *self       = (request*)super;
        ucs_status_t status = uct_ep_am_short(*self->ep, 1, 0, NULL, 0);

        if (status == UCS_ERR_NO_RESOURCE) {
            return status;
        }
        ++self->ended;
        return UCS_OK;
    };
    req.ep    = &ep;
    req.ended = 0;
    ASSERT_EQ(UCS_OK, uct_ep_pending_add(ep, &req.super, 0));
    EXPECT_TRUE(until([&] { return req.ended == 1; }));
    EXPECT_TRUE(until([&] { return ep.errors == 1; }));
}

TEST_F(connect_test, addresses_that_are_garbage_are_refused)
{
    uct_ep_params_t params = {};
    std::string address, bad;
    log_capture log;
    uct_ep_h ep;

    open();
    address           = b->address();
    params.field_mask = UCT_EP_PARAM_FIELD_IFACE | UCT_EP_PARAM_FIELD_DEV_ADDR |
                        UCT_EP_PARAM_FIELD_IFACE_ADDR;
    params.iface      = a->iface;
    bad               = std::string(address.size() + 256, '\xff');
    params.dev_addr   = (const uct_device_addr_t*)bad.data();
    params.iface_addr = (const uct_iface_addr_t*)bad.data();
    EXPECT_TRUE(UCS_STATUS_IS_ERR(uct_ep_create(&params, &ep)));
    params.dev_addr   = (const uct_device_addr_t*)address.data();
    EXPECT_TRUE(UCS_STATUS_IS_ERR(uct_ep_create(&params, &ep)));
    EXPECT_TRUE(log.has("address"));
    EXPECT_FALSE(uct_iface_is_reachable(a->iface,
                                        (const uct_device_addr_t*)bad.data(),
                                        (const uct_iface_addr_t*)bad.data()));
    EXPECT_TRUE(uct_iface_is_reachable(
            a->iface, (const uct_device_addr_t*)address.data(),
            (const uct_iface_addr_t*)(address.data() +
                                      a->attr.device_addr_len)));
}

TEST_F(connect_test, peers_with_other_numbers_of_paths_use_the_smaller_one)
{
    a = std::make_unique<node>(0, options({{"NUM_PATHS", "2"}}));
    b = std::make_unique<node>(1, options({{"NUM_PATHS", "5"}}));
    for (node *each : {a.get(), b.get()}) {
        each->on_am(settle_id, [this](const char *, size_t) {
            ++settled;
            return UCS_OK;
        });
    }
    ab = std::make_unique<endpoint>(*a, *b);
    expect_am(*ab, settled);
    connect_back();
    for (int i = 0; i < 300; ++i) {
        expect_am(*ba, settled);
        expect_am(*ab, settled);
    }
}

TEST_F(connect_test, peers_with_other_ring_sizes_fail_with_a_clear_message)
{
    log_capture log;

    a  = std::make_unique<node>(0, options({{"RING_SIZE", "64k"}}));
    b  = std::make_unique<node>(1, options({{"RING_SIZE", "16k"}}));
    ab = std::make_unique<endpoint>(*a, *b);
    EXPECT_TRUE(until([&] { return ab->errors == 1; }));
    EXPECT_TRUE(log.has("UCX_VQP_RING_MIN=16384"));
}

/* ---- strangers ---- */

/* Sends whatever it likes to the control queue pair of an interface */
class stranger {
public:
    explicit stranger(node &target) : victim(target)
    {
        std::string text = victim.address();
        vqp_ib_ud_params_t params = {};
        vqp_iface_addr_t iface_addr;

        EXPECT_EQ(VQP_OK, vqp_ib_dev_open(&dev, devices()[0].c_str()));
        EXPECT_EQ(VQP_OK, vqp_ib_port_query(&dev, 1, &port));
        EXPECT_EQ(VQP_OK, vqp_ib_gid_select(&dev, &port, VQP_IB_GID_AUTO,
                                            &gid));
        EXPECT_EQ(VQP_OK, vqp_ib_resolver_init(&resolver, &dev,
                                               port.link == VQP_IB_LINK_ETH));
        params.dev       = &dev;
        params.resolver  = &resolver;
        params.port      = &port;
        params.gid       = &gid;
        params.hop_limit = 64;
        params.num_recvs = params.num_sends = params.num_ahs = 16;
        EXPECT_EQ(VQP_OK, vqp_ib_ud_init(&ud, &params));

        EXPECT_EQ(VQP_OK, vqp_iface_addr_unpack(
                                  text.data() + victim.attr.device_addr_len,
                                  SIZE_MAX, &iface_addr));
        memset(&to, 0, sizeof(to));
        memcpy(to.gid, iface_addr.dev.rails[0].gid, sizeof(to.gid));
        to.qpn       = iface_addr.ud_qpn[0];
        victim_id    = iface_addr.id;
        to.is_global = 1;
    }

    ~stranger()
    {
        vqp_ib_ud_cleanup(&ud);
        vqp_ib_resolver_cleanup(&resolver);
        vqp_ib_dev_close(&dev);
    }

    void send(const std::string &data)
    {
        vqp_ib_ud_msg_t msg;

        while (vqp_ib_ud_send(&ud, &to, data.data(), (uint32_t)data.size()) ==
               VQP_INPROGRESS) { /* the first one resolves the address */
        }
        (void)vqp_ib_ud_poll(&ud, &msg); /* reaps the send */
    }

    /* A REQ of an interface behind this queue pair, valid but for its queue pair
     * of data, which is not there */
    std::string request(uint32_t number)
    {
        std::string data(VQP_WIRE_MAX_LEN, '\0');
        vqp_wire_header_t hdr = {};
        vqp_wire_info_t info  = {};

        hdr.type               = VQP_WIRE_REQ;
        hdr.number             = number;
        hdr.src_iface          = 0x1234567890;
        hdr.dst_iface          = victim_id;
        hdr.src_cookie         = 0x5eed0000 + number;
        info.ring_addr         = 0x10000;
        info.cell_addr         = 0x20000;
        info.ring_size         = 65536;
        info.fsn_window        = 64;
        info.rx_depth          = 16;
        info.num_rails         = 1;
        info.num_paths         = 1;
        info.rails[0].ud_qpn   = ud.qpn;
        info.rails[0].mtu      = 3;
        info.rails[0].link     = VQP_LINK_ETH;
        info.paths[0].qpn      = 0x777;
        memcpy(info.rails[0].gid, gid.raw, sizeof(gid.raw));
        data.resize(vqp_wire_encode(&hdr, &info, &data[0]));
        return data;
    }

    node            &victim;
    vqp_ib_dev_t     dev;
    vqp_ib_port_t    port;
    vqp_ib_gid_t     gid;
    vqp_ib_resolver_t resolver;
    vqp_ib_ud_t      ud;
    vqp_ib_ud_addr_t to;
    uint64_t         victim_id;
};

/* Wait until so many messages of a stranger have been handled, without progress
 * calls */
static void wait_handled(const stranger &from, uint64_t count)
{
    vqp_fabric_traffic_t traffic = {};
    double end                   = now() + wait_limit();

    if (vqp_fabric() == NULL) {
        usleep(500000);
        return;
    }
    do {
        usleep(1000);
        ASSERT_EQ(0, vqp_fabric()->qp_traffic(from.victim.name.c_str(), from.to.qpn,
                                              &traffic));
    } while ((traffic.cqes < traffic.messages + traffic.wrs) && (now() < end));
    EXPECT_GE(traffic.messages, count);
    EXPECT_EQ(traffic.cqes, traffic.messages + traffic.wrs);
    from.victim.block(); /* the last one, too */
    from.victim.unblock();
}

/* More datagrams than one call of the handler handles, without progress
 * calls */
TEST_F(connect_test, datagrams_that_come_at_once_are_handled_in_parts)
{
    const unsigned count = 200;
    temp_file stats;

    open({{"STATS_FILE", stats.name}});
    expect_am(*ab, settled);
    run_for(0.05);
    {
        stranger bad(*b);

        b->block();
        for (unsigned i = 0; i < count; ++i) {
            bad.send(std::string(60, 'x'));
        }
        b->unblock();
        wait_handled(bad, count); /* asleep: the handlers alone */
    }
    expect_am(*ab, settled);
    b->close();
    EXPECT_EQ(count, stats_sum(stats.name, "malformed"));
    EXPECT_GE(stats_sum(stats.name, "yields"), count / 32);
}

/* REQs from which nothing follows */
TEST_F(connect_test, a_flood_of_requests_pins_little_and_keeps_nobody_out)
{
    const unsigned limit = 128; /* docs/protocol.md */
    const unsigned count = 2 * limit;
    temp_file stats;
    int qps;

    open({{"STATS_FILE", stats.name}, {"NUM_PATHS", "1"}});
    expect_am(*ab, settled);
    qps = count_qps();
    {
        stranger bad(*b);

        for (unsigned i = 0; i < count; ++i) {
            bad.send(bad.request(i + 1));
            if ((i % 20) == 0) {
                run_for(0.01);
            }
        }
        run_for(0.1);
        if (qps > 0) {
            EXPECT_LE(count_qps(), qps + (int)limit + 1);
        }
    }
    endpoint fresh(*a, *b);
    expect_am(fresh, settled);
    EXPECT_EQ(0u, a->errors + b->errors);
    b->close();
    if (vqp_fabric() != NULL) {
        /* a real device is slower: the first ones give up before the last come */
        EXPECT_GE(stats_sum(stats.name, "refused"), 1u);
    }
}

/* After a close the peer's side is used again: its failure is one */
TEST_F(connect_test, a_peer_that_comes_back_and_fails_is_an_error)
{
    log_capture quiet;

    open();
    expect_am(*ab, settled);
    connect_back();
    expect_am(*ba, settled);
    ba->destroy();
    run_for(0.1);
    connect_back();
    EXPECT_EQ(UCS_OK, uct_ep_flush(*ba, UCT_FLUSH_FLAG_CANCEL, NULL));
    EXPECT_TRUE(until([&] { return ab->errors == 1; }));
}

TEST_F(connect_test, another_version_is_logged_once_and_does_no_harm)
{
    static const std::string said = "control datagrams of another version";
    log_capture capture(UCS_LOG_LEVEL_WARN);
    std::string data, log;

    open();
    expect_am(*ab, settled);
    {
        stranger old(*b);

        data    = old.request(1);
        data[4] = VQP_WIRE_VERSION - 1;
        for (unsigned i = 0; i < 3; ++i) {
            old.send(data);
            EXPECT_TRUE(until([&] { return capture.has(said); }));
        }
    }
    connect_back(); /* b handles control datagrams in the order of arrival */
    expect_am(*ba, settled);
    EXPECT_EQ(0u, a->errors + b->errors);
    log = capture.text();
    EXPECT_EQ(log.find(said), log.rfind(said)) << log;
}

TEST_F(connect_test, malformed_datagrams_do_no_harm)
{
    temp_file stats;

    open({{"STATS_FILE", stats.name}});
    expect_am(*ab, settled);
    {
        stranger bad(*b);

        for (unsigned i = 0; i < 400; ++i) {
            std::string data((i * 37) % 1024, '\0');

            for (size_t j = 0; j < data.size(); ++j) {
                data[j] = pattern(i, j);
            }
            bad.send(data);
            if ((i % 20) == 0) {
                expect_am(*ab, settled);
            }
        }
    }
    connect_back();
    expect_am(*ba, settled);
    endpoint fresh(*a, *b);
    expect_am(fresh, settled);
    EXPECT_EQ(0u, a->errors + b->errors);
    b->close();
    EXPECT_GT(stats_sum(stats.name, "malformed") +
              stats_sum(stats.name, "unknown_type"), 0u);
}

/* ---- the reason of an endpoint that could not be connected ---- */

class connect_reason : public connect_test {
protected:
    void SetUp() override
    {
        connect_test::SetUp();
        if (vqp_fabric() == NULL) {
            GTEST_SKIP() << "faults are made by the software fabric";
        }
    }

    void TearDown() override
    {
        if (vqp_fabric() != NULL) {
            vqp_fabric()->faults(NULL, NULL, 0);
        }
        connect_test::TearDown();
    }

    /* Two interfaces; a's endpoints wait for one second */
    void start(options of_a = {}, const options &of_b = {})
    {
        of_a.insert({"CONNECT_TIMEOUT", "1s"});
        a = std::make_unique<node>(0, of_a);
        b = std::make_unique<node>(1, of_b);
    }

    static vqp_iface_addr_t unpack(const node &of)
    {
        std::string text = of.address();
        vqp_iface_addr_t addr;

        EXPECT_EQ(VQP_OK, vqp_iface_addr_unpack(text.data() + of.attr.device_addr_len,
                                                SIZE_MAX, &addr));
        return addr;
    }

    /* The address of a node, with this interface address instead of its own */
    static std::string pack(const node &of, const vqp_iface_addr_t &addr)
    {
        std::string text = of.address();

        vqp_iface_addr_pack(&addr, &text[of.attr.device_addr_len]);
        return text;
    }

    /* How a message to the control queue pair at this address is described */
    static std::string route(const node &from, const vqp_iface_addr_t &to)
    {
        char gid[64], qpn[16];

        snprintf(qpn, sizeof(qpn), "0x%x", to.ud_qpn[0]);
        return "from " + from.name + ":1 to gid " +
               vqp_ib_gid_str(to.dev.rails[0].gid, gid, sizeof(gid)) + " qp " + qpn;
    }

    /* The line with which the endpoint of a fails; what follows it is in hint */
    std::string fail(const std::string &address)
    {
        static const std::string begin = "endpoint to iface ";
        endpoint ep(*a, address);
        std::string all;
        size_t at, end;

        EXPECT_TRUE(until([&] { return ep.errors == 1; }));
        error = ep.error;
        all   = log.text();
        at    = all.find(begin);
        if (at == all.npos) {
            ADD_FAILURE() << all;
            return "";
        }
        end  = all.find('\n', at);
        hint = all.substr(end + 1);
        return all.substr(at, end - at);
    }

    static void expect_match(const std::string &line, const std::string &pattern)
    {
        EXPECT_TRUE(std::regex_search(line, std::regex(pattern)))
                << line << "\ndoes not match\n" << pattern;
    }

    static void expect_part(const std::string &text, const std::string &part)
    {
        EXPECT_NE(text.npos, text.find(part)) << text << "\nhas no\n" << part;
    }

    log_capture  log{UCS_LOG_LEVEL_DIAG};
    ucs_status_t error = UCS_OK;
    std::string  hint;
};

TEST_F(connect_reason, of_a_peer_whose_datagrams_are_lost)
{
    std::string line;

    start();
    if (a->name == b->name) {
        GTEST_SKIP() << "one device";
    }
    faults("lose dev=" + b->name + " count=all");
    line = fail(b->address());
    EXPECT_EQ(UCS_ERR_ENDPOINT_TIMEOUT, error);
    expect_match(line, "^endpoint to iface 0x[0-9a-f]+ failed: Endpoint timeout: "
                       "([2-9]|[0-9]{2,}) REQs in [0-9]+\\.[0-9] s from ");
    expect_part(line, route(*a, unpack(*b)) + ": nothing came back");
    expect_part(hint, "firewall");
    expect_part(hint, "docs/troubleshooting.md");
}

TEST_F(connect_reason, of_an_address_that_does_not_resolve)
{
    std::string line;

    start();
    faults("resolve dev=" + a->name + " count=all");
    line = fail(b->address());
    EXPECT_EQ(UCS_ERR_ENDPOINT_TIMEOUT, error);
    expect_match(line, "[0-9]+ REQs in .*, [0-9]+ of them could not be sent: nothing came "
                       "back$");
    expect_part(hint, "does not resolve");
}

TEST_F(connect_reason, of_a_peer_without_queue_pairs)
{
    std::string line;

    start({{"CONNECT_TIMEOUT", "100s"}, {"NUM_PATHS", "1"}});
    faults("call verb=create_qp nth=2 count=all errno=ENOMEM"); /* the first one is a's */
    line = fail(b->address());
    EXPECT_EQ(UCS_ERR_NO_MEMORY, error);
    expect_match(line, "failed: Out of memory: [0-9]+ REQs in .*: the peer refused it: it "
                       "lacks queue pairs or memory$");
    /* no error of b: the peer tries again, for a while */
    EXPECT_EQ(std::string::npos, log.errors().find("ibv_create_qp")) << log.text();
}

TEST_F(connect_reason, of_an_interface_that_is_not_there_any_more)
{
    vqp_iface_addr_t addr;
    std::string line;

    start();
    addr     = unpack(*b);
    addr.id ^= 1ull << 40;
    line     = fail(pack(*b, addr));
    EXPECT_EQ(UCS_ERR_ENDPOINT_TIMEOUT, error);
    expect_part(line, ": the peer refused it: the interface is not there any more");
    expect_part(hint, "started again");
}

TEST_F(connect_reason, of_queue_pairs_that_can_not_be_connected)
{
    std::string line;

    start({{"RING_SIZE", "64k"}}, {{"RING_SIZE", "16k"}});
    line = fail(b->address());
    expect_match(line, ": [0-9]+ REQs? in .*: the peer answered, its queue pairs could not be "
                       "connected$");
    EXPECT_TRUE(log.has("UCX_VQP_RING_MIN=16384")); /* the reason precedes it */
}

TEST_F(connect_reason, of_a_queue_pair_that_the_device_refuses)
{
    start();
    faults("call verb=modify_qp nth=3 count=all errno=EINVAL"); /* each side has made one */
    expect_part(fail(b->address()), "its queue pairs could not be connected");
    expect_part(log.errors(), "failed to connect QP 0x");
}

TEST_F(connect_reason, of_a_peer_of_another_version_names_it)
{
    vqp_iface_addr_t addr;
    std::string line, data;

    start();
    {
        stranger old(*a);

        addr            = unpack(*a);
        addr.id        ^= 1ull << 40;
        addr.ud_qpn[0]  = old.ud.qpn;
        data            = old.request(1);
        data[4]         = VQP_WIRE_VERSION + 1;
        endpoint first(*a, pack(*a, addr));
        old.send(data);
        EXPECT_TRUE(until([&] { return first.errors == 1; }));
        line = log.text();
    }
    expect_part(line, route(*a, addr) + ": nothing came back, but datagrams of wire version " +
                      std::to_string(VQP_WIRE_VERSION + 1) + " (here: " +
                      std::to_string(VQP_WIRE_VERSION) + ")");
    expect_part(line, "all processes need the same build of uct_vqp (docs/troubleshooting.md)");
}

TEST_F(connect_reason, is_only_of_an_endpoint_that_was_never_connected)
{
    open();
    expect_am(*ab, settled);
    connect_back();
    expect_am(*ba, settled);
    EXPECT_FALSE(UCS_STATUS_IS_ERR(uct_ep_flush(*ba, UCT_FLUSH_FLAG_CANCEL, NULL)));
    EXPECT_TRUE(until([&] { return ab->errors == 1; }));
    expect_part(log.text(), std::string(" failed: ") + ucs_status_string(ab->error) + "\n");
    EXPECT_FALSE(log.has("REQs")) << log.text();
}
