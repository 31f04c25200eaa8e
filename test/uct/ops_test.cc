/*
 * Every operation of the transport moves exactly the specified bytes,
 * with every size at a border, odd addresses, and pieces of any length: with
 * one path, with several, with each notify policy and completion order.
 */
#include "ops_fixture.h"

#include <numeric>

static const setting settings[] = {
    {"one_path",        {{"NUM_PATHS", "1"}}},
    {"four_paths",      {{"NUM_PATHS", "4"}}},
    {"spray_post",      {{"NUM_PATHS", "4"}, {"NOTIFY", "spray"},
                         {"COMP_ORDER", "post"}, {"SCHED", "rr"}}},
    {"tail",            {{"NUM_PATHS", "4"}, {"NOTIFY", "tail"},
                         {"MIN_FRAG", "1k"}, {"FRAG_SIZE", "2k"}}},
    {"small_frags_all", {{"NUM_PATHS", "3"}, {"MIN_FRAG", "256"},
                         {"FRAG_SIZE", "512"}, {"AM_ORDER", "all"},
                         {"RING_SIZE", "16k"}}},
    {"tiny",            {{"NUM_PATHS", "4"}, {"RING_SIZE", "8k"},
                         {"NOTIFY", "dqplb"},
                         {"FSN_WINDOW", "16"}, {"TX_QUEUE_LEN", "8"},
                         {"MAX_OPS", "8"}, {"READ_DEPTH", "1"},
                         {"TX_MIN_INLINE", "8"}, {"TX_MIN_SGE", "2"},
                         {"MIN_FRAG", "1k"}, {"PATH_BYTES", "4k"}}},
    {"most_paths_least_rest",
                        {{"NUM_PATHS", "64"}, {"RING_SIZE", "4k"},
                         {"FSN_WINDOW", "128"}, {"TX_QUEUE_LEN", "8"},
                         {"MAX_OPS", "8"}, {"READ_DEPTH", "1"},
                         {"MIN_FRAG", "256"}, {"FRAG_SIZE", "256"},
                         {"AM_ORDER", "all"}, {"RX_BATCH", "1"},
                         {"POLL_MAX", "1"}}}
};

TEST_P(ops, put_short_moves_0_to_max_bytes_to_odd_addresses)
{
    for (size_t length = 0; length <= a->attr.cap.put.max_short; ++length) {
        EXPECT_EQ(UCS_OK, ab->retry([&] {
            return uct_ep_put_short(*ab, source->data + 3, (unsigned)length,
                                    target->addr(101 + length), target->rkey());
        }));
        ASSERT_EQ(UCS_OK, ab->flush());
        expect_moved(*target, 2, 101 + length, *source, 3, length);
    }
}

TEST_P(ops, put_short_copies_before_it_returns)
{
    char value[8] = "before!";

    EXPECT_EQ(UCS_OK, ab->retry([&] {
        return uct_ep_put_short(*ab, value, 8, target->addr(), target->rkey());
    }));
    memset(value, 'x', sizeof(value));
    ASSERT_EQ(UCS_OK, ab->flush());
    EXPECT_STREQ("before!", target->data);
}

TEST_P(ops, put_bcopy_moves_0_to_max_bytes_to_odd_addresses)
{
    for (size_t length : borders(a->attr.cap.put.max_bcopy)) {
        bytes from = {source->data + 1, length};

        EXPECT_EQ((ssize_t)length, ab->retry([&] {
            return uct_ep_put_bcopy(*ab, pack_bytes, &from, target->addr(1001),
                                    target->rkey());
        }));
        ASSERT_EQ(UCS_OK, ab->flush());
        expect_moved(*target, 2, 1001, *source, 1, length);
    }
}

