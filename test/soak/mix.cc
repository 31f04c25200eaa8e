/* The hub of the mix, see mix.h. */
#include "mix.h"
#include "mix_sender.h"

#include "core/status.h"
#include "test/fabric/fabric.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace {

constexpr unsigned MAX_AHS  = 8; /* one for each port that was met */

/* A table of UCX may double once, and those of operations may grow at both ends */
constexpr size_t   MAX_HEAP = 160 << 10;

/* Of the endpoints of the whole run: a ring and its mirror that have grown, and those before,
 * in both directions of two connections, on two rails */
constexpr unsigned MAX_RINGS = 2 * 2 * 2 * 2 * 2;

/* Objects and memory, which must not grow */
struct level {
    unsigned qps = 0, cqs = 0, mrs = 0, ahs = 0;
    size_t   heap   = 0; /* bytes that are allocated and not freed */
    size_t   kbytes = 0; /* resident private memory, mappings included */

    static level now();
    std::string str() const /* address handles are kept for each peer port */
    {
        return std::to_string(qps) + " queue pairs, " + std::to_string(cqs) +
               " CQs, " + std::to_string(mrs) + " regions, " +
               std::to_string(ahs) + " address handles, " +
               std::to_string(heap) + " bytes of heap, " +
               std::to_string(kbytes) + " KB";
    }
};

static unsigned open_qps()
{
    vqp_fabric_objects_t objects = {};

    if (vqp_fabric() != NULL) {
        vqp_fabric()->objects(&objects);
    }
    return objects.qps;
}

/* Exact only without the caches of threads, which count as allocated:
 * test/soak/run turns them off */
static size_t heap_in_use()
{
#if __GLIBC_PREREQ(2, 33)
    struct mallinfo2 info = mallinfo2();
#else
    struct mallinfo info = mallinfo();
#endif

    return (size_t)info.uordblks + (size_t)info.hblkhd;
}

/* Not the shared memory: the fabric gives each new queue pair the next place in
 * its table there, and a page of it stays resident once it was accessed */
static size_t private_kbytes()
{
    std::ifstream status("/proc/self/status");
    std::string word;
    size_t kbytes = 0;

    malloc_trim(0);
    while (status >> word) {
        if (word == "RssAnon:") {
            status >> kbytes;
        }
    }
    return kbytes;
}

level level::now()
{
    vqp_fabric_objects_t objects = {};
    level result;

    if (vqp_fabric() != NULL) {
        vqp_fabric()->objects(&objects);
    }

    result.qps    = objects.qps;
    result.cqs    = objects.cqs;
    result.mrs    = objects.mrs;
    result.ahs    = objects.ahs;
    result.heap   = heap_in_use();
    result.kbytes = private_kbytes();
    return result;
}

/* The hub's side of a guest: its process, and the sender to it */
struct visit {
    std::unique_ptr<process>    other;
    std::unique_ptr<mix_sender> sender;
    std::string                 address;
    double                      kill_at;
    unsigned                    sessions;
    enum { RUNNING, ENDING }    state;
    unsigned                    session; /* the guest's last one */
    unsigned                    count;   /* of messages that it sent there */
};

class hub {
public:
    explicit hub(const arguments &args);
    int run();

private:
    void generation(double seconds);
    void start_guest(unsigned index);
    void progress(visit &one);
    void finish_sessions(visit &one);
    void check_result(visit &one);
    void new_sender(visit &one);
    void remove(visit &one);
    void wait_for_cleanup();
    bool qps_are_good(unsigned qps) const;
    bool objects_are_good() const;
    void exchange();
    void close();
    void report(const std::string &what);
    void report_errors_of(const mix_sender &one);
    int verdict(double seconds);

    arguments        args;
    uint64_t         seed;
    bool             harm, cuts;
    std::mt19937     random;
    node             own, mate;
    mix_receiver             own_receiver, mate_receiver;
    unsigned         max_qps; /* the control plane's, and those that there and back may have */
    std::unique_ptr<mix_sender> there, back; /* for the whole run */
    std::vector<visit> visits;
    unsigned         serial = 0, killed = 0, errors = 0, generations = 0;
    uint64_t         operations = 0;
    level            warm, last;
    std::string      text;
};

/* For the hub: with the file, an interface keeps the counters of each connection
 * until it is closed, and memory must not grow here */
static options without_stats(options config)
{
    config.erase("STATS_FILE");
    return config;
}

/* At most, of a connection */
static unsigned num_paths(const options &config)
{
    auto found = config.find("NUM_PATHS");

    return (found == config.end()) ? VQP_MAX_PATHS :
                                     (unsigned)std::stoul(found->second);
}

