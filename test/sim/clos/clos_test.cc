/* The simulated Clos: its parts, and what it has to show at a small size. */
#include "world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

extern "C" {
#include "core/conn/entropy.h"
}

using namespace clos;

namespace {

/* ---- fluid ---- */

TEST(fluid, flows_of_a_link_share_it)
{
    fluid net({12, 100, 100, 100, 100, 100, 100});
    std::vector<demand> flows = {{{0, 1, 2, 3}, 1, 0}, {{0, 4, 5, 6}, 2, 0}};

    net.solve(flows);
    EXPECT_DOUBLE_EQ(4, flows[0].rate);
    EXPECT_DOUBLE_EQ(4, flows[1].rate); /* of each of the two */
}

/* A flow that is held up elsewhere leaves its share to the others */
TEST(fluid, what_one_can_not_use_others_get)
{
    fluid net({10, 2, 9, 9, 9, 9, 9, 9});
    std::vector<demand> flows = {{{0, 1, 2, 3}, 1, 0}, {{0, 4, 5, 6}, 1, 0}};

    net.solve(flows);
    EXPECT_DOUBLE_EQ(2, flows[0].rate);
    EXPECT_DOUBLE_EQ(8, flows[1].rate);
}

/* The definition: each flow has a full link on which nobody has more */
TEST(fluid, each_flow_has_a_bottleneck)
{
    const unsigned links = 40;
    uint64_t state       = 5;
    auto draw            = [&](unsigned limit) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        return (unsigned)(state >> 33) % limit;
    };

    for (int round = 0; round < 50; ++round) {
        std::vector<double> capacity, use(links), top(links);
        std::vector<demand> flows(1 + draw(60));

        for (unsigned i = 0; i < links; ++i) {
            capacity.push_back(1 + draw(20));
        }
        for (demand &flow : flows) {
            std::set<uint32_t> used;
            while (used.size() < 4) {
                used.insert(draw(links));
            }
            std::copy(used.begin(), used.end(), flow.link);
            flow.weight = 1 + draw(5);
        }

        fluid(capacity).solve(flows);
        for (const demand &flow : flows) {
            ASSERT_GT(flow.rate, 0);
            for (uint32_t link : flow.link) {
                use[link] += flow.rate * flow.weight;
                top[link]  = std::max(top[link], flow.rate);
            }
        }
        for (unsigned i = 0; i < links; ++i) {
            ASSERT_LE(use[i], capacity[i] * (1 + 1e-9));
        }
        for (const demand &flow : flows) {
            EXPECT_TRUE(std::any_of(flow.link, flow.link + 4, [&](uint32_t i) {
                return (use[i] >= capacity[i] * (1 - 1e-9)) &&
                       (flow.rate >= top[i] * (1 - 1e-9));
            }));
        }
    }
}

/* ---- topology ---- */

TEST(topology, links_are_all_different)
{
    topology topo;
    std::set<uint32_t> all;

    for (unsigned host = 0; host < topo.num_hosts(); ++host) {
        all.insert(topo.link_up(host));
        all.insert(topo.link_down(host));
    }
    for (unsigned leaf = 0; leaf < topo.leaves; ++leaf) {
        for (unsigned spine = 0; spine < topo.spines; ++spine) {
            all.insert(topo.link_rise(leaf, spine));
            all.insert(topo.link_fall(spine, leaf));
        }
    }
    EXPECT_EQ(topo.capacities().size(), all.size());
    EXPECT_EQ(topo.capacities().size() - 1, *all.rbegin());
}

TEST(topology, a_slow_spine_is_slow_both_ways)
{
    topology topo;

    topo.slow_spines             = 1;
    std::vector<double> capacity = topo.capacities();
    EXPECT_EQ(2 * topo.leaves,
              std::count(capacity.begin(), capacity.end(), 2.5));
    EXPECT_EQ(2.5, capacity[topo.link_rise(3, topo.spines - 1)]);
    EXPECT_EQ(2.5, capacity[topo.link_fall(topo.spines - 1, 3)]);
}

