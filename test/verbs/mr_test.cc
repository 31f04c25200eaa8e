/*
 * Registration: one handle over several rails, and the reasons of failures.
 */
#include "qp_end.h"
#include "verbs_fixture.h"

#include "test/fabric/fabric.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <linux/capability.h>

class mr : public verbs_test {
protected:
    enum { PAGE = 4096, LENGTH = 16 * PAGE };

    void *map(int prot)
    {
        void *p = mmap(nullptr, LENGTH, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                       0);

        EXPECT_NE(MAP_FAILED, p);
        return p;
    }

    vqp_status_t reg(void *address, size_t length, unsigned access,
                     unsigned optional = 0, unsigned num_rails = 1)
    {
        vqp_ib_mr_params_t params = {address, length, access, optional,
                                     VQP_IB_LOG_ERROR, parallel, dmabuf};
        vqp_ib_dev_t *devs[] = {&a->dev, &b->dev};

        return vqp_ib_mr_reg(&memh, devs, num_rails, &params);
    }

    static const unsigned all = VQP_IB_ACCESS_LOCAL_WRITE |
                                VQP_IB_ACCESS_REMOTE_WRITE |
                                VQP_IB_ACCESS_REMOTE_READ |
                                VQP_IB_ACCESS_REMOTE_ATOMIC;

    vqp_ib_mr_t memh;
    size_t      parallel = 0; /* as in the parameters */
    const vqp_ib_dmabuf_t *dmabuf = nullptr;
};

TEST_F(mr, each_rail_has_its_own_keys)
{
    void *p = map(PROT_READ | PROT_WRITE);

    ASSERT_EQ(VQP_OK, reg(p, LENGTH, all, VQP_IB_ACCESS_RELAXED_ORDERING, 2));
    EXPECT_EQ(2, memh.num_rails);
    EXPECT_EQ(memh.mr[0]->lkey, memh.lkey[0]);
    EXPECT_EQ(memh.mr[1]->rkey, memh.rkey[1]);
    EXPECT_NE(memh.mr[0], memh.mr[1]);
    EXPECT_EQ(VQP_OK, vqp_ib_mr_dereg(&memh));
    munmap(p, LENGTH);
}

TEST_F(mr, failure_on_the_second_rail_undoes_the_first)
{
    log_capture log;
    void *p       = map(PROT_READ | PROT_WRITE);
    uint64_t save = b->dev.caps.max_mr_size;

    b->dev.caps.max_mr_size = PAGE;
    EXPECT_EQ(VQP_ERR_INVALID_PARAM, reg(p, LENGTH, all, 0, 2));
    EXPECT_EQ(0, memh.num_rails);
    EXPECT_TRUE(log.has("limit is 4096"));
    b->dev.caps.max_mr_size = save;

    /* A registration that was left behind keeps its PD from going */
    log.text().clear();
    delete a;
    a = nullptr;
    EXPECT_FALSE(log.has("failed"));
    munmap(p, LENGTH);
}

TEST_F(mr, large_memory_is_registered_on_all_rails_at_once)
{
    void *p = map(PROT_READ | PROT_WRITE);

    parallel = LENGTH;
    ASSERT_EQ(VQP_OK, reg(p, LENGTH, all, 0, 2));
    EXPECT_TRUE(memh.is_parallel);
    EXPECT_EQ(2, memh.num_rails);
    EXPECT_EQ(memh.mr[0]->lkey, memh.lkey[0]);
    EXPECT_EQ(memh.mr[1]->rkey, memh.rkey[1]);
    EXPECT_EQ(a->dev.pd, memh.mr[0]->pd);
    EXPECT_EQ(b->dev.pd, memh.mr[1]->pd);
    EXPECT_EQ(VQP_OK, vqp_ib_mr_dereg(&memh));

    ASSERT_EQ(VQP_OK, reg(p, LENGTH - 1, all, 0, 2));
    EXPECT_FALSE(memh.is_parallel);
    EXPECT_EQ(VQP_OK, vqp_ib_mr_dereg(&memh));
    ASSERT_EQ(VQP_OK, reg(p, LENGTH, all, 0, 1));
    EXPECT_FALSE(memh.is_parallel);
    EXPECT_EQ(VQP_OK, vqp_ib_mr_dereg(&memh));
    munmap(p, LENGTH);
}

