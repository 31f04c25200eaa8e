/*
 * Bonds: several ports as one device (UCX_VQP_RAILS). Which ports form one is
 * tested in test/core/bond_test.cc; the operations over a bond, by running the
 * other tests with UCX_VQP_RAILS and RXE_DEVS=bond0.
 */
#include "uct_fixture.h"

#include "test/fabric/fabric.h"

extern "C" {
#include "core/conn/addr.h"
}

#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>

class bond_test : public uct_test {
protected:
    void SetUp() override
    {
        const char *rails = getenv("UCX_VQP_RAILS");

        before = (rails == nullptr) ? "" : rails;
        uct_test::SetUp();
        if (IsSkipped()) {
            return;
        }
        if ((devices().size() < 2) || (devices()[0].find("bond") == 0)) {
            GTEST_SKIP() << "needs two unbonded devices";
        }
        both = devices()[0] + ":1," + devices()[1] + ":1";
    }

    void TearDown() override
    {
        set_rails(before); /* other tests may be run over bonds */
        uct_test::TearDown();
    }

    static void set_rails(const std::string &rails)
    {
        setenv("UCX_VQP_RAILS", rails.c_str(), 1);
    }

    /* Names of the memory domains */
    static std::vector<std::string> domains()
    {
        uct_component_attr_t attr;
        std::vector<std::string> names;

        attr.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
        EXPECT_EQ(UCS_OK, uct_component_query(component(), &attr));

        std::vector<uct_md_resource_desc_t> mds(attr.md_resource_count);
        attr.field_mask   = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
        attr.md_resources = mds.data();
        EXPECT_EQ(UCS_OK, uct_component_query(component(), &attr));
        for (auto &md : mds) {
            names.push_back(md.md_name);
        }
        return names;
    }

    static bool has(const std::vector<std::string> &names,
                    const std::string &name)
    {
        return std::find(names.begin(), names.end(), name) != names.end();
    }

    /* A put of 1 MiB arrives */
    static void move(node &from, node &to, memory &source, memory &target)
    {
        endpoint ep(from, to);
        uct_iov_t iov = source.iov(0, source.length);
        completion comp;

        source.fill(1);
        target.fill(2);
        EXPECT_EQ(UCS_INPROGRESS, ep.retry([&] {
            return uct_ep_put_zcopy(ep, &iov, 1, target.addr(), target.rkey(),
                                    &comp.super);
        }));
        EXPECT_TRUE(until([&] { return comp.calls == 1; }));
        EXPECT_EQ(UCS_OK, comp.status);
        EXPECT_EQ(0, memcmp(source.data, target.data, source.length));
        EXPECT_EQ(UCS_OK, ep.flush());
    }

    /* Faults that drop all messages to the control queue pair of a rail */
    static std::string silence(const node &which, unsigned rail)
    {
        std::string text = which.address();
        vqp_iface_addr_t addr;

        EXPECT_EQ(VQP_OK, vqp_iface_addr_unpack(
                                  text.data() + which.attr.device_addr_len,
                                  SIZE_MAX, &addr));
        return "withhold dir=recv count=all dev=" + devices()[rail] + " qpn=" +
               std::to_string(addr.ud_qpn[rail]);
    }

    std::string both;

private:
    std::string before;
};

TEST_F(bond_test, its_ports_are_no_devices_of_their_own)
{
    std::vector<std::string> single = domains();

    EXPECT_FALSE(has(single, "vqp_bond0"));
    set_rails(both);
    std::vector<std::string> bonded = domains();
    EXPECT_EQ(single.size() - 1, bonded.size());
    EXPECT_TRUE(has(bonded, "vqp_bond0"));
    EXPECT_FALSE(has(bonded, "vqp_" + devices()[0]));
    EXPECT_FALSE(has(bonded, "vqp_" + devices()[1]));
}

TEST_F(bond_test, an_invalid_text_is_an_error_that_quotes_it)
{
    log_capture log;

    /* no domains: an error would end UCP for all transports */
    set_rails(devices()[0] + ",nosuch*");
    EXPECT_TRUE(domains().empty());
    EXPECT_TRUE(log_capture::has("UCX_VQP_RAILS=" + devices()[0] +
                                 ",nosuch*: 'nosuch*' matches no port"))
            << log_capture::text();
}

TEST_F(bond_test, has_the_name_of_its_first_port_and_the_bandwidth_of_all)
{
    node single;

    set_rails(both);
    node bond("bond0");
    EXPECT_NEAR(2 * single.attr.bandwidth.shared, bond.attr.bandwidth.shared,
                single.attr.bandwidth.shared / 100);
    EXPECT_EQ(single.md_attr.rkey_packed_size + 4,
              bond.md_attr.rkey_packed_size);
}

