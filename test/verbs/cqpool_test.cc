/*
 * The pool of completion queues: it grows, splits at the limit, and never
 * promises more slots than there are.
 */
#include "verbs_fixture.h"

#include "test/fabric/fabric.h"

class cqpool : public verbs_test {
protected:
    void TearDown() override
    {
        if (vqp_fabric() != NULL) {
            vqp_fabric()->faults(NULL, NULL, 0);
        }
        verbs_test::TearDown();
    }

    void faults(const char *script)
    {
        char error[128] = "";

        ASSERT_EQ(0, vqp_fabric()->faults(script, error, sizeof(error))) << error;
    }

    void init(uint32_t initial, uint32_t max)
    {
        vqp_ib_cq_pool_params_t params = {initial, max};

        ASSERT_EQ(VQP_OK, vqp_ib_cq_pool_init(&pool, &a->dev, &params));
    }

    void check()
    {
        for (unsigned i = 0; i < pool.num_cqs; ++i) {
            EXPECT_LE(pool.cqs[i].reserved, pool.cqs[i].depth);
        }
    }

    vqp_ib_cq_pool_t pool;
};

/* Queues that are never resized */
class cqpool_fixed : public cqpool {
protected:
    void SetUp() override
    {
        cqpool::SetUp();
        if (!IsSkipped() && (vqp_fabric() == NULL)) {
            GTEST_SKIP() << "needs faults of the fabric";
        }
    }
};

TEST_F(cqpool, grows_in_place_up_to_the_limit)
{
    unsigned index;

    init(16, 1024);
    for (int i = 0; i < 10; ++i) {
        ASSERT_EQ(VQP_OK, vqp_ib_cq_pool_reserve(&pool, 100, VQP_IB_LOG_ERROR, &index));
        EXPECT_EQ(0u, index);
        check();
    }
    EXPECT_EQ(1u, pool.num_cqs);
    EXPECT_GE(pool.cqs[0].depth, 1000u);
    vqp_ib_cq_pool_cleanup(&pool);
}

TEST_F(cqpool, opens_a_further_queue_at_the_limit)
{
    unsigned index;

    init(16, 200);
    ASSERT_EQ(VQP_OK, vqp_ib_cq_pool_reserve(&pool, 150, VQP_IB_LOG_ERROR, &index));
    EXPECT_EQ(0u, index);
    ASSERT_EQ(VQP_OK, vqp_ib_cq_pool_reserve(&pool, 150, VQP_IB_LOG_ERROR, &index));
    EXPECT_EQ(1u, index);
    EXPECT_NE(pool.cqs[0].cq, pool.cqs[1].cq);
    /* Later reservations that fit the first queue use it */
    ASSERT_EQ(VQP_OK, vqp_ib_cq_pool_reserve(&pool, 40, VQP_IB_LOG_ERROR, &index));
    EXPECT_EQ(0u, index);
    check();
    vqp_ib_cq_pool_cleanup(&pool);
}

TEST_F(cqpool, reservation_is_extended_on_its_own_queue)
{
    unsigned index;

    init(16, 200);
    ASSERT_EQ(VQP_OK, vqp_ib_cq_pool_reserve(&pool, 100, VQP_IB_LOG_ERROR, &index));
    ASSERT_EQ(VQP_OK, vqp_ib_cq_pool_extend(&pool, index, 60)); /* it grows */
    check();
    EXPECT_EQ(160u, pool.cqs[index].reserved);
    EXPECT_EQ(VQP_ERR_EXCEEDS_LIMIT, vqp_ib_cq_pool_extend(&pool, index, 60));
    EXPECT_EQ(160u, pool.cqs[index].reserved);
    EXPECT_EQ(1u, pool.num_cqs);
    vqp_ib_cq_pool_release(&pool, index, 160);
    EXPECT_EQ(0u, pool.cqs[index].reserved);
    vqp_ib_cq_pool_cleanup(&pool);
}

TEST_F(cqpool, released_slots_are_used_again)
{
    unsigned index;

    init(16, 64);
    for (int i = 0; i < 500; ++i) {
        ASSERT_EQ(VQP_OK, vqp_ib_cq_pool_reserve(&pool, 60, VQP_IB_LOG_ERROR, &index));
        EXPECT_EQ(0u, index);
        vqp_ib_cq_pool_release(&pool, index, 60);
    }
    EXPECT_EQ(1u, pool.num_cqs);
    vqp_ib_cq_pool_cleanup(&pool);
}

