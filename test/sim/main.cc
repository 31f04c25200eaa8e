/*
 * vqp_sim: seeded runs of whole cores against each other in a world of faults.
 * See --help. Prints what it ran; a failure prints the seed, the checker that
 * was violated, the end of the trace, and the command that shows all of it.
 */
#include "cover.h"
#include "params.h"
#include "world.h"

#include "commit.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <sstream>
#include <string>

namespace {

struct options {
    uint64_t    seed     = 1;
    uint64_t    runs     = 0; /* 0: one, unless there is a file of seeds */
    double      seconds  = 0;
    bool        trace    = false;
    bool        coverage = false;
    bool        go_on    = false; /* after a failure */
    std::string config;
    std::string seeds_file;
    sim::coverage_goal goal; /* what a seed is searched for */
};

struct totals {
    uint64_t passed = 0, failed = 0, events = 0, ams = 0;
    /* runs in which immediates overtook each other, and those in which they did
     * while the 24 bits of their numbers wrapped */
    uint64_t overtaken = 0, wrapped = 0;
    double   seconds = 0;
};

class print_all : public sim::trace_sink {
public:
    void line(const char *text) override { puts(text); }
};

/* The last lines only */
class keep_last : public sim::trace_sink {
public:
    void line(const char *text) override
    {
        m_lines.push_back(text);
        if (m_lines.size() > 40) {
            m_lines.pop_front();
        }
    }

    void print() const
    {
        for (const std::string &text : m_lines) {
            printf("    %s\n", text.c_str());
        }
    }

private:
    std::deque<std::string> m_lines;
};

double clock_now()
{
    using namespace std::chrono;
    return duration<double>(steady_clock::now().time_since_epoch()).count();
}

int usage(int status)
{
    fprintf(status ? stderr : stdout,
            "vqp_sim [OPTION]...\n"
            "  --seed S       the first seed (1)\n"
            "  --runs N       so many runs, of seeds S, S + 1, ... (1)\n"
            "  --seconds T    as many runs as fit into T seconds\n"
            "  --seeds FILE   all seeds of a file: SEED [CONFIG] [# COMMENT]\n"
            "  --senders N    N nodes that connect to one receiver\n"
            "  --config C     scenario or name=value, comma separated; may be "
            "repeated\n"
            "  --trace        print every event\n"
            "  --coverage     print the coverage points with their counts; one "
            "that the\n"
            "                 seeds of the file, or without one all runs, did not "
            "reach is\n"
            "                 a failure\n"
            "  --reach POINT[,POINT]...\n"
            "                 search for a seed whose run reaches these coverage "
            "points, from\n"
            "                 S on, in N runs (100000) or T seconds; print its "
            "line for the\n"
            "                 file of seeds\n"
            "  --go-on        do not stop at the first failure\n"
            "  --list-params  scenarios and parameters\n");
    return status;
}

/* Run it again for its trace: it is the same run */
void explain(uint64_t seed, const std::string &config)
{
    keep_last last;
    sim::world again(seed, config, &last);

    again.run();
    printf("FAIL seed %lu: checker %s: %s\n", (unsigned long)seed,
           again.checker().c_str(), again.failure().c_str());
    printf("    the last of its trace:\n");
    last.print();
    printf("    %s\n", again.base.str().c_str());
    printf("    commit %s\n", VQP_SIM_COMMIT);
    printf("    replay: vqp_sim --seed %lu%s%s --trace\n", (unsigned long)seed,
           config.empty() ? "" : " --config ", config.c_str());
}

bool run_one(const options &opts, uint64_t seed, const std::string &config,
             totals *sum)
{
    print_all printer;
    double start   = clock_now();
    uint64_t ahead = sim::overtakings(), wraps = sim::wraps();
    sim::world w(seed, config, opts.trace ? &printer : nullptr);
    bool good    = w.run();

    sum->seconds += clock_now() - start;
    sum->events  += w.events();
    sum->ams     += w.ams_delivered();
    sum->wrapped += sim::wraps() != wraps;
    sum->overtaken += sim::overtakings() != ahead;
    ++(good ? sum->passed : sum->failed);
    if (!good && !opts.trace) {
        explain(seed, config);
    }
    fflush(stdout);
    return good;
}

/* The seeds of a range, one after the other */
class seed_range {
public:
    /* @a runs: how many there are if no option says so */
    seed_range(const options &opts, uint64_t runs)
        : m_opts(opts), m_end(clock_now() + opts.seconds),
          m_runs((opts.runs > 0) ? opts.runs : runs)
    {
    }