/* A process that starts while a port is down has a bond all the same */
TEST_F(bond_test, a_port_that_is_down_is_left_out)
{
    if (vqp_fabric() == nullptr) {
        GTEST_SKIP() << "can not take a port down";
    }

    for (unsigned down = 0; down < 2; ++down) {
        SCOPED_TRACE(down);
        set_rails(both);
        node whole("bond0");
        log_capture log;

        ASSERT_EQ(0, vqp_fabric()->port(devices()[down].c_str(), 1, 0));
        set_rails(std::string(down + 1, ' ') + both); /* is read again */
        {
            node part("bond0");
            EXPECT_TRUE(log_capture::has("not active")) << log_capture::text();
            ASSERT_EQ(0, vqp_fabric()->port(devices()[down].c_str(), 1, 1));
            memory source(part, 1 << 20), target(whole, 1 << 20);
            move(part, whole, source, target);
            move(whole, part, target, source);
        }
    }
}

TEST_F(bond_test, data_go_over_all_rails)
{
    set_rails(both);
    node a("bond0"), b("bond0");
    memory source(a, 1 << 20), target(b, 1 << 20);

    move(a, b, source, target);
    move(b, a, target, source);
}

/* Nothing arrives at one control queue pair of each end, so that requests and
 * answers have to find the way where they get through */
TEST_F(bond_test, a_silent_rail_stops_no_connection)
{
    uint64_t hits = 0;

    if (vqp_fabric() == nullptr) {
        GTEST_SKIP() << "can not silence a queue pair";
    }

    set_rails(both);
    for (unsigned silent = 0; silent < 4; ++silent) {
        SCOPED_TRACE(silent);
        node a("bond0", {{"CONNECT_TIMEOUT", "1s"}});
        node b("bond0", {{"CONNECT_TIMEOUT", "1s"}});
        std::string script = silence(a, silent & 1) + ";" + silence(b, silent >> 1);
        for (node *each : {&a, &b}) {
            each->on_am(1, [](const char *, size_t) { return UCS_OK; });
        }
        ASSERT_EQ(0, vqp_fabric()->faults(script.c_str(), NULL, 0));
        {
            endpoint ab(a, b);

            run_for(1.5); /* longer than any side waits */
            EXPECT_EQ(UCS_OK, ab.retry([&] {
                return uct_ep_am_short(ab, 1, 0, NULL, 0);
            }));
            EXPECT_EQ(UCS_OK, ab.flush());
            endpoint ba(b, a);
            EXPECT_EQ(UCS_OK, ba.flush());
            ab.destroy();
            run_for(0.5);
            EXPECT_EQ(UCS_OK, ba.retry([&] {
                return uct_ep_am_short(ba, 1, 0, NULL, 0);
            }));
            EXPECT_EQ(UCS_OK, ba.flush());
        }
        EXPECT_EQ(0u, a.errors + b.errors);
        hits += vqp_fabric()->fault_hits();
        vqp_fabric()->faults(NULL, NULL, 0);
    }
    EXPECT_GT(hits, 0u);
}

TEST_F(bond_test, connects_to_an_unbonded_port)
{
    node single;

    set_rails(both);
    node bond("bond0");
    memory at_single(single, 1 << 20), at_bond(bond, 1 << 20);
    move(single, bond, at_single, at_bond);
    move(bond, single, at_bond, at_single);
}

TEST_F(bond_test, a_key_of_another_bond_is_refused)
{
    node single;

    set_rails(both);
    node a("bond0"), b("bond0");
    set_rails(devices()[1] + ":1," + devices()[0] + ":1");
    node turned("bond0");
    memory of_single(single, 64), of_turned(turned, 64), right(b, 64);
    endpoint ep(a, b);
    uint64_t value = 1, result;
    completion comp;

    ASSERT_EQ(UCS_OK, ep.retry([&] {
        return uct_ep_put_short(ep, &value, 8, right.addr(), right.rkey());
    }));
    for (memory *wrong : {&of_single, &of_turned}) {
        log_capture log;

        EXPECT_EQ(UCS_ERR_INVALID_PARAM,
                  uct_ep_put_short(ep, &value, 8, wrong->addr(),
                                   wrong->rkey()));
        EXPECT_EQ(UCS_ERR_INVALID_PARAM,
                  uct_ep_atomic64_fetch(ep, UCT_ATOMIC_OP_ADD, 1, &result,
                                        wrong->addr(), wrong->rkey(),
                                        &comp.super));
        EXPECT_TRUE(log_capture::has("for memory of other rails"));
    }
    EXPECT_EQ(UCS_OK, ep.flush());
    EXPECT_EQ(0u, ep.errors);
}

