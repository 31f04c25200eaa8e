/*
 * The registration cache: what was registered once costs nothing the next time, and
 * what must not be reached is not reached by it. On the software fabric, which counts
 * registrations. UCX >= 1.16 keeps registrations in UCP: there is nothing to test.
 */
#include "uct_fixture.h"

#if UCT_API < UCT_VERSION(1, 16)

#include "ucp_side.h"

#include "test/fabric/fabric.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

class rcache_test : public uct_test {
protected:
    void SetUp() override
    {
        uct_test::SetUp();
        if (vqp_fabric() == nullptr) {
            GTEST_SKIP() << "needs the software fabric";
        }
        count_registrations();
        setenv("UCX_VQP_RCACHE", "y", 1); /* also where locked memory is limited */
    }

    void TearDown() override
    {
        unsetenv("UCX_VQP_RCACHE");
        uct_test::TearDown();
    }

    static void faults(const char *script)
    {
        char error[128] = "";

        ASSERT_EQ(0, vqp_fabric()->faults(script, error, sizeof(error))) << error;
    }

    /* Calls are counted while a rule is in force: one that fails none */
    static void count_registrations() { faults("call verb=reg_mr nth=1000000"); }
    static uint64_t registrations() { return vqp_fabric()->calls("reg_mr"); }
    static uint64_t deregistrations() { return vqp_fabric()->calls("dereg_mr"); }

    static char *map(size_t length, void *where = NULL)
    {
        void *address = mmap(where, length, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS |
                             ((where != NULL) ? MAP_FIXED : 0), -1, 0);

        EXPECT_NE(MAP_FAILED, address);
        return (char*)address;
    }

    /* Registrations that the devices make for so many rounds of the same memory */
    uint64_t rounds(unsigned count, void *address, size_t length)
    {
        uint64_t before = registrations();
        uct_mem_h memh;

        for (unsigned i = 0; i < count; ++i) {
            EXPECT_EQ(UCS_OK, uct_md_mem_reg(a->md, address, length,
                                             UCT_MD_MEM_ACCESS_ALL, &memh));
            EXPECT_EQ(UCS_OK, uct_md_mem_dereg(a->md, memh));
        }

        return registrations() - before;
    }
};

TEST_F(rcache_test, memory_is_registered_once)
{
    char *data = map(1 << 20);
    uint64_t before;

    open();
    settle();
    EXPECT_EQ(1u, rounds(100, data, 1 << 20));
    EXPECT_EQ(0u, rounds(100, data + 4096, 100000)); /* a part of it */
    EXPECT_LT(a->md_attr.reg_cost.c, 1e-6); /* UCP chooses protocols by it */
    EXPECT_EQ(0, a->md_attr.reg_cost.m);
    before = deregistrations();
    munmap(data, 1 << 20);
    a.reset();
    EXPECT_LT(before, deregistrations()); /* the fabric reports what leaks */
}

TEST_F(rcache_test, can_be_switched_off)
{
    char *data = map(4096);

    setenv("UCX_VQP_RCACHE", "n", 1);
    open();
    settle();
    EXPECT_EQ(10u, rounds(10, data, 4096));
    {
        memory target(*a, 4096, data);
        target.revoke();
    }
    EXPECT_GT(a->md_attr.reg_cost.c, 1e-6);
    munmap(data, 4096);
}

/* The peer gets what is there now */
TEST_F(rcache_test, memory_that_was_unmapped_is_registered_anew)
{
    const size_t length = 1 << 20;
    char *data          = map(length);

    open();
    settle();
    memory target(*b, length);
    for (unsigned seed = 1; seed <= 3; ++seed) {
        memory source(*a, length, data);
        uct_iov_t iov = source.iov(0, length);
        completion comp;

        source.fill(seed);
        ASSERT_EQ(UCS_INPROGRESS, ab->retry([&] {
            return uct_ep_put_zcopy(*ab, &iov, 1, target.addr(), target.rkey(),
                                    &comp.super);
        }));
        ASSERT_TRUE(until([&] { return comp.calls == 1; }));
        EXPECT_EQ(UCS_OK, comp.status);
        EXPECT_EQ(0, memcmp(target.data, data, length)) << seed;
        source.deregister();

        munmap(data, length);
        ASSERT_EQ(data, map(length, data));
    }
    EXPECT_EQ(1u, rounds(2, data, length));
    munmap(data, length);
}

/* Who maps memory for reading first may write to it later; nothing tells the cache */
TEST_F(rcache_test, memory_that_becomes_writable_is_registered_anew)
{
    const size_t length = 8192;
    char *data          = map(length);

    ASSERT_EQ(0, mprotect(data, length, PROT_READ));
    open();
    settle();
    connect_back();
    EXPECT_LE(3u, rounds(3, data, length)); /* none is kept */
    ASSERT_EQ(0, mprotect(data, length, PROT_READ | PROT_WRITE));
    {
        memory source(*b, length);
        memory target(*a, length, data);
        uct_iov_t iov = source.iov(0, length);
        completion comp;

        source.fill(5);
        ASSERT_EQ(UCS_INPROGRESS, ba->retry([&] {
            return uct_ep_put_zcopy(*ba, &iov, 1, target.addr(), target.rkey(),
                                    &comp.super);
        }));
        ASSERT_TRUE(until([&] { return comp.calls == 1; }));
        EXPECT_EQ(UCS_OK, comp.status);
        EXPECT_EQ(0, memcmp(source.data, data, length));
    }
    EXPECT_EQ(0u, rounds(3, data, length));
    munmap(data, length);
}

