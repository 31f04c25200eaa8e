/*
 * The GID of a port gets another index while endpoints use it, as after a port flap, or is
 * gone for a while. The software fabric moves the GIDs.
 */
#include "failover_fixture.h"
#include "ucp_side.h"

namespace {

/* Ports of its memory domain that UCP would open */
unsigned listed(const node &which)
{
    uct_tl_resource_desc_t *ports;
    unsigned count = 0;

    EXPECT_EQ(UCS_OK, uct_md_query_tl_resources(which.md, &ports, &count));
    uct_release_tl_resource_list(ports);
    return count;
}

void skip_infiniband()
{
    char link[32] = "";

    if (!::testing::Test::IsSkipped() &&
        (vqp_fabric()->option("LINK", link, sizeof(link)) == 0) &&
        (strcmp(link, "ethernet") != 0)) {
        GTEST_SKIP() << "the GID tables of InfiniBand do not move";
    }
}

void gids_back()
{
    if (vqp_fabric() != NULL) {
        (void)vqp_fabric()->act("gids to=0", NULL, 0);
    }
}

class gid_test : public failover_fixture {
protected:
    void SetUp() override
    {
        failover_fixture::SetUp();
        skip_infiniband();
    }

    void TearDown() override
    {
        gids_back();
        failover_fixture::TearDown();
    }

    static void act(const std::string &script)
    {
        char error[128] = "";

        ASSERT_EQ(0, vqp_fabric()->act(script.c_str(), error, sizeof(error))) << error;
    }

    /* No interface hears of it */
    static void without_events()
    {
        faults("call verb=get_async_event count=all errno=EAGAIN");
    }

    /* Each interface finds its GID again, after so many times */
    static bool found(unsigned before = 0)
    {
        return until([&] { return log_capture::count("has index") >= before + 2; });
    }

    /* All queue pairs fail, and each side has a path again */
    void expect_back()
    {
        unsigned before = ups();

        act("qp path=0/1");
        messages(10);
        EXPECT_TRUE(until([&] { return ups() >= before + 2; })) << log_capture::text();
    }

    void expect_no_failed_call()
    {
        EXPECT_FALSE(log_capture::has("failed to connect QP")) << log_capture::text();
        EXPECT_FALSE(log_capture::has("ibv_create_ah(")) << log_capture::text();
    }