TEST_F(mr, read_only_memory_registered_at_once_drops_the_writes_on_all_rails)
{
    void *p = map(PROT_READ);

    parallel = LENGTH;
    ASSERT_EQ(VQP_OK, reg(p, LENGTH, VQP_IB_ACCESS_REMOTE_READ,
                          VQP_IB_ACCESS_LOCAL_WRITE, 2));
    EXPECT_EQ((unsigned)VQP_IB_ACCESS_REMOTE_READ, memh.access);
    EXPECT_EQ(VQP_OK, vqp_ib_mr_dereg(&memh));
    munmap(p, LENGTH);
}

/* The fabric fails the first or the second registration of the two */
TEST_F(mr, one_that_fails_undoes_the_other_one_after_the_other_or_at_once)
{
    const vqp_fabric_t *fabric = vqp_fabric();
    void *p                    = map(PROT_READ | PROT_WRITE);
    vqp_fabric_objects_t before, after;

    if (fabric == nullptr) {
        GTEST_SKIP() << "needs the software fabric";
    }

    fabric->objects(&before);
    for (size_t from : {0, 1}) {
        for (std::string nth : {"1", "2"}) {
            log_capture log;

            parallel = from;
            ASSERT_EQ(0, fabric->faults(("call verb=reg_mr nth=" + nth +
                                         " errno=EINVAL").c_str(), nullptr, 0));
            EXPECT_NE(VQP_OK, reg(p, LENGTH, all, 0, 2));
            EXPECT_EQ(1u, fabric->fault_hits());
            EXPECT_TRUE(log.has("failed to register")) << log.text();
            fabric->faults(nullptr, nullptr, 0);
            fabric->objects(&after);
            EXPECT_EQ(before.mrs, after.mrs);
        }
    }
    munmap(p, LENGTH);
}

/* A memfd stands for the memory of a GPU: the fabric takes it for a dmabuf */
class dmabuf_mr : public mr {
protected:
    void SetUp() override
    {
        mr::SetUp();
        if (IsSkipped()) {
            return;
        }
        if ((vqp_fabric() == nullptr) || !vqp_ib_mr_has_dmabuf(&a->dev)) {
            GTEST_SKIP() << "needs the software fabric, with dmabuf";
        }
        source.fd     = memfd_create("dmabuf", MFD_CLOEXEC);
        source.offset = PAGE;
        dmabuf        = &source;
        ASSERT_EQ(0, ftruncate(source.fd, LENGTH));
    }

    void TearDown() override
    {
        if (dmabuf != nullptr) {
            close(source.fd);
        }
        mr::TearDown();
    }

    vqp_ib_dmabuf_t source;
    char            there[2 * PAGE]; /* addresses, with nothing registered at them */
};

TEST_F(dmabuf_mr, writes_go_to_the_descriptors_memory)
{
    qp_end from(a), to(b);
    vqp_ib_dev_t *devs[]      = {&b->dev};
    vqp_ib_mr_params_t params = {to.buffer, PAGE, all, 0, VQP_IB_LOG_ERROR, 0, dmabuf};
    char byte;

    from.connect(to, 1, 2);
    to.connect(from, 2, 1);
    ASSERT_EQ(VQP_OK, vqp_ib_mr_dereg(&to.mr));
    ASSERT_EQ(VQP_OK, vqp_ib_mr_reg(&to.mr, devs, 1, &params));
    from.buffer[99] = 'x';
    from.write_imm(to, 1, 100);
    EXPECT_EQ(IBV_WC_SUCCESS, from.wait_wc().status);
    EXPECT_EQ(0, to.buffer[99]);
    ASSERT_EQ(1, pread(source.fd, &byte, 1, PAGE + 99));
    EXPECT_EQ('x', byte);
}

TEST_F(dmabuf_mr, each_rail_registers_it_alone_or_at_once)
{
    for (size_t from : {0, 1}) {
        parallel = from;
        ASSERT_EQ(VQP_OK, reg(there, PAGE, all, 0, 2));
        EXPECT_EQ(2, memh.num_rails);
        EXPECT_NE(memh.mr[0], memh.mr[1]);
        EXPECT_EQ(VQP_OK, vqp_ib_mr_dereg(&memh));
    }
}

TEST_F(dmabuf_mr, beyond_its_end_and_other_descriptors_are_refused)
{
    log_capture log;
    int fd = source.fd;

    source.offset = LENGTH - PAGE + 1;
    EXPECT_EQ(VQP_ERR_INVALID_PARAM, reg(there, PAGE, all));
    EXPECT_TRUE(log.has("at offset " + std::to_string(LENGTH - PAGE + 1)));
    EXPECT_TRUE(log.has("descriptor " + std::to_string(fd)));

    source.offset = 0;
    int null      = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int other : {null, 9999}) {
        source.fd = other;
        EXPECT_EQ(VQP_ERR_INVALID_PARAM, reg(there, PAGE, all)) << other;
        EXPECT_TRUE(log.has("descriptor " + std::to_string(other)));
    }
    close(null);
    source.fd = fd;
}