TEST_F(bond_test, atomics_from_all_rails_lose_nothing)
{
    const unsigned count = 400;

    set_rails(both);
    node a("bond0", {{"NUM_PATHS", "4"}}), b("bond0", {{"NUM_PATHS", "4"}});
    memory target(b, 8);
    endpoint ep(a, b);

    SKIP_WITHOUT_ATOMICS(a);
    memset(target.data, 0, 8);
    for (unsigned i = 0; i < count; ++i) {
        ASSERT_EQ(UCS_OK, ep.retry([&] {
            return uct_ep_atomic64_post(ep, UCT_ATOMIC_OP_ADD, 1, target.addr(),
                                        target.rkey());
        }));
    }
    EXPECT_EQ(UCS_OK, ep.flush());
    EXPECT_EQ(count, *(volatile uint64_t*)target.data);
}

TEST_F(bond_test, auto_bonds_the_ports_of_a_node)
{
    if ((vqp_fabric() == nullptr) || (devices().size() > 4)) {
        GTEST_SKIP() << "needs to know which devices are alike";
    }

    set_rails("auto");
    EXPECT_EQ(std::vector<std::string>{"vqp_bond0"}, domains());
    node a("bond0"), b("bond0");
    memory source(a, 1 << 20), target(b, 1 << 20);
    EXPECT_EQ(8 + 4 * (devices().size() - 1), a.md_attr.rkey_packed_size);
    move(a, b, source, target);
}

/* ---- ends of different kinds ---- */

struct side {
    unsigned rails;
    options  config;
};

struct pairing {
    const char *name;
    side        a, b;
};

static inline void PrintTo(const pairing &which, std::ostream *os)
{
    *os << which.name;
}

class bond_pairs : public bond_test,
                   public ::testing::WithParamInterface<pairing> {
protected:
    void SetUp() override
    {
        bond_test::SetUp();
        if (!IsSkipped() && (devices().size() <
                             std::max(GetParam().a.rails, GetParam().b.rails))) {
            GTEST_SKIP() << "needs more devices";
        }
    }

    /* An end on the first devices, or (from the end) on the last ones */
    static std::unique_ptr<node> open_end(const side &what, bool from_end)
    {
        std::string rails;
        size_t first = from_end ? (devices().size() - what.rails) : 0;

        for (unsigned i = 0; i < what.rails; ++i) {
            rails += (i ? "," : "") + devices()[first + i] + ":1";
        }
        set_rails((what.rails > 1) ? rails : "");
        return std::make_unique<node>((what.rails > 1) ? "bond0" :
                                                         devices()[first],
                                      what.config);
    }

    /* Everything that one end can do to the other */
    static void use(node &from, node &to)
    {
        const size_t length = 1 << 20;
        memory source(from, length), target(to, length), counter(to, 8);
        uct_iov_t all = source.iov(0, length);
        uct_iov_t part = source.iov(0, 16000);
        completion get, put, am;
        unsigned in_order = 0;

        move(from, to, source, target);
        memset(counter.data, 0, 8);
        target.fill(3);
        endpoint ep(from, to);
        EXPECT_EQ(UCS_INPROGRESS, ep.retry([&] {
            return uct_ep_get_zcopy(ep, &all, 1, target.addr(), target.rkey(),
                                    &get.super);
        }));
        EXPECT_TRUE(until([&] { return get.calls == 1; }));
        EXPECT_EQ(0, memcmp(source.data, target.data, length));

        /* what is put before a fence is there when the message comes */
        to.on_am(1, [&](const char *data, size_t size) {
            in_order += (size == 16000) && !memcmp(data, source.data, size) &&
                        !memcmp(target.data, source.data, length);
            return UCS_OK;
        });
        source.fill(4);
        EXPECT_EQ(UCS_INPROGRESS, ep.retry([&] {
            return uct_ep_put_zcopy(ep, &all, 1, target.addr(), target.rkey(),
                                    &put.super);
        }));
        EXPECT_EQ(UCS_OK, uct_ep_fence(ep, 0));
        EXPECT_EQ(UCS_INPROGRESS, ep.retry([&] {
            return uct_ep_am_zcopy(ep, 1, NULL, 0, &part, 1, 0, &am.super);
        }));
        for (unsigned i = 0; from.has_atomics() && (i < 100); ++i) {
            EXPECT_EQ(UCS_OK, ep.retry([&] {
                return uct_ep_atomic64_post(ep, UCT_ATOMIC_OP_ADD, 1,
                                            counter.addr(), counter.rkey());
            }));
        }
        EXPECT_EQ(UCS_OK, ep.flush());
        EXPECT_EQ(from.has_atomics() ? 100u : 0u, *(volatile uint64_t*)counter.data);
        EXPECT_EQ(0, memcmp(source.data, target.data, length));
        EXPECT_TRUE(until([&] { return (put.calls == 1) && (am.calls == 1); }));
        EXPECT_TRUE(until([&] { return in_order == 1; }));
        EXPECT_EQ(0u, ep.errors);
    }
};

