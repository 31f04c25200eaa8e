/*
 * The simulated world: hosts of a Clos send puts to each other, one after the
 * other, each over the paths of one endpoint. Time goes in steps; in a step each
 * path that has something to send gets its max-min fair rate.
 */
#ifndef VQP_TEST_CLOS_WORLD_H
#define VQP_TEST_CLOS_WORLD_H

#include "fluid.h"
#include "sender.h"
#include "topology.h"

#include <deque>
#include <queue>

namespace clos {

/* UDP source ports of the paths of an endpoint */
enum class ports_kind {
    SALTED, /* the product's: random for each endpoint */
    ROW     /* the same few ones, in a row, in every process: UCX's */
};

struct scenario {
    topology   topo;
    policy     sched      = policy::LEFT;
    ports_kind ports      = ports_kind::SALTED;
    unsigned   paths      = 4;
    uint64_t   path_bytes = 0;       /* as UCX_VQP_PATH_BYTES; 0: auto */
    uint64_t   size       = 8 << 20; /* bytes of a put */
    unsigned   puts       = 4;       /* of each sender that are measured */
    double     load       = 1;       /* share of the hosts that send */
    uint64_t   seed       = 1;
    double     step       = 2000;    /* ns */
    double     rtt        = 8000;    /* ns, from a frag's last byte to its CQE */
    double     max_time   = 1e9;     /* ns, after which it gives up */
};

struct result {
    double   mean;     /* throughput of a sender, 1 is its link's rate */
    double   worst;    /* of the slowest sender */
    double   p50;      /* times of puts, 1 is size over link rate */
    double   p99;
    double   longest;
    unsigned flows;    /* paths, of all senders */
    uint64_t steps;
    double   overload; /* largest use of a link over its rate; at most 1 */
};

class world {
public:
    explicit world(const scenario &what);

    result run();

private:
    /* Signaled work request that is not sent yet */
    struct mark {
        uint64_t end; /* of what was posted */
        uint16_t slot;
    };

    struct path {
        unsigned         spine;
        uint64_t         posted = 0;
        double           sent   = 0;
        std::deque<mark> marks;
    };

    struct host {
        unsigned                id;
        unsigned                dst;
        std::unique_ptr<sender> tx;
        std::vector<path>       paths;
        std::vector<uint32_t>   active; /* paths with something to send, by spine */
        double                  begin;  /* of the put under way */
        std::vector<double>     ends;
    };

    /* A completion that is on its way back */
    struct event {
        double   time;
        uint64_t number; /* makes the order complete */
        uint32_t host;
        uint16_t path;
        uint16_t slot;

        bool operator>(const event &other) const
        {
            return (time != other.time) ? time > other.time :
                                          number > other.number;
        }
    };

    void make_hosts();
    void begin_put(uint32_t index);
    void post_all(uint32_t index);
    void handle_events();
    void solve();
    void send(uint32_t index, double step);
    result sum_up() const;

    scenario            m_what;
    fluid               m_fluid;
    std::vector<host>   m_hosts;    /* that send */
    std::vector<demand> m_demands;
    std::vector<double> m_rates;    /* by host and spine */
    std::vector<post>   m_posts;
    std::priority_queue<event, std::vector<event>, std::greater<event>> m_events;
    std::vector<double> m_times;    /* of all measured puts */
    double              m_now      = 0;
    uint64_t            m_number   = 0;
    uint64_t            m_steps    = 0;
    unsigned            m_busy     = 0; /* hosts with puts to be measured */
    bool                m_changed  = true; /* who has something to send */
    double              m_overload = 0;
};

} /* namespace */

#endif
