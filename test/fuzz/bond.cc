/*
 * Fuzz target: UCX_VQP_RAILS. The input gives the ports of a host, then the
 * text. Bonds have no port in common, and compatible ports; an error has a
 * reason.
 */
#include "fuzz.h"

#include <set>
#include <string>
#include <vector>

extern "C" {
#include "core/conn/bond.h"
#include "core/conn/wire.h"
}

using namespace vqp_fuzz;

static std::vector<vqp_bond_port_t> draw_ports(Input &in)
{
    static const char *const devs[] = {"mlx5_0", "mlx5_1", "mlx5_10", "rxe0"};
    std::vector<vqp_bond_port_t> ports(in.u8() & 15);

    for (size_t i = 0; i < ports.size(); ++i) {
        uint8_t bits  = in.u8();
        ports[i].dev  = devs[bits & 3];
        ports[i].num  = (uint8_t)(1 + i);
        ports[i].link = (bits & 4) ? VQP_LINK_IB : VQP_LINK_ETH;
        ports[i].numa = ((bits >> 3) & 3) - 1;
        ports[i].is_active = !(bits & 32);
    }
    return ports;
}

static void check_bond(const vqp_bond_t &bond, bool is_auto,
                       const std::vector<vqp_bond_port_t> &ports,
                       std::set<unsigned> *used)
{
    FUZZ_CHECK((bond.num_rails >= 1) && (bond.num_rails <= VQP_MAX_RAILS));
    FUZZ_CHECK(bond.num_rails + bond.num_down >= 2);
    FUZZ_CHECK(!is_auto || (bond.num_down == 0));
    for (unsigned i = 0; i < bond.num_rails; ++i) {
        FUZZ_CHECK(bond.rails[i] < ports.size());
        FUZZ_CHECK(used->insert(bond.rails[i]).second);
        const vqp_bond_port_t &first = ports[bond.rails[0]];
        const vqp_bond_port_t &port  = ports[bond.rails[i]];
        FUZZ_CHECK(port.is_active);
        FUZZ_CHECK(port.link == first.link);
        FUZZ_CHECK(!is_auto || (port.numa == first.numa));
    }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Input in(data, size);
    std::vector<vqp_bond_port_t> ports = draw_ports(in);
    size_t why_size                    = in.u8();
    std::string text((const char*)in.data(), in.left());
    std::unique_ptr<vqp_bond_t[]> bonds(new vqp_bond_t[ports.size()]);
    std::unique_ptr<char[]> why(new char[why_size]);
    std::set<unsigned> used;
    unsigned num_bonds = 99;
    vqp_status_t status;

    text   = text.c_str(); /* to the first zero */
    status = vqp_bond_parse(text.c_str(), ports.data(),
                            (unsigned)ports.size(), bonds.get(), &num_bonds,
                            why.get(), why_size);
    if (status != VQP_OK) {
        FUZZ_CHECK((status == VQP_ERR_INVALID_PARAM) && (num_bonds == 0));
        FUZZ_CHECK((why_size == 0) ||
                   (memchr(why.get(), 0, why_size) != nullptr));
        FUZZ_CHECK((why_size < 2) || (why[0] != '\0'));
        return 0;
    }

    FUZZ_CHECK(num_bonds <= ports.size());
    for (unsigned i = 0; i < num_bonds; ++i) {
        check_bond(bonds[i], text == "auto", ports, &used);
    }
    FUZZ_CHECK((num_bonds == 0) ||
               (text.find_first_not_of(' ') != std::string::npos));
    return 0;
}
