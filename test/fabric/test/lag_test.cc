/*
 * Bonded ports of an mlx5 device, by the calls of mlx5dv: who gets which port, what the
 * calls say, and what takes which link. The layouts are in main.cc: two member ports, or
 * four, of 1000 Mb/s each.
 */
#include "fabric_fixture.h"

#include <dlfcn.h>

#if __has_include(<infiniband/mlx5dv.h>)
#include <infiniband/mlx5dv.h>

#include <set>

namespace {

template <typename func> func *call(func*, const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);

    EXPECT_NE(nullptr, found) << name;
    return (func*)found;
}

#define CALL(_name) call((decltype(&_name))nullptr, #_name)

class mlx5_test : public fabric_test {
protected:
    void SetUp() override
    {
        fabric_test::SetUp();
        open();
    }

    bool is_mlx5() { return CALL(mlx5dv_is_supported)(dev->context->device); }

    int num_ports()
    {
        struct mlx5dv_context attr = {};

        attr.comp_mask = MLX5DV_CONTEXT_MASK_NUM_LAG_PORTS;
        return (CALL(mlx5dv_query_device)(dev->context, &attr) == 0) ?
                       attr.num_lag_ports : -1;
    }

    int query(endpoint &ep, uint8_t *port)
    {
        uint8_t active = 0;
        int ret        = CALL(mlx5dv_query_qp_lag_port)(ep.qp, port, &active);

        EXPECT_EQ((ret == 0) ? *port : 0, active);
        return ret;
    }

    unsigned port_of(endpoint &ep)
    {
        uint8_t port = 0;

        EXPECT_EQ(0, query(ep, &port));
        return port;
    }

    int pin(endpoint &ep, uint8_t port)
    {
        return CALL(mlx5dv_modify_qp_lag_port)(ep.qp, port);
    }

    int set_sport(endpoint &ep, uint16_t port)
    {
        return CALL(mlx5dv_modify_qp_udp_sport)(ep.qp, port);
    }

    unsigned link(endpoint &ep)
    {
        vqp_fabric_path_t path = {};

        EXPECT_EQ(0, fabric().qp_path(ep.dev.name().c_str(), ep.qp->qp_num,
                                      &path));
        return path.link;
    }

    /* Seconds of writes of both, which were posted at the same time */
    double seconds(endpoint &first, endpoint &second)
    {
        double begin = now();

        for (unsigned i = 0; i < 8; ++i) {
            EXPECT_EQ(0, first.post(IBV_WR_RDMA_WRITE, second, 4096));
            EXPECT_EQ(0, second.post(IBV_WR_RDMA_WRITE, first, 4096));
        }
        EXPECT_EQ(8u, first.drain(8).size());
        EXPECT_EQ(8u, second.drain(8).size());
        return now() - begin;
    }
};

TEST_F(mlx5_test, without_the_option_no_device_is_one)
{
    uint8_t port = 0;

    EXPECT_FALSE(is_mlx5());
    EXPECT_EQ(-1, num_ports());
    EXPECT_EQ(EOPNOTSUPP, query(*a, &port));
    EXPECT_EQ(EOPNOTSUPP, pin(*a, 1));
    EXPECT_EQ(EOPNOTSUPP, set_sport(*a, 50000));
}

class lag_affinity : public mlx5_test {};

TEST_F(lag_affinity, queue_pairs_of_a_context_take_turns)
{
    endpoint third(*dev), fourth(*dev);

    EXPECT_TRUE(is_mlx5());
    EXPECT_EQ(2, num_ports());
    ASSERT_EQ(0, third.to_init());
    ASSERT_EQ(0, fourth.to_init());
    EXPECT_NE(port_of(*a), port_of(*b));
    EXPECT_EQ(port_of(*a), port_of(third));
    EXPECT_EQ(port_of(*b), port_of(fourth));
}

TEST_F(lag_affinity, a_port_is_set_in_rts_and_is_the_link)
{
    endpoint fresh(*dev);

    for (uint8_t port : {1, 2, 1}) {
        EXPECT_EQ(0, pin(*a, port));
        EXPECT_EQ(port, port_of(*a));
        EXPECT_EQ(port - 1u, link(*a));
    }
    EXPECT_EQ(EINVAL, pin(*a, 0));
    EXPECT_EQ(EINVAL, pin(*a, 3));
    ASSERT_EQ(0, fresh.to_init());
    EXPECT_EQ(EOPNOTSUPP, pin(fresh, 1));
}

TEST_F(lag_affinity, the_source_port_does_not_choose_the_link)
{
    unsigned before = link(*a);

    for (uint16_t port = 50000; port < 50032; ++port) {
        EXPECT_EQ(0, set_sport(*a, port));
        EXPECT_EQ(before, link(*a));
    }
}

TEST_F(lag_affinity, queue_pairs_of_a_port_share_its_rate)
{
    EXPECT_EQ(0, pin(*a, 1));
    EXPECT_EQ(0, pin(*b, 2));
    double apart = seconds(*a, *b);

    EXPECT_EQ(0, pin(*b, 1));
    double together = seconds(*a, *b);

    EXPECT_GT(together, 1.8 * apart);
    EXPECT_LT(together, 2.2 * apart);
}

TEST_F(lag_affinity, a_fault_fails_a_call)
{
    faults("call verb=modify_qp_lag_port nth=1 errno=EIO; "
           "call verb=query_qp_lag_port nth=1 errno=EPERM");
    uint8_t port = 0;

    EXPECT_EQ(EIO, pin(*a, 1));
    EXPECT_EQ(0, pin(*a, 1));
    EXPECT_EQ(EPERM, query(*a, &port));
    EXPECT_EQ(2u, fabric().calls("modify_qp_lag_port"));
}

class lag_hash : public mlx5_test {};

TEST_F(lag_hash, queue_pairs_have_no_port_and_the_source_port_chooses_the_link)
{
    std::set<unsigned> links;
    uint8_t port = 0;

    EXPECT_EQ(2, num_ports());
    EXPECT_EQ(EOPNOTSUPP, query(*a, &port));
    EXPECT_EQ(0, port);
    EXPECT_EQ(EOPNOTSUPP, pin(*a, 1));
    for (uint16_t number = 50000; number < 50032; ++number) {
        EXPECT_EQ(0, set_sport(*a, number));
        links.insert(link(*a));
    }
    EXPECT_EQ(2u, links.size());
}

class lag_reset : public mlx5_test {};

TEST_F(lag_reset, a_queue_pair_gets_another_port_in_rts)
{
    endpoint fresh(*dev);

    ASSERT_EQ(0, fresh.to_init());
    unsigned before = port_of(fresh);
    union ibv_gid gid = {};
    ASSERT_EQ(0, ibv_query_gid(dev->context, 1, 0, &gid));
    ASSERT_EQ(0, fresh.to_rtr(a->qp->qp_num, gid, 0));
    EXPECT_EQ(before, port_of(fresh));
    ASSERT_EQ(0, fresh.to_rts());
    EXPECT_NE(before, port_of(fresh));
}

class lag_four : public mlx5_test {};

/* As libmlx5 */
TEST_F(lag_four, ports_beyond_the_second_have_no_known_active_one)
{
    uint8_t port = 0;

    EXPECT_EQ(4, num_ports());
    EXPECT_EQ(0, pin(*a, 2));
    EXPECT_EQ(0, query(*a, &port));
    EXPECT_EQ(0, pin(*a, 4));
    EXPECT_EQ(EOPNOTSUPP, query(*a, &port));
    EXPECT_EQ(4, port);
    EXPECT_EQ(3u, link(*a));
}

} /* namespace */

#endif
