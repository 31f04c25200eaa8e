/*
 * The telemetry file: where it is and who may read it, what stands in it, that a reader
 * can detect a torn snapshot, and what happens if it can not be written.
 */
#include "failover_fixture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <set>

extern "C" {
#include "core/telemetry/telemetry.h"
}

/* Sees each pwrite() of the transport; see test_uct_LDFLAGS */
static std::function<ssize_t(int, const void*, size_t, off_t)> pwrite_hook;

extern "C" ssize_t pwrite(int fd, const void *data, size_t length, off_t offset)
{
    return pwrite_hook ? pwrite_hook(fd, data, length, offset) :
                         syscall(SYS_pwrite64, fd, data, length, offset);
}

namespace {

class telemetry_test : public failover_fixture {
protected:
    void SetUp() override
    {
        char name[] = "/tmp/vqp_telemetry.XXXXXX";

        uct_test::SetUp();
        if (IsSkipped()) {
            return;
        }
        if (devices().size() < 2) {
            GTEST_SKIP() << "the interfaces are distinguished by their devices";
        }
        ASSERT_NE(nullptr, mkdtemp(name));
        dir = name;
    }

    void TearDown() override
    {
        pwrite_hook = nullptr;
        unsetenv("XDG_RUNTIME_DIR");
        failover_fixture::TearDown();
        if (dir.empty()) {
            return;
        }
        for (auto &name : files(dir)) {
            unlink(name.c_str());
        }
        rmdir(dir.c_str());
    }

    static std::vector<std::string> files(const std::string &where)
    {
        std::vector<std::string> found;
        DIR *list = opendir(where.c_str());

        while (struct dirent *entry = (list == nullptr) ? nullptr : readdir(list)) {
            if (strncmp(entry->d_name, "uct_vqp.", 8) == 0) {
                found.push_back(where + "/" + entry->d_name);
            }
        }
        if (list != nullptr) {
            closedir(list);
        }
        return found;
    }

    /* Copy and parse a file */
    vqp_status_t read(const std::string &file)
    {
        data = read_file(file);
        return vqp_telemetry_parse(&tele, data.data(), data.size());
    }

    /* A snapshot of node @a n that has its connection */
    bool read_node(const node &n)
    {
        for (auto &name : files(dir)) {
            if ((read(name) == VQP_OK) && (n.name == device()) &&
                (tele.head.num_conns == 1)) {
                return true;
            }
        }
        return false;
    }

    std::string device() const
    {
        std::string name = tele.head.device;

        return name.substr(0, name.find(':'));
    }

    uint64_t number(vqp_telemetry_level_t level, const char *name, unsigned conn = 0,
                    unsigned path = 0)
    {
        vqp_telemetry_field_t field;

        EXPECT_TRUE(vqp_telemetry_find(&tele, level, name, &field)) << name;
        return vqp_telemetry_number(&field,
                                    vqp_telemetry_record(&tele, level, conn, path));
    }

    std::string text(vqp_telemetry_level_t level, const char *name, unsigned conn = 0,
                     unsigned path = 0)
    {
        vqp_telemetry_field_t field;
        char value[64];

        EXPECT_TRUE(vqp_telemetry_find(&tele, level, name, &field)) << name;
        vqp_telemetry_text(&field, vqp_telemetry_record(&tele, level, conn, path),
                           value, sizeof(value));
        return value;
    }

    uint64_t path_sum(const char *name)
    {
        uint64_t sum = 0;

        for (unsigned i = 0; i < tele.head.num_paths; ++i) {
            sum += number(VQP_TELEMETRY_PATH, name, 0, i);
        }
        return sum;
    }

    uint64_t samples(unsigned path, unsigned conn = 0)
    {
        uint64_t sum = number(VQP_TELEMETRY_PATH, "latency_us_more", conn, path);

        for (unsigned limit = 1; limit <= 16384; limit *= 2) {
            std::string name = "latency_us_" + std::to_string(limit);

            sum += number(VQP_TELEMETRY_PATH, name.c_str(), conn, path);
        }
        return sum;
    }

