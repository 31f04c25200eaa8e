/*
 * Memory of GPUs through UCP: registered with vqp where a driver or a dmabuf descriptor
 * offers it, else staged. Each test runs with the virtual GPU, which ends the process
 * if the CPU touches its memory, and with a real one where there is one (gpu.h).
 */
#include "gpu.h"
#include "gpu_fixture.h"
#include "ucp_side.h"

static const std::vector<size_t> lengths = {1, 8, 100, 1000, 8001, 13001, 50001, 1 << 20,
                                            16 << 20};

/* Memory of one kind, and behind it bytes that nobody may change */
class gpu_buffer {
public:
    gpu_buffer(gpu &owner_, size_t length_) :
        owner(owner_), length(length_), data((char*)owner.alloc(length_ + GUARD))
    {
        std::string blank(length + GUARD, BLANK);

        owner.write(data, blank.data(), blank.size());
    }

    ~gpu_buffer() { owner.free(data); }
    gpu_buffer(const gpu_buffer &)            = delete;
    gpu_buffer &operator=(const gpu_buffer &) = delete;

    void fill(unsigned seed)
    {
        std::string text(length, '\0');

        for (size_t i = 0; i < length; ++i) {
            text[i] = pattern(seed, i);
        }
        owner.write(data, text.data(), length);
    }

    /* Where it first differs from a pattern, the guard included; -1: nowhere */
    ssize_t differs(unsigned seed) const
    {
        std::string text(length + GUARD, '\0');

        owner.read(&text[0], data, text.size());
        for (size_t i = 0; i < text.size(); ++i) {
            if (text[i] != ((i < length) ? pattern(seed, i) : BLANK)) {
                return (ssize_t)i;
            }
        }
        return -1;
    }

    gpu    &owner;
    size_t length;
    char   *data;

private:
    static const size_t GUARD = 64;
    static const char BLANK   = 0x5a;
};

class gpu_ucp_test : public gpu_test, public ::testing::WithParamInterface<const char*> {
protected:
    void SetUp() override
    {
        std::string reason;

        gpu_test::SetUp();
        if (IsSkipped()) {
            return;
        }

        reason = device->missing();
        if (!reason.empty()) {
            GTEST_SKIP() << reason;
        }
        if (is_registered() && !is_by_dmabuf() && !device->has_pages()) {
            GTEST_SKIP() << "UCX registers it by address, which the driver refuses";
        }
        connect();
    }

    void TearDown() override
    {
        disconnect();
        gpu_test::TearDown();
    }

    void disconnect()
    {
        if (sender) {
            ucp_side::close(*sender, *receiver);
        }
        sender.reset();
        receiver.reset();
    }

    /* Connect once more, with another value of an option of UCX */
    void connect_with(const char *name, const char *value)
    {
        disconnect();
        setenv(name, value, 1);
        connect();
        unsetenv(name);
    }

    void connect()
    {
        const uint64_t features = UCP_FEATURE_TAG | UCP_FEATURE_RMA | UCP_FEATURE_AM;
        const std::string tls   = std::string("vqp,") + device->transport();

        sender.reset(new ucp_side(devices().front(), UCS_THREAD_MODE_SINGLE, tls.c_str(),
                                  features));
        receiver.reset(new ucp_side(devices().back(), UCS_THREAD_MODE_SINGLE,
                                    tls.c_str(), features));
        sender->connect(*receiver);
        receiver->connect(*sender);
    }

    bool is_by_dmabuf() { return takes_dmabuf() && device->has_dmabuf(); }

    /* Does UCP register the memory with vqp? */
    bool is_registered()
    {
        return (is_offered() || is_by_dmabuf()) && !device->is_managed();
    }

    void wait(void *request)
    {
        ASSERT_TRUE(until([&] {
            sender->progress();
            receiver->progress();
            return ucp_side::test(request);
        }));
    }

    void flush()
    {
        ucp_request_param_t param = {};

        wait(ucp_worker_flush_nbx(sender->worker, &param));
    }

    void check_tag(gpu &source, gpu &target, size_t length)
    {
        gpu_buffer from(source, length), to(target, length);
        void *request;

        from.fill((unsigned)++seed);
        request = receiver->receive(to.data, length, seed);
        wait(sender->send(from.data, length, seed));
        wait(request);
        EXPECT_EQ(-1, to.differs((unsigned)seed))
                << length << " bytes, " << source.transport() << " to "
                << target.transport();
    }

    /* Messages of a length between memory of both kinds */
    void check_tags(size_t length)
    {
        check_tag(*device, *device, length);
        check_tag(*device, *host, length);
        check_tag(*host, *device, length);
    }

    void check_am(size_t length);
    void check_put_get(gpu &source, const gpu_buffer &target, ucp_rkey_h rkey,
                       size_t length);

    std::unique_ptr<gpu> device = make_gpu(GetParam());
    std::unique_ptr<gpu> host   = make_gpu("host");
    std::unique_ptr<ucp_side> sender, receiver;
    uint64_t seed = 0;
};

TEST_P(gpu_ucp_test, tagged_messages_of_each_size)
{
    for (size_t length : lengths) {
        check_tags(length);
    }
}

