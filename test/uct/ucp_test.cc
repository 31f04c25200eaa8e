/*
 * Through UCP: a worker's descriptor beside a socket, and one worker that several
 * threads use.
 */
#include "ucp_side.h"
#include "uct_fixture.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

class ucp_test : public uct_test {
};

TEST_F(ucp_test, one_epoll_serves_a_worker_and_a_socket)
{
    const unsigned rounds = 2000;
    ucp_side receiver(devices().front(), UCS_THREAD_MODE_SINGLE);
    int sockets[2], worker_fd, epoll_fd;
    unsigned bytes_got = 0, messages = 0;
    uint64_t value;

    ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
    ASSERT_EQ(UCS_OK, ucp_worker_get_efd(receiver.worker, &worker_fd));
    epoll_fd = epoll_create1(0);
    for (int fd : {worker_fd, sockets[1]}) {
        struct epoll_event event = {EPOLLIN, {.fd = fd}};
        ASSERT_EQ(0, epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event));
    }

    std::atomic<bool> stop{false};
    std::thread sender([&] {
        ucp_side self(devices().back(), UCS_THREAD_MODE_SINGLE);

        self.connect(receiver);
        for (uint64_t i = 0; i < rounds; ++i) {
            void *request = self.send(&i, sizeof(i), 1);

            while (!ucp_side::test(request)) {
                self.progress();
            }
            EXPECT_EQ(1, write(sockets[0], "x", 1));
            if ((i % 100) == 0) {
                usleep(1000); /* both get to sleep now and then */
            }
        }
        while (!stop) { /* flushes, and keeps the connection */
            self.progress();
            usleep(100);
        }
    });

    void *request = receiver.receive(&value, sizeof(value), 1);
    std::string error;
    while ((bytes_got < rounds) || (messages < rounds)) {
        struct epoll_event event;
        char buffer[64];

        while (ucp_worker_progress(receiver.worker)) {
        }
        while ((messages < rounds) && ucp_side::test(request)) {
            EXPECT_EQ(messages, value);
            if (++messages < rounds) {
                request = receiver.receive(&value, sizeof(value), 1);
            }
        }
        if (ucp_worker_arm(receiver.worker) != UCS_OK) {
            continue;
        }
        if (epoll_wait(epoll_fd, &event, 1, 10000) != 1) {
            error = "no wake-up";
            break;
        }
        if (event.data.fd == sockets[1]) {
            bytes_got += (unsigned)read(sockets[1], buffer, sizeof(buffer));
        }
    }
    EXPECT_EQ("", error) << messages << " messages, " << bytes_got << " bytes";
    stop = true;
    sender.join();
    ::close(epoll_fd);
    ::close(sockets[0]);
    ::close(sockets[1]);
}

TEST_F(ucp_test, several_threads_use_one_worker)
{
    const unsigned threads = 4, rounds = 300;
    ucp_side receiver(devices().back(), UCS_THREAD_MODE_MULTI);
    ucp_side sender(devices().front(), UCS_THREAD_MODE_MULTI);
    std::vector<std::thread> all;
    std::atomic<unsigned> good{0};

    if (sender.thread_mode != UCS_THREAD_MODE_MULTI) {
        GTEST_SKIP() << "this UCX has no thread support";
    }

    sender.connect(receiver);
    sender.peer = &receiver;
    for (unsigned t = 0; t < threads; ++t) {
        all.emplace_back([&, t] {
            std::vector<char> out(100000), in(100000);

            for (unsigned i = 0; i < rounds; ++i) {
                size_t length = 1 + (i * 7919 + t) % out.size();
                void *send, *receive;

                for (size_t j = 0; j < length; j += 97) {
                    out[j] = pattern(t * rounds + i, j);
                }
                receive = receiver.receive(in.data(), length, t + 1);
                send    = sender.send(out.data(), length, t + 1);
                while (!ucp_side::test(send)) {
                    sender.progress();
                }
                while (!ucp_side::test(receive)) {
                    sender.progress();
                }
                bool same = true;
                for (size_t j = 0; j < length; j += 97) {
                    same = same && (in[j] == out[j]);
                }
                good += same;
            }
        });
    }
    for (std::thread &thread : all) {
        thread.join();
    }
    EXPECT_EQ(threads * rounds, good);
}