/* Without a registration there is no key: UCX's own tests do so */
TEST_P(ops, ops_of_no_bytes_do_not_look_at_the_key)
{
    auto pack  = [](void *, void *) -> size_t { return 0; };
    auto drop  = [](void *, const void *, size_t) {};
    auto retry = [&](const std::function<ssize_t()> &op) {
        return ab->retry([&] { return (ucs_status_t)op(); });
    };

    EXPECT_EQ(UCS_OK, retry([&] {
        return uct_ep_put_bcopy(*ab, pack, NULL, 0, UCT_INVALID_RKEY);
    }));
    EXPECT_EQ(UCS_OK, retry([&] {
        return uct_ep_put_short(*ab, NULL, 0, 0, UCT_INVALID_RKEY);
    }));
    EXPECT_EQ(UCS_OK, retry([&] {
        return uct_ep_get_bcopy(*ab, drop, NULL, 0, 0, UCT_INVALID_RKEY, NULL);
    }));
}

TEST_P(ops, put_zcopy_moves_0_to_many_bytes_to_odd_addresses)
{
    for (size_t length : borders(size - 4000)) {
        uct_iov_t iov = source->iov(17, length);
        completion comp;
        ucs_status_t status = ab->retry([&] {
            return post([&] {
                return uct_ep_put_zcopy(*ab, &iov, 1, target->addr(1003),
                                        target->rkey(), &comp.super);
            });
        });

        if (length == 0) {
            EXPECT_EQ(UCS_OK, status);
            EXPECT_EQ(0, comp.calls);
        } else {
            EXPECT_EQ(UCS_INPROGRESS, status);
            ASSERT_TRUE(until([&] { return comp.calls == 1; })) << length;
            EXPECT_EQ(UCS_OK, comp.status);
        }
        expect_moved(*target, 2, 1003, *source, 17, length);
    }
}

TEST_P(ops, get_bcopy_moves_0_to_max_bytes_from_odd_addresses)
{
    for (size_t length : borders(a->attr.cap.get.max_bcopy)) {
        std::string got;
        completion comp;
        auto unpack = [](void *arg, const void *data, size_t size) {
            ((std::string*)arg)->append((const char*)data, size);
        };
        ucs_status_t status = ab->retry([&] {
            return post([&] {
                return uct_ep_get_bcopy(*ab, unpack, &got, length,
                                        target->addr(77), target->rkey(),
                                        &comp.super);
            });
        });

        if (length == 0) {
            EXPECT_EQ(UCS_OK, status);
        } else {
            EXPECT_EQ(UCS_INPROGRESS, status);
            ASSERT_TRUE(until([&] { return comp.calls == 1; })) << length;
            EXPECT_EQ(UCS_OK, comp.status);
        }
        EXPECT_TRUE(got == std::string(target->data + 77, length)) << length;
    }
}

TEST_P(ops, get_zcopy_moves_0_to_many_bytes_from_odd_addresses)
{
    for (size_t length : borders(size - 4000)) {
        uct_iov_t iov = source->iov(1005, length);
        completion comp;
        ucs_status_t status = ab->retry([&] {
            return post([&] {
                return uct_ep_get_zcopy(*ab, &iov, 1, target->addr(3),
                                        target->rkey(), &comp.super);
            });
        });

        if (length == 0) {
            EXPECT_EQ(UCS_OK, status);
        } else {
            EXPECT_EQ(UCS_INPROGRESS, status);
            ASSERT_TRUE(until([&] { return comp.calls == 1; })) << length;
            EXPECT_EQ(UCS_OK, comp.status);
        }
        expect_moved(*source, 1, 1005, *target, 3, length);
    }
}

