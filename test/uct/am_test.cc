/*
 * Active messages of every kind and size arrive once, in order, with their bytes:
 * under all the settings of ops_test.cc.
 */
#include "ops_fixture.h"

#include <config.h> /* of UCX: how it was built */

class inbox {
public:
    inbox(node &owner, uint8_t id)
    {
        owner.on_am(id, [this](const char *data, size_t length) {
            got.push_back(std::string(data, length));
            return UCS_OK;
        });
    }

    std::vector<std::string> got;
};

TEST_P(ops, am_short_delivers_header_and_0_to_max_bytes)
{
    const uint64_t header = 0x0123456789abcdefull;
    inbox in(*b, 5);
    size_t count = 0;

    for (size_t length = 0; length <= a->attr.cap.am.max_short - 8; ++length) {
        ASSERT_EQ(UCS_OK, ab->retry([&] {
            return uct_ep_am_short(*ab, 5, header + length, source->data + 1,
                                   (unsigned)length);
        }));
        ++count;
    }

    ASSERT_TRUE(until([&] { return in.got.size() == count; }));
    for (size_t length = 0; length < count; ++length) {
        uint64_t value = header + length;

        EXPECT_TRUE(in.got[length] ==
                    std::string((char*)&value, sizeof(value)) +
                    std::string(source->data + 1, length)) << length;
    }
}

TEST_P(ops, am_short_iov_gathers_pieces_some_of_them_empty)
{
    inbox in(*b, 6);
    uct_iov_t iov[4] = {source->iov(1, 0), source->iov(3, 9),
                        source->iov(5, 0), source->iov(100, 20)};

    ASSERT_EQ(UCS_OK, ab->retry([&] {
        return uct_ep_am_short_iov(*ab, 6, iov, 4);
    }));
    ASSERT_EQ(UCS_OK, ab->retry([&] {
        return uct_ep_am_short_iov(*ab, 6, iov, 1);
    }));
    iov[0] = source->iov(7, a->attr.cap.am.max_short);
    ASSERT_EQ(UCS_OK, ab->retry([&] {
        return uct_ep_am_short_iov(*ab, 6, iov, 1);
    }));
    ASSERT_TRUE(until([&] { return in.got.size() == 3; }));
    EXPECT_EQ(std::string(source->data + 3, 9) +
              std::string(source->data + 100, 20), in.got[0]);
    EXPECT_EQ("", in.got[1]);
    EXPECT_EQ(std::string(source->data + 7, a->attr.cap.am.max_short),
              in.got[2]);
}

TEST_P(ops, am_bcopy_delivers_0_to_max_bytes)
{
    inbox in(*b, 7);
    std::vector<size_t> sizes = borders(a->attr.cap.am.max_bcopy);

    for (size_t length : sizes) {
        bytes from = {source->data + length % 7, length};

        ASSERT_EQ((ssize_t)length, ab->retry([&] {
            return uct_ep_am_bcopy(*ab, 7, pack_bytes, &from, 0);
        }));
    }

    ASSERT_TRUE(until([&] { return in.got.size() == sizes.size(); }));
    for (size_t i = 0; i < sizes.size(); ++i) {
        EXPECT_TRUE(in.got[i] == std::string(source->data + sizes[i] % 7,
                                             sizes[i])) << sizes[i];
    }
}

/* The longest is one call: with a header or without, in one piece or in as many
 * as there may be */
TEST_P(ops, am_zcopy_of_max_bytes_is_one_call_and_one_more_is_refused)
{
    const size_t max = a->attr.cap.am.max_zcopy, pieces = a->attr.cap.am.max_iov;
    inbox in(*b, 8);
    std::vector<std::string> expected;

    for (size_t hdr : {(size_t)0, (size_t)1, a->attr.cap.am.max_hdr}) {
        for (size_t count : {(size_t)1, pieces}) {
            std::vector<uct_iov_t> iov;
            std::string bytes(source->data + 77, hdr);
            completion comp;
            size_t left = max - hdr;

            for (size_t i = 0; i < count; ++i) {
                size_t part = (i + 1 == count) ? left : left / 3;

                iov.push_back(source->iov(1000 + i, part));
                bytes += std::string(source->data + 1000 + i, part);
                left  -= part;
            }
            ASSERT_EQ(max, bytes.size());
            ASSERT_EQ(UCS_INPROGRESS, ab->retry([&] {
                return uct_ep_am_zcopy(*ab, 8, source->data + 77, (unsigned)hdr,
                                       iov.data(), count, 0, &comp.super);
            }));
            ASSERT_TRUE(until([&] { return comp.calls == 1; }));
            EXPECT_EQ(UCS_OK, comp.status);
            expected.push_back(bytes);

#if ENABLE_PARAMS_CHECK /* a release build of UCX trusts its callers */
            log_capture log;
            ++iov.back().length;
            EXPECT_EQ(UCS_ERR_INVALID_PARAM,
                      uct_ep_am_zcopy(*ab, 8, source->data + 77, (unsigned)hdr,
                                      iov.data(), count, 0, NULL));
            EXPECT_TRUE(log.has("am_zcopy"));
#endif
        }
    }

    ASSERT_TRUE(until([&] { return in.got.size() == expected.size(); }));
    EXPECT_TRUE(in.got == expected);
}