hub::hub(const arguments &args) :
        args(args), seed(args.number("seed")),
        harm(args.text("harm") == "yes"), cuts(args.text("cuts") == "yes"),
        random((unsigned)seed),
        own(0, without_stats(args.config)),
        mate(1, without_stats(args.config)), own_receiver(own),
        mate_receiver(mate),
        max_qps(open_qps() + (2 * 2 * num_paths(args.config))),
        visits(args.number("guests"))
{
    there = std::make_unique<mix_sender>(own, mate_receiver.address(), 1, seed,
                                         false);
    back  = std::make_unique<mix_sender>(mate, own_receiver.address(), 1,
                                         seed + 1, false);
    if (cuts) {
        there->expect_cuts();
        back->expect_cuts();
    }
}

void hub::report(const std::string &what)
{
    if (text.size() < 4000) {
        text += what + "\n";
    }
}

void hub::report_errors_of(const mix_sender &one)
{
    if (!one.errors_found().empty()) {
        report("the hub's " + one.errors_found());
    }
}

/* ---- guests ---- */

void hub::start_guest(unsigned index)
{
    visit &one     = visits[index];
    arguments part = args;
    unsigned ms    = 300 + (unsigned)(random() % 2000);

    part.set("serial", std::to_string(++serial));
    part.set("index", std::to_string(index));
    part.set("session-ms", std::to_string(ms));
    one.other = std::make_unique<process>("mix_guest");
    one.other->write(part.line());
    one.other->write(own_receiver.address());
    one.address  = one.other->read();
    if (one.address.empty()) {
        report("a guest did not start");
        one.other.reset();
        return;
    }

    one.sessions   = 0;
    one.state   = visit::RUNNING;
    one.kill_at = (random() % 3 == 0) ? now() + 1e-3 * (double)(random() % ms) :
                                        1e30;
    new_sender(one);
}

void hub::new_sender(visit &one)
{
    /* the guest receives from this side's sessions only */
    one.sender = std::make_unique<mix_sender>(own, one.address,
                                              1 + one.sessions++, seed,
                                              harm);
    if (cuts) {
        one.sender->expect_cuts();
    }
}

void hub::remove(visit &one)
{
    if (one.sender != nullptr) {
        one.sender->destroy();
        operations += one.sender->operations;
        report_errors_of(*one.sender);
        one.sender.reset();
    }
    one.other.reset();
}

/* The guest has sent everything. Send the rest, and report the count to it. */
void hub::finish_sessions(visit &one)
{
    std::istringstream words(one.other->read());
    std::string how;

    words >> one.session >> one.count >> how;
    if (!until([&] { return one.sender->finish() || one.sender->failed(); })) {
        report("stuck: the hub's messages to a guest");
    }
    if (one.sender->failed() && !harm) {
        report("an error of the endpoint to a guest that was not killed");
    }
    if (how != "clean") {
        one.count = 0;
        if (!harm) {
            report("an error of a guest's endpoint");
        }
    }
    one.other->write(std::to_string(one.sender->number()) + " " +
                     std::to_string(one.sender->failed() ?
                                    0 : one.sender->sent()));
    one.state = visit::ENDING;
}

void hub::check_result(visit &one)
{
    std::string answer = one.other->read();

    if (answer != "well") {
        report("guest " + std::to_string(one.session) + ": " + answer);
    }
    if (!until([&] {
            return own_receiver.received(one.session) >= one.count;
        })) {
        report("a guest has sent " + std::to_string(one.count) +
               " messages, received: " +
               std::to_string(own_receiver.received(one.session)));
    }
    remove(one);
}

void hub::progress(visit &one)
{
    if (now() > one.kill_at) {
        one.sender->expect_harm();
        one.other->kill();
        ++killed;
        if (random() % 2) {
            run_for(0.001 * (double)(random() % 20)); /* it may be noticed */
        }
        remove(one);
    } else if (one.other->ready()) {
        (one.state == visit::RUNNING) ? finish_sessions(one) :
                                        check_result(one);
    } else if (one.sender->failed()) {
        errors += one.state == visit::RUNNING;
        if (one.state == visit::RUNNING) {
            one.sender->destroy();
            report_errors_of(*one.sender);
            new_sender(one);
        }
    } else if (one.state == visit::RUNNING) {
        one.sender->step();
    }
}

/* ---- generations ---- */

/* Start guests for @a seconds, and wait until all have ended */
void hub::generation(double seconds)
{
    double end = now() + seconds;

    until([&] {
        bool empty = true;

        for (unsigned i = 0; i < visits.size(); ++i) {
            if (visits[i].other != nullptr) {
                progress(visits[i]);
            } else if ((now() < end) && text.empty()) {
                start_guest(i);
            }
            empty = empty && (visits[i].other == nullptr);
        }
        if (random() % 2) {
            there->step();
            back->step();
        }
        return empty && ((now() >= end) || !text.empty());
    }, seconds + 60);
    for (visit &one : visits) {
        if (one.other != nullptr) {
            report("stuck: a guest does not end");
            remove(one);
        }
    }
    ++generations;
}

