/*
 * A process that computes between its calls of progress: what is in flight has to last until
 * the next one. On the software fabric: contrib/fabric-run --mode timed -o CLOCK=virtual
 * -o DELAY=5us -o PATH_RATE=100000 -o PORT_RATE=100000
 */
#include "flow_fixture.h"

#include <algorithm>

namespace {

class busy_flow : public flow_fixture {
protected:
    static constexpr double compute = 5e-4;
    static constexpr size_t message = 65536;
    static constexpr unsigned rounds = 40;

    busy_flow() : flow_fixture(0) {}

    void SetUp() override
    {
        char clock[32] = "";

        flow_fixture::SetUp();
        if (IsSkipped()) {
            return;
        }
        vqp_fabric()->option("CLOCK", clock, sizeof(clock));
        if (std::string(clock) != "virtual") {
            GTEST_SKIP() << "needs the virtual clock of the fabric";
        }
    }

    ucs_status_t post(bool is_get, completion *comp)
    {
        size_t offset = (m_posted * message) % size;
        uct_iov_t iov = source->iov(offset, message);

        comp->calls       = 0;
        comp->super.count = 1;
        return is_get ? uct_ep_get_zcopy(*ab, &iov, 1, target->addr(offset),
                                         target->rkey(), &comp->super) :
                        uct_ep_put_zcopy(*ab, &iov, 1, target->addr(offset),
                                         target->rkey(), &comp->super);
    }

    /* As many as are accepted */
    void post_all(bool is_get)
    {
        for (completion &comp : m_comps) {
            if (comp.calls == 0) {
                continue;
            }
            EXPECT_EQ(UCS_OK, comp.status);
            if (post(is_get, &comp) != UCS_INPROGRESS) {
                comp.calls = 1;
                return;
            }
            ++m_posted;
        }
    }

    /* MB/s of the second half, when what was found in the first one is used */
    double rate(bool is_get, options config)
    {
        double begin   = 0;
        unsigned first = 0;

        config["NUM_PATHS"] = "1";
        start(config);
        for (completion &comp : m_comps) {
            comp.calls  = 1;
            comp.status = UCS_OK;
        }
        for (unsigned i = 0; i < rounds; ++i) {
            if (i == rounds / 2) {
                begin = now();
                first = m_posted;
            }
            while (a->progress() + b->progress() > 0) {
            }
            post_all(is_get);
            for (double end = now() + compute; now() < end;) {
                b->progress(); /* a poll lets time go on */
            }
        }
        double mb = (double)(m_posted - first) * message * 1e-6 / (now() - begin);
        EXPECT_TRUE(until([&] {
            return std::all_of(m_comps.begin(), m_comps.end(),
                               [](const completion &comp) { return comp.calls != 0; });
        }));
        EXPECT_EQ(0u, a->errors + b->errors);
        settle();
        close();
        return mb;
    }

    unsigned                    m_posted = 0;
    std::array<completion, 200> m_comps;
};

/* The link has 12,500 MB/s. 2 MiB for each 500 us are some 4,000 */
TEST_F(busy_flow, gets_use_the_link)
{
    EXPECT_LT(9000, rate(true, {}));
}

TEST_F(busy_flow, puts_use_the_link)
{
    EXPECT_LT(9000, rate(false, {}));
}

TEST_F(busy_flow, a_limit_that_is_set_stays)
{
    EXPECT_GT(4500, rate(true, {{"PATH_BYTES", "2m"}}));
}

} /* namespace */
