/*
 * Fuzz target: the receiver. A hostile peer writes what it likes into the ring
 * and the credit cells, and sends any immediate. The oracle is the window as a
 * set, and ring positions that do not wrap.
 */
#include "window_model.h"

#include <vector>

extern "C" {
#include "core/rx.h"
}

using namespace vqp_fuzz;

namespace {

const unsigned NUM_PATHS = 4;

class Receiver {
public:
    explicit Receiver(Input &in) :
        m_in(in), m_ring_size(4096u << (in.u8() & 1)),
        m_window(2u << (in.u8() & 3)), m_first(in.u24()),
        m_ring(new char[m_ring_size]()),
        m_cells(new char[NUM_PATHS * VQP_CELL_STRIDE]()),
        m_map(new uint8_t[m_window]), m_model(m_window, m_first)
    {
        vqp_rx_init(&m_rx, m_ring.get(), m_ring_size, m_cells.get(),
                    m_map.get(), m_window, m_first, &m_stats);
        /* As after some traffic: near the wrap of 32 bits */
        if (in.u8() & 1) {
            m_rx.ring_pos = m_rx.told_ring = (uint32_t)-(int)m_ring_size;
            m_pos = m_told_pos = m_rx.ring_pos;
        }
        m_told_fsn = m_waiting_fsn = m_rx.told_fsn;
    }

    void run()
    {
        while (!m_in.empty() && !m_broken) {
            step(m_in.u8());
            check();
        }
    }

private:
    void step(uint8_t command)
    {
        switch (command & 7) {
        case 0:
            put_record((uint32_t)(m_pos & (m_ring_size - 1)));
            break;
        case 1:
            put_record(0);
            break;
        case 2:
            poke();
            break;
        case 3:
            put_cell(command >> 3);
            break;
        case 4:
            if (command & 8) {
                wait_with_credit();
            } else {
                tell();
            }
            break;
        case 5:
            look_for_gap();
            break;
        default:
            immediate(draw_imm(m_in, m_rx.window.base), command >> 3);
            break;
        }
    }

    void put_record(uint32_t offset)
    {
        vqp_record_t record = {};

        record.length      = m_in.u16();
        record.am_id       = m_in.u8();
        record.flags       = m_in.u8() & 1;
        record.credit_ring = m_in.u16();
        record.credit_fsn  = m_in.u16();
        memcpy(m_ring.get() + offset, &record, sizeof(record));
    }

    void poke()
    {
        uint32_t offset = m_in.u16() & (m_ring_size - 1);
        uint8_t length  = m_in.u8() & 31;

        m_in.bytes(m_ring.get() + offset,
                   vqp_min((uint32_t)length, m_ring_size - offset));
    }

    void put_cell(unsigned path)
    {
        vqp_cell_t cell = {m_in.u16(), m_in.u16(), m_in.u8(), 0};

        memcpy(m_cells.get() + ((path % NUM_PATHS) * VQP_CELL_STRIDE), &cell,
               sizeof(cell));
    }

    void tell()
    {
        vqp_credit_t credit = vqp_rx_credit(&m_rx);

        FUZZ_CHECK(credit.ring == (uint32_t)m_pos);
        FUZZ_CHECK(credit.fsn == m_model.base());
        if (((m_pos != m_told_pos) || (m_model.base() != m_told_fsn)) &&
            ((m_pos != m_waiting_pos) || (m_model.base() != m_waiting_fsn))) {
            m_starves = false;
        }
        vqp_rx_told(&m_rx, &credit);
        m_told_pos = m_pos;
        m_told_fsn = m_model.base();
        FUZZ_CHECK(!vqp_rx_must_tell(&m_rx));
    }

    /* An AM with the credit of now that waits for a path */
    void wait_with_credit()
    {
        vqp_credit_t credit = vqp_rx_credit(&m_rx);
        vqp_tx_t tx {};

        tx.am.tail = 1;
        vqp_rx_told_in_am(&m_rx, &tx, &credit);
        m_waiting_pos = m_pos;
        m_waiting_fsn = m_model.base();
    }

    void look_for_gap()
    {
        uint64_t gap;

        m_now += 1 + m_in.u16();
        gap    = vqp_rx_gap(&m_rx, m_now);
        if ((m_model.ahead() == 0) || (m_gap_base != m_model.base()) ||
            (m_gap_since == 0)) {
            FUZZ_CHECK(gap == 0);
            m_gap_base  = m_model.base();
            m_gap_since = (m_model.ahead() == 0) ? 0 : m_now;
        } else {
            FUZZ_CHECK(gap == m_now - m_gap_since);
        }
    }

    /* What uct_vqp_recv does with it */
    void immediate(uint32_t imm, unsigned path)
    {
        vqp_status_t expected = m_model.arrive(imm);
        uint64_t duplicates   = m_stats.duplicates;
        uint32_t flags        = 0;
        int passed            = vqp_rx_imm(&m_rx, imm);

        if (expected == VQP_ERR_PROTOCOL) {
            FUZZ_CHECK(passed == VQP_ERR_PROTOCOL);
            m_broken = true;
            return;
        }

        FUZZ_CHECK(m_stats.duplicates ==
                   duplicates + (expected == VQP_INPROGRESS));
        if (imm & VQP_IMM_CONTROL) {
            control(path % NUM_PATHS);
        }

        if (!passed) {
            /* Kept or dropped: it is not the one that is waited for, or it was
             * here before */
            FUZZ_CHECK((expected == VQP_INPROGRESS) ||
                       ((imm & 0xffffff) != m_model.base()));
            return;
        }

        FUZZ_CHECK((passed == 1) && (expected == VQP_OK));
        FUZZ_CHECK(m_model.next(&flags) && (flags == (imm & ~0xffffffu)));
        flags = imm;
        do {
            if ((flags & VQP_IMM_LAST) && !deliver(flags)) {
                m_broken = true;
                return;
            }
        } while (next(&flags));
    }

