/*
 * Memory of GPUs at UCT: registered where a driver or a dmabuf descriptor offers it, and
 * used by the device only. The GPU is vgpu.h's: whoever touches its memory ends the
 * process. contrib/check/fabric.sh has a run in which a driver offers it (PEER_MEM)
 * beside the one in which none does.
 */
#include "gpu_fixture.h"

#include <uct/api/v2/uct_v2.h>

#include <algorithm>

/* Device memory with a pattern, and behind it bytes that nobody may change */
class device_buffer {
public:
    explicit device_buffer(size_t length_) : length(length_)
    {
        device = (char*)vgpu_alloc(length + GUARD);
        host   = (char*)vgpu_host(device);
        memset(host, 0x5a, length + GUARD);
    }

    ~device_buffer() { vgpu_free(device); }
    device_buffer(const device_buffer &)            = delete;
    device_buffer &operator=(const device_buffer &) = delete;

    void fill(unsigned seed)
    {
        for (size_t i = 0; i < length; ++i) {
            host[i] = pattern(seed, i);
        }
    }

    /* Where it first differs from a pattern, the guard included; -1: nowhere */
    ssize_t differs(unsigned seed) const
    {
        for (size_t i = 0; i < length + GUARD; ++i) {
            if (host[i] != ((i < length) ? pattern(seed, i) : 0x5a)) {
                return (ssize_t)i;
            }
        }
        return -1;
    }

    char   *device, *host;
    size_t length;

private:
    static const size_t GUARD = 64;
};

/* ---- UCT: by address ---- */

class gpu_memory_test : public gpu_test {
protected:
    void SetUp() override
    {
        gpu_test::SetUp();
        if (!IsSkipped() && !is_offered()) {
            GTEST_SKIP() << "no driver offers device memory";
        }
    }

    void check_put_get(size_t length)
    {
        device_buffer source(length), target(length);
        memory from(*a, length, source.device), to(*b, length, target.device);
        uct_iov_t iov = from.iov(0, length);
        completion put, get;

        source.fill(1);
        ASSERT_EQ(UCS_INPROGRESS, ab->retry([&] {
            return uct_ep_put_zcopy(*ab, &iov, 1, to.addr(), to.rkey(), &put.super);
        }));
        ASSERT_TRUE(until([&] { return put.calls == 1; }));
        EXPECT_EQ(UCS_OK, put.status);
        EXPECT_EQ(-1, target.differs(1)) << "put of " << length;

        target.fill(2);
        ASSERT_EQ(UCS_INPROGRESS, ab->retry([&] {
            return uct_ep_get_zcopy(*ab, &iov, 1, to.addr(), to.rkey(), &get.super);
        }));
        ASSERT_TRUE(until([&] { return get.calls == 1; }));
        EXPECT_EQ(UCS_OK, get.status);
        EXPECT_EQ(-1, source.differs(2)) << "get of " << length;
    }

    void check_am(size_t length)
    {
        device_buffer source(length);
        memory from(*a, length, source.device);
        uct_iov_t iov   = from.iov(0, length);
        uint64_t header = 0x1234567;
        unsigned got    = 0;
        completion sent;

        source.fill(3);
        b->on_am(1, [&](const char *data, size_t size) {
            got += (size == sizeof(header) + length) &&
                   !memcmp(data, &header, sizeof(header)) &&
                   !memcmp(data + sizeof(header), source.host, length);
            return UCS_OK;
        });
        ASSERT_EQ(UCS_INPROGRESS, ab->retry([&] {
            return uct_ep_am_zcopy(*ab, 1, &header, sizeof(header), &iov, 1, 0,
                                   &sent.super);
        }));
        EXPECT_TRUE(until([&] { return (got == 1) && (sent.calls == 1); }))
                << "message of " << length;
        ASSERT_EQ(UCS_OK, ab->flush()); /* before the memory goes */
    }

    /* Many messages to a peer that does nothing */
    void check_burst()
    {
        const unsigned most = 128;
        unsigned count      = 0, got = 0;
        completion sent[most];
        ucs_status_t status = UCS_OK;

        open({{"RING_SIZE", "1m"}, {"RING_MIN", "1m"}});
        settle();
        use_all_slots();
        device_buffer source(4096);
        source.fill(3);
        memory from(*a, source.length, source.device);
        b->on_am(1, [&](const char *data, size_t) {
            EXPECT_EQ(pattern(3, 0), data[0]);
            ++got;
            return UCS_OK;
        });
        while ((status >= 0) && (count < most)) {
            uct_iov_t iov = from.iov(0, source.length);

            status = uct_ep_am_zcopy(*ab, 1, NULL, 0, &iov, 1, 0, &sent[count].super);
            EXPECT_NE(UCS_OK, status);
            count += status >= 0;
        }
        EXPECT_GT(count, most / 2); /* of the window */
        EXPECT_TRUE(until([&] { return got == count; })) << got;
        EXPECT_EQ(UCS_OK, ab->flush());
        for (unsigned i = 0; i < count; ++i) {
            EXPECT_EQ(1, sent[i].calls);
        }
    }
};

