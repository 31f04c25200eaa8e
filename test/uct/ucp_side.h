/*
 * A context and a worker of UCP on one device, with an endpoint to another one, for
 * tests. Each is used by one thread at a time, unless the worker's mode allows more.
 */
#ifndef VQP_TEST_UCT_UCP_SIDE_H
#define VQP_TEST_UCT_UCP_SIDE_H

#include <ucp/api/ucp.h>

#include <gtest/gtest.h>

#include <string>
#include <thread>

class ucp_side {
public:
    /* @param tls  Transports, as UCX_TLS has them. @param features  UCP_FEATURE_* */
    ucp_side(const std::string &device, ucs_thread_mode_t mode,
             const char *tls = "vqp",
             uint64_t features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP)
    {
        ucp_params_t params               = {};
        ucp_worker_params_t worker_params = {};
        ucp_worker_attr_t attr            = {};
        ucp_config_t *config;

        EXPECT_EQ(UCS_OK, ucp_config_read(NULL, NULL, &config));
        EXPECT_EQ(UCS_OK, ucp_config_modify(config, "TLS", tls));
        EXPECT_EQ(UCS_OK, ucp_config_modify(config, "NET_DEVICES",
                                            (device + ":1").c_str()));
        params.field_mask = UCP_PARAM_FIELD_FEATURES |
                            UCP_PARAM_FIELD_MT_WORKERS_SHARED;
        params.features   = features;
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

    /* End the endpoints of two sides together: the first does not wait for one that is
     * gone, nor does the second */
    static void close(ucp_side &one, ucp_side &other)
    {
        void *requests[] = {one.close_begin(), other.close_begin()};
        bool done        = false;

        while (!done) {
            one.progress();
            other.progress();
            done = test(requests[0]) & test(requests[1]);
        }
    }

    ~ucp_side()
    {
        void *request = close_begin();

        while (!test(request)) {
            progress();
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

private:
    void *close_begin()
    {
        ucp_request_param_t param = {};
        ucp_ep_h closing          = ep;

        ep = NULL;
        return (closing == NULL) ? NULL : ucp_ep_close_nbx(closing, &param);
    }
};

#endif
