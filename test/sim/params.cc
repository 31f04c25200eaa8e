/* Parameters of a run, see params.h. */
#include "params.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

extern "C" {
#include "core/conn/conntab.h"
#include "core/data/tx.h"
}

namespace sim {

namespace {

const uint64_t USEC = 1000;
const uint64_t MSEC = 1000 * USEC;
const uint64_t SEC  = 1000 * MSEC;

struct named_config {
    const char *name;
    const char *text;
    const char *help;
};

/* One run that somebody wants to have again has a name here */
const named_config scenarios[] = {
    {"clean", "cancel=0,garble=0,refuse=0,no_memory=0,ud_loss=0,ud_dup=0,"
              "flaps=0,parks=0,kills=0,post_fails=0,aborts=0,byzantine=0,crashes=0,"
              "stops=0,gap_timeout=0,probe=0,qp_fails=0,"
              "dup_imm=0,stale_cqe=0,ud_jitter=1000",
     "no fault at all"},
    {"many_to_one", "clean,senders=100,batches=1000,batch=4,paths=4,eps=1,"
                    "sessions=1,window=64,ring=16384,depth=32,imms=64,am_ops=64,"
                    "rma_ops=16,rma=5,big=12,echo=0,fence=2,flush=2,cap=1048576,"
                    "delay=5000,poll=500,think=2000,stall=0,hasty=0,fsn_before_wrap=500,"
                    "min_shift=9,frag_shift=12,heap=65536,audit=64,slow_qps=0",
     "100 senders of 1000 batches over 4 paths into one receiver"},
    {"paths", "batches=40,batch=16,kills=20,post_fails=5,cancel=0,refuse=0,aborts=0,"
              "byzantine=0,crashes=0,garble=0,gap_timeout=0,failover=1,hasty=0,"
              "late_packets=50,fault_time=20000000,ud_loss=20,ud_jitter=1000000",
     "paths that die while much is under way"},
    {"errs", "paths,flush_time=300000,delay=20000,rma=60",
     "the same, and queue pairs in ERR go on executing for a while"},
    {"holes", "paths,paths=3,kills=0,post_fails=0,flaps=30,silence=200000,"
              "delay=20000,poll=2000,fault_time=200000000,think=200000",
     "paths that fall silent, without an error"},
    {"third", "holes,paths=4,kills=60,busy=50,no_memory=0,rma=60,rma_ops=64",
     "paths that replay onto one that dies, while the peer computes"},
    {"slow", "deferred,flaps=0,paths=4,failover=1,silence=2000000,slow=1000000,"
             "batches=400,cap=262144",
     "a path that stays slow, whatever flow it is"},
    {"rehash", "slow,rehash=1",
     "the same, where the flow of a path can be changed while it is used"},
    {"moves", "paths,kills=0,post_fails=0,moves=40,rma=60,amo=60",
     "paths that work and are moved while much is under way"},
    {"elastic", "paths,kills=2,paths=4,first=1,short_depth=6,adds=60,drops=60,rma=60,amo=30,"
                "fault_time=200000000,think=500000",
     "paths that are added and dropped while much is under way"},
    {"rings", "paths,ring=4096,ring_growth=5,ring_fails=10,ring_idle=100000,kills=5,"
              "window=64,imms=66,am_ops=64,rma=10,big=10,pend=0,think=100000,"
              "fault_time=200000000",
     "rings that grow and shrink again and again"},
    {"narrow", "paths,kills=2,narrows=30,fault_time=2000000000,think=5000000",
     "links that drop full packets only: path messages pass, and probes fail"},
    {"rerail", "narrow,rerail=1,port_fails=20,paths=4,narrows=60,rma=60,amo=60",
     "the same, and paths move to other rails"},
    {"outage", "paths,outage=3000000,ud_loss=70,kills=30",
     "paths that do not come back in time"},
    {"handshake", "batches=1,batch=2,nodes=3,eps=6,sessions=6,kills=0,byzantine=0,"
                  "post_fails=0,garble=0",
     "mostly connecting and closing"},
    {"garbled", "clean,batches=0,garble=40,nodes=2,eps=4,sessions=6",
     "damaged and mixed up handshake messages"},
    {"partition", "ud_loss=97,fault_time=2000000000",
     "hardly any handshake message arrives for 10 s"},
    {"deferred", "clean,sched=1,paths=2,slow_path=1,rma=100,amo=0,huge=100,"
                 "fence=0,flush=1,cap=65536,depth=64,min_shift=12,frag_shift=14,"
                 "delay=100000,poll=1000,stall=0,rma_ops=64,batch=16,batches=100,"
                 "think=1000,heap=65536,nodes=2,eps=1,sessions=1,hasty=0,flaps=10,"
                 "fault_time=10000000",
     "large puts over a fast and a slow path, small caps: frags wait for the "
     "fast one"},
    {"gaps", "clean,paths=4,rma=0,echo=0,nodes=2,flaps=20,fault_time=200000,"
             "gap_timeout=500000000,think=10000,hasty=0",
     "paths that stand still for seconds, and connections that do not wait for "
     "them"},
    {"scarce", "clean,window=8,ring=4096,depth=6,am_ops=4,rma_ops=2,cap_growth=0,"
               "paths=4,imms=8,rx_batch=4,min_shift=6,rma=30,big=11",
     "every resource as small as can be"},
};

/* log-uniform: small values as likely as large ones */
uint64_t spread(rng &random, uint64_t low, uint64_t high)
{
    uint64_t value = low;

    while ((value < high) && (random.below(3) != 0)) {
        value *= 4;
    }
    return std::min(value, high);
}

} /* namespace */

void params::draw_node(rng &random)
{
    paths        = random.pick<uint64_t>({1, 2, 2, 3, 4, 4, 5, 7, 8});
    depth        = random.pick<uint64_t>({6, 8, 16, 64});
    imms         = window * random.pick<uint64_t>({1, 1, 2}) +
                   VQP_CONTROL_RESERVE;
    rx_batch     = random.pick<uint64_t>({1, 4, 16});
    cap_growth   = random.pick<uint64_t>({0, 1, 3});
    am_ops       = random.pick<uint64_t>({1, 4, 16, 64});
    rma_ops      = random.pick<uint64_t>({2, 4, 16, 64});
    signal_every = 1 + random.below(64);
    cap          = random.pick<uint64_t>({500, 10000, 1u << 20});
    inline_max   = random.pick<uint64_t>({0, 64, 256});
    min_shift    = 6 + random.below(6);
    frag_shift   = min_shift + random.below(6);
    notify       = random.below(4);
    sched        = random.below(2);
    order_all    = random.below(4) == 0;
    comp_post    = random.below(2);
    no_fast      = random.below(2);
    pack         = random.below(4) > 0;
}

void params::draw_world(rng &random)
{
    nodes           = random.pick<uint64_t>({2, 2, 2, 3, 4});
    senders         = 0;
    eps             = random.pick<uint64_t>({1, 1, 2, 3});
    sessions        = random.pick<uint64_t>({1, 1, 2, 3});
    batches         = 5 + random.below(40);
    hasty           = random.pick<uint64_t>({0, 0, 10, 50});
    batch           = random.pick<uint64_t>({1, 4, 16});
    window          = random.pick<uint64_t>({8, 16, 16, 64, 256});
    ring            = random.pick<uint64_t>({4096, 4096, 16384, 65536});
    fsn_before_wrap = random.pick<uint64_t>({0, 1, 2, 3, 4, 5, 10, 30, 100});
    first_pos       = random.pick<uint64_t>({0, (uint32_t)-8192,
                                             0x80000000u - 4096});
    rma             = random.pick<uint64_t>({0, 20, 50, 90});
    amo             = random.pick<uint64_t>({10, 30});
    fence           = random.pick<uint64_t>({0, 8, 30});
    flush           = random.pick<uint64_t>({1, 3, 20});
    big             = random.pick<uint64_t>({6, 10, 15});
    echo            = random.pick<uint64_t>({0, 0, 10, 50});
    pend            = random.pick<uint64_t>({0, 30, 70});
    huge            = random.pick<uint64_t>({0, 2, 20});
    heap            = 1024;
    audit           = 8;
}

void params::draw_network(rng &random)
{
    delay     = spread(random, 200, 200 * USEC);
    slow_path = random.below(12);
    poll      = spread(random, 100, 50 * USEC);
    think     = spread(random, 100, 200 * USEC);
    stall     = random.pick<uint64_t>({0, 0, 5, 50});
    ud_loss   = random.pick<uint64_t>({0, 0, 0, 5, 20});
    ud_dup    = random.pick<uint64_t>({0, 0, 10, 50});
    ud_jitter = random.pick<uint64_t>({USEC, USEC, MSEC, 50 * MSEC});
    slow_qps  = random.pick<uint64_t>({0, 0, 30});
    no_memory = random.pick<uint64_t>({0, 0, 0, 20});
    dup_imm   = random.pick<uint64_t>({0, 0, 10, 100});
    stale_cqe = random.pick<uint64_t>({0, 0, 10, 100});
    flaps     = random.pick<uint64_t>({0, 0, 2, 10});
    parks     = random.pick<uint64_t>({0, 0, 2, 10});
}

/* Half of the runs have none that ends a connection: there nothing may fail */
void params::draw_faults(rng &random)
{
    bool hard = random.below(2) == 0;

    cancel     = hard ? random.pick<uint64_t>({0, 20, 60}) : 0;
    garble     = 0;
    refuse     = hard ? random.pick<uint64_t>({0, 0, 0, 10}) : 0;
    kills      = hard ? random.pick<uint64_t>({0, 1, 1, 5}) : 0;
    late_packets = random.pick<uint64_t>({0, 50, 100});
    post_fails = hard ? random.pick<uint64_t>({0, 0, 1, 3}) : 0;
    aborts     = hard ? random.pick<uint64_t>({0, 0, 0, 3}) : 0;
    byzantine       = hard ? random.pick<uint64_t>({0, 0, 0, 3}) : 0;
    crashes    = hard ? random.pick<uint64_t>({0, 0, 0, 2}) : 0;
    idle_peers = random.pick<uint64_t>({16, 64});
    fault_time = spread(random, 20 * USEC, 100 * MSEC);
    if (hard && (random.below(40) == 0)) {
        set("partition");
    } else if (hard && (random.below(10) == 0)) {
        ud_loss   = random.pick<uint64_t>({70, 97});
        ud_jitter = random.pick<uint64_t>({MSEC, SEC});
    }
    if (random.below(20) == 0) {
        set("garbled");
    } else if (random.below(10) == 0) {
        set("handshake");
    }
}

/* What follows from timers. Nothing of it helps a run along in which nothing may
 * fail. */
void params::draw_timers(rng &random)
{
    uint64_t gap  = random.pick<uint64_t>({0, 0, SEC / 2, SEC});
    uint64_t each = random.pick<uint64_t>({0, SEC, 3 * SEC});

    gap_timeout = may_fail() ? gap : 0;
    probe       = may_fail() ? each : 0;
}

/* From a copy: what is drawn behind stays as it is without */
void params::draw_failover(rng random)
{
    failover = random.below(2);
    source   = random.pick<uint64_t>({0, 1, 1, 2, 2, 3});
    qp_fails = random.pick<uint64_t>({0, 0, 10, 40});
    if (garble > 0) {
        qp_fails = 0; /* the damaged flag of a peer that rebuilds no paths */
    }
    outage   = 5 * SEC;
    silence  = random.pick<uint64_t>({0, 0, 0, 0, 20 * USEC, 2 * MSEC});
    exact    = random.below(2);
    moves    = random.pick<uint64_t>({0, 0, 0, 1, 10});
    slow     = random.pick<uint64_t>({0, 100 * USEC});
    busy     = random.pick<uint64_t>({0, 0, 20});
    narrows  = 0; /* see world */
    rehash   = 0; /* see the scenario */
    gone     = random.pick<uint64_t>({0, 10 * SEC});
    quota    = 32;
}

params params::draw(rng &random)
{
    params p {};

    p.draw_world(random);
    p.draw_network(random);
    p.draw_node(random);
    p.draw_faults(random);
    p.unproven = random.pick<uint64_t>({4, 32, 256});
    p.draw_timers(random);
    p.draw_failover(random);
    p.fit();
    return p;
}

params params::another_node(rng &random) const
{
    params p = *this;

    p.draw_node(random);
    p.fit();
    return p;
}

void params::fit()
{
    const uint64_t reserve = VQP_CONTROL_RESERVE;

    paths        = std::max<uint64_t>(1, std::min<uint64_t>(paths, 8));
    if (window < 16) {
        paths    = std::min<uint64_t>(paths, 4);
    }
    depth        = std::max<uint64_t>(depth, reserve + 2);
    imms         = std::max(imms, window + reserve);
    signal_every = std::max<uint64_t>(1, std::min(signal_every,
                                                  depth - reserve - 1));
    frag_shift   = std::max(frag_shift, min_shift);
    audit        = std::max<uint64_t>(audit, 1);
    batch        = std::max<uint64_t>(batch, 1);
    idle_peers   = std::max<uint64_t>(idle_peers, 1);
    min_paths    = std::max<uint64_t>(min_paths, 1);
    quota        = std::max<uint64_t>(quota, 4);
    while ((ring << ring_growth) > VQP_RING_WINDOW_MAX / window) {
        --ring_growth;
    }
    unproven     = std::max<uint64_t>(unproven, 1);
    if (gap_timeout > 0) { /* no immediate is late by so much on its own */
        gap_timeout = std::max(gap_timeout, 40 * delay);
    }
    if (silence > 0) { /* a slow path is not given up again and again, and for ever */
        silence = std::max(silence, 4 * (delay + poll));
    }
    nodes        = (senders > 0) ? senders + 1 :
                                   std::max<uint64_t>(nodes, 1);
}

bool params::set_one(const std::string &name, uint64_t value)
{
#define SIM_PARAM_SET(_name, _help) \
    if (name == #_name) { \
        _name = value; \
        return true; \
    }
    SIM_WORLD_PARAMS(SIM_PARAM_SET)
    SIM_NODE_PARAMS(SIM_PARAM_SET)
#undef SIM_PARAM_SET
    return false;
}

bool params::scenario(const std::string &name)
{
    for (const named_config &one : scenarios) {
        if (name == one.name) {
            return set(one.text).empty();
        }
    }
    return false;
}

std::string params::set(const std::string &text)
{
    std::istringstream in(text);
    std::string item;

    while (std::getline(in, item, ',')) {
        size_t equals     = item.find('=');
        std::string value = (equals == std::string::npos) ?
                                    "" : item.substr(equals + 1);
        char *end         = nullptr;
        uint64_t number   = strtoull(value.c_str(), &end, 0);
        bool is_good;

        if (equals == std::string::npos) {
            is_good = scenario(item);
        } else {
            is_good = !value.empty() && (*end == '\0') &&
                      set_one(item.substr(0, equals), number);
        }

        if (!is_good) {
            return "--config: what is \"" + item + "\"?";
        }
    }
    return "";
}

std::string params::str() const
{
    std::ostringstream os;

#define SIM_PARAM_PRINT(_name, _help) os << #_name "=" << _name << ",";
    SIM_WORLD_PARAMS(SIM_PARAM_PRINT)
    SIM_NODE_PARAMS(SIM_PARAM_PRINT)
#undef SIM_PARAM_PRINT
    return os.str().substr(0, os.str().size() - 1);
}

std::string params_help()
{
    std::ostringstream os;

    os << "Scenarios, for --config:\n";
    for (const named_config &one : scenarios) {
        os << "  " << one.name << ": " << one.help << "\n    (" << one.text
           << ")\n";
    }
    os << "Parameters, for --config:\n";
#define SIM_PARAM_HELP(_name, _help) os << "  " #_name ": " _help "\n";
    SIM_WORLD_PARAMS(SIM_PARAM_HELP)
    SIM_NODE_PARAMS(SIM_PARAM_HELP)
#undef SIM_PARAM_HELP
    return os.str();
}

} /* namespace sim */
