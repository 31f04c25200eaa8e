/* Links and hashes of a two-tier Clos, see topology.h. */
#include "topology.h"

#include <array>

namespace clos {

std::vector<double> topology::capacities() const
{
    std::vector<double> all(2 * num_hosts() + 2 * leaves * spines, link_rate);

    for (unsigned spine = spines - slow_spines; spine < spines; ++spine) {
        for (unsigned leaf = 0; leaf < leaves; ++leaf) {
            all[link_rise(leaf, spine)] *= slow_factor;
            all[link_fall(spine, leaf)] *= slow_factor;
        }
    }
    return all;
}

typedef std::array<uint8_t, 12> tuple; /* addresses and ports */

static uint32_t crc16(const tuple &bytes)
{
    uint32_t crc = 0xffff;

    for (uint8_t byte : bytes) {
        crc ^= (uint32_t)byte << 8;
        for (int bit = 0; bit < 8; ++bit) {
            crc = (crc & 0x8000) ? (crc << 1) ^ 0x1021 : crc << 1;
        }
    }
    return crc & 0xffff;
}

static uint32_t crc32(const tuple &bytes)
{
    uint32_t crc = ~0u;

    for (uint8_t byte : bytes) {
        crc ^= byte;
        for (int bit = 0; bit < 8; ++bit) {
            crc = (crc & 1) ? (crc >> 1) ^ 0xedb88320 : crc >> 1;
        }
    }
    return ~crc;
}

static uint32_t mix(const tuple &bytes)
{
    uint64_t sum = 0;

    for (uint8_t byte : bytes) {
        sum = (sum ^ byte) * 0x9e3779b97f4a7c15ull;
        sum ^= sum >> 32;
    }
    return (uint32_t)sum;
}

unsigned topology::pick_spine(unsigned src, unsigned dst,
                              uint16_t udp_port) const
{
    const uint16_t roce = 4791;
    tuple bytes         = {10, 0, (uint8_t)(src / hosts), (uint8_t)(src % hosts),
                           10, 0, (uint8_t)(dst / hosts), (uint8_t)(dst % hosts),
                           (uint8_t)(udp_port >> 8), (uint8_t)udp_port,
                           roce >> 8, roce & 0xff};

    switch (hash) {
    case hash_kind::CRC16:
        return crc16(bytes) % spines;
    case hash_kind::CRC32:
        return crc32(bytes) % spines;
    default:
        return mix(bytes) % spines;
    }
}

} /* namespace */
