/*
 * Runs the tests once for each layout of the fabric, in a process of its own,
 * with the fabric preloaded; or the role of a second process in one of them.
 */
#include "fabric_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define LAYOUT_ENV "VQP_TEST_FABRIC_LAYOUT"

struct layout {
    const char               *name; /* suites of this prefix; "": the others */
    std::vector<const char*> env;   /* NAME=VALUE, without VQP_FABRIC_ */
};

static const std::vector<layout> &layouts()
{
    static const std::vector<layout> all = {
        {"", {"DEVICES=2"}},
        {"timed_", {"MODE=timed", "CLOCK=virtual", "DELAY=200us", "JITTER=100us",
                    "SEED=7"}},
        {"rated_", {"MODE=timed", "CLOCK=virtual", "DELAY=10us", "JITTER=0",
                    "PATH_RATE=1000"}},
        {"lists_", {"MODE=timed", "CLOCK=virtual", "DEVICES=2", "SEED=7",
                    "JITTER=0,0,0,5us", "DELAY=1ms,4ms,100us-900us",
                    "PATH_RATE=1000,250", "PORT_RATE=0,500", "PORT_DELAY=0,3ms"}},
        {"changing_", {"MODE=timed", "DEVICES=2", "SEED=7", "JITTER=0",
                       "DELAY=1ms,4ms", "PATH_RATE=1000,250",
                       "PORT_RATE=0,500", "PORT_DELAY=0,3ms"}},
        {"virtual_", {"MODE=timed", "CLOCK=virtual", "DELAY=10us", "JITTER=0",
                      "PATH_RATE=1000"}},
        {"rxe_", {"PROFILE=rxe"}},
        {"irdma_", {"PROFILE=irdma", "MAX_MR=4711"}},
        {"bnxt_", {"PROFILE=bnxt"}},
        {"small_", {"PROFILE=small"}},
        {"efa_", {"PROFILE=efa"}},
        {"garbage_", {"RQ_PSN=garbage"}},
        {"discarded_", {"RQ_PSN=discarded"}},
        {"messages_", {"RQ_PSN=messages"}},
        {"lag_affinity", {"PROFILE=mlx5-lag", "MODE=timed", "CLOCK=virtual",
                          "DELAY=1us", "JITTER=0", "PATH_RATE=1000"}},
        {"lag_hash", {"PROFILE=mlx5-lag", "LAG=hash", "MODE=timed",
                      "CLOCK=virtual"}},
        {"lag_reset", {"PROFILE=mlx5-lag", "LAG_RESET=rts"}},
        {"lag_four", {"PROFILE=mlx5-lag", "LINKS=4", "MODE=timed",
                      "CLOCK=virtual"}},
        {"ib_", {"LINK=infiniband"}},
        {"arm_", {"ARM=event"}},
    };

    return all;
}

static bool starts_with(const std::string &text, const std::string &prefix)
{
    return text.compare(0, prefix.size(), prefix) == 0;
}

/* Index of the layout that a suite is of */
static size_t layout_of(const std::string &suite)
{
    for (size_t i = 1; i < layouts().size(); ++i) {
        if (starts_with(suite, layouts()[i].name)) {
            return i;
        }
    }

    return 0;
}

/* Leave out the suites of other layouts */
static void restrict_to(size_t index)
{
    const ::testing::UnitTest &tests = *::testing::UnitTest::GetInstance();
    std::string filter               = ::testing::GTEST_FLAG(filter);

    filter += (filter.find('-') == std::string::npos) ? "-" : ":";
    for (int i = 0; i < tests.total_test_suite_count(); ++i) {
        const char *name = tests.GetTestSuite(i)->name();
        if (layout_of(name) != index) {
            filter += std::string(name) + ".*:";
        }
    }

    ::testing::GTEST_FLAG(filter) = filter;
}

static void set_env(const std::string &name, const std::string &value)
{
    setenv(name.c_str(), value.c_str(), 1);
}

static void exec_layout(const layout &l, char **argv)
{
    std::string preload = VQP_TEST_FABRIC;

    /* a sanitizer must be the first library */
    if (getenv("LD_PRELOAD") != nullptr) {
        preload = getenv("LD_PRELOAD") + (":" + preload);
    }

    set_env("LD_PRELOAD", preload);
    set_env(LAYOUT_ENV, l.name);
    set_env("VQP_FABRIC_WORLD", "test." + std::to_string(getpid()));
    set_env("VQP_FABRIC_VIOLATIONS", "warn");
    for (const char *setting : l.env) {
        std::string pair = std::string("VQP_FABRIC_") + setting;
        size_t equals    = pair.find('=');
        set_env(pair.substr(0, equals), pair.substr(equals + 1));
    }

    execv("/proc/self/exe", argv);
    perror("execv");
    _exit(1);
}

/* @return whether a test failed, or the process died */
static bool run_layout(const layout &l, char **argv)
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        exec_layout(l, argv);
    }

    if ((pid < 0) || (waitpid(pid, &status, 0) != pid)) {
        perror("fork");
        return true;
    }

    if (WIFSIGNALED(status)) {
        fprintf(stderr, "layout '%s': signal %d\n", l.name, WTERMSIG(status));
    }

    return status != 0;
}

int main(int argc, char **argv)
{
    const char *name = getenv(LAYOUT_ENV);
    int failed       = 0;

    if ((argc == 3) && (std::string(argv[1]) == "--role")) {
        return role_run(argv[2]);
    }

    if (name == nullptr) {
        for (const layout &l : layouts()) {
            failed |= run_layout(l, argv);
        }
        return failed;
    }

    ::testing::InitGoogleTest(&argc, argv);
    restrict_to((*name == '\0') ? 0 : layout_of(name));
    return RUN_ALL_TESTS();
}
