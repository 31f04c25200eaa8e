/* The receiver: immediates in, records out in order, credit counted. */
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

extern "C" {
#include "core/data/rx.h"
}

namespace {

class rx : public ::testing::Test {
protected:
    static constexpr uint32_t RING = 4096, WINDOW = 16, FIRST = 10;

    void SetUp() override {
        vqp_rx_init(&m_rx, m_ring.data(), RING, m_cells.data(), m_map.data(),
                    WINDOW, FIRST, &m_stats);
    }

    /* A record as the peer would write it */
    vqp_record_t *record(uint32_t offset, uint32_t length, uint8_t id = 1) {
        auto *rec = (vqp_record_t*)&m_ring[offset];

        *rec = {length, id, 0, 0, 0, 0};
        return rec;
    }

    void consume(uint32_t flags = VQP_IMM_LAST) {
        ASSERT_EQ(VQP_OK, vqp_rx_record(&m_rx, flags, &m_am));
        vqp_rx_consumed(&m_rx, &m_am);
    }

    void cell(uint32_t path, const vqp_cell_t &value) {
        memcpy(&m_cells[path * VQP_CELL_STRIDE], &value, sizeof(value));
    }

    void advertise() {
        vqp_credit_t credit = vqp_rx_credit(&m_rx);

        vqp_rx_advertise(&m_rx, &credit);
    }

