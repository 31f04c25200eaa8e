/*
 * Fuzz target: device and interface addresses. An unpacked address is within
 * limits and packs to the same bytes; reachability is symmetric, with a reason.
 */
#include "fuzz.h"

extern "C" {
#include "core/conn/addr.h"
}

using namespace vqp_fuzz;

static void check_dev(const vqp_dev_addr_t &addr)
{
    FUZZ_CHECK((addr.num_rails >= 1) && (addr.num_rails <= VQP_MAX_RAILS));
    if (addr.link == VQP_LINK_IB) {
        FUZZ_CHECK(addr.gid_type == VQP_GID_IB);
    } else {
        FUZZ_CHECK(addr.link == VQP_LINK_ETH);
        FUZZ_CHECK((addr.gid_type == VQP_GID_ROCE_V1) ||
                   (addr.gid_type == VQP_GID_ROCE_V2_IP4) ||
                   (addr.gid_type == VQP_GID_ROCE_V2_IP6));
        FUZZ_CHECK(addr.has_gid);
    }

    for (unsigned i = 0; i < addr.num_rails; ++i) {
        FUZZ_CHECK((addr.link == VQP_LINK_IB) || (addr.rails[i].lid == 0));
        if (addr.gid_type == VQP_GID_ROCE_V2_IP4) {
            FUZZ_CHECK((addr.rails[i].gid[10] == 0xff) &&
                       (addr.rails[i].gid[11] == 0xff));
        }
    }
}

/* Length of a valid address at @a data, else 0 */
static size_t try_dev(const uint8_t *data, size_t size, vqp_dev_addr_t *addr)
{
    vqp_status_t status = vqp_dev_addr_unpack(Exact(data, size).get(), size,
                                              addr);
    uint8_t again[VQP_DEV_ADDR_MAX_LEN];
    vqp_dev_addr_t other;
    size_t len;

    FUZZ_CHECK((status == VQP_OK) || (status == VQP_ERR_UNSUPPORTED) ||
               (status == VQP_ERR_PROTOCOL));
    if (status != VQP_OK) {
        return 0;
    }

    check_dev(*addr);
    len = vqp_dev_addr_len(addr);
    FUZZ_CHECK((len <= size) && (len <= sizeof(again)));
    FUZZ_CHECK(vqp_dev_addr_pack(addr, again) == len);
    FUZZ_CHECK(memcmp(again, data, len) == 0);
    FUZZ_CHECK(vqp_dev_addr_unpack(Exact(data, len).get(), SIZE_MAX, &other) ==
               VQP_OK);
    FUZZ_CHECK(memcmp(&other, addr, sizeof(other)) == 0);
    FUZZ_CHECK(vqp_dev_addr_unpack(Exact(data, len - 1).get(), len - 1,
                                   &other) == VQP_ERR_PROTOCOL);
    return len;
}

static void try_iface(const uint8_t *data, size_t size)
{
    uint8_t again[VQP_IFACE_ADDR_MAX_LEN];
    vqp_iface_addr_t addr, other;
    vqp_status_t status;
    size_t len;

    status = vqp_iface_addr_unpack(Exact(data, size).get(), size, &addr);
    FUZZ_CHECK((status == VQP_OK) || (status == VQP_ERR_UNSUPPORTED) ||
               (status == VQP_ERR_PROTOCOL));
    if (status != VQP_OK) {
        return;
    }

    check_dev(addr.dev);
    FUZZ_CHECK(addr.id != 0);
    for (unsigned i = 0; i < addr.dev.num_rails; ++i) {
        FUZZ_CHECK((addr.ud_qpn[i] >= 1) && (addr.ud_qpn[i] <= 0xffffff));
    }

    len = vqp_iface_addr_len(&addr.dev);
    FUZZ_CHECK((len <= size) && (len <= sizeof(again)));
    FUZZ_CHECK(vqp_iface_addr_pack(&addr, again) == len);
    FUZZ_CHECK(memcmp(again, data, len) == 0);
    FUZZ_CHECK(vqp_iface_addr_unpack(Exact(data, len).get(), SIZE_MAX,
                                     &other) == VQP_OK);
    FUZZ_CHECK(memcmp(&other, &addr, sizeof(other)) == 0);
    FUZZ_CHECK(vqp_iface_addr_unpack(Exact(data, len - 1).get(), len - 1,
                                     &other) == VQP_ERR_PROTOCOL);
}

/* 1 if they reach each other */
static int reach(const vqp_dev_addr_t &local, const vqp_dev_addr_t &remote,
                 size_t size)
{
    std::unique_ptr<char[]> why(new char[size]);
    int reachable = vqp_dev_addr_reachable(&local, &remote, why.get(), size);

    FUZZ_CHECK(vqp_dev_addr_reachable(&local, &remote, nullptr, 0) ==
               reachable);
    if (size > 0) {
        FUZZ_CHECK(memchr(why.get(), 0, size) != nullptr);
        FUZZ_CHECK((size == 1) || ((why[0] == 0) == (reachable == 1)));
    }
    return reachable;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    vqp_dev_addr_t first, second;
    size_t len, why;

    try_iface(data, size);
    len = try_dev(data, size, &first);
    if (len == 0) {
        return 0;
    }

    why = (len < size) ? data[len] : 0;
    FUZZ_CHECK(reach(first, first, why) == !!(first.pkey & 0x8000));
    len += (len < size);
    if (try_dev(data + len, size - len, &second) != 0) {
        FUZZ_CHECK(reach(first, second, why) == reach(second, first, why));
    }

    return 0;
}
