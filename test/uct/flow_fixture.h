/*
 * Puts without a pause over flows that take links by their labels. On the software
 * fabric in timed mode: contrib/fabric-run --mode timed -o CLOCK=virtual -o LINKS=8
 * -o PATH_RATE=8000 -o PORT_RATE=1000000
 */
#ifndef VQP_TEST_UCT_FLOW_FIXTURE_H
#define VQP_TEST_UCT_FLOW_FIXTURE_H

#include "failover_fixture.h"

#include <stdlib.h>

class flow_fixture : public failover_fixture {
protected:
    static constexpr unsigned num_puts = 8, max_qps = 64;
    static constexpr size_t put_size = size / num_puts;

    explicit flow_fixture(unsigned a_min_links = 1) : min_links(a_min_links) {}

    void SetUp() override
    {
        char links[32] = "0";

        failover_fixture::SetUp();
        if (IsSkipped()) {
            return;
        }
        (void)vqp_fabric()->option("LINKS", links, sizeof(links));
        if (atoi(links) < (int)min_links) {
            GTEST_SKIP() << "needs links of the fabric";
        }
    }

    /* Links of the sender's paths, some more than once */
    std::multiset<unsigned> links() { return links(*a); }

    static std::multiset<unsigned> links(const node &side)
    {
        uint32_t qpns[max_qps];
        int count = vqp_fabric()->qps(side.name.c_str(), qpns, max_qps);
        std::multiset<unsigned> all;

        for (int i = 0; i < count; ++i) {
            vqp_fabric_path_t path {};

            if (vqp_fabric()->qp_path(side.name.c_str(), qpns[i], &path) == 0) {
                all.insert(path.link);
            }
        }
        return all;
    }

    void prepare()
    {
        source->fill(1);
        for (completion &comp : comps) {
            comp.calls  = 1;
            comp.status = UCS_OK;
        }
    }

    /* Puts without a pause, until the condition holds */
    bool stream(const std::function<bool()> &condition, double seconds)
    {
        return until([&] {
            for (unsigned i = 0; i < num_puts; ++i) {
                if (comps[i].calls == 0) {
                    continue;
                }
                EXPECT_EQ(UCS_OK, comps[i].status);
                uct_iov_t iov        = source->iov(i * put_size, put_size);
                comps[i].calls       = 0;
                comps[i].super.count = 1;
                if (uct_ep_put_zcopy(*ab, &iov, 1, target->addr(i * put_size),
                                     target->rkey(), &comps[i].super) !=
                    UCS_INPROGRESS) {
                    comps[i].calls = 1;
                }
            }
            return condition();
        }, seconds);
    }

    void finish()
    {
        EXPECT_TRUE(until([&] {
            for (completion &comp : comps) {
                if (comp.calls == 0) {
                    return false;
                }
            }
            return true;
        }));
        EXPECT_EQ(0, memcmp(source->data, target->data, size));
        EXPECT_EQ(0u, a->errors + b->errors);
        settle();
        close();
    }

    const unsigned min_links;
    completion     comps[num_puts];
};

#endif