TEST_F(mr, length_zero_is_refused)
{
    log_capture log;
    char byte;

    EXPECT_EQ(VQP_ERR_INVALID_PARAM, reg(&byte, 0, all));
    EXPECT_TRUE(log.has("length is 0"));
}

TEST_F(mr, remote_write_implies_local_write)
{
    char buffer[64];

    ASSERT_EQ(VQP_OK, reg(buffer, sizeof(buffer), VQP_IB_ACCESS_REMOTE_WRITE));
    EXPECT_TRUE(memh.access & VQP_IB_ACCESS_LOCAL_WRITE);
    EXPECT_EQ(VQP_OK, vqp_ib_mr_dereg(&memh));
}

TEST_F(mr, read_only_memory_drops_the_optional_writes)
{
    void *p = map(PROT_READ);

    ASSERT_EQ(VQP_OK, reg(p, LENGTH, VQP_IB_ACCESS_REMOTE_READ,
                          VQP_IB_ACCESS_LOCAL_WRITE, 2));
    EXPECT_EQ((unsigned)VQP_IB_ACCESS_REMOTE_READ, memh.access);
    EXPECT_EQ(VQP_OK, vqp_ib_mr_dereg(&memh));
    munmap(p, LENGTH);
}

TEST_F(mr, read_only_memory_refuses_demanded_writes)
{
    log_capture log;
    void *p = map(PROT_READ);

    EXPECT_EQ(VQP_ERR_INVALID_PARAM, reg(p, LENGTH, all));
    EXPECT_TRUE(log.has("not writable"));
    munmap(p, LENGTH);
}

TEST_F(mr, unmapped_memory_is_an_invalid_parameter)
{
    log_capture log;
    void *p = map(PROT_READ | PROT_WRITE);

    munmap(p, LENGTH);
    EXPECT_EQ(VQP_ERR_INVALID_PARAM, reg(p, LENGTH, all));
    EXPECT_TRUE(log.has("not mapped"));
    EXPECT_TRUE(log.has(a->dev.name));
}

TEST_F(mr, hidden_errors_are_silent)
{
    log_capture log;
    vqp_ib_dev_t *devs[]      = {&a->dev};
    vqp_ib_mr_params_t params = {nullptr, 4096, all, 0, VQP_IB_LOG_NONE, 0,
                                 nullptr};

    EXPECT_NE(VQP_OK, vqp_ib_mr_reg(&memh, devs, 1, &params));
    EXPECT_EQ("", log.text());
}

/* In a child that has no right to pass the limit */
static int register_beyond_memlock(const std::string &name)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    struct rlimit limit = {65536, 65536};
    vqp_ib_dev_t dev, *devs[] = {&dev};
    vqp_ib_mr_t memh;
    vqp_ib_mr_params_t params = {nullptr, 1 << 20, VQP_IB_ACCESS_LOCAL_WRITE, 0,
                                 VQP_IB_LOG_ERROR, 0, nullptr};
    log_capture log;

    if ((vqp_ib_dev_open(&dev, name.c_str()) != VQP_OK) ||
        (syscall(SYS_capget, &header, data) != 0)) {
        return 2;
    }

    data[0].effective &= ~(1u << CAP_IPC_LOCK);
    data[0].permitted &= ~(1u << CAP_IPC_LOCK);
    params.address = mmap(nullptr, params.length, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if ((setrlimit(RLIMIT_MEMLOCK, &limit) != 0) ||
        (syscall(SYS_capset, &header, data) != 0)) {
        return 3;
    }

    if (vqp_ib_mr_reg(&memh, devs, 1, &params) != VQP_ERR_EXCEEDS_LIMIT) {
        return 4;
    }
    if (vqp_ib_mr_limit() != 65536) {
        return 6;
    }

    return (log.has("RLIMIT_MEMLOCK") && log.has("65536") &&
            log.has("1048576")) ? 0 : 5;
}

TEST_F(mr, locked_memory_limit_is_named_with_its_numbers)
{
    std::string name = a->dev.name;
    pid_t pid        = fork();
    int status;

    if (pid == 0) {
        _exit(register_beyond_memlock(name));
    }

    ASSERT_EQ(pid, waitpid(pid, &status, 0));
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(0, WEXITSTATUS(status));
}