    void puts(unsigned count)
    {
        memory from(*a, 1 << 20), to(*b, 1 << 20);
        uct_iov_t iov = from.iov(0, 1 << 20);

        for (unsigned i = 0; i < count; ++i) {
            ASSERT_EQ(UCS_INPROGRESS, ab->retry([&] {
                completions.emplace_back();
                return uct_ep_put_zcopy(*ab, &iov, 1, to.addr(), to.rkey(),
                                        &completions.back().super);
            }));
        }
        ASSERT_EQ(UCS_OK, ab->flush());
    }

    std::string     dir, data;
    vqp_telemetry_t tele;
};

TEST_F(telemetry_test, is_off_by_default)
{
    setenv("XDG_RUNTIME_DIR", dir.c_str(), 1);
    open();
    settle();
    EXPECT_TRUE(files(dir).empty());
}

TEST_F(telemetry_test, a_file_per_interface_is_there_while_it_is_open)
{
    struct stat info;

    open({{"TELEMETRY", dir}});
    ASSERT_EQ(2u, files(dir).size());
    for (auto &name : files(dir)) {
        EXPECT_EQ(0u, name.find(dir + "/uct_vqp." + std::to_string(getpid()) + "."));
        ASSERT_EQ(0, lstat(name.c_str(), &info));
        EXPECT_EQ((mode_t)(S_IFREG | 0600), info.st_mode);
        EXPECT_EQ(VQP_OK, read(name)); /* the first snapshot is there at once */
        EXPECT_EQ((uint64_t)getpid(), tele.head.pid);
        EXPECT_GT(tele.head.pid_start, 0u);
    }
    close();
    EXPECT_TRUE(files(dir).empty());
}

TEST_F(telemetry_test, on_is_the_runtime_directory)
{
    setenv("XDG_RUNTIME_DIR", dir.c_str(), 1);
    open({{"TELEMETRY", "on"}});
    EXPECT_EQ(2u, files(dir).size());
}

TEST_F(telemetry_test, on_is_shared_memory_if_there_is_no_runtime_directory)
{
    std::string prefix = "/dev/shm/uct_vqp." + std::to_string(getpid()) + ".";
    unsigned found     = 0;

    setenv("XDG_RUNTIME_DIR", "/nonexistent", 1);
    open({{"TELEMETRY", "on"}});
    for (auto &name : files("/dev/shm")) {
        found += (name.find(prefix) == 0);
    }
    EXPECT_EQ(2u, found);
    close();
    for (auto &name : files("/dev/shm")) {
        EXPECT_NE(0u, name.find(prefix)) << name;
    }
}

TEST_F(telemetry_test, the_file_has_what_the_statistics_say)
{
    uint64_t ops;

    open({{"TELEMETRY", dir}, {"STATS_FILE", stats.name}, {"FAILOVER", "n"}});
    settle();
    puts(10);
    ASSERT_TRUE(until([&] { return read_node(*a) && (path_sum("bytes") > 10u << 20); }));
    EXPECT_LT(path_sum("bytes"), 11u << 20);
    EXPECT_GE(path_sum("frags"), 160u);
    EXPECT_EQ(0u, path_sum("in_flight"));
    EXPECT_EQ("LIVE", text(VQP_TELEMETRY_CONN, "state"));
    EXPECT_EQ("LIVE", text(VQP_TELEMETRY_CONN, "handshake"));
    EXPECT_EQ("UP", text(VQP_TELEMETRY_PATH, "state", 0, 3));
    EXPECT_EQ("-", text(VQP_TELEMETRY_PATH, "source", 0, 3)) << "no failover";
    ops = number(VQP_TELEMETRY_IFACE, "ops");
    EXPECT_EQ(ops, number(VQP_TELEMETRY_CONN, "ops"));
    ASSERT_TRUE(until([&] {
        return read_node(*b) && (number(VQP_TELEMETRY_IFACE, "ams_rx") > 0);
    }));
    ops += number(VQP_TELEMETRY_IFACE, "ops");
    EXPECT_EQ(1u, number(VQP_TELEMETRY_IFACE, "ams_rx"));
    close();
    EXPECT_EQ(ops, stats_sum(stats.name, "ops"));
}

TEST_F(telemetry_test, the_file_names_the_flow_and_the_queue_pairs_of_each_path)
{
    std::vector<uint64_t> qpns, peers;
    std::set<uint64_t> ports;

    open({{"TELEMETRY", dir}, {"NUM_PATHS", "4"}});
    settle();
    ASSERT_TRUE(until([&] {
        return read_node(*a) && (text(VQP_TELEMETRY_PATH, "state") == "UP");
    }));
    for (unsigned i = 0; i < 4; ++i) {
        qpns.push_back(number(VQP_TELEMETRY_PATH, "qpn", 0, i));
        peers.push_back(number(VQP_TELEMETRY_PATH, "peer_qpn", 0, i));
        ports.insert(number(VQP_TELEMETRY_PATH, "source_port", 0, i));
        EXPECT_EQ(a->name, text(VQP_TELEMETRY_PATH, "device", 0, i));
        EXPECT_EQ(1u, number(VQP_TELEMETRY_PATH, "port", 0, i));
    }
    EXPECT_EQ(4u, ports.size());
    EXPECT_GE(*ports.begin(), 49152u);
    ASSERT_TRUE(until([&] {
        return read_node(*b) && (text(VQP_TELEMETRY_PATH, "state") == "UP");
    }));
    for (unsigned i = 0; i < 4; ++i) {
        EXPECT_EQ(peers[i], number(VQP_TELEMETRY_PATH, "qpn", 0, i));
        EXPECT_EQ(qpns[i], number(VQP_TELEMETRY_PATH, "peer_qpn", 0, i));
    }
}

/* Small puts take the fast path, large ones are divided */
TEST_F(telemetry_test, each_path_has_samples_of_its_latency)
{
    char data[8] = {};
    uint64_t before[4] = {};

    open({{"TELEMETRY", dir}, {"NUM_PATHS", "4"}});
    settle();
    memory to(*b, sizeof(data));
    auto all_have_more = [&] {
        for (unsigned i = 0; i < 4; ++i) {
            if (samples(i) <= before[i]) {
                return false;
            }
        }
        return true;
    };
    EXPECT_TRUE(until([&] {
        for (unsigned i = 0; i < 100; ++i) {
            EXPECT_EQ(UCS_OK, ab->retry([&] {
                return uct_ep_put_short(*ab, data, sizeof(data), to.addr(), to.rkey());
            }));
        }
        return read_node(*a) && all_have_more();
    })) << "small ones";
    for (unsigned i = 0; i < 4; ++i) {
        before[i] = samples(i);
    }
    EXPECT_TRUE(until([&] {
        puts(10);
        return read_node(*a) && all_have_more();
    })) << "large ones";
    EXPECT_LE(samples(0) + samples(1) + samples(2) + samples(3),
              ((path_sum("tx_cqes") + path_sum("rx_cqes")) / 151) + 1) << "more than one of 151 calls";
    EXPECT_GT(number(VQP_TELEMETRY_PATH, "latency_us_sum"), 0u);
}

/* A work request is sampled whose completion never comes: its queue pair can not be moved
 * to ERR, and is destroyed. Another connection is sampled then */
TEST_F(telemetry_test, a_connection_that_fails_leaves_samples_to_others)
{
    char data[8] = {};

    open({{"TELEMETRY", dir}, {"NUM_PATHS", "1"}, {"FAILOVER", "n"}, {"TIMEOUT", "1s"},
          {"RETRY_COUNT", "1"}, {"FSN_WINDOW", "1024"}});
    settle();
    connect_back();
    node other(1, {{"FSN_WINDOW", "1024"}});
    endpoint to_other(*a, other);
    memory to(*b, sizeof(data)), to2(other, sizeof(data));
    ASSERT_EQ(UCS_OK, to_other.retry([&] {
        return uct_ep_put_short(to_other, data, sizeof(data), to2.addr(), to2.rkey());
    }));
    ASSERT_EQ(UCS_OK, to_other.flush());
    auto put = [&] {
        return uct_ep_put_short(*ab, data, sizeof(data), to.addr(), to.rkey());
    };
    for (unsigned i = 0; i < 3; ++i) { /* so that the first put that is lost is not sampled */
        ASSERT_EQ(UCS_OK, ab->retry(put));
        ASSERT_EQ(UCS_OK, ab->flush());
    }
    faults("lose op=RDMA_WRITE count=all; call verb=modify_qp count=all errno=EIO");
    unsigned sent = 0;
    for (; sent < 480; ++sent) { /* in as many calls of progress ops are chosen */
        unsigned arrived = settled;

        if (sent % 16 == 0) {
            ASSERT_EQ(UCS_OK, put());
        }
        if (uct_ep_am_short(*ba, settle_id, 0, NULL, 0) != UCS_OK) {
            break; /* its credit is lost, too */
        }
        ASSERT_TRUE(until([&] { return settled > arrived; }));
    }
    EXPECT_GT(sent, 2u * 151u);
    EXPECT_TRUE(until([&] { return ab->flush() != UCS_OK; }));
    faults("");
    /* 1, and samples of the connection that has not failed; 0: both live in the snapshot */
    auto of_other = [&]() -> uint64_t {
        for (auto &name : files(dir)) {
            if ((read(name) != VQP_OK) || (device() != a->name) ||
                (tele.head.num_conns != 2)) {
                continue;
            }
            for (unsigned i = 0; i < 2; ++i) {
                if (text(VQP_TELEMETRY_CONN, "state", 1 - i) != "LIVE") {
                    return 1 + samples(0, i);
                }
            }
        }
        return 0;
    };
    uint64_t before = 0;
    ASSERT_TRUE(until([&] { return (before = of_other()) > 0; }));
    EXPECT_TRUE(until([&] {
        EXPECT_EQ(UCS_OK, to_other.retry([&] {
            return uct_ep_put_short(to_other, data, sizeof(data), to2.addr(), to2.rkey());
        }));
        return of_other() > before;
    }));
}

TEST_F(telemetry_test, rates_are_those_of_the_last_second)
{
    double start = now(), rate;

    open({{"TELEMETRY", dir}});
    settle();
    ASSERT_TRUE(until([&] { return read_node(*a); }));
    puts(4);
    ASSERT_TRUE(until([&] { return read_node(*a) && (path_sum("rate") > 0); }));
    rate = (double)path_sum("rate");
    /* of the time since the snapshot before, all that there is to it */
    EXPECT_GT(rate * (now() - start), (double)path_sum("bytes") * 0.9);
    EXPECT_LT(rate, 8000000);
    EXPECT_TRUE(until([&] { return read_node(*a) && (path_sum("rate") == 0); }));
}

/* It sleeps at once: what it has done since the last snapshot would never be written */
TEST_F(telemetry_test, a_sleeper_is_woken_for_a_snapshot)
{
    struct pollfd pfd = {-1, POLLIN, 0};
    auto sleep_until  = [&](const std::function<bool()> &condition) {
        const unsigned events = UCT_EVENT_SEND_COMP | UCT_EVENT_RECV;

        while (!read_node(*a) || !condition()) {
            while ((a->progress() > 0) ||
                   (uct_iface_event_arm(a->iface, events) != UCS_OK)) {
            }
            ASSERT_GT(poll(&pfd, 1, wait_limit_ms()), 0);
        }
    };

    open({{"TELEMETRY", dir}});
    settle();
    ASSERT_EQ(UCS_OK, uct_iface_event_fd_get(a->iface, &pfd.fd));
    puts(1);
    sleep_until([&] { return path_sum("bytes") > 1u << 20; });
    puts(1); /* a second before the next snapshot is due */
    sleep_until([&] { return path_sum("bytes") > 2u << 20; });
    EXPECT_GE(number(VQP_TELEMETRY_CONN, "ops"), 3u);
}

TEST_F(telemetry_test, the_file_counts_what_failover_does)
{
    if (vqp_fabric() == NULL) {
        GTEST_SKIP() << "faults are made by the software fabric";
    }
    start({{"TELEMETRY", dir}, {"PATH_TIMEOUT", "inf"}});
    faults("wr nth=5 status=RETRY_EXC_ERR");
    puts(10);
    faults("");
    ASSERT_TRUE(until([&] { return read_node(*a) && (path_sum("replays") > 0); }));
    EXPECT_EQ(1u, path_sum("downs"));
    EXPECT_EQ(path_sum("replays"), number(VQP_TELEMETRY_CONN, "replayed"));
    EXPECT_EQ(1u, number(VQP_TELEMETRY_CONN, "path_downs"));
    EXPECT_EQ(counts() ? "psn" : "imm", text(VQP_TELEMETRY_PATH, "source"));
}

TEST_F(telemetry_test, the_sequence_is_odd_while_records_are_written)
{
    constexpr off_t place = offsetof(vqp_telemetry_head_t, sequence);
    unsigned torn = 0, whole = 0;

    open({{"TELEMETRY", dir}});
    settle();
    pwrite_hook = [&](int fd, const void *bytes, size_t length, off_t offset) {
        uint64_t sequence = 0;
        std::string link    = "/proc/self/fd/" + std::to_string(fd);
        int reader          = ::open(link.c_str(), O_RDONLY);
        ssize_t ret         = pread(reader, &sequence, sizeof(sequence), place);

        ::close(reader);
        EXPECT_EQ((ssize_t)sizeof(sequence), ret);
        if (offset == place) {
            EXPECT_EQ(sequence + 1, *(const uint64_t*)bytes);
            whole += sequence & 1;
        } else {
            EXPECT_EQ(1u, sequence & 1) << "at " << offset;
            ++torn;
        }
        return syscall(SYS_pwrite64, fd, bytes, length, offset);
    };
    EXPECT_TRUE(until([&] { return whole >= 4; }));
    EXPECT_EQ(torn, 2 * whole); /* the head, and the records */
}

TEST_F(telemetry_test, a_directory_that_is_not_there_is_a_warning)
{
    log_capture log(UCS_LOG_LEVEL_WARN);

    open({{"TELEMETRY", "/nonexistent"}});
    EXPECT_TRUE(log_capture::has("UCX_VQP_TELEMETRY: failed to create "
                                 "/nonexistent/uct_vqp.")) << log_capture::text();
    settle();
}

TEST_F(telemetry_test, a_full_file_system_ends_telemetry_and_nothing_else)
{
    log_capture log(UCS_LOG_LEVEL_WARN);

    open({{"TELEMETRY", dir}});
    settle();
    pwrite_hook = [&](int, const void*, size_t, off_t) -> ssize_t {
        errno = ENOSPC;
        return -1;
    };
    EXPECT_TRUE(until([&] { return files(dir).empty(); }));
    EXPECT_TRUE(log_capture::has("No space left")) << log_capture::text();
    puts(1);
    settle();
}

TEST_F(telemetry_test, a_name_that_is_taken_is_left_alone)
{
    temp_file target;
    std::string used;
    unsigned number;

    open({{"TELEMETRY", dir}});
    used   = files(dir)[0];
    number = 0;
    for (auto &name : files(dir)) {
        number = std::max(number, (unsigned)atoi(name.c_str() + name.rfind('.') + 1));
    }
    used = used.substr(0, used.rfind('.') + 1);
    ASSERT_EQ(0, symlink(target.name.c_str(),
                         (used + std::to_string(number + 1)).c_str()));
    {
        node other(0, {{"TELEMETRY", dir}});

        EXPECT_EQ(VQP_OK, read(used + std::to_string(number + 2)));
        EXPECT_EQ("", read_file(target.name));
    }
    EXPECT_NE(0, access((used + std::to_string(number + 2)).c_str(), F_OK));
    EXPECT_EQ(3u, files(dir).size());
}

/* With the options of the environment */
VQP_ROLE(ends_by_a_signal)
{
    node n(0);

    raise(SIGKILL);
    return 0;
}

TEST_F(telemetry_test, the_file_of_a_process_that_was_killed_stays)
{
    setenv("UCX_VQP_TELEMETRY", dir.c_str(), 1);
    {
        process child("ends_by_a_signal");
        EXPECT_NE(0, child.wait());
    }
    unsetenv("UCX_VQP_TELEMETRY");
    ASSERT_EQ(1u, files(dir).size());
    EXPECT_EQ(VQP_OK, read(files(dir)[0]));
    EXPECT_NE((uint64_t)getpid(), tele.head.pid);
}

} // namespace