/* While paths are cut, the endpoints of the whole run add some and drop others, and their
 * rings grow. What remains of guests beyond that adds up, and has memory, too */
bool hub::qps_are_good(unsigned qps) const
{
    return cuts ? (qps <= max_qps) : (qps == warm.qps);
}

bool hub::objects_are_good() const
{
    return (last.cqs == warm.cqs) && (last.ahs <= MAX_AHS) &&
           (cuts ? (last.mrs <= warm.mrs + MAX_RINGS) : (last.mrs == warm.mrs));
}

/* Wait until the connections of former guests are destroyed: a connection that
 * no endpoint owns is probed. That of a guest that was killed may have no queue pair any
 * more, and goes when the outage ends it: its memory is waited for, too */
void hub::wait_for_cleanup()
{
    if (cuts && (generations <= 2)) {
        until([] { return false; }, 3); /* else what remains of guests would count as warm */
    }
    until([&] {
        return qps_are_good(open_qps()) &&
               ((generations <= 2) || (heap_in_use() <= warm.heap + MAX_HEAP));
    }, 20);
    own_receiver.forget_guests(); /* a killed one may still send */
    last = level::now();
    if (!qps_are_good(last.qps)) {
        report("queue pairs remain: " + last.str());
    } else if (generations <= 2) {
        warm = last;
    } else if (!objects_are_good()) {
        report("remaining: " + last.str() + ", after warming up: " +
               warm.str());
    }
}

/* Check that the endpoints of the whole run still work */
void hub::exchange()
{
    uint64_t before = own_receiver.total + mate_receiver.total;

    until([&] {
        there->step();
        back->step();
        return own_receiver.total + mate_receiver.total > before + 100;
    });
    if (own_receiver.total + mate_receiver.total <= before + 100) {
        report("stuck: the endpoints of the whole run");
    }
}

void hub::close()
{
    for (mix_sender *each : {there.get(), back.get()}) {
        if (!until([&] { return each->finish() || each->failed(); })) {
            report("stuck: the end of an endpoint of the whole run");
        }
        if (each->failed()) {
            report("an error of an endpoint of the whole run");
        }
        operations += each->operations;
        report_errors_of(*each);
    }
    if (!until([&] {
            return (mate_receiver.received(1) == there->sent()) &&
                   (own_receiver.received(1) == back->sent());
        })) {
        report("messages are missing at an endpoint of the whole run");
    }
    there.reset();
    back.reset();
    text += own_receiver.errors_found() + mate_receiver.errors_found() +
            fabric_violations();
}

int hub::verdict(double seconds)
{
    bool good = text.empty();

    /* the first fault is in the line that a summary shows */
    printf("%s mix: seed %lu%s%s, %.0f s, %u generations: %u guests, %u killed, "
           "%u errors at the hub; %lu operations, %lu messages received; %s "
           "after warming up, %s at the end\n",
           good ? "ok  " : "FAIL", (unsigned long)seed, good ? "" : ": ",
           text.substr(0, text.find('\n')).c_str(), seconds, generations, serial, killed, errors, (unsigned long)operations,
           (unsigned long)(own_receiver.total + mate_receiver.total),
           warm.str().c_str(), last.str().c_str());
    printf("%s", text.c_str());
    return good ? 0 : 1;
}

int hub::run()
{
    double begin = now(), seconds = (double)args.number("seconds");

    /* An interface can not be opened while its port is down */
    const char *port_cuts = getenv("VQP_SOAK_PORT_CUTS");

    if ((vqp_fabric() != NULL) && !cuts) {
        vqp_fabric()->faults(NULL, NULL, 0); /* the guests have them */
    } else if ((vqp_fabric() != NULL) && (port_cuts != NULL) &&
               (vqp_fabric()->faults(port_cuts, NULL, 0) != 0)) {
        report("VQP_SOAK_PORT_CUTS is wrong");
    }
    exchange();
    warm = level::now();
    while ((text.empty() && (now() < begin + seconds)) || (generations < 3)) {
        generation(seconds / 6);
        wait_for_cleanup();
        exchange();
        if (!text.empty()) {
            break;
        }
    }
    if ((last.heap > warm.heap + MAX_HEAP) ||
        (last.kbytes > warm.kbytes + warm.kbytes / 20 + 4096)) {
        report("memory grows");
    }
    close();
    return verdict(now() - begin);
}

} /* namespace */

int mix_main(int argc, char **argv)
{
    arguments args = mix_arguments();

    if (!args.parse(argc, argv)) {
        return 2;
    }
    return hub(args).run();
}