    bool has_next() const
    {
        return (m_opts.seconds > 0) ? (clock_now() < m_end) : (m_taken < m_runs);
    }

    uint64_t next()
    {
        return m_opts.seed + m_taken++;
    }

private:
    const options &m_opts;
    double m_end;
    uint64_t m_runs, m_taken = 0;
};

void run_range(const options &opts, totals *sum)
{
    seed_range range(opts, 1);

    while (range.has_next()) {
        if (!run_one(opts, range.next(), opts.config, sum) && !opts.go_on) {
            return;
        }
    }
}

/* Search for a seed that reaches all points of opts.goal. If no run fails, its
 * line for the file of seeds is all that is printed to stdout. A failed run ends
 * the search, unless there is --go-on; its seed is never the result.
 * @return 0, or 1 if there is no such seed. */
int find_seed(options &opts)
{
    seed_range range(opts, 100000);
    totals sum;

    while (range.has_next()) {
        uint64_t seed = range.next();

        opts.goal.begin_run();
        if (!run_one(opts, seed, opts.config, &sum)) {
            if (!opts.go_on) {
                return 1;
            }
        } else if (opts.goal.is_reached()) {
            printf("%lu%s%s   # %s\n", (unsigned long)seed,
                   opts.config.empty() ? "" : " ", opts.config.c_str(),
                   opts.goal.str().c_str());
            return 0;
        }
    }
    fprintf(stderr, "vqp_sim: none of %lu runs from seed %lu on reaches %s\n",
            (unsigned long)(sum.passed + sum.failed), (unsigned long)opts.seed,
            opts.goal.str().c_str());
    return 1;
}

/* One line: SEED [CONFIG] [# COMMENT], or nothing. A line that is something
 * else fails: a seed that does not run as it was kept proves nothing.
 * @return whether it named a seed. */
bool run_line(const options &opts, std::string line, totals *sum)
{
    std::istringstream words(line.substr(0, line.find('#')));
    std::string seed, config, rest, error;
    sim::params check {};
    char *end = nullptr;
    uint64_t number;

    if (!(words >> seed)) {
        return false;
    }

    words >> config >> rest;
    number = strtoull(seed.c_str(), &end, 0);
    error  = (*end != '\0') ? "\"" + seed + "\" is no seed" :
             !rest.empty()   ? "what is \"" + rest + "\"?" :
                               check.set(config);
    if (!error.empty()) {
        printf("FAIL %s: %s (%s)\n", opts.seeds_file.c_str(), line.c_str(),
               error.c_str());
        ++sum->failed;
    } else {
        run_one(opts, number, config, sum);
    }
    return true;
}

void run_file(const options &opts, totals *sum)
{
    std::ifstream file(opts.seeds_file);
    bool any = false;
    std::string line;

    while (std::getline(file, line)) {
        any |= run_line(opts, line, sum);
    }
    if (!any) {
        printf("FAIL %s: there is no seed in it, or it can not be read\n",
               opts.seeds_file.c_str());
        ++sum->failed;
    }
}

/* Of the kept seeds alone, if there are some: what they reach is the same each
 * time, what new seeds reach is not */
void judge_coverage(const options &opts, totals *sum)
{
    if (opts.coverage) {
        ++(sim::print_coverage() ? sum->passed : sum->failed);
    }
}

void add_config(options *opts, const std::string &text)
{
    opts->config += (opts->config.empty() ? "" : ",") + text;
}

/* @return -1, or the status to exit with */
int parse(int argc, char **argv, options *opts)
{
    std::string error;

    for (int i = 1; i < argc; ++i) {
        std::string name  = argv[i];
        bool has_value    = (name == "--seed") || (name == "--runs") ||
                            (name == "--seconds") || (name == "--seeds") ||
                            (name == "--senders") || (name == "--config") ||
                            (name == "--reach");
        const char *value = has_value ? argv[++i] : "";

        if (value == nullptr) {
            return usage(2);
        } else if (name == "--seed") {
            opts->seed = strtoull(value, nullptr, 0);
        } else if (name == "--runs") {
            opts->runs = strtoull(value, nullptr, 0);
        } else if (name == "--seconds") {
            opts->seconds = strtod(value, nullptr);
        } else if (name == "--seeds") {
            opts->seeds_file = value;
        } else if (name == "--senders") {
            add_config(opts, std::string("senders=") + value);
        } else if (name == "--config") {
            add_config(opts, value);
        } else if (name == "--reach") {
            if (!opts->goal.add(value, &error)) {
                fprintf(stderr,
                        "vqp_sim: there is no coverage point \"%s\"; --coverage "
                        "prints all\n", error.c_str());
                return 2;
            }
        } else if (name == "--trace") {
            opts->trace = true;
        } else if (name == "--coverage") {
            opts->coverage = true;
        } else if (name == "--go-on") {
            opts->go_on = true;
        } else if (name == "--list-params") {
            printf("%s", sim::params_help().c_str());
            return 0;
        } else {
            return usage((name == "--help") ? 0 : 2);
        }
    }
    return -1;
}

} /* namespace */

