/*
 * A two-tier Clos: each leaf has hosts, and one link to each spine. A leaf picks
 * the spine of a flow by a hash of its addresses and UDP ports (ECMP); the way
 * down is given then. C++ standard library only.
 */
#ifndef VQP_TEST_CLOS_TOPOLOGY_H
#define VQP_TEST_CLOS_TOPOLOGY_H

#include <cstdint>
#include <vector>

namespace clos {

enum class hash_kind {
    CRC16, /* CCITT */
    CRC32, /* Ethernet's */
    MIX    /* no structure at all */
};

struct topology {
    unsigned  leaves         = 32;
    unsigned  spines         = 16;
    unsigned  hosts          = 16;   /* of each leaf */
    double    link_rate      = 25;   /* bytes per ns: 200 Gb/s; all links */
    unsigned  slow_spines    = 0;    /* the last ones */
    double    slow_factor    = 0.1;  /* what is left of their links' rate */
    hash_kind hash           = hash_kind::CRC32;

    unsigned num_hosts() const { return leaves * hosts; }

    /* Links: host to leaf, leaf to spine, spine to leaf, leaf to host */
    uint32_t link_up(unsigned host) const { return host; }
    uint32_t link_down(unsigned host) const { return num_hosts() + host; }
    uint32_t link_rise(unsigned leaf, unsigned spine) const
    {
        return 2 * num_hosts() + leaf * spines + spine;
    }
    uint32_t link_fall(unsigned spine, unsigned leaf) const
    {
        return 2 * num_hosts() + (leaves + leaf) * spines + spine;
    }

    std::vector<double> capacities() const;

    /* Which spine the leaf of @a src picks */
    unsigned pick_spine(unsigned src, unsigned dst, uint16_t udp_port) const;
};

} /* namespace */

#endif
