/*
 * The network of the control datagrams: loses, repeats, delays, and damages
 * datagrams.
 */
#ifndef VQP_SIM_NET_H
#define VQP_SIM_NET_H

#include <cstdint>
#include <map>
#include <vector>

extern "C" {
#include "core/conn/conndrive.h"
}

namespace sim {

class world;

struct datagram {
    uint32_t             to;   /* control queue pair */
    vqp_conn_dest_t      from;
    std::vector<uint8_t> data;
    vqp_wire_type_t      type;
};

class datagrams {
public:
    explicit datagrams(world &w) : m_world(w) {}

    void send(const datagram &d);
    /* @return whether there is one of that number; it is taken out. */
    bool take(uint32_t id, datagram *out);
    size_t under_way() const { return m_flying.size(); }

private:
    void launch(const datagram &d);
    void damage(datagram &d);

    world                        &m_world;
    std::map<uint32_t, datagram>  m_flying;
    std::vector<datagram>         m_old; /* of the last ones, to mix up */
    uint32_t                      m_next = 0;
};

} /* namespace sim */

#endif
