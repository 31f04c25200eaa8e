/*
 * What can be seen from outside: trace lines, counters, the statistics file;
 * and what a connection costs in pinned memory.
 */
#include "uct_fixture.h"

#include "verbs/pinned.h"

#include <config.h> /* of UCX: how it was built */
#include <ucs/datastruct/string_buffer.h>
#include <ucs/debug/log.h>
#include <ucs/vfs/base/vfs_obj.h>

#include <stdlib.h>
#include <algorithm>

/* Some traffic of each kind, with the options of the environment */
VQP_ROLE(traffic)
{
    std::unique_ptr<node> a, b;
    unsigned got = 0;

    a = std::make_unique<node>(0);
    b = std::make_unique<node>(1);
    b->on_am(1, [&](const char *, size_t) { ++got; return UCS_OK; });
    {
        endpoint ab(*a, *b);
        memory source(*a, 1 << 20), target(*b, 1 << 20);
        uct_iov_t iov = source.iov(0, 1 << 20);
        completion get_comp;

        for (int i = 0; i < 100; ++i) {
            ab.retry([&] {
                return uct_ep_put_zcopy(ab, &iov, 1, target.addr(),
                                        target.rkey(), NULL);
            });
            uct_ep_fence(ab, 0);
            ab.retry([&] { return uct_ep_am_short(ab, 1, i, NULL, 0); });
        }
        ab.retry([&] {
            return uct_ep_get_zcopy(ab, &iov, 1, target.addr(), target.rkey(),
                                    &get_comp.super);
        });
        if (a->has_atomics()) {
            ab.retry([&] {
                return uct_ep_atomic64_post(ab, UCT_ATOMIC_OP_ADD, 1,
                                            target.addr(), target.rkey());
            });
        }
        ab.flush();
        until([&] { return got == 100; });
    }
    return (got == 100) ? 0 : 1;
}

class stats_test : public uct_test {
protected:
    /* Run the role with these variables; returns its log */
    std::string run(const std::map<std::string, std::string> &environment)
    {
        temp_file log;

        setenv("UCX_LOG_FILE", log.name.c_str(), 1);
        for (auto &variable : environment) {
            setenv(variable.first.c_str(), variable.second.c_str(), 1);
        }
        {
            process child("traffic");
            EXPECT_EQ(0, child.wait());
        }
        unsetenv("UCX_LOG_FILE");
        for (auto &variable : environment) {
            unsetenv(variable.first.c_str());
        }
        return read_file(log.name);
    }

    static bool has(const std::string &text, const std::string &part)
    {
        return text.find(part) != std::string::npos;
    }
};

TEST_F(stats_test, trace_has_a_line_for_each_kind_of_packet)
{
    SKIP_WITHOUT_ATOMICS(node(0));

    std::string log = run({{"UCX_LOG_LEVEL", "debug"}, {"UCX_VQP_TRACE", "y"}});

    for (std::string part : {"tx control REQ", "tx control REP", "rx control",
                             " put ", " get ", " am ", " fadd ", " fence ",
                             "rx vqp"}) {
        EXPECT_TRUE(has(log, part)) << part;
    }
}

TEST_F(stats_test, without_trace_there_is_no_line_for_packets)
{
    EXPECT_FALSE(has(run({{"UCX_LOG_LEVEL", "debug"}}), "vqp trace"));
}

TEST_F(stats_test, the_log_has_the_states_of_connections)
{
    std::string log = run({{"UCX_LOG_LEVEL", "debug"}});

    for (std::string part : {" NEW -> REQ", " REQ -> PEER", " PEER -> READY",
                             " READY -> LIVE", " LIVE -> CLOSING",
                             " ASKED -> PEER", " -> CLOSED"}) {
        EXPECT_TRUE(has(log, part)) << part;
    }
    EXPECT_FALSE(has(run({{"UCX_LOG_LEVEL", "info"}}), " NEW -> "));
}