TEST_P(ops, am_zcopy_delivers_header_and_pieces)
{
    size_t max_hdr = a->attr.cap.am.max_hdr;
    size_t max     = a->attr.cap.am.max_zcopy;
    inbox in(*b, 8);
    std::vector<std::string> expected;

    for (size_t length : borders(max)) {
        for (size_t hdr : {(size_t)0, (size_t)1, (size_t)33, max_hdr}) {
            size_t part      = std::min(length, max - hdr);
            size_t first     = (a->attr.cap.am.max_iov < 3) ? part : part / 3;
            uct_iov_t iov[3] = {source->iov(1, first), source->iov(9, 0),
                                source->iov(4001, part - first)};
            completion comp;

            ASSERT_EQ(UCS_INPROGRESS, ab->retry([&] {
                return post([&] {
                    return uct_ep_am_zcopy(*ab, 8, source->data + 555,
                                           (unsigned)hdr, iov,
                                           (first < part) ? 3 : 1, 0,
                                           &comp.super);
                });
            })) << length << "+" << hdr;
            expected.push_back(std::string(source->data + 555, hdr) +
                               std::string(source->data + 1, first) +
                               std::string(source->data + 4001, part - first));
            ASSERT_TRUE(until([&] { return comp.calls == 1; }))
                    << length << "+" << hdr;
            EXPECT_EQ(UCS_OK, comp.status);
        }
    }

    ASSERT_TRUE(until([&] { return in.got.size() == expected.size(); }));
    for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_TRUE(in.got[i] == expected[i]) << i;
    }
}

TEST_P(ops, ams_of_all_kinds_arrive_in_the_order_of_posting)
{
    const unsigned count = 3000;
    unsigned next        = 0;
    int returning        = 0;
    ucs_status_t status;
    std::string bad;

    b->on_am(9, [&](const char *data, size_t length) {
        uint64_t number;

        memcpy(&number, data, sizeof(number));
        if ((number != next) || ((length > 8) &&
            memcmp(data + 8, source->data, length - 8))) {
            bad += std::to_string(number) + " for " + std::to_string(next) +
                   " ";
        }
        ++next;
        return UCS_OK;
    });

    completion comp(1 << 30);
    std::string text;
    for (uint64_t i = 0; i < count; ++i) {
        size_t length = (i * 7919) % (a->attr.cap.am.max_bcopy - 8);
        uct_iov_t iov = source->iov(0, (i * 104729) %
                                       (a->attr.cap.am.max_zcopy - 8));
        bytes from;

        switch (i % 3) {
        case 0:
            ASSERT_EQ(UCS_OK, ab->retry([&] {
                return uct_ep_am_short(*ab, 9, i, source->data, i % 40);
            }));
            break;
        case 1:
            text = std::string((char*)&i, 8) + std::string(source->data,
                                                           length);
            from = {text.data(), text.size()};
            ASSERT_EQ((ssize_t)text.size(), ab->retry([&] {
                return uct_ep_am_bcopy(*ab, 9, pack_bytes, &from, 0);
            }));
            break;
        case 2:
            status = ab->retry([&] {
                return uct_ep_am_zcopy(*ab, 9, &i, 8, &iov, 1, 0, &comp.super);
            });
            ASSERT_TRUE((status == UCS_INPROGRESS) || (status == UCS_OK)); /* copied */
            returning += status == UCS_INPROGRESS;
            break;
        }
    }

    ASSERT_TRUE(until([&] { return next == count; })) << next;
    EXPECT_EQ("", bad);
    ASSERT_EQ(UCS_OK, ab->flush());
    EXPECT_EQ((1 << 30) - returning, comp.super.count);
}