    static constexpr unsigned nowhere = 1000; /* beyond the table */
};

TEST_F(gid_test, paths_come_back_from_its_new_index)
{
    log_capture log(UCS_LOG_LEVEL_DIAG);

    start({{"NUM_PATHS", "1"}});
    for (unsigned by : {5, 1, 7, 0}) { /* the old index is empty, or has another GID */
        unsigned moves = log_capture::count("has index");

        act("gids to=" + std::to_string(by));
        EXPECT_TRUE(found(moves)) << log_capture::text();
        expect_back();
    }
    expect_no_failed_call();
    expect_survived();
}

TEST_F(gid_test, a_new_endpoint_connects_from_its_new_index)
{
    log_capture log(UCS_LOG_LEVEL_DIAG);

    start({{"NUM_PATHS", "1"}});
    act("gids to=5");
    EXPECT_TRUE(found());
    ab = std::make_unique<endpoint>(*a, *b);
    messages(10);
    connect_back();
    EXPECT_EQ(UCS_OK, ba->flush());
    expect_no_failed_call();
}

/* The first endpoint of its interface: the calls that fail find the index */
TEST_F(gid_test, an_endpoint_connects_before_the_event_has_come)
{
    log_capture log(UCS_LOG_LEVEL_DIAG);

    a = std::make_unique<node>(0);
    b = std::make_unique<node>(devices().size() > 1 ? 1 : 0);
    without_events();
    act("gids to=5");
    ab = std::make_unique<endpoint>(*a, *b);
    messages(10);
    EXPECT_TRUE(log_capture::has("has index"));
    EXPECT_TRUE(log_capture::has("ibv_create_ah(") ||
                log_capture::has("failed to connect QP")) << log_capture::text();
    ab.reset();
}

TEST_F(gid_test, that_is_gone_is_warned_of_and_found_when_it_is_back)
{
    start({{"NUM_PATHS", "1"}});
    {
        log_capture log(UCS_LOG_LEVEL_WARN);

        act("gids to=" + std::to_string(nowhere));
        EXPECT_TRUE(until([] { return log_capture::count("is not in the table") == 2; }))
                << log_capture::text();
        EXPECT_TRUE(log_capture::has(a->name + ":1: the GID ")) << log_capture::text();
        messages(10); /* what is connected goes on */
        act("gids to=" + std::to_string(nowhere + 1)); /* other GIDs change */
        run_for(0.02);
        EXPECT_EQ(2u, log_capture::count("is not in the table")) << log_capture::text();

        act("gids to=2");
        EXPECT_TRUE(found()) << log_capture::text();
    }

    log_capture log(UCS_LOG_LEVEL_DIAG);
    expect_back();
    expect_no_failed_call();
    expect_survived();
}

/* UCP opens all ports that are listed: one that can not be opened would end it */
TEST_F(gid_test, a_port_without_one_is_not_listed)
{
    log_capture log(UCS_LOG_LEVEL_DIAG);

    start({});
    act("gids to=1000");
    EXPECT_EQ(0u, listed(*a));
    EXPECT_TRUE(log_capture::has("no usable GID")) << log_capture::text();
    act("gids to=0");
    EXPECT_EQ(1u, listed(*a));
}

TEST_F(gid_test, a_port_without_the_configured_one_is_not_listed)
{
    log_capture log(UCS_LOG_LEVEL_ERROR);

    start({});
    setenv("UCX_VQP_GID_INDEX", "200", 1);
    EXPECT_EQ(0u, listed(*a));
    EXPECT_TRUE(log_capture::has("GID index 200")) << log_capture::text();
    setenv("UCX_VQP_GID_INDEX", "0", 1);
    EXPECT_EQ(1u, listed(*a));
    unsetenv("UCX_VQP_GID_INDEX");
}

/* As qedr, and hns of a Kunpeng 920 */
TEST_F(gid_test, a_port_of_a_device_without_ud_queue_pairs_is_not_listed)
{
    log_capture log(UCS_LOG_LEVEL_DIAG);

    start({});
    faults("call verb=create_qp nth=1 errno=EINVAL");
    EXPECT_EQ(0u, listed(*a));
    EXPECT_TRUE(log_capture::has("it has no UD queue pairs")) << log_capture::text();
    faults("call verb=create_qp nth=1 errno=ENOMEM"); /* what the interface says then */
    EXPECT_EQ(1u, listed(*a));
    EXPECT_EQ(1u, listed(*a));
}

TEST_F(gid_test, ucp_uses_other_transports_where_a_port_has_none)
{
    log_capture log(UCS_LOG_LEVEL_DIAG);

    act("gids to=1000");
    ucp_side side(devices()[0], UCS_THREAD_MODE_SINGLE, "vqp,self");
    EXPECT_TRUE(log_capture::has("no usable GID")) << log_capture::text();
}

class bonded_gid_test : public bonded_failover_fixture {
protected:
    void SetUp() override
    {
        bonded_failover_fixture::SetUp();
        skip_infiniband();
    }

    void TearDown() override
    {
        gids_back();
        bonded_failover_fixture::TearDown();
    }
};

TEST_F(bonded_gid_test, a_bond_is_not_listed_when_one_of_its_ports_has_none)
{
    log_capture log(UCS_LOG_LEVEL_WARN);

    a = std::make_unique<node>("bond0");
    for (std::string device : {"fab0", "fab1"}) {
        ASSERT_EQ(0, vqp_fabric()->act(("gids to=1000 dev=" + device).c_str(), NULL, 0));
        EXPECT_EQ(0u, listed(*a)) << device;
        EXPECT_TRUE(log_capture::has(device + ":1 is not active, or has no usable GID"))
                << log_capture::text();
        ASSERT_EQ(0, vqp_fabric()->act(("gids to=0 dev=" + device).c_str(), NULL, 0));
        EXPECT_EQ(1u, listed(*a)) << device;
    }
}

} // namespace