    std::vector<char>    m_ring  = std::vector<char>(RING);
    std::vector<char>    m_cells = std::vector<char>(4 * VQP_CELL_STRIDE);
    std::vector<uint8_t> m_map   = std::vector<uint8_t>(WINDOW);
    vqp_stats_t          m_stats {};
    vqp_rx_t             m_rx;
    vqp_rx_am_t          m_am;
};

TEST_F(rx, in_order_is_passed_at_once) {
    EXPECT_EQ(1, vqp_rx_imm(&m_rx, FIRST | VQP_IMM_LAST));
    EXPECT_EQ(1, vqp_rx_imm(&m_rx, FIRST + 1));
    EXPECT_EQ(FIRST + 2, m_rx.window.base);
}

TEST_F(rx, what_closes_a_gap_is_passed_at_once) {
    uint32_t flags;

    EXPECT_EQ(0, vqp_rx_imm(&m_rx, (FIRST + 1) | VQP_IMM_LAST));
    EXPECT_EQ(0, vqp_rx_imm(&m_rx, FIRST + 3));
    EXPECT_EQ(1, vqp_rx_imm(&m_rx, FIRST));
    EXPECT_TRUE(vqp_window_next(&m_rx.window, &flags));
    EXPECT_EQ((uint32_t)VQP_IMM_LAST, flags);
    EXPECT_FALSE(vqp_window_next(&m_rx.window, &flags));
    EXPECT_EQ(3u, m_stats.ooo_max);
}

TEST_F(rx, duplicates_are_counted_and_dropped) {
    vqp_rx_imm(&m_rx, FIRST);
    vqp_rx_imm(&m_rx, FIRST + 2);
    EXPECT_EQ(0, vqp_rx_imm(&m_rx, FIRST));
    EXPECT_EQ(0, vqp_rx_imm(&m_rx, FIRST + 2));
    EXPECT_EQ(2u, m_stats.duplicates);
    EXPECT_EQ(FIRST + 1, m_rx.window.base);
}

TEST_F(rx, protocol_errors_are_detected) {
    EXPECT_EQ(VQP_ERR_PROTOCOL, vqp_rx_imm(&m_rx, FIRST + WINDOW));
    EXPECT_EQ(VQP_ERR_PROTOCOL, vqp_rx_imm(&m_rx, FIRST | VQP_IMM_WRAP));
    EXPECT_EQ(VQP_ERR_PROTOCOL, vqp_rx_imm(&m_rx, FIRST | (1u << 30)));
}

TEST_F(rx, record_is_delivered_in_place) {
    *record(0, 100, 7) = {100, 7, 0, 0, 4711, 42};
    ASSERT_EQ(VQP_OK, vqp_rx_record(&m_rx, VQP_IMM_LAST, &m_am));
    EXPECT_EQ(&m_ring[sizeof(vqp_record_t)], m_am.data);
    EXPECT_EQ(100u, m_am.length);
    EXPECT_EQ(7, m_am.id);
    EXPECT_EQ(vqp_record_size(100), m_am.end);
    EXPECT_EQ(4711u, m_am.credit.ring);
    EXPECT_EQ(42u, m_am.credit.fsn);
}

TEST_F(rx, credit_moves_after_the_handler) {
    record(0, 100);
    ASSERT_EQ(VQP_OK, vqp_rx_record(&m_rx, VQP_IMM_LAST, &m_am));
    EXPECT_EQ(0u, vqp_rx_credit(&m_rx).ring);
    vqp_rx_consumed(&m_rx, &m_am);
    EXPECT_EQ(vqp_record_size(100), vqp_rx_credit(&m_rx).ring);
    EXPECT_EQ(1u, m_stats.ams_rx);
}

TEST_F(rx, wrap_flag_skips_to_the_start_of_the_ring) {
    record(0, RING / 2 - 16);
    consume();
    record(RING / 2, 1000);
    consume();
    record(0, 2000, 9);
    consume(VQP_IMM_LAST | VQP_IMM_WRAP);
    EXPECT_EQ(9, m_am.id);
    EXPECT_EQ(RING + vqp_record_size(2000), m_rx.ring_pos);
}

TEST_F(rx, wrap_at_the_start_is_refused) {
    record(0, 16);
    EXPECT_EQ(VQP_ERR_PROTOCOL,
              vqp_rx_record(&m_rx, VQP_IMM_LAST | VQP_IMM_WRAP, &m_am));
}

TEST_F(rx, ring_positions_wrap_at_32_bits) {
    m_rx.ring_pos = m_rx.advertised.ring = 0xfffff000u;
    for (unsigned i = 0; i < 4; ++i) {
        record(i * (RING / 4), RING / 4 - 16);
        consume();
    }
    EXPECT_EQ(0u, m_rx.ring_pos);
    EXPECT_TRUE(vqp_rx_needs_update(&m_rx));
}

TEST_F(rx, malformed_records_are_refused) {
    record(0, RING / 2 - 15);
    EXPECT_EQ(VQP_ERR_PROTOCOL, vqp_rx_record(&m_rx, VQP_IMM_LAST, &m_am));
    record(0, UINT32_MAX);
    EXPECT_EQ(VQP_ERR_PROTOCOL, vqp_rx_record(&m_rx, VQP_IMM_LAST, &m_am));
    record(0, 16)->flags = VQP_RECORD_MORE << 1;
    EXPECT_EQ(VQP_ERR_PROTOCOL, vqp_rx_record(&m_rx, VQP_IMM_LAST, &m_am));
    record(0, 16)->reserved = 1;
    EXPECT_EQ(VQP_ERR_PROTOCOL, vqp_rx_record(&m_rx, VQP_IMM_LAST, &m_am));
}

TEST_F(rx, records_do_not_leave_the_ring) {
    m_rx.ring_pos = RING - 32;
    record(RING - 32, 16);
    EXPECT_EQ(VQP_OK, vqp_rx_record(&m_rx, VQP_IMM_LAST, &m_am));
    record(RING - 32, 17);
    EXPECT_EQ(VQP_ERR_PROTOCOL, vqp_rx_record(&m_rx, VQP_IMM_LAST, &m_am));
}

TEST_F(rx, needs_an_update_at_a_share_of_the_ring) {
    record(0, RING / 4 - 32);
    consume();
    EXPECT_FALSE(vqp_rx_needs_update(&m_rx));
    record(RING / 4 - 16, 0);
    consume();
    EXPECT_TRUE(vqp_rx_needs_update(&m_rx));
    advertise();
    EXPECT_FALSE(vqp_rx_needs_update(&m_rx));
}

TEST_F(rx, needs_an_update_at_a_share_of_the_window) {
    for (uint32_t i = 0; i < WINDOW / 4; ++i) {
        EXPECT_FALSE(vqp_rx_needs_update(&m_rx));
        vqp_rx_imm(&m_rx, FIRST + i);
    }
    EXPECT_TRUE(vqp_rx_needs_update(&m_rx));
    advertise();
    EXPECT_FALSE(vqp_rx_needs_update(&m_rx));
}

TEST_F(rx, credit_in_a_message_that_waits_for_a_path_is_not_advertised) {
    vqp_credit_t credit;
    vqp_tx_t tx {}; /* an empty ring of AMs */

    for (uint32_t i = 0; i < WINDOW / 2; ++i) {
        vqp_rx_imm(&m_rx, FIRST + i);
    }

    credit     = vqp_rx_credit(&m_rx);
    tx.am.tail = 1;
    vqp_rx_advertise_in_am(&m_rx, &tx, &credit);
    EXPECT_TRUE(vqp_rx_needs_update(&m_rx));

    tx.am.post = 1;
    vqp_rx_advertise_in_am(&m_rx, &tx, &credit);
    EXPECT_FALSE(vqp_rx_needs_update(&m_rx));
}

TEST_F(rx, control_is_read_from_the_cell_of_its_path) {
    cell(2, {111, 222, 0, 0});
    vqp_credit_t credit = vqp_rx_read_cell(&m_rx, 2);
    EXPECT_EQ(111u, credit.ring);
    EXPECT_EQ(222u, credit.fsn);
    EXPECT_EQ(0u, vqp_rx_read_cell(&m_rx, 1).ring);
    EXPECT_EQ(2u, m_stats.credit_updates_rx);
}

TEST_F(rx, a_credit_request_is_answered_with_all_credit_there_is) {
    cell(0, {0, 0, VQP_CELL_REQUEST, 0});
    vqp_rx_read_cell(&m_rx, 0);
    EXPECT_FALSE(vqp_rx_needs_update(&m_rx));

    vqp_rx_imm(&m_rx, FIRST); /* an fsn is new credit, as bytes are */
    EXPECT_TRUE(vqp_rx_needs_update(&m_rx));
    advertise();
    EXPECT_FALSE(vqp_rx_needs_update(&m_rx));
}

TEST_F(rx, a_request_ends_with_new_credit) {
    cell(0, {0, 0, VQP_CELL_REQUEST, 0});
    vqp_rx_read_cell(&m_rx, 0);
    advertise(); /* nothing new: the request remains */
    record(0, 16);
    consume();
    EXPECT_TRUE(vqp_rx_needs_update(&m_rx));
    advertise();
    record(32, 16);
    consume();
    EXPECT_FALSE(vqp_rx_needs_update(&m_rx));
}

TEST_F(rx, a_request_does_not_end_with_credit_that_waited_in_a_message) {
    vqp_credit_t credit;
    vqp_tx_t tx {};

    vqp_rx_imm(&m_rx, FIRST);
    credit     = vqp_rx_credit(&m_rx);
    tx.am.tail = 1;
    vqp_rx_advertise_in_am(&m_rx, &tx, &credit); /* then it is sent */

    cell(0, {0, 0, VQP_CELL_REQUEST, 0});
    vqp_rx_read_cell(&m_rx, 0);
    advertise();
    vqp_rx_imm(&m_rx, FIRST + 1);
    EXPECT_TRUE(vqp_rx_needs_update(&m_rx));
    advertise();
    vqp_rx_imm(&m_rx, FIRST + 2);
    EXPECT_FALSE(vqp_rx_needs_update(&m_rx));
}

TEST_F(rx, gap_is_timed_from_its_detection) {
    EXPECT_EQ(0u, vqp_rx_gap(&m_rx, 1000));
    vqp_rx_imm(&m_rx, FIRST + 1);
    EXPECT_EQ(0u, vqp_rx_gap(&m_rx, 5000));
    EXPECT_EQ(4000u, vqp_rx_gap(&m_rx, 9000));
    EXPECT_EQ(4u, m_stats.gap_usec);
}

TEST_F(rx, gap_starts_anew_when_the_window_moves) {
    uint32_t flags;

    vqp_rx_imm(&m_rx, FIRST + 1);
    vqp_rx_imm(&m_rx, FIRST + 3);
    vqp_rx_gap(&m_rx, 5000);
    vqp_rx_imm(&m_rx, FIRST);
    while (vqp_window_next(&m_rx.window, &flags)) {
    }
    EXPECT_EQ(0u, vqp_rx_gap(&m_rx, 9000));
    EXPECT_EQ(500u, vqp_rx_gap(&m_rx, 9500));
    vqp_rx_imm(&m_rx, FIRST + 2);
    while (vqp_window_next(&m_rx.window, &flags)) {
    }
    EXPECT_EQ(0u, vqp_rx_gap(&m_rx, 99000));
}

} /* namespace */