/* Pieces that end anywhere, some of them empty, for put and get */
TEST_P(ops, pieces_of_any_length_are_gathered_and_scattered)
{
    static const std::vector<std::vector<size_t>> all = {
        {0, 5}, {5, 0}, {0, 0, 1}, {1, 1, 1, 1}, {4096, 1, 0, 65535},
        {1, 16384, 16383, 3}, {100000, 100001, 100002, 99999}, {0, 0, 0, 0}
    };

    for (const std::vector<size_t> &lengths : all) {
        size_t total = std::accumulate(lengths.begin(), lengths.end(),
                                       (size_t)0);
        size_t offset = 11, at = 2001;
        std::vector<uct_iov_t> iov;
        std::string expected;
        completion put_comp, get_comp;
        ucs_status_t status;

        if (lengths.size() > a->attr.cap.put.max_iov) {
            continue;
        }

        for (size_t length : lengths) {
            iov.push_back(source->iov(offset, length));
            expected += std::string(source->data + offset, length);
            offset   += length + 13;
        }

        status = ab->retry([&] {
            return uct_ep_put_zcopy(*ab, iov.data(), iov.size(),
                                    target->addr(at), target->rkey(),
                                    &put_comp.super);
        });
        EXPECT_EQ((total == 0) ? UCS_OK : UCS_INPROGRESS, status);
        ASSERT_EQ(UCS_OK, ab->flush());
        EXPECT_EQ(total > 0, put_comp.calls);
        EXPECT_TRUE(expected == std::string(target->data + at, total));
        EXPECT_EQ(pattern(2, at + total), target->data[at + total]);

        source->fill(3);
        status = ab->retry([&] {
            return uct_ep_get_zcopy(*ab, iov.data(), iov.size(),
                                    target->addr(at), target->rkey(),
                                    &get_comp.super);
        });
        EXPECT_EQ((total == 0) ? UCS_OK : UCS_INPROGRESS, status);
        ASSERT_EQ(UCS_OK, ab->flush());
        EXPECT_EQ(total > 0, get_comp.calls);
        for (size_t i = 0, done = 0; i < iov.size(); ++i) {
            EXPECT_EQ(0, memcmp(iov[i].buffer, expected.data() + done,
                                lengths[i]));
            done += lengths[i];
            EXPECT_EQ(pattern(3, (char*)iov[i].buffer + lengths[i] -
                                 source->data),
                      ((char*)iov[i].buffer)[lengths[i]]);
        }
        source->fill(1);
        target->fill(2);
    }
}

/* ---- atomics ---- */

TEST_P(ops, atomics_are_executed_once_and_return_what_was_there)
{
    const uint64_t start = 0x1000000000000000ull;
    uint64_t *cell       = (uint64_t*)(target->data + 64);
    uint64_t sum         = start;
    uint64_t result;

    SKIP_WITHOUT_ATOMICS(*a);
    *cell = start;
    for (uint64_t i = 1; i <= 300; ++i) {
        completion comp;

        switch (i % 3) {
        case 0:
            ASSERT_EQ(UCS_OK, ab->retry([&] {
                return uct_ep_atomic64_post(*ab, UCT_ATOMIC_OP_ADD, i,
                                            target->addr(64), target->rkey());
            }));
            break;
        case 1:
            ASSERT_EQ(UCS_INPROGRESS, ab->retry([&] {
                return post([&] {
                    return uct_ep_atomic64_fetch(*ab, UCT_ATOMIC_OP_ADD, i,
                                                 &result, target->addr(64),
                                                 target->rkey(), &comp.super);
                });
            }));
            ASSERT_TRUE(until([&] { return comp.calls == 1; }));
            EXPECT_EQ(UCS_OK, comp.status);
            break;
        case 2:
            ASSERT_EQ(UCS_OK, ab->flush());
            ASSERT_EQ(UCS_INPROGRESS, ab->retry([&] {
                return post([&] {
                    return uct_ep_atomic_cswap64(*ab, sum, sum + i,
                                                 target->addr(64),
                                                 target->rkey(), &result,
                                                 &comp.super);
                });
            }));
            ASSERT_TRUE(until([&] { return comp.calls == 1; }));
            EXPECT_EQ(sum, result);
            break;
        }
        sum += i;
    }

    ASSERT_EQ(UCS_OK, ab->flush());
    EXPECT_EQ(sum, *cell);
}

