/*
 * Bandwidth and latency of one endpoint over paths of known rates, in one
 * process that has both ends: what test/perf/sched measures. Runs on real
 * devices and on the software fabric; prints a line per size.
 */
#include "test/fabric/fabric.h"
#include "test/uct/uct_fixture.h"

#include <dlfcn.h>
#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <memory>
#include <set>
#include <sstream>

static const char usage[] =
"usage: sched_bench [OPTION]... TEST\n"
"  bandwidth      SIZE MB/s: operations, --window of them at a time, once the\n"
"                 first ones are through\n"
"  latency        SIZE MEDIAN P99, us: one operation at a time\n"
"  mixed          SIZE MEDIAN P99 MEDIAN P99 MB/s: one way time in us of 4 KiB\n"
"                 active messages, alone, and while the same endpoint streams\n"
"                 puts of SIZE, --window at a time, at so many MB/s\n"
"  shift          SIZE MB/s MB/s: bandwidth before --shift runs, and from then on\n"
"options, beside UCX_VQP_* in the environment\n"
"  --from NAME    memory domain of the sender: a device, or bond0 [the first]\n"
"  --to NAME      of the receiver [the second]\n"
"  --op OP        put, get or am [put]\n"
"  --size N,...   bytes, with k or m [1m]\n"
"  --window N     operations at a time [1]\n"
"  --seconds S    of measuring, for each figure [1]\n"
"  --links N      first connect again and again until the paths take N links of the\n"
"                 software fabric (its option LINKS) [0: do not]\n"
"  --nap US       sleep so long when there was nothing to do [0: do not]\n"
"  --shift CMD    what changes the rates: on the software fabric an action of its\n"
"                 fault scripts (test/fabric/fab_fault.h), else a shell command\n";

static struct {
    std::string         from, to, op = "put", shift;
    std::vector<size_t> sizes   = {1 << 20};
    unsigned            window  = 1;
    unsigned            links   = 0;
    double              seconds = 1;
    double              nap     = 0; /* us */
} opts;

static constexpr uint8_t timed_id  = 3; /* messages that carry their time */
static constexpr uint8_t stream_id = 4;
static constexpr size_t timed_size = 4096;
static constexpr double timed_gap  = 0.001; /* seconds between them */

static void die(const std::string &what)
{
    fprintf(stderr, "sched_bench: %s\n", what.c_str());
    exit(1);
}

/* ---- a stream of operations ---- */

class stream {
public:
    stream(endpoint &ep, memory &source, memory &target, size_t size,
           unsigned count);
    ~stream();

    void post(); /* as many as may be; to be called again and again */

    uint64_t            done = 0; /* operations that are over */
    double              last = 0; /* when the last one was */
    std::vector<double> times;    /* seconds that each took */

private:
    struct slot {
        std::unique_ptr<completion> comp;
        bool                        busy   = false;
        double                      posted = 0;
    };

    ucs_status_t post_one(slot &which);
    void over(slot &which);

    endpoint         &ep;
    memory           &source, &target;
    size_t            size;
    std::vector<slot> slots;
};

stream::stream(endpoint &ep, memory &source, memory &target, size_t size,
               unsigned count) :
        ep(ep), source(source), target(target), size(size), slots(count)
{
    for (slot &each : slots) {
        each.comp = std::make_unique<completion>(1, [this, &each] {
            over(each);
        });
    }
}

stream::~stream()
{
    until([this] {
        return std::none_of(slots.begin(), slots.end(), [](const slot &each) {
            return each.busy;
        });
    }, 600);
}

ucs_status_t stream::post_one(slot &which)
{
    uct_iov_t iov          = source.iov(0, size);
    uct_completion_t *comp = &which.comp->super;

    comp->count  = 1;
    comp->status = UCS_OK;
    if (opts.op == "put") {
        return uct_ep_put_zcopy(ep, &iov, 1, target.addr(), target.rkey(),
                                comp);
    } else if (opts.op == "get") {
        return uct_ep_get_zcopy(ep, &iov, 1, target.addr(), target.rkey(),
                                comp);
    }
    return uct_ep_am_zcopy(ep, stream_id, NULL, 0, &iov, 1, 0, comp);
}

void stream::over(slot &which)
{
    if (which.comp->status != UCS_OK) {
        die(std::string("an operation ended with ") +
            ucs_status_string(which.comp->status));
    }
    which.busy = false;
    last       = now();
    times.push_back(last - which.posted);
    ++done;
}

void stream::post()
{
    for (slot &each : slots) {
        if (each.busy) {
            continue;
        }

        each.posted         = now();
        ucs_status_t status = post_one(each);
        if (status == UCS_INPROGRESS) {
            each.busy = true;
        } else if (status == UCS_ERR_NO_RESOURCE) {
            return;
        } else {
            die(opts.op + ": " + ucs_status_string(status));
        }
    }
}

/* ---- the two ends ---- */

