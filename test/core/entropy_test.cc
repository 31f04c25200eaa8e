/* Which flow each path is: distinct in an endpoint, even over any hash. */
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <set>
#include <vector>

extern "C" {
#include "core/conn/entropy.h"
}

namespace {

/* What switches hash: addresses and ports, here of hosts in one /16 */
struct tuple {
    uint32_t src, dst;
    uint16_t sport;

    std::array<uint8_t, 12> bytes() const {
        return {(uint8_t)(src >> 24), (uint8_t)(src >> 16), (uint8_t)(src >> 8),
                (uint8_t)src, (uint8_t)(dst >> 24), (uint8_t)(dst >> 16),
                (uint8_t)(dst >> 8), (uint8_t)dst, (uint8_t)(sport >> 8),
                (uint8_t)sport, 4791 >> 8, 4791 & 0xff};
    }
};

uint32_t hash_xor(const tuple &flow) {
    uint32_t sum = 0;
    for (uint8_t byte : flow.bytes()) {
        sum ^= byte;
    }
    return sum;
}

uint32_t hash_crc16(const tuple &flow) {
    uint16_t crc = 0xffff;
    for (uint8_t byte : flow.bytes()) {
        crc ^= (uint16_t)(byte << 8);
        for (int i = 0; i < 8; ++i) {
            crc = (uint16_t)((crc & 0x8000) ? (crc << 1) ^ 0x1021 : crc << 1);
        }
    }
    return crc;
}

uint32_t hash_crc32(const tuple &flow) {
    uint32_t crc = ~0u;
    for (uint8_t byte : flow.bytes()) {
        crc ^= byte;
        for (int i = 0; i < 8; ++i) {
            crc = (crc & 1) ? (crc >> 1) ^ 0xedb88320 : crc >> 1;
        }
    }
    return ~crc;
}

using hash_t = uint32_t (*)(const tuple&);

const hash_t HASHES[] = {hash_xor, hash_crc16, hash_crc32};

/* splitmix64, for salts: what the transport draws its cookies with */
uint64_t draw(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

/* Mean number of links, of `links`, that `paths` paths of an endpoint use */
double mean_links(hash_t hash, unsigned paths, unsigned links,
                  std::function<uint16_t(uint64_t, unsigned)> port) {
    const int rounds = 4000;
    uint64_t state   = 1;
    unsigned total   = 0;
    for (int round = 0; round < rounds; ++round) {
        uint64_t salt = draw(&state);
        tuple flow    = {0x0a000000u + (uint32_t)(draw(&state) & 0xffff),
                         0x0a000000u + (uint32_t)(draw(&state) & 0xffff), 0};
        std::set<uint32_t> used;
        for (unsigned i = 0; i < paths; ++i) {
            flow.sport = port(salt, i);
            used.insert(hash(flow) % links);
        }
        total += (unsigned)used.size();
    }
    return (double)total / rounds;
}

TEST(entropy, port_is_the_fold_of_the_label) {
    EXPECT_EQ(0xc000, vqp_entropy_port(0));
    EXPECT_EQ(0xc001, vqp_entropy_port(1));
    EXPECT_EQ(0xffff, vqp_entropy_port(0x3fff));
    EXPECT_EQ(0xc001, vqp_entropy_port(1u << 14));
    EXPECT_EQ(0xffff ^ 0x3f, vqp_entropy_port(VQP_ENTROPY_LABEL_MAX));
}

TEST(entropy, label_has_20_bits_and_is_never_zero) {
    uint64_t state = 7;
    for (int i = 0; i < 200000; ++i) {
        uint32_t label = vqp_entropy_label(draw(&state), (unsigned)i % 64);
        ASSERT_LE(label, VQP_ENTROPY_LABEL_MAX);
        ASSERT_NE(0u, label);
    }

    /* salts whose first path would get it, were it not avoided */
    for (uint64_t salt : {423357ull, 465844ull, 1181152ull}) {
        uint32_t label = vqp_entropy_label(salt, 0);
        EXPECT_NE(0u, label);
        EXPECT_EQ(VQP_ENTROPY_PORT_MIN, vqp_entropy_port(label));
    }
}

TEST(entropy, paths_of_an_endpoint_have_distinct_ports) {
    uint64_t state = 11;
    for (int i = 0; i < 500; ++i) {
        uint64_t salt = draw(&state);
        std::set<uint16_t> ports;
        for (unsigned path = 0; path < VQP_MAX_PATHS; ++path) {
            ports.insert(vqp_entropy_port(vqp_entropy_label(salt, path)));
        }
        ASSERT_EQ((size_t)VQP_MAX_PATHS, ports.size()) << "salt " << salt;
    }
}

TEST(entropy, every_port_is_reached) {
    std::set<uint16_t> ports;
    for (unsigned path = 0; path < 1u << 14; ++path) {
        ports.insert(vqp_entropy_port(vqp_entropy_label(42, path)));
    }
    EXPECT_EQ((size_t)1 << 14, ports.size());
}

TEST(entropy, same_salt_same_label) {
    EXPECT_EQ(vqp_entropy_label(5, 3), vqp_entropy_label(5, 3));
    EXPECT_NE(vqp_entropy_label(5, 3), vqp_entropy_label(6, 3));
}

/* Flows of 4096 endpoints between the same two hosts: chi-square over 2, 4 and 8
 * links, below what chance exceeds once in 10^5 */
TEST(entropy, endpoints_spread_evenly_over_links) {
    const double limits[] = {19.5, 25.9, 35.3}; /* 1, 3, 7 degrees */
    for (hash_t hash : HASHES) {
        for (unsigned bits = 1; bits <= 3; ++bits) {
            std::vector<double> count(1u << bits);
            uint64_t state = 3;
            for (int ep = 0; ep < 4096; ++ep) {
                uint64_t salt = draw(&state);
                for (unsigned path = 0; path < 4; ++path) {
                    uint16_t port = vqp_entropy_port(
                            vqp_entropy_label(salt, path));
                    ++count[hash({0x0a4d0001, 0x0a4d0002, port}) %
                            count.size()];
                }
            }
            double mean = 4096.0 * 4 / (double)count.size(), chi = 0;
            for (double n : count) {
                chi += (n - mean) * (n - mean) / mean;
            }
            EXPECT_LT(chi, limits[bits - 1]) << count.size() << " links";
        }
    }
}

/* Four paths over four links at random reach 4 - 4 * (3/4)^4 = 2.73 of them */
TEST(entropy, paths_of_an_endpoint_spread_as_if_at_random) {
    auto port = [](uint64_t salt, unsigned path) {
        return vqp_entropy_port(vqp_entropy_label(salt, path));
    };
    for (hash_t hash : HASHES) {
        for (unsigned links : {2, 4, 8}) {
            double chance = links - links * pow(1 - 1.0 / links, links);
            EXPECT_NEAR(chance, mean_links(hash, links, links, port), 0.06);
        }
    }
}

/* Consecutive ports: a linear hash treats all endpoints in the same way, well or
 * badly */
TEST(entropy, ports_in_a_row_can_all_share_a_link) {
    auto row = [](uint64_t, unsigned path) {
        return (uint16_t)(0xffc0 + path);
    };
    EXPECT_EQ(4.0, mean_links(hash_xor, 4, 4, row));
    EXPECT_EQ(1.0, mean_links(hash_crc16, 4, 4, row));
}

} /* namespace */
