/*
 * Registration of memory: what is refused is refused with a reason, and what
 * was taken back can not be reached any more.
 */
#include "uct_fixture.h"

#include "test/fabric/fabric.h"

#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

class md_test : public uct_test {
protected:
    /* Registering must fail; returns what was logged */
    std::string refuse(void *address, size_t length, unsigned flags = 0)
    {
        uct_mem_h memh = UCT_MEM_HANDLE_NULL;
        log_capture log;

        EXPECT_TRUE(UCS_STATUS_IS_ERR(
                uct_md_mem_reg(a->md, address, length,
                               UCT_MD_MEM_ACCESS_ALL | flags, &memh)));
        EXPECT_EQ(UCT_MEM_HANDLE_NULL, memh);
        return log_capture::text();
    }
};

TEST_F(md_test, attributes_say_what_it_can_do)
{
    open();
    EXPECT_TRUE(a->md_attr.cap.flags & UCT_MD_FLAG_REG);
    EXPECT_TRUE(a->md_attr.cap.flags & UCT_MD_FLAG_NEED_MEMH);
    EXPECT_TRUE(a->md_attr.cap.flags & UCT_MD_FLAG_NEED_RKEY);
    EXPECT_FALSE(a->md_attr.cap.flags & UCT_MD_FLAG_ALLOC);
    EXPECT_TRUE(a->md_attr.cap.reg_mem_types & UCS_BIT(UCS_MEMORY_TYPE_HOST));
    EXPECT_EQ(UCS_BIT(UCS_MEMORY_TYPE_HOST), a->md_attr.cap.access_mem_types);
    EXPECT_GT(a->md_attr.cap.max_reg, 1ul << 32);
    EXPECT_GT(a->md_attr.rkey_packed_size, 0u);
}

/* Registered memory is there already */
TEST_F(md_test, advice_on_registered_memory_is_taken)
{
    char data[4096];
    uct_mem_h memh;

    open();
    EXPECT_TRUE(a->md_attr.cap.flags & UCT_MD_FLAG_ADVISE);
    ASSERT_EQ(UCS_OK, uct_md_mem_reg(a->md, data, sizeof(data),
                                     UCT_MD_MEM_ACCESS_ALL, &memh));
    EXPECT_EQ(UCS_OK, uct_md_mem_advise(a->md, memh, data + 7, 1024,
                                        UCT_MADV_WILLNEED));
    EXPECT_EQ(UCS_OK, uct_md_mem_dereg(a->md, memh));
}

TEST_F(md_test, zero_bytes_are_refused_with_a_reason)
{
    char data[8];

    open();
    EXPECT_NE(std::string::npos, refuse(data, 0).find("0"));
}

TEST_F(md_test, memory_that_is_not_mapped_is_refused_with_a_reason)
{
    const size_t room = 1 << 30;
    std::string text;
    char *address;

    open();
    /* the middle of a large hole: no other mapping gets it */
    address = (char*)mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS |
                          MAP_NORESERVE, -1, 0);
    munmap(address, room);
    text = refuse(address + room / 2, 4096);
    EXPECT_NE(std::string::npos, text.find("4096 bytes")) << text;
    EXPECT_NE(std::string::npos, text.find("not mapped")) << text;
    EXPECT_NE("", refuse(NULL, 4096));
}

TEST_F(md_test, a_refusal_that_the_caller_hides_is_not_an_error_message)
{
    open();
    std::string text = refuse(NULL, 4096, UCT_MD_MEM_FLAG_HIDE_ERRORS);

    /* UCX's default level is warn: nothing comes through */
    EXPECT_EQ("", text);
}

