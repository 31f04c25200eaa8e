/*
 * Queue pairs and the network between them: reliable connections that are FIFO
 * each, and know nothing of each other. Data is read from the sender's memory
 * when it is delivered, as late as an HCA may, and again when it is
 * acknowledged. A queue pair that fails flushes what it holds; some of that may
 * be executed nevertheless.
 */
#ifndef VQP_SIM_FABRIC_H
#define VQP_SIM_FABRIC_H

#include "oracle.h"

#include <deque>
#include <vector>

namespace sim {

class world;
class vqp;

/* As a driver gives it: of a failed one only name and status are valid */
struct cqe {
    uint32_t     vqp_id;
    uint8_t      path;
    uint8_t      is_recv;
    uint16_t     qp_tag;
    uint16_t     slot;
    vqp_status_t status;
    uint32_t     imm;
    uint8_t      extra; /* not of a receive that the owner posted */
};

/* A posted work request */
struct wr {
    uint8_t               kind, opcode, flags;
    uint16_t              slot;
    uint32_t              imm, rkey, length;
    uint64_t              raddr;
    std::vector<vqp_sge_t> sge;
    op                   *owner;
    channel              *from;
    std::vector<char>     data; /* written, or given inline */
    uint64_t              add, swap, result;
    uint64_t              deliver_at, ack_at;
};

class qp {
public:
    enum states { INIT, CONNECTED, ERROR };

    qp(world &w, vqp &owner, uint32_t qpn, unsigned path, unsigned rail,
       uint16_t first_slot);
    ~qp();

    void connect(uint32_t peer_qpn);
    void post_recv(unsigned count);
    void post(const vqp_frag_t &frag);
    /* Moves to ERROR: all that is posted is flushed, the oldest with @a status */
    void fail(vqp_status_t status);
    void to_error() { fail(VQP_ERR_CANCELED); }
    /* The device does not answer any more: no completion comes */
    void lose();
    /* Nothing is delivered before @a until */
    void freeze(uint64_t until);
    /* An event of this queue pair is due */
    void run();
    vqp &owner() { return m_owner; }
    /* An immediate arrives that the sender's credit does not cover: of a replay,
     * or of a byzantine peer */
    void receive_extra(uint32_t imm);

    /* What a driver may know of what the peer's requests did here */
    uint32_t executed(vqp_source_t source) const;
    bool is_connected_to(uint32_t peer_qpn) const { return m_peer == peer_qpn; }

    uint32_t qpn;
    states   state    = INIT;
    unsigned receives = 0;
    bool     is_unresolved = false; /* its owner could not connect it at once */

private:
    qp *peer();
    void schedule();
    void check_frag(const vqp_frag_t &frag);
    bool check_remote(const wr &w, const vqp &target);
    void check_source(const wr &w);
    void count(const wr &w);
    void gather(const wr &w, char *to);
    void snapshot(wr &w);
    void execute(wr &w, qp &to, bool is_late);
    void write(wr &w, qp &to);
    void atomic(wr &w);
    void acknowledge(wr &w);
    bool executes(const wr &w) const;
    void run_late();
    void complete(uint16_t slot, vqp_status_t status);
    void push(cqe entry);
    void receive(uint32_t imm);
    void flush_receives();

    world         &m_world;
    vqp           &m_owner;
    unsigned       m_path, m_rail;
    uint32_t       m_peer      = 0;
    unsigned       m_peer_rail = 0;
    std::deque<wr> m_wire;          /* not acknowledged */
    size_t         m_delivered = 0; /* of these */
    std::deque<wr> m_late;          /* flushed, and yet on their way */
    uint64_t       m_last_deliver = 0, m_last_ack = 0, m_frozen = 0,
                   m_retry_until = 0;
    uint64_t       m_scheduled    = UINT64_MAX;
    uint64_t       m_flush_at     = 0; /* in ERROR: not flushed before; 0: it was */
    uint16_t       m_next_slot;
    uint32_t       m_msn = 0, m_packets = 0; /* executed for the peer */
};

} /* namespace sim */

#endif
