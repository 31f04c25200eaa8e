/*
 * The control datagrams: a written message is read back, and no other input is
 * accepted.
 */
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

extern "C" {
#include "core/conn/wire.h"
}

namespace {

vqp_wire_header_t make_header(vqp_wire_type_t type)
{
    vqp_wire_header_t hdr {};

    hdr.type       = type;
    hdr.features   = 0x01020304;
    hdr.number     = 7;
    hdr.src_iface  = 0x1111111111111111;
    hdr.dst_iface  = 0x2222222222222222;
    hdr.src_cookie = 0x3333333333333333;
    hdr.dst_cookie = 0x4444444444444444;
    hdr.flags      = VQP_WIRE_FLAG_HAVE_YOURS;
    hdr.serial     = 5;
    return hdr;
}

vqp_wire_info_t make_info(unsigned num_rails, unsigned num_paths)
{
    vqp_wire_info_t info {};

    info.ring_addr  = 0x7f0000001000;
    info.cell_addr  = 0x7f0000000800;
    info.ring_size  = 65536;
    info.fsn_window = 4096;
    info.first_fsn  = 0xfffffe;
    info.rx_depth   = 128;
    info.max_reads  = 16;
    info.scratch_addr = 0x500000;
    info.num_rails  = (uint8_t)num_rails;
    info.num_paths  = (uint8_t)num_paths;
    info.max_paths  = (uint8_t)((num_paths < VQP_MAX_PATHS) ? num_paths + 1 : 0);
    for (unsigned i = 0; i < num_rails; ++i) {
        vqp_wire_rail_t &rail = info.rails[i];
        rail.ud_qpn           = 0xabcd00 + i;
        rail.mtu              = 3;
        rail.link             = VQP_LINK_ETH;
        rail.ring_rkey        = 0x80000001 + i;
        rail.scratch_rkey     = 0x90000001 + i;
        for (unsigned k = 0; k < VQP_GID_LEN; ++k) {
            rail.gid[k] = (uint8_t)(i * 16 + k + 1);
        }
    }
    for (unsigned i = 0; i < num_paths; ++i) {
        info.paths[i].qpn  = 0x010203 + i;
        info.paths[i].psn  = 0xfffff0 + (i & 15);
        info.paths[i].rail = (uint8_t)(i % num_rails);
    }
    return info;
}

/* A copy without a spare byte behind, so that a sanitizer sees an overrun */
vqp_status_t decode(const std::vector<uint8_t> &data, vqp_wire_msg_t *msg)
{
    std::unique_ptr<uint8_t[]> exact(new uint8_t[data.size()]);

    std::copy(data.begin(), data.end(), exact.get());
    return vqp_wire_decode(exact.get(), data.size(), msg);
}

std::vector<uint8_t> encode(const vqp_wire_header_t &hdr,
                            const void *body = nullptr)
{
    std::vector<uint8_t> data(VQP_WIRE_MAX_LEN);

    data.resize(vqp_wire_encode(&hdr, body, data.data()));
    return data;
}

void expect_same_header(const vqp_wire_header_t &a, const vqp_wire_header_t &b)
{
    EXPECT_EQ(a.type, b.type);
    EXPECT_EQ(a.features, b.features);
    EXPECT_EQ(a.number, b.number);
    EXPECT_EQ(a.src_iface, b.src_iface);
    EXPECT_EQ(a.dst_iface, b.dst_iface);
    EXPECT_EQ(a.src_cookie, b.src_cookie);
    EXPECT_EQ(a.dst_cookie, b.dst_cookie);
    EXPECT_EQ(a.flags, b.flags);
    EXPECT_EQ(a.serial, b.serial);
}

void expect_same_info(const vqp_wire_info_t &a, const vqp_wire_info_t &b)
{
    EXPECT_EQ(a.ring_addr, b.ring_addr);
    EXPECT_EQ(a.cell_addr, b.cell_addr);
    EXPECT_EQ(a.scratch_addr, b.scratch_addr);
    EXPECT_EQ(a.ring_size, b.ring_size);
    EXPECT_EQ(a.fsn_window, b.fsn_window);
    EXPECT_EQ(a.first_fsn, b.first_fsn);
    EXPECT_EQ(a.rx_depth, b.rx_depth);
    EXPECT_EQ(a.max_reads, b.max_reads);
    ASSERT_EQ(a.num_rails, b.num_rails);
    ASSERT_EQ(a.num_paths, b.num_paths);
    ASSERT_EQ(a.max_paths, b.max_paths);
    for (unsigned i = 0; i < a.num_rails; ++i) {
        EXPECT_EQ(0, memcmp(&a.rails[i], &b.rails[i], sizeof(a.rails[i])));
    }
    for (unsigned i = 0; i < a.num_paths; ++i) {
        EXPECT_EQ(a.paths[i].qpn, b.paths[i].qpn);
        EXPECT_EQ(a.paths[i].psn, b.paths[i].psn);
        EXPECT_EQ(a.paths[i].rail, b.paths[i].rail);
    }
}

std::vector<uint8_t> good_req()
{
    vqp_wire_info_t info = make_info(2, 3);
    return encode(make_header(VQP_WIRE_REQ), &info);
}

/* A REQ with one field changed is refused */
void expect_bad_info(void (*spoil)(vqp_wire_info_t&), const char *what)
{
    vqp_wire_info_t info = make_info(2, 3);
    vqp_wire_msg_t msg;

    spoil(info);
    EXPECT_EQ(VQP_ERR_PROTOCOL, vqp_wire_info_check(&info)) << what;
    EXPECT_EQ(VQP_ERR_PROTOCOL,
              decode(encode(make_header(VQP_WIRE_REQ), &info), &msg)) << what;
}

void expect_bad_header(vqp_wire_type_t type, void (*spoil)(vqp_wire_header_t&),
                       const char *what)
{
    vqp_wire_info_t info  = make_info(1, 1);
    vqp_wire_header_t hdr = make_header(type);
    vqp_wire_msg_t msg;

    ASSERT_EQ(VQP_OK, decode(encode(hdr, &info), &msg)) << what;
    spoil(hdr);
    EXPECT_EQ(VQP_ERR_PROTOCOL, decode(encode(hdr, &info), &msg)) << what;
}

} // namespace