TEST_P(bond_pairs, exchange_data_in_both_directions)
{
    std::unique_ptr<node> first  = open_end(GetParam().a, false);
    std::unique_ptr<node> second = open_end(GetParam().b, true);

    use(*first, *second);
    use(*second, *first);
}

static const pairing pairings[] = {
    {"one_rail_two_rails", {1, {}}, {2, {}}},
    {"one_path_four_rails", {1, {{"NUM_PATHS", "1"}}}, {4, {}}},
    {"two_rails_three_rails", {2, {{"NUM_PATHS", "6"}}}, {3, {{"NUM_PATHS", "3"}}}},
    {"two_rails_four_rails", {2, {{"NUM_PATHS", "2"}}}, {4, {{"NUM_PATHS", "8"}}}},
    {"four_rails_one_path", {4, {{"NUM_PATHS", "1"}}}, {4, {{"NUM_PATHS", "1"}}}},
    {"four_rails_tail", {4, {{"NOTIFY", "tail"}}}, {4, {{"NOTIFY", "tail"}}}},
    {"smaller_mtu", {2, {{"PATH_MTU", "1024"}}}, {2, {}}},
    {"few_reads", {2, {{"READ_DEPTH", "1"}}}, {4, {{"READ_DEPTH", "16"}}}},
    {"no_inline", {2, {{"TX_MIN_INLINE", "0"}, {"TX_MIN_SGE", "2"}}}, {2, {}}},
};

INSTANTIATE_TEST_SUITE_P(, bond_pairs, ::testing::ValuesIn(pairings),
                         [](const ::testing::TestParamInfo<pairing> &info) {
                             return std::string(info.param.name);
                         });

/* By turns the messages come over each of the rails */
TEST_F(bond_test, a_message_wakes_up_a_sleeper_by_whichever_rail)
{
    static const unsigned events = UCT_EVENT_SEND_COMP | UCT_EVENT_RECV;
    const char *mode             = getenv("VQP_FABRIC_MODE");
    unsigned got                 = 0;
    int fd                       = -1;
    int limit                    = wait_limit_ms();

    set_rails(both);
    node a("bond0", {{"NUM_PATHS", "2"}, {"SCHED", "rr"}});
    node b("bond0", {{"NUM_PATHS", "2"}, {"SCHED", "rr"}});
    endpoint ep(a, b);

    b.on_am(1, [&](const char *, size_t) { ++got; return UCS_OK; });
    ASSERT_EQ(UCS_OK, ep.flush());
    ASSERT_EQ(UCS_OK, uct_iface_event_fd_get(b.iface, &fd));
    if ((vqp_fabric() != nullptr) &&
        ((mode == nullptr) || (strcmp(mode, "immediate") == 0))) {
        limit = 0; /* in place before: a timer must not wake up for it */
    }
    for (unsigned i = 0; i < 40; ++i) {
        struct pollfd pfd = {fd, POLLIN, 0};

        ASSERT_TRUE(until([&] {
            return uct_iface_event_arm(b.iface, events) == UCS_OK;
        }));
        ASSERT_EQ(UCS_OK, ep.retry([&] {
            return uct_ep_am_short(ep, 1, i, NULL, 0);
        }));
        ASSERT_EQ(1, poll(&pfd, 1, limit)) << i;
        EXPECT_EQ(UCS_ERR_BUSY, uct_iface_event_arm(b.iface, events)) << i;
        ASSERT_TRUE(until([&] { return got == i + 1; }));
    }
}

/* It came before the queues were armed, and raises no event any more */
TEST_F(bond_test, arming_is_refused_by_what_waits_on_any_rail)
{
    static const unsigned events = UCT_EVENT_SEND_COMP | UCT_EVENT_RECV;
    unsigned got                 = 0;

    set_rails(both);
    node a("bond0", {{"NUM_PATHS", "2"}, {"SCHED", "rr"}});
    node b("bond0", {{"NUM_PATHS", "2"}, {"SCHED", "rr"}});
    endpoint ep(a, b);

    b.on_am(1, [&](const char *, size_t) { ++got; return UCS_OK; });
    ASSERT_EQ(UCS_OK, ep.flush());
    for (unsigned i = 0; i < 20; ++i) {
        ASSERT_TRUE(until([&] { /* nothing is left to do */
            return uct_iface_event_arm(b.iface, events) == UCS_OK;
        }));
        ASSERT_EQ(UCS_OK, uct_ep_am_short(ep, 1, i, NULL, 0));
        usleep(5000);
        ASSERT_EQ(UCS_ERR_BUSY, uct_iface_event_arm(b.iface, events)) << i;
        ASSERT_TRUE(until([&] { return got == i + 1; }));
    }
}