TEST_P(gpu_ucp_test, nothing_large_is_staged_where_the_device_reaches_it)
{
    const bool is_virtual = (std::string(GetParam()) == "virtual");
    size_t staged         = vgpu_copied();
    uint64_t moved        = vqp_fabric()->gpu_bytes();

    if (!is_virtual && is_registered()) {
        /* UCP's estimates may prefer to copy through fragments */
        connect_with("UCX_RNDV_SCHEME", "get_zcopy");
    } else if (!is_virtual) {
        /* no fragments in GPU memory, which devices do reach */
        connect_with("UCX_RNDV_FRAG_MEM_TYPES", "host");
    }
    check_tags(4 << 20);
    staged = vgpu_copied() - staged;
    moved  = vqp_fabric()->gpu_bytes() - moved;
    if (!is_virtual) {
        EXPECT_EQ(is_registered(), moved >= 11u << 20) << moved << " bytes by devices";
        EXPECT_EQ(is_registered(), moved > 0);
    } else if (is_registered()) {
        EXPECT_GT((size_t)1 << 20, staged);
    } else {
        EXPECT_LE((size_t)8 << 20, staged);
    }
}

/* What is sent again is sent from where it is */
TEST_P(gpu_ucp_test, a_path_that_fails_is_replayed)
{
    ASSERT_EQ(0, vqp_fabric()->faults("wr nth=20 status=RETRY_EXC_ERR", nullptr, 0));
    check_tag(*device, *device, 16 << 20);
    EXPECT_EQ(1u, vqp_fabric()->fault_hits());
    vqp_fabric()->faults(nullptr, nullptr, 0);
}

/* A message as the handler sees it: its data, or where UCP gets them */
struct am_arrival {
    void       *desc = nullptr;
    std::string data;
    bool       came  = false;
};

static ucs_status_t take_am(void *arg, const void *, size_t, void *data, size_t length,
                            const ucp_am_recv_param_t *param)
{
    am_arrival *arrival = (am_arrival*)arg;

    arrival->came = true;
    if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) {
        arrival->desc = data;
        return UCS_INPROGRESS;
    }
    arrival->data.assign((const char*)data, length);
    return UCS_OK;
}

void gpu_ucp_test::check_am(size_t length)
{
    gpu_buffer from(*device, length), to(*device, length);
    ucp_am_handler_param_t handler = {};
    ucp_request_param_t param      = {};
    am_arrival arrival;
    void *sent;

    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                         UCP_AM_HANDLER_PARAM_FIELD_ARG;
    handler.id         = 4;
    handler.cb         = take_am;
    handler.arg        = &arrival;
    ASSERT_EQ(UCS_OK, ucp_worker_set_am_recv_handler(receiver->worker, &handler));

    from.fill((unsigned)++seed);
    sent = ucp_am_send_nbx(sender->ep, 4, NULL, 0, from.data, length, &param);
    ASSERT_TRUE(until([&] {
        sender->progress();
        receiver->progress();
        return arrival.came;
    }));
    if (arrival.desc != nullptr) {
        wait(ucp_am_recv_data_nbx(receiver->worker, arrival.desc, to.data, length,
                                  &param));
    } else {
        ASSERT_EQ(length, arrival.data.size());
        device->write(to.data, arrival.data.data(), length);
    }
    wait(sent);
    EXPECT_EQ(-1, to.differs((unsigned)seed)) << length << " bytes";
}

TEST_P(gpu_ucp_test, active_messages_of_each_size)
{
    for (size_t length : lengths) {
        check_am(length);
    }
}

void gpu_ucp_test::check_put_get(gpu &source, const gpu_buffer &target, ucp_rkey_h rkey,
                                 size_t length)
{
    const uint64_t address    = (uint64_t)target.data;
    ucp_request_param_t param = {};
    gpu_buffer from(source, length), back(source, length);
    std::string found(length, '\0'), sent(length, '\0');

    from.fill((unsigned)++seed);
    source.read(&sent[0], from.data, length);
    wait(ucp_put_nbx(sender->ep, from.data, length, address, rkey, &param));
    flush();
    device->read(&found[0], target.data, length);
    EXPECT_TRUE(found == sent) << "put of " << length << " bytes";
    wait(ucp_get_nbx(sender->ep, back.data, length, address, rkey, &param));
    EXPECT_EQ(-1, back.differs((unsigned)seed)) << "get of " << length << " bytes";
}

TEST_P(gpu_ucp_test, puts_and_gets_of_memory_that_is_mapped)
{
    gpu_buffer target(*device, lengths.back());
    ucp_mem_map_params_t params = {};
    size_t key_length;
    ucp_mem_h memh;
    ucp_rkey_h rkey;
    void *key;

    if (!is_registered() && (UCT_API < UCT_VERSION(1, 22))) {
        GTEST_SKIP() << "it is not registered: UCP may read and write it with the CPU";
    }

    params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
    params.address    = target.data;
    params.length     = target.length;
    ASSERT_EQ(UCS_OK, ucp_mem_map(receiver->context, &params, &memh));
    ASSERT_EQ(UCS_OK, ucp_rkey_pack(receiver->context, memh, &key, &key_length));
    ASSERT_EQ(UCS_OK, ucp_ep_rkey_unpack(sender->ep, key, &rkey));
    ucp_rkey_buffer_release(key);

    for (size_t length : lengths) {
        check_put_get(*host, target, rkey, length);
        if (UCT_API >= UCT_VERSION(1, 16)) {
            /* before, UCP reads and writes short ones with the CPU */
            check_put_get(*device, target, rkey, length);
        }
    }

    ucp_rkey_destroy(rkey);
    EXPECT_EQ(UCS_OK, ucp_mem_unmap(receiver->context, memh));
}

INSTANTIATE_TEST_SUITE_P(gpu, gpu_ucp_test,
                         ::testing::Values("virtual", "cuda", "cuda_pool",
                                           "cuda_managed", "cuda_mapped",
                                           "cuda_mapped_rdma"),
                         [](const auto &info) { return std::string(info.param); });