TEST(wire, req_and_rep_come_back_as_they_were)
{
    for (vqp_wire_type_t type : {VQP_WIRE_REQ, VQP_WIRE_REP}) {
        for (unsigned rails = 1; rails <= VQP_MAX_RAILS; ++rails) {
            for (unsigned paths : {1, 4, 63, 64}) {
                vqp_wire_header_t hdr = make_header(type);
                vqp_wire_info_t info  = make_info(rails, paths);
                vqp_wire_msg_t msg;
                std::vector<uint8_t> data = encode(hdr, &info);

                EXPECT_EQ(vqp_wire_info_len(rails, paths), data.size());
                ASSERT_EQ(VQP_OK, decode(data, &msg));
                expect_same_header(hdr, msg.hdr);
                expect_same_info(info, msg.info);
            }
        }
    }
}

TEST(wire, the_longest_messages_fit_an_mtu_of_1024)
{
    EXPECT_EQ(744u, vqp_wire_info_len(VQP_MAX_RAILS, VQP_MAX_PATHS));
}

TEST(wire, a_local_info_may_be_allocated_for_its_paths_only)
{
    vqp_wire_info_t info  = make_info(1, 2);
    vqp_wire_header_t hdr = make_header(VQP_WIRE_REQ);
    size_t size           = vqp_wire_info_size(2);
    std::unique_ptr<uint64_t[]> mem(new uint64_t[(size + 7) / 8]);
    vqp_wire_msg_t msg;

    ASSERT_LT(size, sizeof(info) / 2);
    memcpy(mem.get(), &info, size);
    ASSERT_EQ(VQP_OK, decode(encode(hdr, mem.get()), &msg));
    expect_same_info(info, msg.info);
}