TEST_F(cqpool, more_than_one_queue_can_hold_is_refused_with_the_numbers)
{
    log_capture log;
    unsigned index;

    init(16, 100);
    EXPECT_EQ(VQP_ERR_EXCEEDS_LIMIT,
              vqp_ib_cq_pool_reserve(&pool, 101, VQP_IB_LOG_ERROR, &index));
    EXPECT_TRUE(log.has("101 requests"));
    EXPECT_TRUE(log.has("100 entries"));
    EXPECT_EQ(VQP_OK, vqp_ib_cq_pool_reserve(&pool, 100, VQP_IB_LOG_ERROR, &index));
    vqp_ib_cq_pool_cleanup(&pool);
}

/* Since the first one: a path stays on its queue when it needs more */
TEST_F(cqpool_fixed, device_without_resize_gets_large_queues)
{
    unsigned index;

    faults("call verb=resize_cq nth=1 count=all errno=EOPNOTSUPP");
    init(16, 256);
    EXPECT_EQ(1u, pool.num_cqs);
    EXPECT_EQ(256u, pool.cqs[0].depth);
    ASSERT_EQ(VQP_OK, vqp_ib_cq_pool_reserve(&pool, 100, VQP_IB_LOG_ERROR, &index));
    EXPECT_EQ(0u, index);
    ASSERT_EQ(VQP_OK, vqp_ib_cq_pool_reserve(&pool, 29, VQP_IB_LOG_ERROR, &index));
    EXPECT_EQ(1u, index); /* the rest of the first one is for the path that is there */
    ASSERT_EQ(VQP_OK, vqp_ib_cq_pool_extend(&pool, 0, 156));
    check();
    vqp_ib_cq_pool_cleanup(&pool);

    init(16, 0); /* not what the device can, which may be hundreds of megabytes */
    EXPECT_EQ(65535u, pool.cqs[0].depth);
    vqp_ib_cq_pool_cleanup(&pool);
}

/* As with a limit of locked memory */
TEST_F(cqpool_fixed, device_without_resize_gets_what_it_can)
{
    log_capture log;

    a->dev.vendor_id = 0x14e4;
    faults("call verb=create_cq nth=1 count=3 errno=ENOMEM");
    init(16, 0);
    EXPECT_EQ(8191u, pool.cqs[0].depth);
    vqp_ib_cq_pool_cleanup(&pool);

    vqp_ib_cq_pool_params_t params = {200, 0};

    faults("call verb=create_cq nth=1 count=all errno=ENOMEM");
    EXPECT_EQ(VQP_ERR_NO_MEMORY, vqp_ib_cq_pool_init(&pool, &a->dev, &params));
    EXPECT_TRUE(log.has("ibv_create_cq(255)"));
}

/* Its provider unmaps a queue that the kernel does not resize */
TEST_F(cqpool_fixed, queues_of_bnxt_are_never_resized)
{
    unsigned index;

    a->dev.vendor_id = 0x14e4;
    init(16, 0);
    EXPECT_EQ(65535u, pool.cqs[0].depth);
    ASSERT_EQ(VQP_OK, vqp_ib_cq_pool_reserve(&pool, 60000, VQP_IB_LOG_ERROR, &index));
    ASSERT_EQ(VQP_OK, vqp_ib_cq_pool_reserve(&pool, 60000, VQP_IB_LOG_ERROR, &index));
    EXPECT_EQ(1u, index);
    EXPECT_EQ(0u, vqp_fabric()->calls("resize_cq"));
    vqp_ib_cq_pool_cleanup(&pool);
}

/* A queue that can not grow now, for lack of memory, may later */
TEST_F(cqpool_fixed, device_that_can_resize_is_asked_again)
{
    unsigned index;

    init(16, 0);
    faults("call verb=resize_cq nth=1 errno=ENOMEM");
    ASSERT_EQ(VQP_OK, vqp_ib_cq_pool_reserve(&pool, 100, VQP_IB_LOG_ERROR, &index));
    EXPECT_EQ(1u, index);
    EXPECT_EQ(127u, pool.cqs[1].depth);
    ASSERT_EQ(VQP_OK, vqp_ib_cq_pool_reserve(&pool, 100, VQP_IB_LOG_ERROR, &index));
    EXPECT_EQ(0u, index);
    EXPECT_EQ(2u, pool.num_cqs);
    vqp_ib_cq_pool_cleanup(&pool);
}

TEST_F(cqpool, number_of_queues_is_bounded)
{
    log_capture log;
    unsigned index;

    init(1, 8);
    while (vqp_ib_cq_pool_reserve(&pool, 8, VQP_IB_LOG_ERROR, &index) == VQP_OK) {
        ASSERT_LT(index, (unsigned)VQP_IB_CQ_POOL_MAX);
    }
    EXPECT_EQ((unsigned)VQP_IB_CQ_POOL_MAX, pool.num_cqs);
    EXPECT_TRUE(log.has("are full"));
    check();
    vqp_ib_cq_pool_cleanup(&pool);
}
