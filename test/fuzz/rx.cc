/*
 * Fuzz target: a connected vqp with a hostile peer, which writes what it likes
 * into the ring and the credit cells, and sends any immediate, while the vqp sends
 * messages and credit of its own. The oracle is the window as a set, positions
 * that do not wrap, and what was sent.
 */
#include "window_model.h"

#include <vector>

extern "C" {
#include "core/vqp.h"
}

using namespace vqp_fuzz;

namespace {

const unsigned MAX_PATHS = 4;
const uint64_t GAP_LIMIT = 30000; /* ns */
const uint32_t NUM_OPS   = 16;
const unsigned DEPTH     = 64;
const unsigned AM_IDS    = 255;

class Connection {
public:
    explicit Connection(Input &in) :
        m_in(in), m_ring_size(4096u << (in.u8() & 1)),
        m_window(4u << (in.u8() & 3)), m_first(in.u24()),
        m_num_paths((m_window == 4) ? 1 : MAX_PATHS),
        m_ring(new char[m_ring_size]()),
        m_cells(new char[m_num_paths * VQP_CELL_STRIDE]()),
        m_map(new uint8_t[m_window]),
        m_mirror(new char[m_ring_size]()),
        m_own_cells(new char[m_num_paths * VQP_CELL_STRIDE]()),
        m_inflight(MAX_PATHS * DEPTH), m_am_ops(NUM_OPS), m_rma_ops(NUM_OPS),
        m_results(NUM_OPS), m_model(m_window, m_first)
    {
        connect();
        /* As after some traffic: near the wrap of 32 bits */
        if (in.u8() & 1) {
            m_rx.ring_pos = m_rx.advertised.ring = (uint32_t)-(int)m_ring_size;
            m_pos = m_advertised_pos = m_rx.ring_pos;
            m_tx.fc.ring_head = m_tx.fc.ring_peer = m_tx.fc.ring_local =
                    (uint32_t)-(int)m_ring_size;
        }
        m_advertised_fsn = m_waiting_fsn = m_rx.advertised.fsn;
        m_peer_ring = m_tx.fc.ring_peer;
        m_peer_fsn  = m_tx.fc.fsn_peer;
    }

