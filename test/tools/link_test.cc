/* The link between two processes of vqp-accept: whatever arrives, and however. */
#include <arpa/inet.h>
#include <string>
#include <sys/socket.h>
#include <unistd.h>

extern "C" {
#include "tools/accept_link.h"
}

namespace {

class link_test : public testing::Test {
protected:
    link_test()
    {
        int fds[2];

        EXPECT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
        accept_link_init(&a, fds[0]);
        accept_link_init(&b, fds[1]);
    }

    ~link_test()
    {
        accept_link_close(&a);
        accept_link_close(&b);
    }

    void data(const std::string &text)
    {
        EXPECT_TRUE(accept_link_send(&a, ACCEPT_FRAME_DATA, text.data(), text.size()));
    }

    void command(uint32_t step)
    {
        a.step = step;
        EXPECT_TRUE(accept_link_send(&a, ACCEPT_FRAME_COMMAND, "go", 2));
    }

    /* The next frame of b; "-" if there is none */
    std::string next()
    {
        return (accept_link_poll(&b) == 1) ? std::string(b.in.data, b.in.head.length) : "-";
    }

    /* Bytes that are no frame of accept_link_send() */
    void raw(const void *bytes, size_t length)
    {
        EXPECT_EQ((ssize_t)length, send(a.fd, bytes, length, 0));
    }

    accept_link_t a, b;
};

TEST_F(link_test, frames_arrive_whole_and_in_order)
{
    EXPECT_EQ("-", next());
    data("one");
    data("");
    data(std::string(ACCEPT_FRAME_MAX, 'x'));
    EXPECT_EQ("one", next());
    EXPECT_EQ("", next());
    EXPECT_EQ(std::string(ACCEPT_FRAME_MAX, 'x'), next());
    EXPECT_EQ("-", next());
}

TEST_F(link_test, a_frame_may_arrive_byte_by_byte)
{
    accept_frame_head_t head = {ACCEPT_FRAME_DATA, 0, 4};
    std::string bytes((const char*)&head, sizeof(head));

    bytes += "four";
    for (char byte : bytes) {
        EXPECT_EQ(0, accept_link_poll(&b));
        raw(&byte, 1);
    }
    EXPECT_EQ("four", next());
}

TEST_F(link_test, a_command_begins_a_step)
{
    command(3);
    EXPECT_EQ("go", next());
    EXPECT_EQ(ACCEPT_FRAME_COMMAND, (int)b.in.head.type);
    EXPECT_EQ(3u, b.step);
}

TEST_F(link_test, what_belongs_to_an_earlier_step_is_dropped)
{
    a.step = 4;
    data("late");
    b.step = 5;
    a.step = 5;
    data("now");
    EXPECT_EQ("-", next());
    EXPECT_EQ("now", next());
    EXPECT_EQ("-", next());
}

TEST_F(link_test, a_frame_that_is_too_long_ends_it)
{
    accept_frame_head_t head = {ACCEPT_FRAME_DATA, 0, ACCEPT_FRAME_MAX + 1};

    raw(&head, sizeof(head));
    EXPECT_EQ(-1, accept_link_poll(&b));
    EXPECT_TRUE(b.ended);
    EXPECT_EQ(-1, accept_link_poll(&b));
}

TEST_F(link_test, the_end_of_the_other_process_is_seen)
{
    data("last");
    shutdown(a.fd, SHUT_WR);
    EXPECT_EQ("last", next());
    EXPECT_EQ(-1, accept_link_wait(&b, 1000));
}

TEST_F(link_test, sending_to_a_process_that_has_ended_fails)
{
    shutdown(b.fd, SHUT_RDWR);
    EXPECT_FALSE(accept_link_send(&a, ACCEPT_FRAME_DATA, "text", 4));
}

TEST_F(link_test, a_wait_has_an_end)
{
    EXPECT_EQ(0, accept_link_wait(&b, 1));
}

TEST_F(link_test, a_reason_has_only_what_can_be_printed)
{
    EXPECT_TRUE(accept_link_send(&a, ACCEPT_FRAME_FAILED, "bad\n\033[2J\377", 9));
    EXPECT_EQ("bad??[2J?", next());
}

TEST_F(link_test, a_text_ends_within_its_room)
{
    char text[4] = {'a', '\t', 'c', 'd'};

    accept_link_clean(text, sizeof(text));
    EXPECT_STREQ("a?c", text);
}

class link_greeting : public link_test {
protected:
    /* What b says of a hello of a */
    const char *greet(const accept_hello_t &hello, size_t length = sizeof(accept_hello_t))
    {
        accept_hello_t own = {};

        EXPECT_TRUE(accept_link_send(&a, ACCEPT_FRAME_HELLO, &hello, length));
        return accept_link_greet(&b, &own, 1000);
    }

