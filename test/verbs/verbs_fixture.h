/*
 * What the tests of src/verbs share: open devices, a connected pair of queue
 * pairs, captured messages. The tests need RDMA devices, two for most: run
 * them with test/rxe/run; without devices they are skipped.
 */
#ifndef VQP_TEST_VERBS_FIXTURE_H
#define VQP_TEST_VERBS_FIXTURE_H

/* Before the C headers below: it has C++ templates of its own */
#include <infiniband/verbs.h>

extern "C" {
#include "verbs/async.h"
#include "verbs/cqpool.h"
#include "verbs/gid.h"
#include "verbs/grh.h"
#include "verbs/mr.h"
#include "verbs/port.h"
#include "verbs/qp.h"
#include "verbs/ud.h"
}

#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

/* All messages up to DEBUG between construction and destruction */
class log_capture {
public:
    log_capture() { text().clear(); vqp_ib_log_set(add, VQP_IB_LOG_DEBUG); }
    ~log_capture() { vqp_ib_log_set(nullptr, VQP_IB_LOG_ERROR); }

    static std::string &text()
    {
        static std::string all;
        return all;
    }

    static bool has(const std::string &part)
    {
        return text().find(part) != std::string::npos;
    }

private:
    static void add(vqp_ib_log_level_t, const char *, unsigned,
                    const char *message)
    {
        text() += std::string(message) + "\n";
    }
};

/* A device with port 1 and its chosen GID */
struct rail {
    vqp_ib_dev_t  dev;
    vqp_ib_port_t port;
    vqp_ib_gid_t  gid;

    explicit rail(const std::string &name)
    {
        EXPECT_EQ(VQP_OK, vqp_ib_dev_open(&dev, name.c_str()));
        EXPECT_EQ(VQP_OK, vqp_ib_port_query(&dev, 1, &port));
        EXPECT_EQ(VQP_OK, vqp_ib_gid_select(&dev, &port, VQP_IB_GID_AUTO,
                                            &gid));
    }

    ~rail() { vqp_ib_dev_close(&dev); }

    rail(const rail &)            = delete;
    rail &operator=(const rail &) = delete;
};

inline std::vector<std::string> device_names()
{
    std::vector<std::string> names;
    vqp_ib_dev_list_t list;

    EXPECT_EQ(VQP_OK, vqp_ib_dev_list_get(&list));
    for (unsigned i = 0; i < list.count; ++i) {
        names.push_back(vqp_ib_dev_list_name(&list, i));
    }

    vqp_ib_dev_list_free(&list);
    return names;
}

/* Longer than anything takes on a busy machine, for poll() */
inline int wait_limit_ms()
{
    const char *limit = getenv("VQP_TEST_LIMIT");

    return (int)(1000 * ((limit == nullptr) ? 120 : atof(limit)));
}

/* Wait for a condition, without spinning. Only what hangs comes to the limit */
inline bool eventually(const std::function<bool()> &condition)
{
    auto end = std::chrono::steady_clock::now() +
               std::chrono::milliseconds(wait_limit_ms());

    while (!condition()) {
        if (std::chrono::steady_clock::now() > end) {
            return false;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }

    return true;
}

/* Two open devices; one device twice where there is only one */
class verbs_test : public ::testing::Test {
protected:
    void SetUp() override
    {
        std::vector<std::string> names = device_names();

        if (names.empty()) {
            GTEST_SKIP() << "no RDMA device";
        }

        a = new rail(names.front());
        b = new rail(names.size() > 1 ? names[1] : names.front());
    }

    void TearDown() override
    {
        delete b;
        delete a;
    }

    rail *a = nullptr;
    rail *b = nullptr;
};

#endif
