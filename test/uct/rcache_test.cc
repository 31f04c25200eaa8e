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
        if (vqp_fabric() != nullptr) {
            faults("");
        }
        uct_test::TearDown();
    }

    /* Calls are counted while a rule is in force: one that fails none */
    static void count_registrations() { faults("call verb=reg_mr nth=1000000"); }
    static uint64_t registrations() { return vqp_fabric()->calls("reg_mr"); }

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

    /* All of a buffer, as it is now */
    void put(endpoint &ep, memory &source, memory &target, unsigned seed)
    {
        uct_iov_t iov = source.iov(0, source.length);
        completion comp;

        source.fill(seed);
        ASSERT_EQ(UCS_INPROGRESS, ep.retry([&] {
            return uct_ep_put_zcopy(ep, &iov, 1, target.addr(), target.rkey(),
                                    &comp.super);
        }));
        ASSERT_TRUE(until([&] { return comp.calls == 1; }));
        EXPECT_EQ(UCS_OK, comp.status);
        EXPECT_EQ(0, memcmp(target.data, source.data, source.length)) << seed;
    }
};

TEST_F(rcache_test, memory_is_registered_once)
{
    char *data = map(1 << 20);

    open();
    settle();
    EXPECT_EQ(1u, rounds(100, data, 1 << 20));
    EXPECT_EQ(0u, rounds(100, data + 4096, 100000)); /* a part of it */
    EXPECT_LT(a->md_attr.reg_cost.c, 1e-6); /* UCP chooses protocols by it */
    EXPECT_EQ(0, a->md_attr.reg_cost.m);
    munmap(data, 1 << 20);
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

        put(*ab, source, target, seed);
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

        put(*ba, source, target, 5);
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
    connect_back();
    rounds(1, data, 2 * part);
    ASSERT_EQ(0, mprotect(data, part, PROT_READ));
    {
        memory source(*b, 2 * part);
        memory target(*a, 2 * part, data + part);

        put(*ba, source, target, 6);
    }
    munmap(data, 3 * part);
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