/* Two handles are one registration: it ends with the second */
TEST_F(rcache_test, an_invalidation_completes_when_nobody_uses_the_memory)
{
    const size_t length = 4096;
    char *data          = map(length);
    completion invalidated;

    open();
    settle();
    memory first(*a, length, data);
    memory second(*a, length, data);
    std::string old = first.packed_key();

    EXPECT_EQ(old, second.packed_key());
    ASSERT_EQ(UCS_OK, first.invalidate(invalidated));
    EXPECT_EQ(0u, invalidated.calls);
    {
        memory third(*a, length, data);
        EXPECT_NE(old, third.packed_key());
    }
    EXPECT_EQ(0u, invalidated.calls);
    second.deregister();
    EXPECT_EQ(1u, invalidated.calls);
    EXPECT_EQ(UCS_OK, invalidated.status);
    munmap(data, length);
}

TEST_F(rcache_test, after_a_failure_memory_can_be_registered)
{
    char *data = map(4096);
    uct_mem_h memh;

    open();
    settle();
    faults("call verb=reg_mr nth=1 count=all errno=ENOMEM");
    {
        log_capture log;
        EXPECT_EQ(UCS_ERR_NO_MEMORY, uct_md_mem_reg(a->md, data, 4096,
                                                    UCT_MD_MEM_ACCESS_ALL, &memh));
        EXPECT_TRUE(log_capture::has("4096 bytes")) << log_capture::text();
    }
    count_registrations();
    EXPECT_EQ(1u, rounds(3, data, 4096));
    munmap(data, 4096);
}

/* UCX merges what overlaps: what can not be written must not take the rest along */
TEST_F(rcache_test, memory_beside_read_only_memory_stays_writable)
{
    const size_t part = 64 << 10;
    char *data        = map(3 * part);

    open();
    settle();
    rounds(1, data, 2 * part);
    ASSERT_EQ(0, mprotect(data, part, PROT_READ));
    memory source(*a, 2 * part);
    {
        memory target(*b, 2 * part, data + part);
        memory other(*a, 2 * part, data + part);
        uct_iov_t iov = source.iov(0, 2 * part);
        completion comp;

        source.fill(6);
        ASSERT_EQ(UCS_INPROGRESS, ab->retry([&] {
            return uct_ep_put_zcopy(*ab, &iov, 1, target.addr(), target.rkey(),
                                    &comp.super);
        }));
        ASSERT_TRUE(until([&] { return comp.calls == 1; }));
        EXPECT_EQ(UCS_OK, comp.status);

        completion got;
        iov = other.iov(0, 2 * part); /* its domain had the merged region */
        ASSERT_EQ(UCS_INPROGRESS, ab->retry([&] {
            return uct_ep_get_zcopy(*ab, &iov, 1, target.addr(), target.rkey(),
                                    &got.super);
        }));
        ASSERT_TRUE(until([&] { return got.calls == 1; }));
        EXPECT_EQ(UCS_OK, got.status);
    }
    munmap(data, 3 * part);
}

/* What is kept must not take what the process may still pin */
VQP_ROLE(pins_many)
{
    const struct rlimit limit = {8 << 20, 8 << 20};
    const size_t length       = 5 << 20;

    unsetenv("UCX_VQP_RCACHE");
    node self(0);
    uct_mem_h memh;
    char *data[2];

    /* the domain asks for the limit when it is opened */
    if ((setrlimit(RLIMIT_MEMLOCK, &limit) != 0) ||
        ((geteuid() == 0) && (setresuid(65534, 65534, 65534) != 0))) {
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

TEST_F(rcache_test, with_a_lock_limit_nothing_is_kept)
{
    process child("pins_many");
    std::string line = child.read();
    int status       = child.wait();

    if (status == 77) {
        GTEST_SKIP() << "the limit can not be set";
    }
    EXPECT_EQ("ok", line);
    EXPECT_EQ(0, status);
}

/* What it is for: UCP registers the memory of each large message, and deregisters it */
TEST_F(rcache_test, large_messages_of_ucp_are_registered_once)
{
    const size_t length = 256 << 10;
    std::string data(length, 'x'), got(length, '\0');
    ucp_side receiver(devices().back(), UCS_THREAD_MODE_SINGLE);
    ucp_side sender(devices().front(), UCS_THREAD_MODE_SINGLE);
    uint64_t before = 0;

    sender.connect(receiver);
    for (unsigned i = 0; i < 20; ++i) {
        void *in  = receiver.receive(&got[0], length, 1);
        void *out = sender.send(data.data(), length, 1);
        bool in_done = false, out_done = false;

        ASSERT_TRUE(until([&] {
            sender.progress();
            receiver.progress();
            in_done  = in_done || ucp_side::test(in);
            out_done = out_done || ucp_side::test(out);
            return in_done && out_done;
        }));
        ASSERT_EQ(data, got);
        got.assign(length, '\0');
        if (i == 4) {
            before = registrations();
        }
    }
    EXPECT_EQ(before, registrations());
}

#endif