TEST_F(gpu_memory_test, put_and_get_leave_it_to_the_device)
{
    open();
    settle();
    EXPECT_TRUE(a->md_attr.cap.reg_mem_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA));
    EXPECT_FALSE(a->md_attr.cap.access_mem_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA));
    for (size_t length : {1, 8, 60, 200, 4096, 100000, 3 << 20}) {
        check_put_get(length);
    }
}

/* Messages of host memory may be copied then. Also if UCX is not to be told of the driver: the
 * device registers the memory all the same */
TEST_F(gpu_memory_test, messages_gather_from_it_if_immediates_are_few)
{
    for (const char *setting : {"try", "n"}) {
        setenv("UCX_VQP_GPU_DIRECT_RDMA", setting, 1);
        check_burst();
        unsetenv("UCX_VQP_GPU_DIRECT_RDMA");
        ab.reset();
        b.reset();
        a.reset();
    }
}

TEST_F(gpu_memory_test, messages_gather_from_it)
{
    open();
    settle();
    for (size_t length : {1, 8, 60, 200, 4096, 10000}) {
        check_am(length);
    }
}

TEST_F(gpu_memory_test, atomics_reach_it)
{
    device_buffer target(64);
    uint64_t result = 0;
    completion done;

    open();
    settle();
    SKIP_WITHOUT_ATOMICS(*a);
    memory to(*b, 64, target.device);
    memset(target.host, 0, 64);
    ASSERT_EQ(UCS_OK, ab->retry([&] {
        return uct_ep_atomic64_post(*ab, UCT_ATOMIC_OP_ADD, 5, to.addr(8), to.rkey());
    }));
    ASSERT_EQ(UCS_INPROGRESS, ab->retry([&] {
        return uct_ep_atomic64_fetch(*ab, UCT_ATOMIC_OP_ADD, 2, &result, to.addr(8),
                                     to.rkey(), &done.super);
    }));
    ASSERT_TRUE(until([&] { return done.calls == 1; }));
    EXPECT_EQ(5u, result);
    EXPECT_EQ(7u, ((uint64_t*)target.host)[1]);
}

/* What is sent again is sent from where it is */
TEST_F(gpu_memory_test, a_failed_path_is_replayed_from_it)
{
    const size_t length = 2 << 20;
    device_buffer source(length), target(length);
    options config = {{"NUM_PATHS", "2"}, {"MIN_PATHS", "2"}};
    completion put;

    open(config);
    settle();
    memory from(*a, length, source.device), to(*b, length, target.device);
    uct_iov_t iov = from.iov(0, length);

    source.fill(4);
    ASSERT_EQ(0, vqp_fabric()->faults("wr nth=5 status=RETRY_EXC_ERR", nullptr, 0));
    ASSERT_EQ(UCS_INPROGRESS, ab->retry([&] {
        return uct_ep_put_zcopy(*ab, &iov, 1, to.addr(), to.rkey(), &put.super);
    }));
    ASSERT_TRUE(until([&] { return put.calls == 1; }));
    EXPECT_EQ(1u, vqp_fabric()->fault_hits());
    vqp_fabric()->faults(nullptr, nullptr, 0);
    EXPECT_EQ(UCS_OK, put.status);
    EXPECT_EQ(-1, target.differs(4));
}

/* ---- the option ---- */

class gpu_option_test : public gpu_test {
protected:
    void TearDown() override
    {
        unsetenv("UCX_VQP_GPU_DIRECT_RDMA");
        gpu_test::TearDown();
    }

    ucs_status_t open_md(const char *value, uct_md_attr_t *attr)
    {
        uct_md_config_t *config;
        ucs_status_t status;
        uct_md_h md;

        setenv("UCX_VQP_GPU_DIRECT_RDMA", value, 1);
        EXPECT_EQ(UCS_OK, uct_md_config_read(component(), NULL, NULL, &config));
        status = uct_md_open(component(), ("vqp_" + devices().front()).c_str(), config,
                             &md);
        uct_config_release(config);
        if (status == UCS_OK) {
            EXPECT_EQ(UCS_OK, uct_md_query(md, attr));
            uct_md_close(md);
        }
        return status;
    }
};