TEST(wire, layout_is_little_endian_at_fixed_offsets)
{
    std::vector<uint8_t> data = good_req();

    EXPECT_EQ(0, memcmp(data.data(), "VQPC", 4));
    EXPECT_EQ(VQP_WIRE_VERSION, data[4]);
    EXPECT_EQ(VQP_WIRE_REQ, data[5]);
    EXPECT_EQ(data.size(), data[6] + 256u * data[7]);
    EXPECT_EQ(4, data[8]);      /* features */
    EXPECT_EQ(7, data[12]);     /* number */
    EXPECT_EQ(0x11, data[16]);  /* src_iface */
    EXPECT_EQ(0x22, data[24]);  /* dst_iface */
    EXPECT_EQ(0x33, data[32]);  /* src_cookie */
    EXPECT_EQ(0x44, data[40]);  /* dst_cookie */
    EXPECT_EQ(1, data[48]);     /* flags */
    EXPECT_EQ(5, data[52]);     /* serial */
    EXPECT_EQ(0x10, data[57]);  /* ring_addr */
    EXPECT_EQ(1, data[74]);     /* ring_size */
    EXPECT_EQ(0xfe, data[80]);  /* first_fsn */
    EXPECT_EQ(2, data[89]);     /* num_rails */
    EXPECT_EQ(3, data[90]);     /* num_paths */
    EXPECT_EQ(4, data[91]);     /* max_paths */
    EXPECT_EQ(0x50, data[98]);  /* scratch_addr */
    EXPECT_EQ(0xcd, data[105]); /* ud_qpn of rail 0 */
    EXPECT_EQ(1, data[112]);    /* gid of rail 0 */
    EXPECT_EQ(0x80, data[131]); /* ring_rkey of rail 0 */
    EXPECT_EQ(3, data[168]);    /* qpn of path 0 */
    EXPECT_EQ(0xf0, data[172]); /* psn of path 0 */
    EXPECT_EQ(1, data[183]);    /* rail of path 1 */
}

TEST(wire, messages_without_a_body_are_the_header_only)
{
    for (vqp_wire_type_t type :
         {VQP_WIRE_BYE, VQP_WIRE_BYE_ACK, VQP_WIRE_RST}) {
        vqp_wire_header_t hdr     = make_header(type);
        std::vector<uint8_t> data = encode(hdr);
        vqp_wire_msg_t msg;

        EXPECT_EQ((size_t)VQP_WIRE_HEADER_LEN, data.size());
        ASSERT_EQ(VQP_OK, decode(data, &msg));
        expect_same_header(hdr, msg.hdr);

        data.push_back(0);
        data[6] = (uint8_t)data.size();
        EXPECT_EQ(VQP_ERR_PROTOCOL, decode(data, &msg));
    }
}

TEST(wire, path_messages_come_back_as_they_were)
{
    vqp_wire_path_down_t down {};
    vqp_wire_msg_t msg;

    down.path   = 63;
    down.source = 2;
    down.fails  = 254;
    down.rail   = 4;
    down.count  = 0xffffff;
    down.imms   = 0x123456;
    ASSERT_EQ(VQP_OK, decode(encode(make_header(VQP_WIRE_PATH_DOWN), &down),
                             &msg));
    EXPECT_EQ(63, msg.path_down.path);
    EXPECT_EQ(2, msg.path_down.source);
    EXPECT_EQ(254, msg.path_down.fails);
    EXPECT_EQ(4, msg.path_down.rail);
    EXPECT_EQ(down.count, msg.path_down.count);
    EXPECT_EQ(down.imms, msg.path_down.imms);

    vqp_wire_path_up_t up = {5, 3, 0x654321, 0x000001, 4};
    ASSERT_EQ(VQP_OK,
              decode(encode(make_header(VQP_WIRE_PATH_UP), &up), &msg));
    EXPECT_EQ(5, msg.path_up.path);
    EXPECT_EQ(3, msg.path_up.rail);
    EXPECT_EQ(4, msg.path_up.first);
    EXPECT_EQ(0x654321u, msg.path_up.qpn);
    EXPECT_EQ(1u, msg.path_up.psn);
}

TEST(wire, path_messages_are_validated)
{
    vqp_wire_path_down_t down {};
    vqp_wire_path_up_t up = {0, 0, 1, 0, 0};
    vqp_wire_msg_t msg;
    auto bad_down = [&] {
        return decode(encode(make_header(VQP_WIRE_PATH_DOWN), &down), &msg) ==
               VQP_ERR_PROTOCOL;
    };
    auto bad_up = [&] {
        return decode(encode(make_header(VQP_WIRE_PATH_UP), &up), &msg) ==
               VQP_ERR_PROTOCOL;
    };

    EXPECT_FALSE(bad_down());
    down.path = 64;
    EXPECT_TRUE(bad_down());
    down = {};
    down.source = 3;
    EXPECT_TRUE(bad_down());
    down = {};
    down.count = 1 << 24;
    EXPECT_TRUE(bad_down());
    down = {};
    down.imms = 1 << 24;
    EXPECT_TRUE(bad_down());
    down = {};
    down.rail = 5;
    EXPECT_TRUE(bad_down());

    EXPECT_FALSE(bad_up());
    up.path = 64;
    EXPECT_TRUE(bad_up());
    up = {0, 4, 1, 0, 0};
    EXPECT_TRUE(bad_up());
    up = {0, 0, 1, 0, 5};
    EXPECT_TRUE(bad_up());
    up = {0, 0, 0, 0, 0};
    EXPECT_TRUE(bad_up());
    up = {0, 0, 1, 1 << 24, 0};
    EXPECT_TRUE(bad_up());
}

