/*
 * Async events: a port that goes down and comes back.
 */
#include "verbs_fixture.h"

#include "test/fabric/fabric.h"

#include <net/if.h>

using async = verbs_test;

/* The first event of this type within five seconds */
static bool wait_event(const vqp_ib_dev_t *dev, vqp_ib_async_type_t type,
                       vqp_ib_async_t *event)
{
    return eventually([&] {
        while (vqp_ib_async_get(dev, event) == VQP_OK) {
            if (event->type == type) {
                return true;
            }
        }
        return false;
    });
}

/* The network interface of a rail, up or down */
static int set_link(const rail &r, const char *state)
{
    char ndev[IF_NAMESIZE];
    std::string command;

    if (vqp_fabric() != nullptr) {
        return vqp_fabric()->port(ibv_get_device_name(r.dev.ctx->device), 1,
                                  std::string(state) == "up");
    }

    if (if_indextoname(r.gid.ifindex, ndev) == nullptr) {
        return -1;
    }

    command = std::string("ip link set ") + ndev + " " + state;
    return system(command.c_str());
}

TEST_F(async, port_down_and_up)
{
    struct pollfd pfd;
    vqp_ib_async_t event;

    /* Faults are for devices that the runner made */
    if ((getenv("VQP_RXE_FAULTS") == nullptr) && (vqp_fabric() == nullptr)) {
        GTEST_SKIP() << "not on devices that test/rxe/run made";
    }

    ASSERT_EQ(0, set_link(*b, "down"));
    pfd = {vqp_ib_dev_async_fd(&b->dev), POLLIN, 0};
    EXPECT_EQ(1, poll(&pfd, 1, wait_limit_ms()));
    EXPECT_TRUE(wait_event(&b->dev, VQP_IB_ASYNC_PORT_DOWN, &event));
    EXPECT_EQ(1, event.port);
    EXPECT_FALSE(vqp_ib_port_is_active(&b->dev, 1, VQP_IB_LOG_ERROR));

    ASSERT_EQ(0, set_link(*b, "up"));
    EXPECT_TRUE(wait_event(&b->dev, VQP_IB_ASYNC_PORT_UP, &event));
    EXPECT_EQ(1, event.port);
    EXPECT_TRUE(eventually([&] {
        return vqp_ib_port_is_active(&b->dev, 1, VQP_IB_LOG_ERROR) != 0;
    }));
}