TEST_P(ops, a_compare_and_swap_that_does_not_match_changes_nothing)
{
    uint64_t result = 0;
    completion comp;

    if (!(a->attr.cap.atomic64.fop_flags & UCS_BIT(UCT_ATOMIC_OP_CSWAP))) {
        GTEST_SKIP() << "the device has no atomics";
    }

    *(uint64_t*)target->data = 42;
    ASSERT_EQ(UCS_INPROGRESS, ab->retry([&] {
        return uct_ep_atomic_cswap64(*ab, 43, 7, target->addr(),
                                     target->rkey(), &result, &comp.super);
    }));
    ASSERT_TRUE(until([&] { return comp.calls == 1; }));
    EXPECT_EQ(42u, result);
    EXPECT_EQ(42u, *(uint64_t*)target->data);
}

TEST_P(ops, atomics_that_the_device_has_not_are_not_advertised)
{
    uint64_t flags = a->attr.cap.flags;

    EXPECT_EQ(0u, a->attr.cap.atomic32.op_flags);
    EXPECT_EQ(0u, a->attr.cap.atomic32.fop_flags);
    EXPECT_FALSE(a->attr.cap.atomic64.op_flags & UCS_BIT(UCT_ATOMIC_OP_AND));
    EXPECT_FALSE(a->attr.cap.atomic64.fop_flags & UCS_BIT(UCT_ATOMIC_OP_SWAP));
    EXPECT_EQ(a->attr.cap.atomic64.op_flags != 0,
              (flags & (UCT_IFACE_FLAG_ATOMIC_CPU |
                        UCT_IFACE_FLAG_ATOMIC_DEVICE)) != 0);
}

/* ---- many at once ---- */

TEST_P(ops, hundreds_of_puts_and_gets_at_once_complete_once_each)
{
    std::vector<std::unique_ptr<completion>> comps;

    for (unsigned i = 0; i < 400; ++i) {
        size_t length = 1 + (i * 7919) % 30000;
        bool put      = (i % 2) == 0;
        uct_iov_t iov = source->iov((i * 2001) % 400000 + (put ? 0 : 500000),
                                    length);

        comps.push_back(std::make_unique<completion>());
        ASSERT_EQ(UCS_INPROGRESS, ab->retry([&] {
            return post([&] {
                return put ? uct_ep_put_zcopy(*ab, &iov, 1, target->addr(500000),
                                              target->rkey(),
                                              &comps.back()->super) :
                             uct_ep_get_zcopy(*ab, &iov, 1, target->addr(),
                                              target->rkey(),
                                              &comps.back()->super);
            });
        }));
    }

    ASSERT_EQ(UCS_OK, ab->flush());
    for (auto &comp : comps) {
        EXPECT_EQ(1, comp->calls);
        EXPECT_EQ(UCS_OK, comp->status);
    }

    if (GetParam().config.count("COMP_ORDER")) {
        ASSERT_EQ(comps.size(), completion::order.size());
        for (size_t i = 0; i < comps.size(); ++i) {
            EXPECT_EQ(comps[i].get(), completion::order[i]) << i;
        }
    }
}

/* Several paths, completions in posting order: those without a completion of
 * their own must not stand in the way of those with one */
TEST_P(ops, a_completion_comes_without_a_flush_behind_ops_that_have_none)
{
    uint64_t value = 1;

    b->on_am(1, [](const char *, size_t) { return UCS_OK; });
    for (unsigned i = 0; i < 100; ++i) {
        uct_iov_t iov = source->iov(0, 1 + i);
        completion comp;

        for (unsigned j = 0; j < i % 7; ++j) {
            ASSERT_EQ(UCS_OK, ab->retry([&] {
                return (j % 2) ? uct_ep_am_short(*ab, 1, 0, NULL, 0) :
                                 uct_ep_put_short(*ab, &value, 8,
                                                  target->addr(1000),
                                                  target->rkey());
            }));
        }
        ASSERT_EQ(UCS_INPROGRESS, ab->retry([&] {
            return uct_ep_put_zcopy(*ab, &iov, 1, target->addr(),
                                    target->rkey(), &comp.super);
        }));
        if (!until([&] { return comp.calls == 1; })) {
            ab->destroy();
            FAIL() << "round " << i;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(
        vqp, ops, ::testing::ValuesIn(settings),
        [](const ::testing::TestParamInfo<setting> &info) {
            return info.param.name;
        });