TEST_F(stats_test, the_log_names_the_choice_of_notify_auto)
{
    EXPECT_TRUE(has(run({{"UCX_LOG_LEVEL", "debug"},
                         {"UCX_VQP_NUM_PATHS", "2"},
                         {"UCX_VQP_RING_MIN", "128k"}}),
                    "notify auto is dqplb for messages of up to 32752 bytes, "
                    "tail above"));
    EXPECT_TRUE(has(run({{"UCX_LOG_LEVEL", "debug"},
                         {"UCX_VQP_NUM_PATHS", "1"}}),
                    "notify auto is none: messages have one frag"));
    EXPECT_FALSE(has(run({{"UCX_LOG_LEVEL", "debug"},
                          {"UCX_VQP_NOTIFY", "tail"}}), "notify auto"));
}

TEST_F(stats_test, counters_are_printed_when_an_interface_closes)
{
    std::string log = run({{"UCX_LOG_LEVEL", "info"}});

    for (std::string part : {"closed", "\"frags\":", "\"bytes\":",
                             "\"tx_cqes\":", "\"stale\":", "\"duplicates\":",
                             "\"ooo_max\":", "\"no_resource\":",
                             "\"credit_stalls\":", "\"hs_retransmits\":",
                             "\"gap_usec\":"}) {
        EXPECT_TRUE(has(log, part)) << part;
    }
}

TEST_F(stats_test, the_statistics_file_has_a_json_object_per_interface)
{
    temp_file file;
    std::string text;

    run({{"UCX_VQP_STATS_FILE", file.name}});
    text = read_file(file.name);
    EXPECT_EQ(2, std::count(text.begin(), text.end(), '\n'));
    EXPECT_EQ(100u, stats_sum(file.name, "ams_rx"));
    /* puts, AMs, a get, an atomic */
    EXPECT_EQ(201u + node(0).has_atomics(), stats_sum(file.name, "ops"));
    if (system("python3 -c '' 2>/dev/null") != 0) {
        GTEST_SKIP() << "no python3 to check it with";
    }
    EXPECT_EQ(0, system(("python3 -m json.tool --json-lines <" + file.name +
                         " >/dev/null").c_str()));
}

TEST_F(stats_test, a_statistics_file_that_can_not_be_written_is_a_warning)
{
    std::string log = run({{"UCX_VQP_STATS_FILE", "/nonexistent/file"}});

    EXPECT_TRUE(has(log, "/nonexistent/file")) << log;
}

/* ---- memory ---- */

static long pinned()
{
    std::string text = read_file("/proc/self/status");
    size_t pos       = text.find("VmPin:");

    return (pos == std::string::npos) ? -1 :
           std::stol(text.substr(pos + 6)) * 1024;
}

/* docs/memory.md: what the peer writes into, for each connection; what only the
 * own device uses, for four connections together */
TEST_F(stats_test, a_connection_pins_what_is_documented_at_each_side)
{
    static const struct {
        options config;
        long    bytes;
    } documented[] = {
        {{{"FAILOVER", "n"}}, VQP_IB_PINNED_CONN},
        {{}, VQP_IB_PINNED_CONN},
        {{{"NUM_PATHS", "4"}, {"MIN_PATHS", "4"}}, VQP_IB_PINNED_CONN},
        {{{"RING_SIZE", "16k"}}, 23552},
        {{{"RING_SIZE", "8k"}, {"NUM_PATHS", "2"},
          {"TX_QUEUE_LEN", "32"}, {"MAX_OPS", "32"}, {"FSN_WINDOW", "32"}}, 13312}
    };
    const unsigned slab = 4, count = 8 * slab;

    for (auto &each : documented) {
        std::vector<std::unique_ptr<endpoint>> all;
        long before;

        open(each.config);
        settle();
        before = pinned();
        if (before == 0) {
            GTEST_SKIP() << "a device in software pins nothing";
        }
        for (unsigned i = 1; i < count; ++i) {
            unsigned had = settled;

            if (i == slab) {
                before = pinned(); /* the first slab at each side is full */
            }
            all.push_back(std::make_unique<endpoint>(*a, *b));
            EXPECT_EQ(UCS_OK, all.back()->retry([&] {
                return uct_ep_am_short(*all.back(), settle_id, 0, NULL, 0);
            }));
            ASSERT_TRUE(until([&] { return settled == had + 1; }));
        }
        EXPECT_EQ(each.bytes, (pinned() - before) / (2 * (count - slab)));
        all.clear();
        TearDown();
    }
}