TEST_F(gpu_option_test, no_means_host_memory)
{
    uct_md_attr_t attr;

    ASSERT_EQ(UCS_OK, open_md("n", &attr));
    EXPECT_EQ((uint64_t)UCS_BIT(UCS_MEMORY_TYPE_HOST), attr.cap.reg_mem_types);
}

TEST_F(gpu_option_test, yes_is_an_error_where_there_is_none)
{
    uct_md_attr_t attr;
    log_capture log;

    if (is_direct()) {
        EXPECT_EQ(UCS_OK, open_md("y", &attr));
    } else {
        EXPECT_EQ(UCS_ERR_UNSUPPORTED, open_md("y", &attr));
        EXPECT_TRUE(log.has("UCX_VQP_GPU_DIRECT_RDMA=y"));
    }
    EXPECT_EQ(UCS_OK, open_md("try", &attr));
    EXPECT_EQ(is_offered(), !!(attr.cap.reg_mem_types &
                               UCS_BIT(UCS_MEMORY_TYPE_CUDA)));
}

/* ---- UCT: by descriptor ---- */

#if UCT_API >= UCT_VERSION(1, 14)
class gpu_dmabuf_test : public gpu_test {
protected:
    void SetUp() override
    {
        gpu_test::SetUp();
        if (IsSkipped()) {
            return;
        }
        open();
        settle();
        if (!(b->md_attr.cap.flags & UCT_MD_FLAG_REG_DMABUF)) {
            GTEST_SKIP() << "the device takes no descriptors";
        }
    }

    ucs_status_t reg(const device_buffer &buffer, size_t offset, size_t length, int fd,
                     uct_mem_h *memh)
    {
        uct_md_mem_reg_params_t params = {};

        params.field_mask    = UCT_MD_MEM_REG_FIELD_FLAGS |
                               UCT_MD_MEM_REG_FIELD_DMABUF_FD |
                               UCT_MD_MEM_REG_FIELD_DMABUF_OFFSET;
        params.flags         = UCT_MD_MEM_ACCESS_ALL;
        params.dmabuf_fd     = fd;
        params.dmabuf_offset = offset;
        return uct_md_mem_reg_v2(b->md, buffer.device + offset, length, &params, memh);
    }
};

TEST_F(gpu_dmabuf_test, a_part_of_it_is_written_and_nothing_else)
{
    device_buffer target(3 * 4096);
    memory source(*a, 4096);
    uct_iov_t iov = source.iov(0, 4096);
    completion put, beyond;
    uct_mem_h memh;

    ASSERT_EQ(UCS_OK, reg(target, 4096, 4096, vgpu_fd(target.device), &memh));
    uct_rkey_bundle_t bundle;
    std::string key(b->md_attr.rkey_packed_size, '\0');
    ASSERT_EQ(UCS_OK, uct_md_mkey_pack(b->md, memh, &key[0]));
    ASSERT_EQ(UCS_OK, uct_rkey_unpack(component(), key.data(), &bundle));

    source.fill(5);
    ASSERT_EQ(UCS_INPROGRESS, ab->retry([&] {
        return uct_ep_put_zcopy(*ab, &iov, 1, (uint64_t)target.device + 4096,
                                bundle.rkey, &put.super);
    }));
    ASSERT_TRUE(until([&] { return put.calls == 1; }));
    EXPECT_EQ(UCS_OK, put.status);
    EXPECT_EQ(0, memcmp(target.host + 4096, source.data, 4096));
    EXPECT_EQ(4096, std::count(target.host, target.host + 4096, 0x5a));
    EXPECT_EQ(4096, std::count(target.host + 8192, target.host + 12288, 0x5a));
    uct_rkey_release(component(), &bundle);
    EXPECT_EQ(UCS_OK, uct_md_mem_dereg(b->md, memh));
}

TEST_F(gpu_dmabuf_test, what_is_no_such_descriptor_is_named)
{
    device_buffer target(4096);
    uct_mem_h memh;
    int pipes[2];

    ASSERT_EQ(0, pipe(pipes));
    {
        log_capture log;
        EXPECT_NE(UCS_OK, reg(target, 0, 4096, pipes[0], &memh));
        EXPECT_TRUE(log.has("dmabuf descriptor " + std::to_string(pipes[0])));
        EXPECT_NE(UCS_OK, reg(target, 1 << 20, 4096, vgpu_fd(target.device), &memh));
        EXPECT_TRUE(log.has("offset 1048576"));
    }
    ::close(pipes[0]);
    ::close(pipes[1]);
}
#endif