struct world {
    world(const std::string &from, const std::string &to, size_t size) :
            a(from), b(to), source(a, size), target(b, size), ab(a, b)
    {
        b.on_am(timed_id, [this](const char *data, size_t) {
            double sent;

            memcpy(&sent, data, sizeof(sent));
            ways.push_back(now() - sent);
            return UCS_OK;
        });
        b.on_am(stream_id, [](const char *, size_t) { return UCS_OK; });
        source.fill(1);
        target.fill(2);
    }

    /* A message with the time when it was sent */
    ucs_status_t send_time()
    {
        char data[timed_size] = {};
        double sent           = now();
        bytes message         = {data, sizeof(data)};

        memcpy(data, &sent, sizeof(sent));
        ssize_t n = uct_ep_am_bcopy(ab, timed_id, pack_bytes, &message, 0);
        return (n < 0) ? (ucs_status_t)n : UCS_OK;
    }

    node                a, b;
    memory              source, target;
    endpoint            ab;
    std::vector<double> ways; /* seconds of each timed message, one way */
};

/* ---- measuring ---- */

/* There was nothing to do. With a nap, sleep: in a guest with simulated time, time
 * passes only in sleep. With the fabric's virtual clock, return: no other process
 * needs the CPU. */
static void rest()
{
    static const char *clock = getenv("VQP_FABRIC_CLOCK");
    static const bool yields = (clock == nullptr) || strcmp(clock, "virtual");

    if (opts.nap > 0) {
        struct timespec nap = {.tv_sec = 0, .tv_nsec = (long)(opts.nap * 1e3)};

        nanosleep(&nap, nullptr);
    } else if (yields) {
        sched_yield();
    }
}

/* Progress of both ends, with s streaming, until the condition holds */
template <typename func_t>
static void drive(world &w, stream *s, const func_t &condition)
{
    double end = now() + 600;

    for (;;) {
        if (s != nullptr) {
            s->post();
        }
        if (condition()) {
            return;
        }
        if (w.a.progress() + w.b.progress() == 0) {
            rest();
        }
        if (now() > end) {
            die("nothing moves any more");
        }
    }
}

/* Until a message has come through */
static void connect(world &w)
{
    drive(w, nullptr, [&] { return w.send_time() == UCS_OK; });
    drive(w, nullptr, [&] { return !w.ways.empty(); });
    w.ways.clear();
}

/* How many links the sender's queue pairs take */
static size_t count_links(const world &w)
{
    std::vector<uint32_t> qpns(64);
    std::set<unsigned> links;
    int count = vqp_fabric()->qps(w.a.name.c_str(), qpns.data(),
                                  (unsigned)qpns.size());

    for (int i = 0; i < std::min(count, (int)qpns.size()); ++i) {
        vqp_fabric_path_t path = {};

        if (vqp_fabric()->qp_path(w.a.name.c_str(), qpns[i], &path) == 0) {
            links.insert(path.link);
        }
    }
    return links.size();
}

/* Connected, with --links on so many of them: flow labels are random */
static std::unique_ptr<world> open_world(size_t size)
{
    std::unique_ptr<world> w;

    if ((opts.links > 0) && (vqp_fabric() == nullptr)) {
        die("--links is for the software fabric");
    }
    do {
        w.reset();
        w = std::make_unique<world>(
                opts.from.empty() ? devices().front() : opts.from,
                opts.to.empty() ? devices().back() : opts.to, size);
        connect(*w);
    } while ((opts.links > 0) && (count_links(*w) != opts.links));
    return w;
}

/* Operations per second, from the end of one to the end of a later one */
static double rate_of(world &w, stream &s, double seconds)
{
    uint64_t first = s.done;
    double start   = s.last;

    drive(w, &s, [&] { return (s.done > first) && (s.last > start + seconds); });
    return (double)(s.done - first) / (s.last - start);
}

static double quantile(std::vector<double> values, double q)
{
    std::sort(values.begin(), values.end());
    return values.empty() ? 0 : values[(size_t)(q * (values.size() - 1))];
}

/* One message at a time, each some time after the one before has come */
static std::vector<double> one_ways(world &w, stream *s)
{
    double end = now() + opts.seconds;

    w.ways.clear();
    while (now() < end) {
        double next  = now() + timed_gap;
        size_t count = w.ways.size();

        drive(w, s, [&] { return now() >= next; });
        drive(w, s, [&] { return w.send_time() == UCS_OK; });
        drive(w, s, [&] { return w.ways.size() > count; });
    }
    return w.ways;
}

static void print_times(const std::vector<double> &times)
{
    printf(" %.1f %.1f", quantile(times, 0.5) * 1e6,
           quantile(times, 0.99) * 1e6);
}

/* ---- the tests; each prints what follows the size ---- */

/* A fifth of the time for all paths to be seen at work */
static void warm_up(world &w, stream &s, double seconds)
{
    double end = now() + (seconds / 5);

    drive(w, &s, [&] { return (s.done > 0) && (now() > end); });
}

static void test_bandwidth(world &w, size_t size)
{
    stream s(w.ab, w.source, w.target, size, opts.window);

    warm_up(w, s, opts.seconds);
    printf(" %.3f", rate_of(w, s, opts.seconds) * (double)size / 1e6);
}