TEST(wire, every_field_of_the_info_is_validated)
{
#define BAD(_what) \
    expect_bad_info([](vqp_wire_info_t &info) { _what; }, #_what)
    BAD(info.ring_size = 0);
    BAD(info.ring_size = 2048);
    BAD(info.ring_size = 65537);
    BAD(info.ring_size = 1u << 31);
    BAD(info.ring_addr = 0);
    BAD(info.ring_addr = UINT64_MAX - 100);
    BAD(info.cell_addr = 0);
    BAD(info.cell_addr = 4);
    BAD(info.scratch_addr = UINT64_MAX - 4000);
    BAD(info.fsn_window = 0);
    BAD(info.fsn_window = 1);
    BAD(info.fsn_window = 3);
    BAD(info.fsn_window = 8192);
    BAD(info.first_fsn = 1 << 24);
    BAD(info.rx_depth = 0);
    BAD(info.rx_depth = 32769);
    BAD(info.num_rails = 0);
    BAD(info.num_paths = 0);
    BAD(info.max_paths = (uint8_t)(info.num_paths - 1));
    BAD(info.max_paths = VQP_MAX_PATHS + 1);
    BAD(info.rails[1].ud_qpn = 0);
    BAD(info.rails[1].ud_qpn = 1 << 24);
    BAD(info.rails[1].mtu = 0);
    BAD(info.rails[1].mtu = 6);
    BAD(info.rails[1].link = 0);
    BAD(info.rails[1].link = 3);
    BAD(info.rails[1].lid = 1); /* on Ethernet */
    BAD(memset(info.rails[1].gid, 0, VQP_GID_LEN));
    BAD(info.paths[2].qpn = 0);
    BAD(info.paths[2].qpn = 1 << 24);
    BAD(info.paths[2].rail = 2);
#undef BAD
}

TEST(wire, an_infiniband_rail_has_a_lid_or_a_gid)
{
    vqp_wire_info_t info = make_info(1, 1);

    info.rails[0].link = VQP_LINK_IB;
    info.rails[0].lid  = 3;
    EXPECT_EQ(VQP_OK, vqp_wire_info_check(&info));
    memset(info.rails[0].gid, 0, VQP_GID_LEN);
    EXPECT_EQ(VQP_OK, vqp_wire_info_check(&info));
    info.rails[0].lid = 0;
    EXPECT_EQ(VQP_ERR_PROTOCOL, vqp_wire_info_check(&info));
}

TEST(wire, ids_cookies_and_numbers_are_validated)
{
#define BAD(_type, _what) \
    expect_bad_header(VQP_WIRE_##_type, \
                      [](vqp_wire_header_t &hdr) { _what; }, #_type " " #_what)
    BAD(REQ, hdr.number = 0);
    BAD(REQ, hdr.number = 0x80000000);
    BAD(REQ, hdr.src_iface = 0);
    BAD(REQ, hdr.dst_iface = 0);
    BAD(REQ, hdr.src_cookie = 0);
    BAD(REQ, hdr.dst_cookie = 0); /* but have_yours */
    BAD(REP, hdr.src_cookie = 0);
    BAD(REP, hdr.dst_cookie = 0);
    BAD(BYE, hdr.src_cookie = 0);
    BAD(BYE, hdr.dst_cookie = 0);
    BAD(BYE, hdr.serial = 0);
    BAD(BYE_ACK, hdr.serial = 0);
    BAD(RST, hdr.src_cookie = hdr.dst_cookie = 0);
#undef BAD

    vqp_wire_header_t hdr = make_header(VQP_WIRE_REQ);
    vqp_wire_info_t info  = make_info(1, 1);
    vqp_wire_msg_t msg;
    hdr.dst_cookie        = 0;
    hdr.flags             = 0;
    EXPECT_EQ(VQP_OK, decode(encode(hdr, &info), &msg));
}

TEST(wire, every_truncation_and_extension_is_refused)
{
    std::vector<uint8_t> data = good_req();
    vqp_wire_msg_t msg;

    for (size_t len = 0; len < data.size(); ++len) {
        std::vector<uint8_t> part(data.begin(), data.begin() + len);
        EXPECT_EQ(VQP_ERR_PROTOCOL, decode(part, &msg));
        if (len >= VQP_WIRE_HEADER_LEN) {
            part[6] = (uint8_t)len; /* as if that was meant */
            part[7] = (uint8_t)(len >> 8);
            EXPECT_EQ(VQP_ERR_PROTOCOL, decode(part, &msg)) << len;
        }
    }

    data.push_back(0);
    EXPECT_EQ(VQP_ERR_PROTOCOL, decode(data, &msg));
    data.resize(4096);
    EXPECT_EQ(VQP_ERR_PROTOCOL, decode(data, &msg));
}

TEST(wire, counts_beyond_the_message_are_refused)
{
    vqp_wire_msg_t msg;

    for (unsigned offset : {89, 90}) {
        for (unsigned value = 0; value < 256; ++value) {
            std::vector<uint8_t> data = good_req();
            if (data[offset] != value) {
                data[offset] = (uint8_t)value;
                EXPECT_EQ(VQP_ERR_PROTOCOL, decode(data, &msg));
            }
        }
    }
}

TEST(wire, other_versions_and_types_are_distinguished_from_garbage)
{
    std::vector<uint8_t> data = good_req();
    vqp_wire_msg_t msg;

    data[4] = VQP_WIRE_VERSION + 1;
    EXPECT_EQ(VQP_ERR_UNSUPPORTED, decode(data, &msg));
    data    = good_req();
    data[5] = 0;
    EXPECT_EQ(VQP_ERR_UNSUPPORTED, decode(data, &msg));
    data[5] = VQP_WIRE_TYPE_LAST;
    EXPECT_EQ(VQP_ERR_UNSUPPORTED, decode(data, &msg));
    data    = good_req();
    data[0] = 'X';
    EXPECT_EQ(VQP_ERR_PROTOCOL, decode(data, &msg));
}

TEST(wire, what_random_bytes_decode_to_encodes_to_the_same)
{
    std::mt19937 rng(1);
    unsigned accepted = 0;
    vqp_wire_path_down_t down {};
    vqp_wire_path_up_t up = {0, 0, 1, 0, 0};
    vqp_wire_info_t info  = make_info(4, 64);

    for (unsigned i = 0; i < 200000; ++i) {
        vqp_wire_type_t type = (vqp_wire_type_t)(1 + (rng() % 7));
        const void *body = (type <= VQP_WIRE_REP) ? (const void*)&info :
                           (type == VQP_WIRE_PATH_UP) ? (const void*)&up :
                                                        (const void*)&down;
        std::vector<uint8_t> data = encode(make_header(type), body);
        vqp_wire_msg_t msg;

        for (unsigned n = rng() % 4; n > 0; --n) {
            data[rng() % data.size()] = (uint8_t)rng();
        }
        if ((rng() % 8) == 0) {
            data.resize(rng() % (data.size() + 1));
        }

        memset(&msg, 0xa5, sizeof(msg));
        if (decode(data, &msg) != VQP_OK) {
            continue;
        }

        ++accepted;
        vqp_wire_msg_t again;
        ASSERT_EQ(VQP_OK, decode(encode(msg.hdr, &msg.info), &again));
        expect_same_header(msg.hdr, again.hdr);
        if (msg.hdr.type <= VQP_WIRE_REP) {
            ASSERT_EQ(VQP_OK, vqp_wire_info_check(&msg.info));
            expect_same_info(msg.info, again.info);
        }
    }
    EXPECT_GT(accepted, 50000u);
}

TEST(wire, types_have_names)
{
    EXPECT_STREQ("REQ", vqp_wire_type_name(VQP_WIRE_REQ));
    EXPECT_STREQ("PATH_UP", vqp_wire_type_name(VQP_WIRE_PATH_UP));
    EXPECT_STREQ("unknown", vqp_wire_type_name(77));
}
