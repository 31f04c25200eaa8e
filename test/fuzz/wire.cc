/*
 * Fuzz target: the control datagrams. Whatever the decoder takes must be within
 * the limits that wire.h names, and encode to the very bytes it was read from,
 * but for the reserved ones.
 */
#include "fuzz.h"

#include <vector>

extern "C" {
#include "core/conn/wire.h"
}

using namespace vqp_fuzz;

static const uint32_t MAX_24 = 0xffffff;

static bool is_pow2(uint64_t value)
{
    return (value != 0) && ((value & (value - 1)) == 0);
}

static void check_info(const vqp_wire_info_t &info)
{
    FUZZ_CHECK(vqp_wire_info_check(&info) == VQP_OK);
    FUZZ_CHECK(is_pow2(info.ring_size) && (info.ring_size >= 4096) &&
               (info.ring_size <= (1u << 30)));
    FUZZ_CHECK((info.ring_addr != 0) &&
               (info.ring_addr + info.ring_size > info.ring_addr));
    FUZZ_CHECK((info.cell_addr != 0) && (info.cell_addr % 8 == 0));
    FUZZ_CHECK(is_pow2(info.fsn_window) && (info.fsn_window >= 2) &&
               (info.fsn_window <= 4096));
    FUZZ_CHECK(info.first_fsn <= MAX_24);
    FUZZ_CHECK((info.rx_depth >= 1) && (info.rx_depth <= 32768));
    FUZZ_CHECK((info.num_rails >= 1) && (info.num_rails <= 4));
    FUZZ_CHECK((info.num_paths >= 1) && (info.num_paths <= 64));
    FUZZ_CHECK((info.max_paths == 0) || ((info.max_paths >= info.num_paths) &&
                                         (info.max_paths <= 64)));

    for (unsigned i = 0; i < info.num_rails; ++i) {
        const vqp_wire_rail_t &rail = info.rails[i];
        FUZZ_CHECK((rail.ud_qpn >= 1) && (rail.ud_qpn <= MAX_24));
        FUZZ_CHECK((rail.mtu >= 1) && (rail.mtu <= 5));
        FUZZ_CHECK((rail.link == VQP_LINK_IB) || (rail.link == VQP_LINK_ETH));
    }

    for (unsigned i = 0; i < info.num_paths; ++i) {
        FUZZ_CHECK((info.paths[i].qpn >= 1) && (info.paths[i].qpn <= MAX_24));
        FUZZ_CHECK(info.paths[i].psn <= MAX_24);
        FUZZ_CHECK(info.paths[i].rail < info.num_rails);
    }
}

static void check_header(const vqp_wire_header_t &hdr)
{
    FUZZ_CHECK((hdr.type >= VQP_WIRE_REQ) && (hdr.type <= VQP_WIRE_PATH_UP));
    FUZZ_CHECK((hdr.number >= 1) && (hdr.number <= 0x7fffffff));
    FUZZ_CHECK((hdr.src_iface != 0) && (hdr.dst_iface != 0));
    FUZZ_CHECK((hdr.src_cookie != 0) || (hdr.type == VQP_WIRE_RST));
}

static const void *body(const vqp_wire_msg_t &msg)
{
    switch (msg.hdr.type) {
    case VQP_WIRE_REQ:
    case VQP_WIRE_REP:
        check_info(msg.info);
        return &msg.info;
    case VQP_WIRE_PATH_DOWN:
        FUZZ_CHECK(msg.path_down.path < 64);
        FUZZ_CHECK(msg.path_down.source < VQP_WIRE_SOURCES);
        FUZZ_CHECK(msg.path_down.rail <= 4);
        FUZZ_CHECK((msg.path_down.count <= MAX_24) &&
                   (msg.path_down.imms <= MAX_24));
        return &msg.path_down;
    case VQP_WIRE_PATH_UP:
        FUZZ_CHECK((msg.path_up.path < 64) && (msg.path_up.rail < 4) &&
                   (msg.path_up.first <= 4));
        FUZZ_CHECK((msg.path_up.qpn >= 1) && (msg.path_up.qpn <= MAX_24) &&
                   (msg.path_up.psn <= MAX_24));
        return &msg.path_up;
    default:
        return nullptr;
    }
}

static void clear_reserved(uint8_t *msg, unsigned type)
{
    memset(msg + 50, 0, 2);
    switch (type) {
    case VQP_WIRE_REQ:
    case VQP_WIRE_REP:
        memset(msg + 94, 0, 2);
        break;
    case VQP_WIRE_PATH_DOWN:
        memset(msg + 68, 0, 4);
        break;
    case VQP_WIRE_PATH_UP:
        memset(msg + 59, 0, 1);
        memset(msg + 68, 0, 4);
        break;
    default:
        break;
    }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    std::vector<uint8_t> bytes(data, data + size);
    std::unique_ptr<vqp_wire_msg_t> msg(new vqp_wire_msg_t);
    uint8_t again[VQP_WIRE_MAX_LEN];
    vqp_status_t status;

    /* The first byte spares the fuzzer to find magic and length by itself */
    if (!bytes.empty()) {
        bool repair = bytes[0] & 1;
        bytes.erase(bytes.begin());
        if (repair && (bytes.size() >= 8)) {
            memcpy(bytes.data(), "VQPC", 4);
            bytes[6] = (uint8_t)bytes.size();
            bytes[7] = (uint8_t)(bytes.size() >> 8);
        }
    }

    memset(msg.get(), 0xee, sizeof(*msg));
    status = vqp_wire_decode(Exact(bytes.data(), bytes.size()).get(),
                             bytes.size(), msg.get());
    FUZZ_CHECK((status == VQP_OK) || (status == VQP_ERR_UNSUPPORTED) ||
               (status == VQP_ERR_PROTOCOL));
    if (status != VQP_OK) {
        return 0;
    }

    check_header(msg->hdr);
    FUZZ_CHECK(bytes.size() <= VQP_WIRE_MAX_LEN);
    FUZZ_CHECK(vqp_wire_encode(&msg->hdr, body(*msg), again) == bytes.size());
    clear_reserved(bytes.data(), msg->hdr.type);
    FUZZ_CHECK(memcmp(again, bytes.data(), bytes.size()) == 0);

    /* A truncated message is refused, even if its length field fits */
    again[6] = (uint8_t)(bytes.size() - 1);
    again[7] = (uint8_t)((bytes.size() - 1) >> 8);
    FUZZ_CHECK(vqp_wire_decode(Exact(again, bytes.size() - 1).get(),
                               bytes.size() - 1, msg.get()) == VQP_ERR_PROTOCOL);
    return 0;
}
