/* The network of the control datagrams, see net.h. */
#include "net.h"
#include "world.h"

namespace sim {

/* Mostly the header, which decides; or a message of another connection */
void datagrams::damage(datagram &d)
{
    rng &random = m_world.fault;

    if (m_old.size() < 200) {
        m_old.push_back(d);
    } else {
        m_old[random.below(200)] = d;
    }

    if (random.chance(50)) {
        uint32_t to = d.to;

        d    = m_old[random.below(m_old.size())];
        d.to = to;
    }
    for (uint64_t n = random.below(3); n > 0; --n) {
        size_t limit = random.chance(80) ? VQP_WIRE_HEADER_LEN :
                                           d.data.size();

        d.data[random.below(limit)] ^= (uint8_t)(1u << random.below(8));
    }
    if (random.chance(5)) {
        d.data.resize(random.below(d.data.size() + 1));
    }
}

void datagrams::launch(const datagram &d)
{
    uint32_t id = m_next++;

    m_flying.emplace(id, d);
    m_world.at(m_world.now + 1000 +
                       m_world.net.below(m_world.may_disturb() ?
                                                 m_world.base.ud_jitter : 1000),
               EV_DATAGRAM, id);
}

void datagrams::send(const datagram &d)
{
    const params &p = m_world.base;
    datagram copy   = d;

    if (!m_world.may_disturb()) {
        launch(d);
        return;
    }

    if (m_world.fault.chance(p.garble)) {
        damage(copy);
    }
    if (!m_world.fault.chance(p.ud_loss)) {
        launch(copy);
    } else {
        m_world.trace("datagram lost: %s", vqp_wire_type_name(d.type));
    }
    if (m_world.fault.chance(p.ud_dup)) {
        launch(copy);
    }
}

bool datagrams::take(uint32_t id, datagram *out)
{
    auto it = m_flying.find(id);

    if (it == m_flying.end()) {
        return false;
    }

    *out = std::move(it->second);
    m_flying.erase(it);
    return true;
}

} /* namespace sim */