    bool next(uint32_t *flags)
    {
        uint32_t expected;

        if (!vqp_window_next(&m_rx.window, flags)) {
            FUZZ_CHECK(!m_model.next(&expected));
            return false;
        }

        FUZZ_CHECK(m_model.next(&expected) && (expected == *flags));
        return true;
    }

    void control(unsigned path)
    {
        vqp_credit_t credit = vqp_rx_control(&m_rx, path);
        vqp_cell_t cell;

        memcpy(&cell, m_cells.get() + (path * VQP_CELL_STRIDE), sizeof(cell));
        FUZZ_CHECK((credit.ring == cell.credit_ring) &&
                   (credit.fsn == cell.credit_fsn));
        m_starves = m_starves || (cell.flags & VQP_CELL_STARVE);
    }

    /* Where the record has to be, and whether it is one */
    bool expect_record(uint32_t flags, uint64_t *start, vqp_record_t *record)
    {
        uint64_t offset = m_pos % m_ring_size;

        *start = m_pos;
        if (flags & VQP_IMM_WRAP) {
            if (offset == 0) {
                return false;
            }
            *start += m_ring_size - offset;
            offset  = 0;
        }

        memcpy(record, m_ring.get() + offset, sizeof(*record));
        return ((uint64_t)record->length + sizeof(*record) <=
                m_ring_size / 2) &&
               (offset + sizeof(*record) + record->length <= m_ring_size) &&
               (record->flags == 0) && (record->reserved == 0);
    }

    bool deliver(uint32_t flags)
    {
        vqp_record_t record;
        uint64_t start, end;
        vqp_rx_am_t am;
        bool good       = expect_record(flags, &start, &record);
        vqp_status_t status = vqp_rx_record(&m_rx, flags, &am);
        unsigned sum    = 0;

        FUZZ_CHECK(status == (good ? VQP_OK : VQP_ERR_PROTOCOL));
        if (!good) {
            return false;
        }

        end = start + ((sizeof(record) + record.length + 15) & ~15ull);
        FUZZ_CHECK(am.data == m_ring.get() + (start % m_ring_size) +
                              sizeof(record));
        FUZZ_CHECK((am.length == record.length) && (am.id == record.am_id));
        FUZZ_CHECK(am.end == (uint32_t)end);
        FUZZ_CHECK((am.credit.ring == record.credit_ring) &&
                   (am.credit.fsn == record.credit_fsn));
        for (uint32_t i = 0; i < am.length; ++i) {
            sum += ((const uint8_t*)am.data)[i]; /* all of it can be read */
        }
        m_sum = sum;

        FUZZ_CHECK(vqp_rx_credit(&m_rx).ring == (uint32_t)m_pos);
        vqp_rx_consumed(&m_rx, &am);
        m_pos = end;
        return true;
    }

    void check()
    {
        uint64_t bytes = m_pos - m_told_pos;
        uint32_t fsns  = (m_model.base() - m_told_fsn) & 0xffffff;

        m_model.check(&m_rx.window);
        FUZZ_CHECK(m_rx.ring_pos == (uint32_t)m_pos);
        FUZZ_CHECK(m_pos % VQP_RECORD_ALIGN == 0);
        if ((bytes < (1u << 31)) && (fsns < (1u << 23))) {
            FUZZ_CHECK(!!vqp_rx_must_tell(&m_rx) ==
                       ((bytes >= m_ring_size / 2) || (fsns >= m_window / 2) ||
                        (m_starves && ((bytes > 0) || (fsns > 0)))));
        }
    }

    Input                     &m_in;
    uint32_t                   m_ring_size;
    uint32_t                   m_window;
    uint32_t                   m_first;
    std::unique_ptr<char[]>    m_ring;
    std::unique_ptr<char[]>    m_cells;
    std::unique_ptr<uint8_t[]> m_map;
    WindowModel                m_model;
    vqp_stats_t                m_stats {};
    vqp_rx_t                   m_rx;
    uint64_t                   m_pos       = 0; /* bytes consumed, unwrapped */
    uint64_t                   m_told_pos  = 0;
    uint32_t                   m_told_fsn  = 0;
    uint64_t                   m_waiting_pos = 0; /* of an AM without a path */
    uint32_t                   m_waiting_fsn = 0;
    bool                       m_starves   = false;
    bool                       m_broken    = false;
    uint64_t                   m_now       = 1;
    uint32_t                   m_gap_base  = 0;
    uint64_t                   m_gap_since = 0;
    volatile unsigned          m_sum       = 0;
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Input in(data, size);
    Receiver receiver(in);

    receiver.run();
    return 0;
}