/* Names in a directory of UCX's VFS */
static std::vector<std::string> vfs_list(const std::string &path)
{
    std::vector<std::string> names;

    (void)ucs_vfs_path_list_dir(path.c_str(), [](const char *name, void *arg) {
        ((std::vector<std::string>*)arg)->push_back(name);
    }, &names);
    return names;
}

/* Directories of that name below interfaces, at any depth */
static void vfs_find(const std::string &path, const std::string &wanted,
                     std::vector<std::string> &found)
{
    for (const std::string &name : vfs_list(path.empty() ? "/" : path)) {
        if ((name == wanted) && (path.find("/iface/") != std::string::npos)) {
            found.push_back(path + "/" + name);
        } else {
            vfs_find(path + "/" + name, wanted, found);
        }
    }
}

static std::string vfs_read(const std::string &path)
{
    ucs_string_buffer_t text;
    std::string result;

    ucs_string_buffer_init(&text);
    if (ucs_vfs_path_read_file(path.c_str(), &text) == UCS_OK) {
        result = ucs_string_buffer_cstr(&text);
    }
    ucs_string_buffer_cleanup(&text);
    return result;
}

/* Connections are there when somebody looks at their interface */
TEST_F(stats_test, counters_are_in_the_vfs_when_they_are_read)
{
    std::vector<std::string> dirs;
    std::string conn;

    open({{"NUM_PATHS", "2"}});
    settle();
    vfs_find("", "vqp", dirs);
    ASSERT_EQ(2u, dirs.size()); /* of two interfaces */
    for (const std::string &dir : dirs) {
        ASSERT_EQ(1u, vfs_list(dir).size());
        conn = dir + "/" + vfs_list(dir)[0];
        EXPECT_TRUE((vfs_read(conn + "/ops") == "1\n") ||
                    (vfs_read(conn + "/ams_rx") == "1\n")) << dir;
        EXPECT_NE("", vfs_read(conn + "/path/1/frags"));
        EXPECT_NE("", vfs_read(conn + "/path/0/lag_port"));
    }

    endpoint other(*a, *b);

    ASSERT_EQ(UCS_OK, other.flush());
    for (const std::string &dir : dirs) {
        EXPECT_EQ(2u, vfs_list(dir).size());
    }
    ab.reset();
    EXPECT_TRUE(until([&] {
        return (vfs_list(dirs[0]).size() == 1) && (vfs_list(dirs[1]).size() == 1);
    }));
}

/* As UCX's own transports do; its suite counts them. Not in a UCX without logging,
 * which compiles these lines away. */
TEST_F(stats_test, each_operation_has_a_line_of_the_data_trace)
{
    open();
    settle();
    memory source(*a, 4096), target(*b, 4096);
    uct_iov_t iov = source.iov(0, 64);
    completion get, add;
    uint64_t result;

    if (UCS_MAX_LOG_LEVEL < UCS_LOG_LEVEL_TRACE_DATA) {
        GTEST_SKIP() << "this UCX is built without it";
    }
    log_capture log(UCS_LOG_LEVEL_TRACE_DATA);
    ASSERT_EQ(UCS_OK, ab->retry([&] {
        return uct_ep_put_short(*ab, source.data, 8, target.addr(), target.rkey());
    }));
    EXPECT_TRUE(log_capture::has("PUT 8 bytes")) << log_capture::text();
    ASSERT_EQ(UCS_INPROGRESS, ab->retry([&] {
        return uct_ep_get_zcopy(*ab, &iov, 1, target.addr(), target.rkey(),
                                &get.super);
    }));
    EXPECT_TRUE(log_capture::has("GET 64 bytes")) << log_capture::text();
    ASSERT_EQ(UCS_INPROGRESS, ab->retry([&] {
        return uct_ep_atomic64_fetch(*ab, UCT_ATOMIC_OP_ADD, 1, &result,
                                     target.addr(), target.rkey(), &add.super);
    }));
    EXPECT_TRUE(log_capture::has("FADD of 0x1")) << log_capture::text();
    EXPECT_TRUE(until([&] { return (get.calls == 1) && (add.calls == 1); }));
}
