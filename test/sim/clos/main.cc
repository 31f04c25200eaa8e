/*
 * clos: throughput and tail of puts over a two-tier Clos with ECMP, for ways to
 * divide them over paths. See docs/scale.md. Prints a line of CSV for each
 * policy, number of paths and seed. Same options, same output.
 */
#include "world.h"

#include <getopt.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

using namespace clos;

static const struct {
    const char *name;
    policy      value;
} policies[] = {
    {"fixed", policy::FIXED}, {"rr", policy::RR}, {"left", policy::LEFT}
};

static const struct {
    const char *name;
    hash_kind   value;
} hashes[] = {
    {"crc16", hash_kind::CRC16}, {"crc32", hash_kind::CRC32},
    {"mix", hash_kind::MIX}
};

static void usage(FILE *to)
{
    fputs("usage: clos [OPTION]...\n"
          "  --name NAME        first column of the output [clos]\n"
          "  --leaves N, --spines N, --hosts N (of a leaf)  [32, 16, 16]\n"
          "  --gbps N           rate of each link [200]\n"
          "  --slow-spines N    so many have slow links [0]\n"
          "  --slow-factor F    what is left of their rate [0.1]\n"
          "  --hash crc16|crc32|mix   of the leaves [crc32]\n"
          "  --ports salted|row source ports: random, or the same in a row [salted]\n"
          "  --policies LIST    of fixed,rr,left [all]\n"
          "  --paths LIST       [1,2,4,8,16,32,64]\n"
          "  --path-bytes BYTES as UCX_VQP_PATH_BYTES; 0: auto [0]\n"
          "  --size BYTES       of a put [8388608]\n"
          "  --puts N           measured, of each host [4]\n"
          "  --load F           share of the hosts that send [1]\n"
          "  --step NS          of time [2000]\n"
          "  --rtt NS           from a frag's last byte to its completion [8000]\n"
          "  --seeds N          runs, with seeds 1 to N [1]\n", to);
}

static std::vector<std::string> split(const std::string &list)
{
    std::vector<std::string> words;
    size_t begin = 0, end;

    while ((end = list.find(',', begin)) != std::string::npos) {
        words.push_back(list.substr(begin, end - begin));
        begin = end + 1;
    }
    words.push_back(list.substr(begin));
    return words;
}

static void wrong(const char *option, const char *value)
{
    fprintf(stderr, "clos: wrong value of %s: %s\n", option, value);
    exit(2);
}

template <typename table_t, typename value_t>
static void look_up(const table_t &table, const char *option, const char *name,
                    value_t *value)
{
    for (const auto &one : table) {
        if (!strcmp(one.name, name)) {
            *value = one.value;
            return;
        }
    }
    wrong(option, name);
}

static double number(const char *option, const char *text, double low,
                     double high)
{
    char *end;
    double value = strtod(text, &end);

    if ((*text == '\0') || (*end != '\0') || !(value >= low) ||
        !(value <= high)) {
        wrong(option, text);
    }
    return value;
}

struct command {
    scenario                 what;
    std::string              name     = "clos";
    std::vector<std::string> policies = {"fixed", "rr", "left"};
    std::vector<std::string> paths    = {"1", "2", "4", "8", "16", "32", "64"};
    unsigned                 seeds    = 1;
};

static void take_option(command &cmd, const std::string &option,
                        const char *value)
{
    const char *text = option.c_str();
    scenario &what   = cmd.what;
    topology &topo   = what.topo;

    if (option == "name") {
        cmd.name = value;
    } else if (option == "leaves") {
        topo.leaves = (unsigned)number(text, value, 2, 256);
    } else if (option == "spines") {
        topo.spines = (unsigned)number(text, value, 1, 256);
    } else if (option == "hosts") {
        topo.hosts = (unsigned)number(text, value, 1, 256);
    } else if (option == "gbps") {
        topo.link_rate = number(text, value, 1, 10000) / 8;
    } else if (option == "slow-spines") {
        topo.slow_spines = (unsigned)number(text, value, 0, 256);
    } else if (option == "slow-factor") {
        topo.slow_factor = number(text, value, 0.001, 1);
    } else if (option == "hash") {
        look_up(hashes, text, value, &topo.hash);
    } else if (option == "ports") {
        if (strcmp(value, "salted") && strcmp(value, "row")) {
            wrong(text, value);
        }
        what.ports = strcmp(value, "row") ? ports_kind::SALTED :
                                            ports_kind::ROW;
    } else if (option == "policies") {
        cmd.policies = split(value);
    } else if (option == "paths") {
        cmd.paths = split(value);
    } else if (option == "path-bytes") {
        what.path_bytes = (uint64_t)number(text, value, 0, 1u << 30);
    } else if (option == "size") {
        what.size = (uint64_t)number(text, value, 4096, 1u << 30);
    } else if (option == "puts") {
        what.puts = (unsigned)number(text, value, 1, 1000);
    } else if (option == "load") {
        what.load = number(text, value, 0.001, 1);
    } else if (option == "step") {
        what.step = number(text, value, 1, 1e6);
    } else if (option == "rtt") {
        what.rtt = number(text, value, 0, 1e9);
    } else {
        cmd.seeds = (unsigned)number(text, value, 1, 1000);
    }
}

static command parse(int argc, char **argv)
{
    static const char *names[] = {
        "name", "leaves", "spines", "hosts", "gbps", "slow-spines",
        "slow-factor", "hash", "ports", "policies", "paths", "path-bytes",
        "size", "puts", "load", "step", "rtt", "seeds"
    };
    std::vector<option> options;
    command cmd;
    int c, index = 0;

    for (const char *name : names) {
        options.push_back({name, required_argument, nullptr, 'o'});
    }
    options.push_back({"help", no_argument, nullptr, 'h'});
    options.push_back({nullptr, 0, nullptr, 0});

    while ((c = getopt_long(argc, argv, "h", options.data(), &index)) != -1) {
        if (c != 'o') {
            usage((c == 'h') ? stdout : stderr);
            exit((c == 'h') ? 0 : 2);
        }
        take_option(cmd, names[index], optarg);
    }

    if ((optind < argc) || (cmd.what.topo.slow_spines > cmd.what.topo.spines)) {
        usage(stderr);
        exit(2);
    }
    return cmd;
}

int main(int argc, char **argv)
{
    command cmd = parse(argc, argv);

    printf("name,policy,paths,seed,flows,mean,worst,p50,p99,longest\n");
    for (const std::string &sched : cmd.policies) {
        look_up(policies, "policies", sched.c_str(), &cmd.what.sched);
        for (const std::string &paths : cmd.paths) {
            cmd.what.paths = (unsigned)number("paths", paths.c_str(), 1,
                                              VQP_MAX_PATHS);
            for (unsigned seed = 1; seed <= cmd.seeds; ++seed) {
                cmd.what.seed = seed;
                result sum    = world(cmd.what).run();

                printf("%s,%s,%u,%u,%u,%.4f,%.4f,%.3f,%.3f,%.3f\n",
                       cmd.name.c_str(), sched.c_str(), cmd.what.paths, seed,
                       sum.flows, sum.mean, sum.worst, sum.p50, sum.p99,
                       sum.longest);
                fflush(stdout);
            }
        }
    }
    return 0;
}
