/*
 * A vqp whose paths move to other rails (rails.h). The peer and its rails are the test's.
 */
#ifndef VQP_TEST_RAILSKIT_H
#define VQP_TEST_RAILSKIT_H

#include "failkit.h"

extern "C" {
#include "core/failover/move.h"
#include "core/failover/rails.h"
}

class railskit : public failkit {
protected:
    static constexpr unsigned LEAVING = VQP_WIRE_FLAG_LEAVING;
    typedef std::pair<unsigned, unsigned> pair; /* own rail, peer's rail */

    railskit() {
        m_two_rails          = true; /* paths take turns on both sides' rails */
        m_failover.num_rails = 2;
        m_failover.decides   = 1;
    }

    void hear_drained(unsigned i, unsigned fails, unsigned rail, unsigned flags = DRAINED | HAVE) {
        vqp_path_msg_t msg {};

        msg.type       = VQP_WIRE_PATH_DOWN;
        msg.flags      = (uint16_t)flags;
        msg.epoch      = path(i).fo.epoch;
        msg.down       = {(uint8_t)i, VQP_SOURCE_MSN, (uint8_t)fails, (uint8_t)rail, 0, 0};
        vqp_on_path_message(&m_vqp, &msg, m_now);
    }

    void hear_up_on(unsigned i, unsigned rail) {
        vqp_path_msg_t msg {};

        msg.type  = VQP_WIRE_PATH_UP;
        msg.flags = HAVE;
        msg.epoch = path(i).fo.epoch;
        msg.up    = {(uint8_t)i, (uint8_t)rail, QPN + 1, PSN + 1, 0};
        vqp_on_path_message(&m_vqp, &msg, m_now);
    }

    /* From DOWN to PROBE, on the rails that were decided: the peer does what it is asked */
    void follow(unsigned i = 0) {
        unsigned peer = path(i).fo.next_peer;

        unsigned rail = vqp_rails_choose(&m_vqp, &path(i), m_good, m_now);

        if (rail != path(i).rail) {
            path(i).rail = (uint8_t)rail;
            vqp_rails_on_moved(&m_vqp, &path(i));
        }
        rebuild(i);
        hear_up_on(i, peer);
        EXPECT_TRUE(event(VQP_EVENT_PATH_CONNECT, i));
        connected(i);
        EXPECT_EQ(VQP_PATH_PROBE, state(i));
    }

    /* From DOWN on: the probe fails */
    void fail(unsigned i = 0) {
        follow(i);
        post_probe();
        die(i, msn(0));
    }

    uint32_t m_good = ~0u; /* rails of this side */

    pair now(unsigned i = 0) { return {path(i).rail, path(i).peer_rail}; }

    pair next(unsigned i = 0) { return {path(i).fo.next_rail, path(i).fo.next_peer}; }
};

#endif
