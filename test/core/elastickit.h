/* A vqp that adds paths under load: elastic.h. The links are the test's. */
#ifndef VQP_TEST_ELASTICKIT_H
#define VQP_TEST_ELASTICKIT_H

#include "failkit.h"

extern "C" {
#include "core/failover/elastic.h"
}

class elastickit : public failkit {
protected:
    static constexpr uint64_t MS = 1000000, PERIOD = 2 * MS, STEP = PERIOD / 4;
    static constexpr unsigned LEAVING = VQP_WIRE_FLAG_LEAVING,
                              UNUSED = VQP_WIRE_FLAG_UNUSED;

    elastickit() {
        m_num_connected    = 1;
        m_now              = 100 * MS;
        m_failover.elastic = PERIOD;
        m_failover.outage  = 5000 * MS;
        m_failover.silence = 1000 * MS; /* its looks find the time without traffic */
        m_cfg.path_cap     = 4096;
    }

    /* Puts that wait while each path confirms what its link carries in that time, which
     * the test gives as frags of 1 KiB for each step and path */
    void load(uint64_t time, const std::vector<unsigned> &frags) {
        for (uint64_t end = m_now + time; m_now < end; ) {
            for (unsigned i = 0; i < frags.size(); ++i) {
                for (unsigned n = 0; n < frags[i]; ++n) {
                    fill();
                    if (vqp_path_outstanding(&m_paths[i]) > 0) {
                        vqp_on_send(&m_vqp, &m_paths[i], m_paths[i].head);
                        (void)done();
                    }
                }
            }
            m_now += STEP;
            fill();
            timer();
        }
    }

    /* The same until a path is to be added */
    bool try_path(unsigned i, const std::vector<unsigned> &frags) {
        for (unsigned n = 0; n < 20; ++n) {
            load(STEP, frags);
            if (event(VQP_EVENT_PATH_REBUILD, i)) {
                return true;
            }
        }
        return false;
    }

    void fill() {
        while (rma(VQP_KIND_PUT, 1024)) {
        }
        (void)next();
    }

    void drain_all() {
        for (unsigned round = 0; round < 100; ++round) {
            for (unsigned i = 0; i < m_paths.size(); ++i) {
                if (vqp_path_outstanding(&m_paths[i]) > 0) {
                    confirm_all(i);
                }
            }
            (void)done();
            (void)next();
        }
    }

    void pass_until_quiet() {
        while (!(m_tx.slow & VQP_TX_QUIET)) {
            m_now += 10 * MS;
            timer();
        }
        m_now += 10 * MS;
        timer();
    }

    /* A path is added, and comes up */
    void come_up(unsigned i, const std::vector<unsigned> &frags) {
        ASSERT_TRUE(try_path(i, frags)) << i;
        m_paths[i].peer_rail = m_two_rails ? i & 1 : 0;
        reach_probe(i);
        (void)next();
        confirm_all(i);
        (void)next();
        ASSERT_EQ(VQP_PATH_UP, state(i));
    }

    bool is_trial(unsigned i) { return event(VQP_EVENT_PATH_REBUILD, i); }

    bool is_dropped(unsigned i) {
        return (m_paths[i].fo.unused != 0) && (m_paths[i].fo.mover != VQP_MOVER_NONE);
    }
};

#endif
