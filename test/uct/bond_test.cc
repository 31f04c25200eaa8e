/*
 * Bonds: several ports as one device (UCX_VQP_RAILS). Which ports form one is
 * tested in test/core/bond_test.cc; the operations over a bond, by running the
 * other tests with UCX_VQP_RAILS and RXE_DEVS=bond0.
 */
#include "uct_fixture.h"

#include <stdlib.h>

#include <algorithm>

class bond_test : public uct_test {
protected:
    void SetUp() override
    {
        uct_test::SetUp();
        if (IsSkipped()) {
            return;
        }
        if ((devices().size() < 2) || (devices()[0].find("bond") == 0)) {
            GTEST_SKIP() << "needs two plain devices";
        }
        both = devices()[0] + ":1," + devices()[1] + ":1";
    }

    void TearDown() override
    {
        unsetenv("UCX_VQP_RAILS");
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

    std::string both;
};

TEST_F(bond_test, its_ports_are_no_devices_of_their_own)
{
    std::vector<std::string> plain = domains();

    EXPECT_FALSE(has(plain, "vqp_bond0"));
    set_rails(both);
    std::vector<std::string> bonded = domains();
    EXPECT_EQ(plain.size() - 1, bonded.size());
    EXPECT_TRUE(has(bonded, "vqp_bond0"));
    EXPECT_FALSE(has(bonded, "vqp_" + devices()[0]));
    EXPECT_FALSE(has(bonded, "vqp_" + devices()[1]));
}

TEST_F(bond_test, a_wrong_text_is_an_error_that_quotes_it)
{
    log_capture log;

    /* no domains: an error would end UCP for all transports */
    set_rails(devices()[0] + ",nosuch*");
    EXPECT_TRUE(domains().empty());
    EXPECT_TRUE(log_capture::has("UCX_VQP_RAILS=" + devices()[0] +
                                 ",nosuch*: 'nosuch*' matches no active port"))
            << log_capture::text();
}

TEST_F(bond_test, has_the_name_of_its_first_port_and_the_bandwidth_of_all)
{
    node plain;

    set_rails(both);
    node bond("bond0");
    EXPECT_NEAR(2 * plain.attr.bandwidth.dedicated,
                bond.attr.bandwidth.dedicated,
                plain.attr.bandwidth.dedicated / 100);
    EXPECT_EQ(plain.md_attr.rkey_packed_size + 4,
              bond.md_attr.rkey_packed_size);
}

TEST_F(bond_test, data_go_over_all_rails)
{
    set_rails(both);
    node a("bond0"), b("bond0");
    memory source(a, 1 << 20), target(b, 1 << 20);

    move(a, b, source, target);
    move(b, a, target, source);
}

TEST_F(bond_test, talks_to_one_port)
{
    node plain;

    set_rails(both);
    node bond("bond0");
    memory at_plain(plain, 1 << 20), at_bond(bond, 1 << 20);
    move(plain, bond, at_plain, at_bond);
    move(bond, plain, at_bond, at_plain);
}

TEST_F(bond_test, a_key_of_another_bond_is_refused)
{
    node plain;

    set_rails(both);
    node a("bond0"), b("bond0");
    set_rails(devices()[1] + ":1," + devices()[0] + ":1");
    node turned("bond0");
    memory of_plain(plain, 64), of_turned(turned, 64), right(b, 64);
    endpoint ep(a, b);
    uint64_t value = 1, result;
    completion comp;

    ASSERT_EQ(UCS_OK, ep.retry([&] {
        return uct_ep_put_short(ep, &value, 8, right.addr(), right.rkey());
    }));
    for (memory *wrong : {&of_plain, &of_turned}) {
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