int main(int argc, char **argv)
{
    options opts;
    totals sum;
    int status = parse(argc, argv, &opts);
    sim::params check {};
    std::string error;

    if (status >= 0) {
        return status;
    }

    error = check.set(opts.config);
    if (!error.empty()) {
        fprintf(stderr, "vqp_sim: %s\n", error.c_str());
        return 2;
    }

    if (!opts.goal.is_empty()) {
        return opts.seeds_file.empty() ? find_seed(opts) : usage(2);
    }

    if (!opts.seeds_file.empty()) {
        run_file(opts, &sum);
        judge_coverage(opts, &sum);
    }
    if (opts.seeds_file.empty() || (opts.seconds > 0) || (opts.runs > 0)) {
        printf("seed %lu, commit %s%s%s\n", (unsigned long)opts.seed,
               VQP_SIM_COMMIT, opts.config.empty() ? "" : ", ",
               opts.config.c_str());
        fflush(stdout);
        run_range(opts, &sum);
    }

    printf("%lu runs, %lu events, %.0f per second, %lu messages delivered\n",
           (unsigned long)(sum.passed + sum.failed),
           (unsigned long)sum.events,
           (double)sum.events / (sum.seconds > 0 ? sum.seconds : 1),
           (unsigned long)sum.ams);
    printf("immediates overtook each other in %lu, in %lu of these while their "
           "numbers wrapped\n", (unsigned long)sum.overtaken,
           (unsigned long)sum.wrapped);
    if (opts.config.empty() && (sum.overtaken >= 100) &&
        (2 * sum.wrapped <= sum.overtaken)) {
        printf("FAIL numbers wrap in too few runs\n");
        ++sum.failed;
    }
    if (opts.seeds_file.empty()) {
        judge_coverage(opts, &sum);
    }
    printf("%lu passed, %lu failed, 0 skipped\n", (unsigned long)sum.passed,
           (unsigned long)sum.failed);
    return (sum.failed > 0) ? 1 : 0;
}