TEST_F(md_test, read_only_memory_can_be_sent_and_read_by_the_peer)
{
    const size_t length = 100000;
    char *data          = (char*)mmap(NULL, length, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    for (size_t i = 0; i < length; ++i) {
        data[i] = pattern(9, i);
    }
    ASSERT_EQ(0, mprotect(data, length, PROT_READ));
    open();
    connect_back();
    {
        memory constant(*a, length, data);
        memory target(*b, length);
        completion put_comp, get_comp, am_comp;
        uct_iov_t iov = constant.iov(0, length);
        uct_iov_t part = constant.iov(0, 5000);
        unsigned got = 0;

        ASSERT_EQ(UCS_INPROGRESS, ab->retry([&] {
            return uct_ep_put_zcopy(*ab, &iov, 1, target.addr(), target.rkey(),
                                    &put_comp.super);
        }));
        ASSERT_TRUE(until([&] { return put_comp.calls == 1; }));
        EXPECT_EQ(UCS_OK, put_comp.status);
        EXPECT_EQ(0, memcmp(target.data, data, length));

        memset(target.data, 0, length);
        iov = target.iov(0, length);
        ASSERT_EQ(UCS_INPROGRESS, ba->retry([&] {
            return uct_ep_get_zcopy(*ba, &iov, 1, constant.addr(),
                                    constant.rkey(), &get_comp.super);
        }));
        ASSERT_TRUE(until([&] { return get_comp.calls == 1; }));
        EXPECT_EQ(0, memcmp(target.data, data, length));

        b->on_am(1, [&](const char *d, size_t n) {
            got += (n == 5000) && !memcmp(d, data, n);
            return UCS_OK;
        });
        ASSERT_EQ(UCS_INPROGRESS, ab->retry([&] {
            return uct_ep_am_zcopy(*ab, 1, NULL, 0, &part, 1, 0,
                                   &am_comp.super);
        }));
        EXPECT_TRUE(until([&] { return got == 1; }));
        ASSERT_EQ(UCS_OK, ab->flush());

        /* and not written by anybody */
        completion bad;
        iov = target.iov(0, 8);
        ASSERT_EQ(UCS_INPROGRESS, ba->retry([&] {
            return uct_ep_put_zcopy(*ba, &iov, 1, constant.addr(),
                                    constant.rkey(), &bad.super);
        }));
        ASSERT_TRUE(until([&] { return bad.calls == 1; }));
        EXPECT_NE(UCS_OK, bad.status);
        EXPECT_EQ(pattern(9, 0), data[0]);
    }
    ab.reset();
    ba.reset();
    munmap(data, length);
    expect_violations("remote_key");
}

/* For a process of its own: limit what it may lock, and give up the right to lock more, in
 * this thread and those that it starts. False if that is not possible */
static bool limit_locked_memory(rlim_t bytes)
{
    const struct rlimit limit            = {bytes, bytes};
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

    if ((setrlimit(RLIMIT_MEMLOCK, &limit) != 0) ||
        (syscall(SYS_capget, &head, data) != 0)) {
        return false;
    }

    data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective &= ~CAP_TO_MASK(CAP_IPC_LOCK);
    return syscall(SYS_capset, &head, data) == 0;
}

/* Run a role that says "ok", or ends with 77 where it is not possible */
static void run_role(const char *role, const std::string &input = "")
{
    process child(role);

    if (input != "") {
        child.write(input);
    }

    std::string line = child.read();
    int status       = child.wait();

    if (status == 77) {
        GTEST_SKIP() << "the limit can not be set, or what it needs is not offered";
    }
    EXPECT_EQ("ok", line);
    EXPECT_EQ(0, status);
}

VQP_ROLE(locked)
{
    uct_mem_h memh;
    char *data;

    node self(0);
    data = (char*)mmap(NULL, 8 << 20, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!limit_locked_memory(1 << 20)) {
        return 77;
    }

    log_capture log;
    if (uct_md_mem_reg(self.md, data, 8 << 20, UCT_MD_MEM_ACCESS_ALL, &memh) ==
        UCS_OK) {
        return 1;
    }

    for (std::string part : {"RLIMIT_MEMLOCK", "ulimit -l", "1048576",
                             "8388608"}) {
        if (!log_capture::has(part)) {
            role_write("no " + part + " in: " + log_capture::text());
            return 2;
        }
    }
    role_write("ok");
    return 0;
}

TEST_F(md_test, beyond_the_lock_limit_the_message_names_limit_and_size)
{
    run_role("locked");
}

/* The same memory in turn: what is deregistered must not stay pinned then */
VQP_ROLE(pins_in_turn)
{
    const size_t length = 5 << 20;
    uct_mem_h memh;
    char *data[2];

    if (!limit_locked_memory(8 << 20)) {
        return 77;
    }

    node limited(0);
    for (char *&buffer : data) {
        buffer = (char*)mmap(NULL, length, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    for (unsigned i = 0; i < 6; ++i) {
        if ((uct_md_mem_reg(limited.md, data[i % 2], length, UCT_MD_MEM_ACCESS_ALL,
                            &memh) != UCS_OK) ||
            (uct_md_mem_dereg(limited.md, memh) != UCS_OK)) {
            return 1;
        }
    }

    role_write("ok");
    return 0;
}

TEST_F(md_test, with_a_lock_limit_nothing_stays_pinned)
{
    run_role("pins_in_turn");
}

/* Connections that send leave memory for those that come */
VQP_ROLE(connects_and_sends)
{
    std::string peer = from_hex(role_read());
    std::vector<std::unique_ptr<endpoint>> all;

    if (!limit_locked_memory(4 << 20)) {
        return 77;
    }

    node limited(0);
    while (all.size() < 49) { /* 44 where each has a mirror, 54 where 32 have one */
        all.push_back(std::make_unique<endpoint>(limited, peer));
        if (all.back()->retry([&] { return uct_ep_am_short(*all.back(), 1, 0, NULL, 0); }) !=
            UCS_OK) {
            role_write("the message of endpoint " + std::to_string(all.size()) + " failed");
            return 1;
        }
    }
    for (auto &ep : all) {
        (void)ep->flush();
    }
    role_write("ok");
    return 0;
}

TEST_F(md_test, with_a_lock_limit_connections_leave_memory_for_others)
{
    node peer(0);

    peer.on_am(1, [](const char *, size_t) { return UCS_OK; });
    run_role("connects_and_sends", to_hex(peer.address()));
}

TEST_F(md_test, after_an_invalidation_the_peer_has_no_access)
{
    completion invalidated, bad;

    open();
    memory source(*a, 4096);
    {
        memory target(*b, 4096);
        uct_iov_t iov = source.iov(0, 4096);

        settle();
        if (!(b->md_attr.cap.flags & UCT_MD_FLAG_INVALIDATE)) {
            GTEST_SKIP() << "not offered";
        }
#if UCT_API >= UCT_VERSION(1, 16)
        /* the API wants the key to be packed for it first */
        EXPECT_EQ(UCS_ERR_INVALID_PARAM, target.invalidate(invalidated));
        ASSERT_EQ(UCS_OK, target.pack(0));
        EXPECT_EQ(UCS_ERR_INVALID_PARAM, target.invalidate(invalidated));
        EXPECT_EQ(0u, invalidated.calls);
#endif
        ASSERT_EQ(UCS_OK, target.pack(PACK_INVALIDATE));
        ASSERT_EQ(UCS_OK, target.invalidate(invalidated));
        ASSERT_TRUE(until([&] { return invalidated.calls == 1; }));
        EXPECT_EQ(UCS_OK, invalidated.status);

        target.fill(1);
        source.fill(2);
        ASSERT_EQ(UCS_INPROGRESS,
                  uct_ep_put_zcopy(*ab, &iov, 1, target.addr(), target.rkey(),
                                   &bad.super));
        ASSERT_TRUE(until([&] { return bad.calls == 1; }));
        EXPECT_NE(UCS_OK, bad.status);
        EXPECT_TRUE(until([&] { return ab->errors == 1; }));
        EXPECT_EQ(pattern(1, 0), target.data[0]);
    }
    expect_violations("remote_key");
}

/* The memory stays registered: in a process of its own, that ends with it */
VQP_ROLE(fails_to_invalidate)
{
    log_capture log(UCS_LOG_LEVEL_ERROR);
    completion invalidated;
    ucs_status_t status;

    setenv("UCX_VQP_RCACHE", "n", 1); /* else it is deregistered later */
    node self(0);
    memory target(self, 4096);
    if (!(self.md_attr.cap.flags & UCT_MD_FLAG_INVALIDATE)) {
        return 77;
    }

    EXPECT_EQ(UCS_OK, target.pack(PACK_INVALIDATE));
    faults("call verb=dereg_mr count=1 errno=EIO");
    status      = target.invalidate(invalidated);
    target.memh = UCT_MEM_HANDLE_NULL; /* it is freed all the same */
    faults("");
    role_write(((status == UCS_ERR_IO_ERROR) && (invalidated.calls == 0)) ? "ok" :
               "status " + std::to_string(status) + ", completed " +
               std::to_string(invalidated.calls) + " times");
    _exit(0); /* what stays registered would count as a leak */
}

/* UCP counts either as the end of the invalidation */
TEST_F(md_test, of_an_invalidation_that_fails_the_caller_hears_once)
{
    if (vqp_fabric() == NULL) {
        GTEST_SKIP() << "needs the software fabric";
    }
    run_role("fails_to_invalidate");
}

/* UCP before 1.18 registers for one access, keeps the handle, and uses it for another */
TEST_F(md_test, whatever_the_flags_of_a_registration_a_peer_may_do_all)
{
    static const unsigned all[] = {UCT_MD_MEM_ACCESS_REMOTE_PUT,
                                   UCT_MD_MEM_ACCESS_REMOTE_GET,
                                   UCT_MD_MEM_ACCESS_REMOTE_ATOMIC,
                                   UCT_MD_MEM_ACCESS_LOCAL_READ, 0};

    open();
    memory source(*a, 4096);
    for (unsigned flags : all) {
        memory target(*b, 4096, nullptr, flags);
        uct_iov_t iov = source.iov(0, 64);

        for (unsigned op = 0; op < (a->has_atomics() ? 3 : 2); ++op) {
            completion comp;
            uint64_t result = 7;

            ASSERT_EQ(UCS_INPROGRESS, ab->retry([&] {
                return (op == 0) ?
                       uct_ep_put_zcopy(*ab, &iov, 1, target.addr(),
                                        target.rkey(), &comp.super) :
                       (op == 1) ?
                       uct_ep_get_zcopy(*ab, &iov, 1, target.addr(),
                                        target.rkey(), &comp.super) :
                       uct_ep_atomic64_fetch(*ab, UCT_ATOMIC_OP_ADD, 1, &result,
                                             target.addr(), target.rkey(),
                                             &comp.super);
            }));
            ASSERT_TRUE(until([&] { return comp.calls == 1; }));
            EXPECT_EQ(UCS_OK, comp.status)
                    << "flags 0x" << std::hex << flags << ", op " << op;
        }
    }
}

TEST_F(md_test, a_remote_key_whose_numbers_do_not_fit_is_refused)
{
    uct_rkey_bundle_t bundle;
    std::string key;

    open();
    memory mem(*a, 4096);
    log_capture log;
    for (unsigned rail = 1; rail < 16; ++rail) { /* there is rail 0 alone */
        key    = mem.packed_key();
        key[0] = (char)(key[0] | (rail << 4));
        if ((uint8_t)key[1] <= rail) {
            EXPECT_EQ(UCS_ERR_UNSUPPORTED,
                      uct_rkey_unpack(component(), key.data(), &bundle))
                    << rail;
        }
    }
    for (unsigned rails : {0u, 5u, 255u}) {
        key    = mem.packed_key();
        key[1] = (char)rails;
        key.resize(2048, '\0');
        EXPECT_EQ(UCS_ERR_UNSUPPORTED,
                  uct_rkey_unpack(component(), key.data(), &bundle)) << rails;
    }
    for (unsigned version : {0u, 2u, 15u}) {
        key    = mem.packed_key();
        key[0] = (char)version;
        EXPECT_EQ(UCS_ERR_UNSUPPORTED,
                  uct_rkey_unpack(component(), key.data(), &bundle)) << version;
    }
}

TEST_F(md_test, remote_keys_that_are_garbage_are_refused)
{
    log_capture log;
    uct_rkey_bundle_t bundle;

    open();
    for (int fill : {0, 0xff, 0x5a}) {
        std::string packed(256, (char)fill);

        EXPECT_TRUE(UCS_STATUS_IS_ERR(uct_rkey_unpack(component(),
                                                      packed.data(),
                                                      &bundle))) << fill;
    }
    EXPECT_TRUE(log.has("remote key"));
}

TEST_F(md_test, memory_can_be_registered_many_times)
{
    open();
    memory base(*a, 1 << 20);
    std::vector<std::unique_ptr<memory>> all;

    for (int i = 0; i < 200; ++i) {
        all.push_back(std::make_unique<memory>(*a, 10000 + i,
                                               base.data + i * 1001));
    }
}

#if UCT_API >= UCT_VERSION(1, 14)
/* A descriptor without memory of a driver; gpu_test.cc has those with it */
TEST_F(md_test, a_descriptor_that_is_no_dmabuf_is_refused)
{
    uct_md_mem_reg_params_t params = {};
    uct_mem_h memh                 = UCT_MEM_HANDLE_NULL;
    char data[4096];

    open();
    params.field_mask = UCT_MD_MEM_REG_FIELD_FLAGS |
                        UCT_MD_MEM_REG_FIELD_DMABUF_FD;
    params.flags      = UCT_MD_MEM_ACCESS_ALL;
    params.dmabuf_fd  = UCT_DMABUF_FD_INVALID; /* this one means: none */
    ASSERT_EQ(UCS_OK, uct_md_mem_reg_v2(a->md, data, sizeof(data), &params, &memh));
    EXPECT_EQ(UCS_OK, uct_md_mem_dereg(a->md, memh));

    log_capture log;
    params.dmabuf_fd = 0;
    EXPECT_TRUE(UCS_STATUS_IS_ERR(
            uct_md_mem_reg_v2(a->md, data, sizeof(data), &params, &memh)));
    EXPECT_TRUE(log_capture::has("dmabuf")) << log_capture::text();
}

/* What the attributes do not offer is refused with a reason */
TEST_F(md_test, a_key_is_not_exported)
{
    open();
    EXPECT_FALSE(a->md_attr.cap.flags & UCT_MD_FLAG_EXPORTED_MKEY);
    memory mem(*a, 4096);
    log_capture log;
    EXPECT_EQ(UCS_ERR_UNSUPPORTED, mem.pack(UCT_MD_MKEY_PACK_FLAG_EXPORT));
    EXPECT_TRUE(log_capture::has("exported")) << log_capture::text();
}
#endif

/* UCP of UCX 1.16 and newer compares remote keys */
#if UCT_API >= UCT_VERSION(1, 16)
TEST_F(md_test, remote_keys_are_compared_by_content)
{
    const uct_rkey_compare_params_t params = {};
    uct_rkey_bundle_t again;
    int result, reverse;

    open();
    memory one(*a, 4096), two(*a, 4096);
    std::string packed = one.packed_key();
    ASSERT_EQ(UCS_OK, uct_rkey_unpack(component(), packed.data(), &again));
    EXPECT_NE(one.rkey(), again.rkey);
    EXPECT_EQ(UCS_OK, uct_rkey_compare(component(), one.rkey(), again.rkey,
                                       &params, &result));
    EXPECT_EQ(0, result);
    EXPECT_EQ(UCS_OK, uct_rkey_compare(component(), one.rkey(), two.rkey(),
                                       &params, &result));
    EXPECT_EQ(UCS_OK, uct_rkey_compare(component(), two.rkey(), again.rkey,
                                       &params, &reverse));
    EXPECT_NE(0, result);
    EXPECT_LT((long)result * reverse, 0);
    uct_rkey_release(component(), &again);
}
#endif
