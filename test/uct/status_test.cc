/* vqp_status(): what a debugger shows of the interfaces of a process. */
#include "failover_fixture.h"

extern "C" {
#include "uct/vqp_break.h"
#include "uct/vqp_status.h"
}

#include <sstream>

class status_test : public failover_fixture {
protected:
    void SetUp() override
    {
        failover_fixture::SetUp();
        if (IsSkipped()) {
            return;
        }
        status = exported<decltype(status)>("vqp_status");
        ASSERT_TRUE(status != NULL);
    }

    /* As in a debugger the other threads, which connect, stand still */
    std::string show()
    {
        for (auto *each : {a.get(), b.get()}) {
            if (each != nullptr) {
                each->block();
            }
        }
        std::string text = status();
        for (auto *each : {a.get(), b.get()}) {
            if (each != nullptr) {
                each->unblock();
            }
        }
        return text;
    }

    /* Lines that begin so, without the beginning */
    std::vector<std::string> lines(const std::string &beginning)
    {
        std::istringstream text(show());
        std::vector<std::string> found;

        for (std::string line; std::getline(text, line);) {
            if (line.compare(0, beginning.size(), beginning) == 0) {
                found.push_back(line.substr(beginning.size()));
            }
        }
        return found;
    }

    static bool has(const std::string &line, const std::string &field)
    {
        return (line + " ").find(" " + field + " ") != std::string::npos;
    }

    decltype(&vqp_status) status;
};

TEST_F(status_test, an_interface_is_there_while_it_is_open)
{
    const std::string none = "no interface of this copy of the module is open\n";

    EXPECT_EQ(none, show());
    open({{"NUM_PATHS", "3"}});
    EXPECT_EQ(1u, lines("uct_vqp interfaces=2").size());
    EXPECT_EQ(devices().size() < 2 ? 2u : 1u, lines(a->name + ":1 interface ").size());
    close();
    EXPECT_EQ(none, show());
}

TEST_F(status_test, connections_and_paths_have_what_is_not_zero)
{
    open({{"NUM_PATHS", "3"}, {"FAILOVER", "n"}});
    settle();
    ASSERT_EQ(2u, lines("  connection").size()) << "both sides of one";
    ASSERT_EQ(6u, lines("    path=").size());
    for (auto &line : lines("  connection")) {
        EXPECT_TRUE(has(line, "state=LIVE")) << line;
        EXPECT_TRUE(has(line, "handshake=LIVE")) << line;
        EXPECT_EQ(std::string::npos, line.find("=0 ")) << line;
    }
    for (auto &line : lines("    path=2")) {
        EXPECT_TRUE(has(line, "state=UP")) << line;
        EXPECT_TRUE(has(line, "port=1")) << line;
        EXPECT_NE(std::string::npos, line.find(" peer_qpn=")) << line;
        EXPECT_EQ(std::string::npos, line.find(" in_flight=")) << line;
    }
}

/* It stays as long as its endpoint */
TEST_F(status_test, of_a_connection_that_has_failed)
{
    log_capture log(UCS_LOG_LEVEL_FATAL);
    auto break_path = exported<decltype(&uct_vqp_ep_break_path)>("uct_vqp_ep_break_path");

    ASSERT_TRUE(break_path != NULL);
    open({{"NUM_PATHS", "1"}, {"FAILOVER", "n"}});
    settle();
    ASSERT_EQ(UCS_OK, break_path(*ab, 0));
    ASSERT_EQ(2u, lines("  connection").size());
    ASSERT_TRUE(until([&] { return has(lines("  connection")[0], "state=FAILED"); }))
            << show();
    ASSERT_LE(1u, lines("    path=0").size());
    EXPECT_NE(std::string::npos, lines("    path=0")[0].find(" frags="));
}

/* More than the text has room for: the beginning is there, and a line says so */
TEST_F(status_test, a_text_that_is_too_long_is_cut_off)
{
    const std::string end = "\n(there is more: a telemetry file has all)\n";
    std::vector<std::unique_ptr<endpoint>> more;
    std::string text;

    open({{"NUM_PATHS", "32"}, {"MIN_PATHS", "32"}});
    settle();
    while ((text.size() < (64u << 10) - 1) && (more.size() < 100)) {
        more.push_back(std::make_unique<endpoint>(*a, *b));
        text = show();
    }
    ASSERT_LE(end.size(), text.size());
    EXPECT_EQ((64u << 10) - 1, text.size());
    EXPECT_EQ(end, text.substr(text.size() - end.size()));
    EXPECT_EQ(0u, text.find("uct_vqp "));
}