    void run()
    {
        while (!m_in.empty() && !m_broken && !vqp_is_failed(&m_vqp)) {
            step(m_in.u8());
            check();
        }

        if (m_broken) {
            check_broken();
        }
    }

private:
    void connect()
    {
        vqp_config_t config = vqp_config_t();

        for (unsigned i = 0; i < m_num_paths; ++i) {
            vqp_path_t &path = m_paths[i];

            path.inflight  = &m_inflight[i * DEPTH];
            path.mask      = DEPTH - 1;
            path.depth     = DEPTH - 1;
            path.index     = (uint8_t)i;
            path.up        = 1;
        }

        config.tx.ring_size    = m_ring_size;
        config.tx.fsn_window   = m_window;
        config.tx.first_fsn    = m_first;
        config.tx.path_cap     = 1 << 20;
        config.tx.signal_every = 8;
        config.tx.frag_shift   = 16;
        config.tx.max_shift    = 31;
        config.tx.min_shift    = 14;
        config.tx.notify       = VQP_NOTIFY_DQPLB;
        config.tx.mirror       = m_mirror.get();
        config.tx.local_lkeys  = &m_key;
        config.tx.ring_rkeys   = &m_key;
        config.tx.cells        = (vqp_cell_t*)m_own_cells.get();
        config.tx.amo_results  = m_results.data();
        config.am_ops          = m_am_ops.data();
        config.rma_ops         = m_rma_ops.data();
        config.num_am_ops = NUM_OPS;
        config.num_rma_ops = NUM_OPS;
        config.num_paths       = m_num_paths;
        config.peer_first_fsn  = m_first;
        config.recv_batch      = 1;
        config.am_ids          = AM_IDS;
        config.map             = m_map.get();
        config.ring            = m_ring.get();
        config.rx_cells        = m_cells.get();
        config.gap             = GAP_LIMIT;
        vqp_init(&m_vqp, m_paths, m_num_paths, 0);
        vqp_connect(&m_vqp, &config);
        vqp_set_live(&m_vqp);
    }

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
            if (!(command & 8)) {
                m_tx.slow |= VQP_TX_CREDIT;
                post(false);
            } else {
                send_am(!(command & 16));
            }
            break;
        case 5:
            pass_time(command & 8);
            break;
        default:
            immediate(draw_imm(m_in, m_rx.window.base), command >> 3);
            break;
        }
    }

    /* Usually a valid value, else any */
    uint32_t draw_ring()
    {
        uint32_t value = m_in.u16();
        uint32_t out   = m_tx.fc.ring_head - m_peer_ring;

        return m_peer_ring + ((value & 0x8000) ? value : value % (out + 1));
    }

    uint32_t draw_fsn()
    {
        uint32_t value = m_in.u16();
        uint32_t out   = (m_tx.fc.fsn_next - m_peer_fsn) & 0xffffff;

        return (value & 0x8000) ? m_peer_fsn + value :
               ((m_peer_fsn + value % (out + 1)) & 0xffffff);
    }

    void put_record(uint32_t offset)
    {
        vqp_record_t record = {};
        uint8_t bits;

        record.length      = m_in.u16();
        record.am_id       = m_in.u8();
        bits               = m_in.u8();
        record.flags       = bits & 5; /* MORE, and one that is unknown */
        if (!(bits & 2)) {
            record.credit_ring = draw_ring();
            record.credit_fsn  = draw_fsn();
        }
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
        uint32_t ring   = draw_ring();
        uint32_t fsn    = draw_fsn();
        vqp_cell_t cell = {ring, fsn, m_in.u8(), 0};

        memcpy(m_cells.get() + ((path % m_num_paths) * VQP_CELL_STRIDE), &cell,
               sizeof(cell));
    }

    /* The current credit was advertised */
    void advertised()
    {
        if (((m_pos != m_advertised_pos) || (m_model.base() != m_advertised_fsn)) &&
            (((uint32_t)m_pos != (uint32_t)m_waiting_pos) || (m_model.base() != m_waiting_fsn))) {
            m_requested = false;
        }
        m_advertised_pos = m_pos;
        m_advertised_fsn = m_model.base();
        FUZZ_CHECK(!vqp_rx_needs_update(&m_rx));
    }

    /* What the vqp has to post goes out, and is confirmed. @a is_queued: an AM with
     * the credit of now was accepted for dispatch. */
    void post(bool is_queued)
    {
        vqp_credit_t credit = vqp_rx_credit(&m_rx);
        uint64_t updates    = m_vqp.stats.credit_updates_tx;
        vqp_done_t done;
        unsigned i;

        FUZZ_CHECK(credit.ring == (uint32_t)m_pos);
        FUZZ_CHECK(credit.fsn == m_model.base());
        FUZZ_CHECK(vqp_next_batch(&m_vqp, &m_batch) < VQP_BATCH_MAX);
        for (i = 0; i < m_batch.count; ++i) {
            vqp_on_send(&m_vqp, m_batch.frags[i].path, m_batch.frags[i].slot);
        }
        FUZZ_CHECK(!vqp_next_done(&m_vqp, &done));
        FUZZ_CHECK(vqp_tx_outstanding(&m_tx) == 0);
        if (m_vqp.stats.credit_updates_tx != updates) {
            advertised();
        }
        if (!is_queued) {
            return;
        }
        if (m_tx.am.post == m_tx.am.tail) {
            advertised();
        } else {
            m_waiting_pos = m_pos;
            m_waiting_fsn = m_model.base();
        }
    }

    /* An AM with the credit of now; one that finds no path has to wait for it */
    void send_am(bool is_waiting)
    {
        uint32_t length = m_in.u8();
        vqp_frag_t frag;
        vqp_sge_t sge[2];
        vqp_tx_am_t am;

        set_up(!is_waiting);
        if (vqp_tx_am_begin(&m_tx, length, 0, &am)) {
            am.op->user_kind = 0;
            if (vqp_send_am(&m_vqp, &am, 1, length, length, 1, sge, &frag) ==
                VQP_SEND_FRAG) {
                FUZZ_CHECK(!is_waiting);
                vqp_on_send(&m_vqp, frag.path, frag.slot);
                advertised();
            } else {
                post(true);
            }
        } else {
            post(false);
        }
        set_up(true);
    }

    void set_up(bool is_up)
    {
        for (unsigned i = 0; i < m_num_paths; ++i) {
            m_paths[i].up = is_up;
            vqp_tx_refill(&m_tx, &m_paths[i]);
        }
    }

    void pass_time(bool is_drained)
    {
        uint64_t gap = 0;

        m_now += 1 + m_in.u16();
        if ((m_now >= m_gap_due) && !is_drained) {
            m_gap_due = m_now + 1000000;
        } else if (m_now >= m_gap_due) {
            m_gap_due = m_now + GAP_LIMIT / 8;
            if (m_model.ahead() == 0) {
                if (m_look_base == m_model.base()) {
                    m_gap_due = UINT64_MAX;
                }
                m_look_base = m_model.base();
                m_gap_since = 0;
            } else {
                if ((m_gap_base != m_model.base()) || (m_gap_since == 0)) {
                    m_gap_base  = m_model.base();
                    m_gap_since = m_now;
                }
                gap = m_now - m_gap_since;
            }
        }

        vqp_on_time(&m_vqp, m_now, is_drained);
        FUZZ_CHECK(m_vqp.stats.gap_usec >= gap / 1000);
        FUZZ_CHECK(m_vqp.gap.failed == ((gap > GAP_LIMIT) ? gap : 0));
        FUZZ_CHECK(vqp_is_failed(&m_vqp) == (gap > GAP_LIMIT));
        FUZZ_CHECK(vqp_next_timeout(&m_vqp) ==
                   (vqp_is_failed(&m_vqp) ? UINT64_MAX : m_gap_due));
        if (vqp_is_failed(&m_vqp)) {
            FUZZ_CHECK(m_vqp.status == VQP_ERR_TIMEOUT);
        }
    }

    void immediate(uint32_t imm, unsigned path)
    {
        bool is_next          = vqp_imm_fsn(imm) == m_model.base();
        vqp_status_t expected = m_model.arrive(imm);
        uint64_t duplicates   = m_vqp.stats.duplicates;
        uint32_t flags;
        vqp_rx_am_t am;
        int ret;

        path %= m_num_paths;
        ret   = vqp_recv_fast(&m_vqp, &m_paths[path], imm, &am);
        if (ret == 0) {
            ret = vqp_recv(&m_vqp, &m_paths[path], imm, &am);
        }
        m_is_first = false;
        if (!is_next && (m_model.ahead() != 0) && (m_gap_due == UINT64_MAX)) {
            m_gap_due = 0;
        }
        if (expected == VQP_ERR_PROTOCOL) {
            is_broken(ret);
            return;
        }

        FUZZ_CHECK(m_vqp.stats.duplicates ==
                   duplicates + (expected == VQP_INPROGRESS));
        if ((imm & VQP_IMM_CREDIT) && !control(path)) {
            is_broken(ret);
            return;
        }

        while (next_am(&flags)) {
            if (!deliver(flags, ret, am)) {
                is_broken(ret);
                return;
            }
            vqp_recv_done(&m_vqp, &am);
            ret = vqp_recv_next(&m_vqp, &m_paths[path], &am);
        }
        FUZZ_CHECK(ret == 0);
    }

    /* The flags of the next immediate that closes an AM, if it may be passed */
    bool next_am(uint32_t *flags)
    {
        if (m_more) { /* it comes first, and has no immediate of its own */
            *flags = VQP_IMM_LAST;
            return true;
        }

        while (m_model.next(flags)) {
            if (*flags & VQP_IMM_LAST) {
                return true;
            }
        }
        return false;
    }

    bool control(unsigned path)
    {
        vqp_cell_t cell;

        memcpy(&cell, m_cells.get() + (path * VQP_CELL_STRIDE), sizeof(cell));
        m_requested = m_requested || (cell.flags & VQP_CELL_REQUEST);
        return credit(cell.credit_ring, cell.credit_fsn);
    }

    /* Can the peer have consumed that? Then it has. */
    bool credit(uint32_t ring, uint32_t fsn)
    {
        int32_t bytes = (int32_t)(ring - m_peer_ring);
        int32_t fsns  = (int32_t)((fsn - m_peer_fsn) << 8) >> 8;

        if ((fsn > 0xffffff) ||
            (bytes > (int32_t)(m_tx.fc.ring_head - m_peer_ring)) ||
            (fsns > (int32_t)((m_tx.fc.fsn_next - m_peer_fsn) & 0xffffff))) {
            return false;
        }

        m_peer_ring += (uint32_t)vqp_max(bytes, 0);
        m_peer_fsn   = (m_peer_fsn + (uint32_t)vqp_max(fsns, 0)) & 0xffffff;
        return true;
    }

    void is_broken(int ret)
    {
        FUZZ_CHECK(ret == VQP_ERR_PROTOCOL);
        m_broken = true;
    }

    /* The receiver has failed, reports it once, and accepts nothing any more */
    void check_broken()
    {
        uint64_t delivered = m_vqp.stats.ams_rx;
        uint32_t base      = m_rx.window.base;
        unsigned count     = 0;
        vqp_event_t event;
        vqp_rx_am_t am;

        FUZZ_CHECK(m_vqp.state == VQP_STATE_FAILED);
        FUZZ_CHECK(m_vqp.status == VQP_ERR_PROTOCOL);
        FUZZ_CHECK(m_vqp.broken.what != NULL);
        FUZZ_CHECK(vqp_take_event(&m_vqp, VQP_EVENT_QPS));
        while ((event = vqp_next_event(&m_vqp)) != VQP_EVENT_NONE) {
            count += event == VQP_EVENT_BROKEN;
        }
        FUZZ_CHECK(count == 1);
        FUZZ_CHECK(vqp_recv(&m_vqp, &m_paths[0], base | VQP_IMM_LAST, &am) == 0);
        FUZZ_CHECK(vqp_recv(&m_vqp, &m_paths[0], base + m_window, &am) == 0);
        FUZZ_CHECK(m_rx.window.base == base);
        FUZZ_CHECK(m_vqp.stats.ams_rx == delivered);
        FUZZ_CHECK(!vqp_has_events(&m_vqp));
        FUZZ_CHECK(vqp_next_batch(&m_vqp, &m_batch) == 0);
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
               ((record->flags & ~VQP_RECORD_MORE) == 0) && (record->reserved == 0);
    }

    /* One that follows another record ends at the end of the ring, and has no credit */
    bool accept_credit(const vqp_record_t &record)
    {
        return m_more ? (m_pos % m_ring_size != 0) && (record.credit_ring == 0) &&
                        (record.credit_fsn == 0) :
                        credit(record.credit_ring, record.credit_fsn);
    }

    bool deliver(uint32_t flags, int ret, const vqp_rx_am_t &am)
    {
        vqp_record_t record;
        uint64_t start, end;
        unsigned sum = 0;

        if (!expect_record(flags, &start, &record) ||
            (record.am_id >= AM_IDS) || !accept_credit(record) ||
            (flags & VQP_IMM_CONTROL)) { /* rings do not change here */
            return false;
        }

        FUZZ_CHECK(ret == 1);
        m_more = record.flags == VQP_RECORD_MORE;
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
        m_pos = end; /* with vqp_recv_done() */
        return true;
    }

    void check()
    {
        uint64_t bytes = m_pos - m_advertised_pos;
        uint32_t fsns  = (m_model.base() - m_advertised_fsn) & 0xffffff;

        if (m_broken) {
            return;
        }

        m_model.check(&m_rx.window);
        FUZZ_CHECK(m_rx.ring_pos == (uint32_t)m_pos);
        FUZZ_CHECK(m_pos % VQP_RECORD_ALIGN == 0);
        FUZZ_CHECK(m_tx.fc.ring_peer == m_peer_ring);
        FUZZ_CHECK(m_tx.fc.fsn_peer == m_peer_fsn);
        FUZZ_CHECK(!!(m_rx.slow & VQP_RX_FIRST) == m_is_first);
        if ((bytes < (1u << 31)) && (fsns < (1u << 23))) {
            FUZZ_CHECK(!!vqp_rx_needs_update(&m_rx) ==
                       ((bytes >= m_ring_size / 4) || (fsns >= m_window / 4) ||
                        (m_requested && ((bytes > 0) || (fsns > 0)))));
        }
    }

    Input                      &m_in;
    uint32_t                    m_ring_size;
    uint32_t                    m_window;
    uint32_t                    m_first;
    unsigned                    m_num_paths;
    std::unique_ptr<char[]>     m_ring;
    std::unique_ptr<char[]>     m_cells; /* that the peer writes */
    std::unique_ptr<uint8_t[]>  m_map;
    std::unique_ptr<char[]>     m_mirror;
    std::unique_ptr<char[]>     m_own_cells;
    std::vector<vqp_inflight_t> m_inflight;
    std::vector<vqp_op_t>       m_am_ops, m_rma_ops;
    std::vector<uint64_t>       m_results;
    WindowModel                 m_model;
    vqp_path_t                  m_paths[MAX_PATHS] = {};
    bool                        m_more = false; /* a record follows, see VQP_RECORD_MORE */
    uint32_t                    m_key = 0;
    vqp_batch_t                 m_batch;
    vqp_t                       m_vqp;
    vqp_tx_t                   &m_tx = m_vqp.tx;
    vqp_rx_t                   &m_rx = m_vqp.rx;
    uint64_t                    m_pos       = 0; /* bytes consumed, unwrapped */
    uint64_t                    m_advertised_pos  = 0;
    uint32_t                    m_advertised_fsn  = 0;
    uint64_t                    m_waiting_pos = 0; /* of an AM without a path */
    uint32_t                    m_waiting_fsn = 0;
    uint32_t                    m_peer_ring = 0; /* what the peer has consumed */
    uint32_t                    m_peer_fsn  = 0;
    bool                        m_is_first  = true;
    bool                        m_requested = false;
    bool                        m_broken    = false;
    uint64_t                    m_now       = 1;
    uint32_t                    m_gap_base  = 0;
    uint32_t                    m_look_base = 0;
    uint64_t                    m_gap_since = 0;
    uint64_t                    m_gap_due   = UINT64_MAX;
    volatile unsigned           m_sum       = 0;
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Input in(data, size);
    Connection connection(in);

    connection.run();
    return 0;
}
