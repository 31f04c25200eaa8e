/*
 * Two HCAs are not atomic to each other: all atomics go to one rail of the peer, rail 1
 * here. What if all paths to it are down?
 */
#include "failkit.h"

namespace {

class bound : public failkit {
protected:
    void SetUp() override {
        m_two_rails = true;
        open();
        ASSERT_TRUE(fadd(nullptr, &m_user, VQP_OP_SIGNAL, 1));
        ASSERT_EQ(1u, next().size());
        die(1, msn(0));
        EXPECT_TRUE(next().empty());
        timer();
    }

    /* Time passes; what the peer says does not bring the path up */
    void pass(uint64_t time, bool peer_speaks = true) {
        while (time > 0) {
            uint64_t step = std::min<uint64_t>(time, 100);

            if (peer_speaks) {
                hear_down(DRAINED | HAVE, 0, 1);
            }
            m_now += step;
            time  -= step;
            timer();
        }
    }

    int m_user;
};

TEST_F(bound, atomics_do_not_wait_for_ever) {
    pass(m_failover.outage - 1);
    EXPECT_FALSE(vqp_is_failed(&m_vqp));
    pass(1);
    EXPECT_TRUE(vqp_is_failed(&m_vqp));
    EXPECT_EQ(VQP_ERR_TIMEOUT, m_vqp.status);
    EXPECT_EQ((ends_t {{&m_user, VQP_ERR_TIMEOUT}}), ends());
}

TEST_F(bound, new_atomics_do_not_either) {
    pass(1);
    revive(1);
    ASSERT_EQ(1u, next().size());
    confirm_all(1);
    (void)ends();
    die(1, msn(0));
    pass(3 * m_failover.outage); /* none waits */
    EXPECT_FALSE(vqp_is_failed(&m_vqp));
    ASSERT_TRUE(fadd(nullptr, &m_user, VQP_OP_SIGNAL, 1));
    EXPECT_TRUE(next().empty());
    pass(m_failover.outage);
    EXPECT_FALSE(vqp_is_failed(&m_vqp));
    pass(100);
    EXPECT_TRUE(vqp_is_failed(&m_vqp));
}

TEST_F(bound, peer_that_is_silent_may_compute) {
    pass(3 * m_failover.outage, false);
    EXPECT_FALSE(vqp_is_failed(&m_vqp));
    pass(m_failover.outage - 1);
    EXPECT_FALSE(vqp_is_failed(&m_vqp));
    revive(1);
    ASSERT_EQ(1u, next().size());
    pass(3 * m_failover.outage);
    EXPECT_FALSE(vqp_is_failed(&m_vqp));
}

TEST_F(bound, peer_that_computes_is_not_at_fault_for_its_rail) {
    for (unsigned i = 0; i < 30; ++i) {
        hear_down(ANSWER | VQP_WIRE_FLAG_BUSY, 0, 1);
        pass(m_failover.outage / 10, false);
        ASSERT_FALSE(vqp_is_failed(&m_vqp));
    }
    pass(m_failover.outage / 2);
    EXPECT_FALSE(vqp_is_failed(&m_vqp));
}

} /* namespace */
