/* Ops and their ring. The sizes are fixed: a path reads these objects in
 * sequence. */
#include <gtest/gtest.h>

extern "C" {
#include "core/data/path.h"
#include "core/data/record.h"
}

namespace {

TEST(op, takes_two_cache_lines) {
    EXPECT_EQ(128u, sizeof(vqp_op_t));
    EXPECT_EQ(24u, sizeof(vqp_iov_t));
}

TEST(op, inflight_entry_takes_16_bytes) {
    EXPECT_EQ(16u, sizeof(vqp_inflight_t));
}

TEST(op, wire_structures_have_no_padding) {
    EXPECT_EQ(16u, sizeof(vqp_record_t));
    EXPECT_EQ(16u, sizeof(vqp_cell_t));
    EXPECT_EQ(8u, offsetof(vqp_record_t, credit_ring));
    EXPECT_EQ(12u, offsetof(vqp_record_t, credit_fsn));
}

TEST(op, kinds_that_are_data_of_an_op_come_first) {
    /* vqp_tx_emit() counts frags and bytes by that */
    for (int kind : {VQP_KIND_AM, VQP_KIND_PUT, VQP_KIND_GET, VQP_KIND_FADD}) {
        EXPECT_LE(kind, VQP_KIND_CSWAP);
    }
    for (int kind : {VQP_KIND_BARRIER, VQP_KIND_NOTIFY, VQP_KIND_FENCE,
                     VQP_KIND_CREDIT, VQP_KIND_NOP}) {
        EXPECT_GT(kind, VQP_KIND_CSWAP);
    }
}

TEST(op, first_error_wins) {
    vqp_op_t op {};

    vqp_op_set_status(&op, VQP_OK);
    EXPECT_EQ(VQP_OK, op.status);
    vqp_op_set_status(&op, VQP_ERR_TIMEOUT);
    vqp_op_set_status(&op, VQP_ERR_CANCELED);
    EXPECT_EQ(VQP_ERR_TIMEOUT, op.status);
}

TEST(op, few_pieces_are_held_inside) {
    vqp_iov_t ext[3];
    vqp_op_t op {};

    op.niov = VQP_OP_IOV_INLINE;
    EXPECT_EQ(op.g.iov, vqp_op_iov(&op));
    op.niov      = VQP_OP_IOV_INLINE + 1;
    op.g.iov_ext = ext;
    EXPECT_EQ(ext, vqp_op_iov(&op));
}

TEST(opring, holds_as_many_ops_as_it_has_slots) {
    vqp_op_t ops[4] {};
    vqp_opring_t ring;

    vqp_opring_init(&ring, ops, 4, 4, 0);
    EXPECT_TRUE(vqp_opring_is_empty(&ring));
    ring.tail = 3;
    EXPECT_EQ(3u, vqp_opring_count(&ring));
    ring.tail = 4;
    EXPECT_EQ(4u, vqp_opring_count(&ring));
    EXPECT_FALSE(vqp_opring_is_empty(&ring));
    EXPECT_EQ(&ops[0], vqp_opring_at(&ring, 4));
    EXPECT_EQ(3u, vqp_opring_index(&ring, &ops[3]));
}

TEST(opring, cursors_wrap) {
    vqp_op_t ops[4] {};
    vqp_opring_t ring;

    vqp_opring_init(&ring, ops, 4, 4, 0);
    ring.head = 0xfffffffeu;
    ring.tail = 2;
    EXPECT_EQ(4u, vqp_opring_count(&ring));
    EXPECT_FALSE(vqp_opring_is_empty(&ring));
    ring.head = 2;
    EXPECT_TRUE(vqp_opring_is_empty(&ring));
}

TEST(record, size_is_aligned_and_holds_header_and_payload) {
    EXPECT_EQ(16u, vqp_record_size(0));
    EXPECT_EQ(32u, vqp_record_size(1));
    EXPECT_EQ(32u, vqp_record_size(16));
    EXPECT_EQ(48u, vqp_record_size(17));
}

TEST(record, largest_payload_takes_half_the_ring) {
    EXPECT_EQ(2048u, vqp_record_size(vqp_record_max_payload(4096)));
}

TEST(path, keeps_a_reserve_for_control) {
    vqp_path_t path {};

    path.up    = 1;
    path.depth = 8;
    path.tail  = 8 - VQP_CONTROL_RESERVE - 1;
    EXPECT_TRUE(vqp_path_has_room(&path, 1));
    ++path.tail;
    EXPECT_FALSE(vqp_path_has_room(&path, 1));
    EXPECT_TRUE(vqp_path_has_reserve(&path));
}

TEST(path, is_full_at_its_cap_and_closed_while_down) {
    vqp_path_t path {};

    path.up    = 1;
    path.depth = 8;
    path.bytes = 100;
    EXPECT_TRUE(vqp_path_has_room(&path, 101));
    EXPECT_FALSE(vqp_path_has_room(&path, 100));
    path.up = 0;
    EXPECT_FALSE(vqp_path_has_room(&path, 101));
}

TEST(path, slots_wrap_at_16_bits) {
    vqp_inflight_t entries[8];
    vqp_path_t path {};

    path.inflight = entries;
    path.mask     = 7;
    path.head     = 0xfffe;
    path.tail     = 3;
    EXPECT_EQ(5u, vqp_path_outstanding(&path));
    EXPECT_EQ(&entries[6], vqp_path_at(&path, 0xfffe));
    EXPECT_EQ(&entries[0], vqp_path_at(&path, 0));
}

} /* namespace */