    /* A good one, by itself */
    accept_hello_t hello()
    {
        accept_hello_t good = {};

        EXPECT_TRUE(accept_link_send(&b, ACCEPT_FRAME_HELLO, &good, sizeof(good)));
        (void)accept_link_greet(&a, &good, 1000);
        EXPECT_EQ(1, accept_link_poll(&b)); /* what a has said */
        return good;
    }
};

TEST_F(link_greeting, tells_host_version_and_ports)
{
    accept_hello_t good = hello();

    good.num_ports = 1;
    snprintf(good.ports[0], sizeof(good.ports[0]), "mlx5_0:1");
    EXPECT_EQ(NULL, greet(good));
    EXPECT_STREQ("mlx5_0:1", b.peer.ports[0]);
    EXPECT_STREQ(good.version, b.peer.version);
    EXPECT_NE('\0', b.peer.version[0]);
    EXPECT_EQ(1u, b.peer.num_ports);
}

TEST_F(link_greeting, another_format_is_refused)
{
    accept_hello_t other = hello();

    ++other.format;
    EXPECT_NE(nullptr, strstr(greet(other), "install the same version"));
}

TEST_F(link_greeting, another_format_may_have_another_length)
{
    accept_hello_t other = hello();

    ++other.format;
    EXPECT_NE(nullptr, strstr(greet(other, 10), "install the same version"));
}

TEST_F(link_greeting, something_else_is_refused)
{
    accept_hello_t other = hello();

    EXPECT_NE(nullptr, strstr(greet(other, 7), "is not vqp-run"));
    other.magic = __builtin_bswap32(other.magic);
    EXPECT_NE(nullptr, strstr(greet(other), "is not vqp-run"));
}

TEST_F(link_greeting, too_many_ports_are_refused)
{
    accept_hello_t other = hello();

    other.num_ports = ACCEPT_HELLO_PORTS + 1;
    EXPECT_NE(nullptr, strstr(greet(other), "another format"));
}

TEST_F(link_greeting, who_says_nothing_is_refused)
{
    accept_hello_t own = {};

    raw("x", 1);
    EXPECT_NE(nullptr, strstr(accept_link_greet(&b, &own, 10), "says nothing"));
}

TEST_F(link_greeting, who_ends_is_refused)
{
    accept_hello_t own = {};

    shutdown(a.fd, SHUT_WR);
    EXPECT_NE(nullptr, strstr(accept_link_greet(&b, &own, 1000), "says nothing"));
}

TEST(link_sockets, listen_and_connect)
{
    unsigned port = 0;
    int listener  = accept_link_listen(&port);
    accept_link_t link;
    int fd;

    ASSERT_NE(-1, listener);
    ASSERT_NE(0u, port);
    EXPECT_EQ(NULL, accept_link_connect(&link, "127.0.0.1", std::to_string(port).c_str()));
    fd = accept(listener, NULL, NULL);
    EXPECT_NE(-1, fd);
    EXPECT_TRUE(accept_link_send(&link, ACCEPT_FRAME_DATA, "text", 4));
    accept_link_close(&link);
    close(fd);
    close(listener);
}

TEST(link_sockets, nobody_listens)
{
    struct sockaddr_in own = {};
    socklen_t length       = sizeof(own);
    int bound              = socket(AF_INET, SOCK_STREAM, 0); /* nobody else gets the port */
    accept_link_t link;

    own.sin_family      = AF_INET;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(0, bind(bound, (struct sockaddr*)&own, sizeof(own)));
    ASSERT_EQ(0, getsockname(bound, (struct sockaddr*)&own, &length));
    EXPECT_STREQ("Connection refused",
                 accept_link_connect(&link, "127.0.0.1",
                                     std::to_string(ntohs(own.sin_port)).c_str()));
    close(bound);
}

} // namespace
