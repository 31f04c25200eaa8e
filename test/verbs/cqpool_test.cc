/*
 * The pool of completion queues: it grows, splits at the limit, and never
 * promises more slots than there are.
 */
#include "verbs_fixture.h"

class cqpool : public verbs_test {
protected:
    void init(uint32_t initial, uint32_t max, uint32_t base)
    {
        vqp_ib_cq_pool_params_t params = {initial, max, base};

        ASSERT_EQ(VQP_OK, vqp_ib_cq_pool_init(&pool, &a->dev, &params));
    }

    void check()
    {
        for (unsigned i = 0; i < pool.num_cqs; ++i) {
            EXPECT_LE(pool.cqs[i].reserved, pool.cqs[i].depth);
            EXPECT_GE(pool.cqs[i].reserved, pool.params.base);
        }
    }

    vqp_ib_cq_pool_t pool;
};

TEST_F(cqpool, grows_in_place_up_to_the_limit)
{
    unsigned index;

    init(16, 1024, 8);
    for (int i = 0; i < 10; ++i) {
        ASSERT_EQ(VQP_OK, vqp_ib_cq_pool_reserve(&pool, 100, VQP_IB_LOG_ERROR, &index));
        EXPECT_EQ(0u, index);
        check();
    }
    EXPECT_EQ(1u, pool.num_cqs);
    EXPECT_GE(pool.cqs[0].depth, 1008u);
    vqp_ib_cq_pool_cleanup(&pool);
}

TEST_F(cqpool, opens_a_further_queue_at_the_limit)
{
    unsigned index;

    init(16, 256, 56);
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

/* Of each queue, the further ones too */
TEST_F(cqpool, every_queue_keeps_its_base_for_sends)
{
    unsigned mine[4] = {}, index;

    init(16, 64, 16);
    while (pool.num_cqs < 4) { /* three are full then, however large they are */
        ASSERT_EQ(VQP_OK, vqp_ib_cq_pool_reserve(&pool, 1, VQP_IB_LOG_ERROR, &index));
        ASSERT_LT(index, 4u);
        ++mine[index];
    }
    for (index = 0; index < 4; ++index) {
        EXPECT_GT(mine[index], 0u);
        EXPECT_LE(16 + mine[index], pool.cqs[index].depth) << index;
    }
    check();
    vqp_ib_cq_pool_cleanup(&pool);
}

TEST_F(cqpool, reservation_is_extended_on_its_own_queue)
{
    unsigned index;

    init(16, 256, 56);
    ASSERT_EQ(VQP_OK, vqp_ib_cq_pool_reserve(&pool, 100, VQP_IB_LOG_ERROR, &index));
    ASSERT_EQ(VQP_OK, vqp_ib_cq_pool_extend(&pool, index, 60)); /* it grows */
    check();
    EXPECT_EQ(56u + 160, pool.cqs[index].reserved);
    EXPECT_EQ(VQP_ERR_EXCEEDS_LIMIT, vqp_ib_cq_pool_extend(&pool, index, 60));
    EXPECT_EQ(56u + 160, pool.cqs[index].reserved);
    EXPECT_EQ(1u, pool.num_cqs);
    vqp_ib_cq_pool_release(&pool, index, 160);
    EXPECT_EQ(56u, pool.cqs[index].reserved);
    vqp_ib_cq_pool_cleanup(&pool);
}

TEST_F(cqpool, released_slots_are_used_again)
{
    unsigned index;

    init(16, 64, 4);
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

    init(16, 128, 28);
    EXPECT_EQ(VQP_ERR_EXCEEDS_LIMIT,
              vqp_ib_cq_pool_reserve(&pool, 101, VQP_IB_LOG_ERROR, &index));
    EXPECT_TRUE(log.has("101 receives"));
    EXPECT_TRUE(log.has("128 entries"));
    EXPECT_EQ(VQP_OK, vqp_ib_cq_pool_reserve(&pool, 100, VQP_IB_LOG_ERROR, &index));
    vqp_ib_cq_pool_cleanup(&pool);
}

TEST_F(cqpool, base_that_leaves_nothing_is_refused)
{
    log_capture log;
    vqp_ib_cq_pool_params_t params = {16, 64, 64};

    EXPECT_EQ(VQP_ERR_EXCEEDS_LIMIT,
              vqp_ib_cq_pool_init(&pool, &a->dev, &params));
    EXPECT_TRUE(log.has("64 outstanding sends"));
}

TEST_F(cqpool, device_without_resize_gets_large_queues)
{
    unsigned index;

    init(16, 256, 0);
    pool.no_resize = 1;
    ASSERT_EQ(VQP_OK, vqp_ib_cq_pool_reserve(&pool, 100, VQP_IB_LOG_ERROR, &index));
    EXPECT_EQ(1u, index);
    EXPECT_GE(pool.cqs[1].depth, 256u);
    ASSERT_EQ(VQP_OK, vqp_ib_cq_pool_reserve(&pool, 100, VQP_IB_LOG_ERROR, &index));
    EXPECT_EQ(1u, index);
    check();
    vqp_ib_cq_pool_cleanup(&pool);
}

TEST_F(cqpool, number_of_queues_is_bounded)
{
    log_capture log;
    unsigned index;

    init(1, 8, 0);
    while (vqp_ib_cq_pool_reserve(&pool, 8, VQP_IB_LOG_ERROR, &index) == VQP_OK) {
        ASSERT_LT(index, (unsigned)VQP_IB_CQ_POOL_MAX);
    }
    EXPECT_EQ((unsigned)VQP_IB_CQ_POOL_MAX, pool.num_cqs);
    EXPECT_TRUE(log.has("are full"));
    check();
    vqp_ib_cq_pool_cleanup(&pool);
}