TEST(topology, salted_ports_reach_all_spines)
{
    for (hash_kind hash : {hash_kind::CRC16, hash_kind::CRC32, hash_kind::MIX}) {
        topology topo;
        std::set<unsigned> spines;

        topo.hash = hash;
        for (unsigned i = 0; i < 256; ++i) {
            spines.insert(topo.pick_spine(
                    1, 100, vqp_entropy_port(vqp_entropy_label(7, i))));
        }
        EXPECT_EQ(topo.spines, spines.size());
    }
}

/* ---- world ---- */

scenario small(policy sched, unsigned paths)
{
    scenario what;

    what.topo.leaves = what.topo.spines = what.topo.hosts = 8;
    what.sched       = sched;
    what.paths       = paths;
    what.puts        = 3;
    return what;
}

result slow(policy sched, unsigned paths, uint64_t size = 8 << 20)
{
    scenario what = small(sched, paths);

    what.size             = size;
    what.load             = 0.5;
    what.topo.slow_spines = 1;
    return world(what).run();
}

TEST(world, same_seed_same_result)
{
    scenario what = small(policy::LEFT, 4);
    result a      = world(what).run();
    result b      = world(what).run();

    EXPECT_EQ(a.mean, b.mean);
    EXPECT_EQ(a.longest, b.longest);
    EXPECT_EQ(a.steps, b.steps);
    what.seed = 2;
    EXPECT_NE(a.mean, world(what).run().mean);
}

TEST(world, one_leaf_to_leaf_flow_has_its_link)
{
    scenario what = small(policy::RR, 1);

    what.topo.hosts = 1;
    what.topo.spines = 1;
    what.topo.leaves = 2;
    result sum      = world(what).run();
    EXPECT_GT(sum.mean, 0.95);   /* the rest is the round trip */
    EXPECT_LE(sum.mean, 1);
    EXPECT_GE(sum.p50, 1);
}

TEST(world, no_link_carries_more_than_it_can)
{
    for (policy sched : {policy::FIXED, policy::RR, policy::LEFT}) {
        result sum = world(small(sched, 4)).run();

        EXPECT_LE(sum.overload, 1 + 1e-9);
        EXPECT_GT(sum.overload, 0.999);
        EXPECT_GE(sum.longest, sum.p99);
        EXPECT_GE(sum.p99, sum.p50);
        EXPECT_GE(sum.p50, 1);
        EXPECT_LE(sum.worst, sum.mean);
    }
}

TEST(world, with_one_path_there_is_nothing_to_choose)
{
    EXPECT_EQ(world(small(policy::FIXED, 1)).run().mean,
              world(small(policy::LEFT, 1)).run().mean);
}

TEST(world, paths_add_up_and_shorten_the_tail)
{
    result one  = world(small(policy::LEFT, 1)).run();
    result four = world(small(policy::LEFT, 4)).run();
    result many = world(small(policy::LEFT, 16)).run();

    EXPECT_GT(four.mean, one.mean * 1.2);
    EXPECT_GT(many.mean, four.mean);
    EXPECT_LT(four.p99, one.p99 * 0.8);
    EXPECT_LT(many.p99, four.p99);
}

TEST(world, left_lives_with_a_slow_spine_and_a_fixed_split_does_not)
{
    for (unsigned paths : {8, 16, 32}) {
        EXPECT_LT(slow(policy::FIXED, paths).mean, 0.7);
        EXPECT_GT(slow(policy::LEFT, paths).mean, 0.85);
    }
}

/* One or two frags on each path: they are never busy when one is confirmed */
TEST(world, left_learns_from_puts_of_few_frags)
{
    for (unsigned paths : {8, 16}) {
        EXPECT_GT(slow(policy::LEFT, paths, 1 << 20).mean,
                  slow(policy::RR, paths, 1 << 20).mean + 0.1);
    }
}

/* Ports in a row are lucky with one hash and useless with another */
TEST(world, ports_in_a_row_can_be_one_flow)
{
    scenario what = small(policy::LEFT, 4);

    what.topo.hash = hash_kind::CRC16;
    double salted  = world(what).run().mean;
    what.ports     = ports_kind::ROW;
    double row     = world(what).run().mean;
    what.paths     = 1;
    double single  = world(what).run().mean;

    EXPECT_GT(salted, row * 1.15);
    EXPECT_LT(row, single * 1.1);
}

} /* namespace */