static void test_latency(world &w, size_t size)
{
    stream s(w.ab, w.source, w.target, size, 1);

    warm_up(w, s, opts.seconds);
    s.times.clear();
    rate_of(w, s, opts.seconds);
    print_times(s.times);
}

static void test_mixed(world &w, size_t size)
{
    print_times(one_ways(w, nullptr));

    stream s(w.ab, w.source, w.target, size, opts.window);
    warm_up(w, s, opts.seconds);
    uint64_t first = s.done;
    double start   = s.last;
    print_times(one_ways(w, &s));
    drive(w, &s, [&] { return s.done > first; });
    printf(" %.3f", (double)((s.done - first) * size) / (s.last - start) / 1e6);
}

static void shift()
{
    const vqp_fabric_t *fabric = vqp_fabric();
    char why[256];

    if (fabric != nullptr) {
        if (fabric->act(opts.shift.c_str(), why, sizeof(why)) != 0) {
            die(opts.shift + ": " + why);
        }
    } else if (system(opts.shift.c_str()) != 0) {
        die(opts.shift + " failed");
    }
}

static void test_shift(world &w, size_t size)
{
    stream s(w.ab, w.source, w.target, size, opts.window);

    warm_up(w, s, opts.seconds);
    printf(" %.3f", rate_of(w, s, opts.seconds) * (double)size / 1e6);
    shift();
    printf(" %.3f", rate_of(w, s, opts.seconds) * (double)size / 1e6);
}

static const struct {
    const char *name;
    void      (*run)(world &, size_t);
} tests[] = {{"bandwidth", test_bandwidth},
             {"latency", test_latency},
             {"mixed", test_mixed},
             {"shift", test_shift}};

/* ---- command line ---- */

static std::vector<size_t> parse_sizes(const std::string &text)
{
    std::istringstream list(text);
    std::vector<size_t> sizes;
    std::string item;

    while (std::getline(list, item, ',')) {
        char *end;
        size_t size = strtoul(item.c_str(), &end, 10);

        size <<= (*end == 'k') ? 10 : (*end == 'm') ? 20 : 0;
        if (size == 0) {
            die("--size " + text + ": what is '" + item + "'?");
        }
        sizes.push_back(size);
    }
    return sizes;
}

static const char *parse(int argc, char **argv)
{
    static const struct option options[] = {
        {"from", 1, nullptr, 'f'},   {"to", 1, nullptr, 't'},
        {"op", 1, nullptr, 'o'},     {"size", 1, nullptr, 's'},
        {"window", 1, nullptr, 'w'}, {"seconds", 1, nullptr, 'S'},
        {"shift", 1, nullptr, 'x'},  {"nap", 1, nullptr, 'n'},
        {"links", 1, nullptr, 'l'},
        {nullptr, 0, nullptr, 0}};
    int c;

    while ((c = getopt_long(argc, argv, "", options, nullptr)) != -1) {
        switch (c) {
        case 'f': opts.from = optarg; break;
        case 't': opts.to = optarg; break;
        case 'o': opts.op = optarg; break;
        case 's': opts.sizes = parse_sizes(optarg); break;
        case 'w': opts.window = (unsigned)atoi(optarg); break;
        case 'S': opts.seconds = atof(optarg); break;
        case 'x': opts.shift = optarg; break;
        case 'n': opts.nap = atof(optarg); break;
        case 'l': opts.links = (unsigned)atoi(optarg); break;
        default: fputs(usage, stderr); exit(2);
        }
    }

    if ((optind != argc - 1) || (opts.window == 0) || (opts.seconds <= 0) ||
        (opts.nap < 0) || (opts.nap >= 1e6) ||
        ((opts.op != "put") && (opts.op != "get") && (opts.op != "am"))) {
        fputs(usage, stderr);
        exit(2);
    }
    return argv[optind];
}

int main(int argc, char **argv)
{
    const char *module = getenv("VQP_TEST_MODULE");
    std::string name   = parse(argc, argv);

    if (dlopen((module != nullptr) ? module : VQP_TEST_MODULE,
               RTLD_NOW | RTLD_GLOBAL) == nullptr) {
        die(std::string("the module does not load: ") + dlerror());
    }
    if (devices().empty()) {
        die("there are no devices");
    }
    if (opts.nap > 0) {
        prctl(PR_SET_TIMERSLACK, 1ul); /* as long as it is said to be */
        async_mode = UCS_ASYNC_MODE_THREAD_MUTEX;
    }

    auto test = std::find_if(std::begin(tests), std::end(tests),
                             [&](decltype(tests[0]) t) {
                                 return name == t.name;
                             });
    if (test == std::end(tests)) {
        die("there is no test " + name);
    }

    std::unique_ptr<world> w =
            open_world(*std::max_element(opts.sizes.begin(), opts.sizes.end()));
    for (size_t size : opts.sizes) {
        printf("%zu", size);
        test->run(*w, size);
        putchar('\n');
        fflush(stdout);
    }
    return 0;
}
