/*
 * The numbers of a pair of interfaces: which ones have been used.
 */
#include <gtest/gtest.h>

#include <random>
#include <set>

extern "C" {
#include "core/conn/peer.h"
}

TEST(peer, nothing_is_used_at_first)
{
    vqp_peer_t peer;

    vqp_peer_init(&peer, 1);
    EXPECT_EQ(0u, peer.highest);
    EXPECT_FALSE(vqp_peer_is_used(&peer, 1));
}

TEST(peer, used_numbers_stay_used)
{
    vqp_peer_t peer;

    vqp_peer_init(&peer, 1);
    for (uint32_t n = 1; n < 1000; ++n) {
        EXPECT_FALSE(vqp_peer_is_used(&peer, n));
        vqp_peer_use(&peer, n);
        EXPECT_EQ(n, peer.highest);
    }
    for (uint32_t n = 1; n < 1000; ++n) {
        EXPECT_TRUE(vqp_peer_is_used(&peer, n));
    }
}

TEST(peer, overtaken_numbers_are_not_used_yet)
{
    vqp_peer_t peer;

    vqp_peer_init(&peer, 1);
    vqp_peer_use(&peer, 1);
    vqp_peer_use(&peer, 5);
    EXPECT_TRUE(vqp_peer_is_used(&peer, 1));
    for (uint32_t n : {2, 3, 4}) {
        EXPECT_FALSE(vqp_peer_is_used(&peer, n));
    }
    vqp_peer_use(&peer, 3);
    EXPECT_FALSE(vqp_peer_is_used(&peer, 2));
    EXPECT_TRUE(vqp_peer_is_used(&peer, 3));
    EXPECT_FALSE(vqp_peer_is_used(&peer, 4));
    EXPECT_EQ(5u, peer.highest);
}

TEST(peer, own_numbers_do_not_push_overtaken_ones_out)
{
    vqp_peer_t peer;

    vqp_peer_init(&peer, 1);
    vqp_peer_use(&peer, 2);
    for (uint32_t n = 3; n < 1000; ++n) {
        vqp_peer_use(&peer, n);
    }
    EXPECT_FALSE(vqp_peer_is_used(&peer, 1));
    vqp_peer_use(&peer, 1);
    EXPECT_TRUE(vqp_peer_is_used(&peer, 1));
}

TEST(peer, what_the_peer_gave_up_counts_as_used)
{
    vqp_peer_t peer;

    vqp_peer_init(&peer, 1);
    vqp_peer_use(&peer, 2);
    vqp_peer_use(&peer, 65);
    EXPECT_TRUE(vqp_peer_is_used(&peer, 1));
    EXPECT_FALSE(vqp_peer_is_used(&peer, 3));
    vqp_peer_use(&peer, 10000);
    EXPECT_TRUE(vqp_peer_is_used(&peer, 3));
    EXPECT_TRUE(vqp_peer_is_used(&peer, 9936));
    EXPECT_FALSE(vqp_peer_is_used(&peer, 9937));
    EXPECT_FALSE(vqp_peer_is_used(&peer, 9999));
}

/* Against a reference set: a peer whose REQs come within its window, in any order,
 * and own numbers in between */
TEST(peer, any_order_within_the_window_is_exact)
{
    for (unsigned seed = 0; seed < 200; ++seed) {
        std::mt19937 rng(seed);
        std::set<uint32_t> used, sent;
        vqp_peer_t peer;
        uint32_t theirs = 0; /* highest number that the peer has seen */

        vqp_peer_init(&peer, 1);
        for (unsigned i = 0; i < 500; ++i) {
            uint32_t number;

            if (rng() % 4 == 0) {
                number = peer.highest + 1;
                if (sent.count(number)) {
                    sent.erase(number); /* simultaneous connect: they pair */
                }
            } else if (sent.empty() ||
                       ((rng() % 2) && (theirs + 1 < *sent.begin() +
                                        VQP_PEER_MAX_UNANSWERED))) {
                theirs = std::max(theirs, peer.highest) + 1;
                if (sent.empty() || (theirs < *sent.begin() +
                                     VQP_PEER_MAX_UNANSWERED)) {
                    sent.insert(theirs);
                }
                continue;
            } else {
                auto it = sent.begin();
                std::advance(it, rng() % sent.size());
                number = *it;
                sent.erase(it);
                if (used.count(number)) {
                    continue;
                }
            }

            ASSERT_FALSE(vqp_peer_is_used(&peer, number)) << "seed " << seed;
            vqp_peer_use(&peer, number);
            used.insert(number);
            for (uint32_t n : used) {
                ASSERT_TRUE(vqp_peer_is_used(&peer, n)) << "seed " << seed;
            }
            for (uint32_t n : sent) {
                ASSERT_EQ(used.count(n) != 0, vqp_peer_is_used(&peer, n))
                        << "seed " << seed << " number " << n;
            }
        }
    }
}
