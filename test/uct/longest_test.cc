/*
 * No work request is longer than the longest message of the device, whatever
 * the options say. On the software fabric, -o MAX_MSG=BYTES makes that short; a
 * longer work request fails there as it does on a device.
 */
#include "uct_fixture.h"

static options large_frags(const char *paths, const char *notify)
{
    return {{"NUM_PATHS", paths}, {"NOTIFY", notify}, {"RING_SIZE", "4m"}, {"RING_MIN", "4m"},
            {"FSN_WINDOW", "16"}, {"FRAG_SIZE", "1g"}, {"MIN_FRAG", "1g"},
            {"PATH_BYTES", "1g"}, {"SEG_SIZE", "1m"}};
}

class longest : public uct_test,
                public ::testing::WithParamInterface<options> {
protected:
    static constexpr size_t size = 3 << 20;

    /* A message of length bytes of the memory, in one or two pieces */
    void expect_am(const memory &source, size_t length, size_t part)
    {
        uct_iov_t iov[2] = {source.iov(0, part),
                            source.iov(part, length - part)};
        size_t before    = taken.size();
        completion comp;
        ucs_status_t status;

        status = ab->retry([&] {
            return uct_ep_am_zcopy(*ab, 1, NULL, 0, &iov[part == 0],
                                   (part > 0) ? 2 : 1, 0, &comp.super);
        });
        ASSERT_GE(status, UCS_OK) << length;
        if (status == UCS_OK) {
            comp.status = UCS_OK; /* it was copied: no call comes */
        }
        ASSERT_TRUE(until([&] {
            return (comp.calls == (status == UCS_INPROGRESS)) &&
                   ((taken.size() > before) || (comp.status != UCS_OK));
        })) << length;
        ASSERT_EQ(UCS_OK, comp.status);
        EXPECT_TRUE(taken.back() == std::string(source.data, length));
    }

    std::vector<std::string> taken;
};

TEST_P(longest, operations_of_any_size_arrive)
{
    open(GetParam());
    memory source(*a, size), target(*b, size);
    uct_iov_t iov = source.iov(0, size);
    completion put, get;

    source.fill(1);
    ASSERT_EQ(UCS_INPROGRESS, ab->retry([&] {
        return uct_ep_put_zcopy(*ab, &iov, 1, target.addr(), target.rkey(),
                                &put.super);
    }));
    ASSERT_TRUE(until([&] { return put.calls == 1; }));
    EXPECT_EQ(UCS_OK, put.status);
    EXPECT_EQ(0, memcmp(source.data, target.data, size));

    memset(source.data, 0, size);
    ASSERT_EQ(UCS_INPROGRESS, ab->retry([&] {
        return uct_ep_get_zcopy(*ab, &iov, 1, target.addr(), target.rkey(),
                                &get.super);
    }));
    ASSERT_TRUE(until([&] { return get.calls == 1; }));
    EXPECT_EQ(UCS_OK, get.status);
    EXPECT_EQ(0, memcmp(source.data, target.data, size));
    EXPECT_EQ(0u, a->errors + b->errors);
}

TEST_P(longest, messages_of_any_size_arrive)
{
    open(GetParam());
    memory source(*a, size);
    size_t max = a->attr.cap.am.max_zcopy;

    b->on_am(1, [this](const char *data, size_t length) {
        taken.emplace_back(data, length);
        return UCS_OK;
    });
    source.fill(2);
    for (size_t length : {max, max / 2, max / 3, (size_t)1, max}) {
        expect_am(source, length, 0);
        expect_am(source, length, length / 3);
        ASSERT_EQ(0u, a->errors);
    }

    for (size_t length : {a->attr.cap.am.max_bcopy, max / 5}) {
        bytes from = {source.data,
                      std::min(length, a->attr.cap.am.max_bcopy)};
        size_t before = taken.size();

        ASSERT_EQ((ssize_t)from.length, ab->retry([&] {
            return uct_ep_am_bcopy(*ab, 1, pack_bytes, &from, 0);
        }));
        ASSERT_TRUE(until([&] { return taken.size() > before; }));
        EXPECT_TRUE(taken.back() == std::string(source.data, from.length));
    }
    EXPECT_EQ(0u, a->errors + b->errors);
}

INSTANTIATE_TEST_SUITE_P(each, longest,
                         ::testing::Values(large_frags("1", "auto"),
                                           large_frags("2", "spray"),
                                           large_frags("4", "dqplb"),
                                           large_frags("4", "tail"),
                                           large_frags("8", "auto")));
