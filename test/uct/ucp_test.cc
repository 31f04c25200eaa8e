/*
 * Through UCP: a worker's descriptor beside a socket, and one worker that several
 * threads use.
 */
#include "uct_fixture.h"

#include <ucp/api/ucp.h>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

class ucp_side {
public:
    ucp_side(const std::string &device, ucs_thread_mode_t mode)
    {
        ucp_params_t params               = {};
        ucp_worker_params_t worker_params = {};
        ucp_worker_attr_t attr            = {};
        ucp_config_t *config;

        EXPECT_EQ(UCS_OK, ucp_config_read(NULL, NULL, &config));
        EXPECT_EQ(UCS_OK, ucp_config_modify(config, "TLS", "vqp"));
        EXPECT_EQ(UCS_OK, ucp_config_modify(config, "NET_DEVICES",
                                            (device + ":1").c_str()));
        params.field_mask = UCP_PARAM_FIELD_FEATURES |
                            UCP_PARAM_FIELD_MT_WORKERS_SHARED;
        params.features   = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
        params.mt_workers_shared = 0;
        EXPECT_EQ(UCS_OK, ucp_init(&params, config, &context));
        ucp_config_release(config);

        worker_params.field_mask  = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
        worker_params.thread_mode = mode;
        EXPECT_EQ(UCS_OK, ucp_worker_create(context, &worker_params, &worker));
        attr.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS |
                          UCP_WORKER_ATTR_FIELD_THREAD_MODE;
        EXPECT_EQ(UCS_OK, ucp_worker_query(worker, &attr));
        thread_mode = attr.thread_mode;
        address     = std::string((char*)attr.address, attr.address_length);
        ucp_worker_release_address(worker, attr.address);
    }

    void connect(const ucp_side &peer)
    {
        ucp_ep_params_t params = {};

        params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
        params.address    = (const ucp_address_t*)peer.address.data();
        EXPECT_EQ(UCS_OK, ucp_ep_create(worker, &params, &ep));
    }

    void *send(const void *data, size_t length, ucp_tag_t tag)
    {
        ucp_request_param_t param = {};

        return ucp_tag_send_nbx(ep, data, length, tag, &param);
    }

    void *receive(void *data, size_t length, ucp_tag_t tag)
    {
        ucp_request_param_t param = {};

        return ucp_tag_recv_nbx(worker, data, length, tag, ~0ul, &param);
    }

    /* true, and the request is released, when it is complete */
    static bool test(void *&request)
    {
        ucs_status_t status = (request == NULL) ? UCS_OK :
                              UCS_PTR_IS_ERR(request) ?
                                      UCS_PTR_STATUS(request) :
                                      ucp_request_check_status(request);

        if (status == UCS_INPROGRESS) {
            return false;
        }
        EXPECT_EQ(UCS_OK, status);
        if (UCS_PTR_IS_PTR(request)) {
            ucp_request_free(request);
        }
        request = NULL;
        return true;
    }

    ~ucp_side()
    {
        if (ep != NULL) {
            ucp_request_param_t param = {};
            void *request             = ucp_ep_close_nbx(ep, &param);

            while (!test(request)) {
                progress();
            }
        }
        ucp_worker_destroy(worker);
        ucp_cleanup(context);
    }

    void progress()
    {
        if (ucp_worker_progress(worker) == 0) {
            std::this_thread::yield();
        }
        if (peer != nullptr) {
            ucp_worker_progress(peer->worker);
        }
    }

    ucp_context_h     context;
    ucp_worker_h      worker;
    ucp_ep_h          ep   = NULL;
    ucp_side         *peer = nullptr; /* progressed while this one closes */
    ucs_thread_mode_t thread_mode;
    std::string       address;
};

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
