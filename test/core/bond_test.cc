/* UCX_VQP_RAILS: which ports form a bond. */
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

extern "C" {
#include "core/conn/bond.h"
}

namespace {

const std::vector<vqp_bond_port_t> PORTS = {
    {"mlx5_0", 1, 2, 1, 0}, {"mlx5_0", 2, 2, 1, 0}, {"mlx5_1", 1, 2, 1, 0},
    {"mlx5_2", 1, 2, 1, 1}, {"mlx5_3", 1, 1, 1, 1}, {"mlx5_10", 1, 2, 1, 1},
    {"rxe0", 1, 2, 1, -1},  {"rxe1", 1, 2, 1, -1},
};

class bond : public ::testing::Test {
protected:
    /* "0+2 3+5", or "error: ..." */
    static std::string parse(const char *text,
                             const std::vector<vqp_bond_port_t> &ports = PORTS) {
        std::vector<vqp_bond_t> bonds(ports.size());
        char why[128]  = "";
        unsigned count = 99;
        std::ostringstream os;

        if (vqp_bond_parse(text, ports.data(), (unsigned)ports.size(),
                           bonds.data(), &count, why, sizeof(why)) != VQP_OK) {
            EXPECT_EQ(0u, count);
            return std::string("error: ") + why;
        }

        for (unsigned i = 0; i < count; ++i) {
            os << (i ? " " : "");
            for (unsigned j = 0; j < bonds[i].num_rails; ++j) {
                os << (j ? "+" : "") << bonds[i].rails[j];
            }
        }
        return os.str();
    }
};

TEST_F(bond, nothing_is_bonded_unless_asked_for) {
    EXPECT_EQ("", parse(""));
    EXPECT_EQ("", parse("  "));
    EXPECT_EQ("", parse("auto", {}));
}

TEST_F(bond, rails_stand_in_the_order_they_are_named) {
    EXPECT_EQ("0+2", parse("mlx5_0:1,mlx5_1:1"));
    EXPECT_EQ("2+0", parse(" mlx5_1:1 , mlx5_0:1 "));
    EXPECT_EQ("0+1", parse("mlx5_0"));
}

TEST_F(bond, several_are_separated_by_semicolons) {
    EXPECT_EQ("0+2 6+7", parse("mlx5_0:1,mlx5_1:1;rxe0:1,rxe1:1"));
}

TEST_F(bond, globs_match_devices_or_ports) {
    EXPECT_EQ("6+7", parse("rxe*"));
    EXPECT_EQ("0+2+3", parse("mlx5_[0-2]:1"));
    EXPECT_EQ("3+5", parse("mlx5_2:*,mlx5_1?:1"));
    EXPECT_EQ("0+1+2", parse("mlx5_0:*,mlx5_[01]")); /* a second match is none */
}

TEST_F(bond, one_port_makes_no_bond) {
    EXPECT_EQ("", parse("mlx5_0:1"));
    EXPECT_EQ("6+7", parse("mlx5_0:1;rxe*"));
}

TEST_F(bond, auto_takes_ports_of_one_node_and_link_layer) {
    EXPECT_EQ("0+1+2 3+5 6+7", parse("auto"));
    std::vector<vqp_bond_port_t> many(9, {"rxe0", 1, 2, 1, 0});
    EXPECT_EQ("0+1+2+3 4+5+6+7", parse("auto", many));
}

TEST_F(bond, ports_that_are_not_active_are_left_out) {
    std::vector<vqp_bond_port_t> ports = PORTS;

    ports[2].is_active = 0; /* mlx5_1:1 */
    EXPECT_EQ("0", parse("mlx5_0:1,mlx5_1:1", ports)); /* a bond, yet of one rail */
    EXPECT_EQ("0", parse("mlx5_1,mlx5_0:1", ports));
    EXPECT_EQ("0+3", parse("mlx5_0:1,mlx5_1:1,mlx5_2", ports));
    EXPECT_EQ("0+1", parse("mlx5_[01]", ports)); /* as a glob may */
    EXPECT_EQ("0+1 3+5 6+7", parse("auto", ports));
    EXPECT_EQ("", parse("mlx5_0:1", ports));
    EXPECT_EQ("error: no port of 'mlx5_1:1' is active",
              parse("mlx5_1:1;mlx5_0", ports));
}

TEST_F(bond, errors_say_what_is_wrong) {
    EXPECT_EQ("error: 'mlx5_7:1' matches no port",
              parse("mlx5_0:1,mlx5_7:1"));
    EXPECT_EQ("error: a device name is empty", parse("mlx5_0:1,"));
    EXPECT_EQ("error: a device name is empty", parse(";"));
    EXPECT_EQ("error: mlx5_0:1 is in two bonds", parse("mlx5_0;mlx5_0:1,rxe0"));
    EXPECT_EQ("error: mlx5_3:1 has another link layer than mlx5_2:1",
              parse("mlx5_2,mlx5_3"));
    EXPECT_EQ("error: a bond has more than 4 rails",
              parse("mlx5_0,mlx5_1,rxe0,rxe1"));
    EXPECT_EQ("error: a device name has more than 79 characters",
              parse(std::string(100, 'x').c_str()));
}

} /* namespace */
