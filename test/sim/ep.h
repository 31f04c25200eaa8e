/*
 * An endpoint and the program that uses it: random calls and their data, in
 * batches. A refused call is repeated only when the core says that resources may
 * be back, so that a missing RESUME is a run that does not end.
 */
#ifndef VQP_SIM_EP_H
#define VQP_SIM_EP_H

#include "vqp.h"

#include <deque>

namespace sim {

class node;
class world;

class ep {
public:
    ep(node &owner, uint32_t id, unsigned sessions);
    ~ep();

    /* An event of the program is due */
    void act();
    /* Resources came back */
    void resume();
    void on_failure();
    void on_am(const vqp_rx_am_t &am);
    /* Ends the endpoint for good */
    void close_now();

    bool has_pending() const { return !m_pending.empty(); }
    bool is_waiting() const { return m_waiting || has_pending(); }
    bool in_pending() const { return m_in_pending; }
    /* Has all that it waits for come? */
    bool is_satisfied() const;
    bool is_over() const { return (m_vqp == nullptr) && (m_sessions == 0); }
    bool is_open() const { return m_vqp != nullptr; }
    vqp *connection() { return m_vqp; }
    std::string str() const;

    uint32_t id;

private:
    enum call {
        AM_SHORT, AM_BCOPY, AM_ZCOPY, PUT_SHORT, PUT, GET, FADD, CSWAP, CHECK,
        FENCE, FLUSH
    };

    struct plan {
        call     what;
        uint32_t length, max;
    };

    void schedule(uint64_t delay);
    void open();
    void close();
    void end_session();
    bool must_end();
    void leave();
    void batch();
    plan draw();
    bool perform(const plan &p);
    bool refused();

    /* program.cc */
    bool send_am(uint32_t length, uint32_t max, bool zcopy);
    bool start_rma(const plan &p);
    void send_rma(vqp_op_t *core);
    void fill_rma(const plan &p, vqp_op_t *core, op *user);
    bool find_target(const plan &p, op *user);
    void find_source_of_get(op *user);
    void split(vqp_op_t *core, op *user, bool is_am);
    bool flush();

    node             &m_node;
    world            &m_world;
    node             *m_peer = nullptr;
    vqp              *m_vqp  = nullptr;
    unsigned          m_sessions;
    uint64_t          m_todo      = 0;
    bool              m_waiting   = false;
    bool              m_in_pending = false;
    bool              m_failed    = false;
    bool              m_is_final  = false; /* stays open until the end */
    bool              m_scheduled = false;
    bool              m_has_plan  = false;
    bool              m_in_act    = false;
    bool              m_has_flushed = false;
    uint64_t          m_patience  = 0;
    plan              m_plan {};
    std::deque<plan>  m_pending;
};

} /* namespace sim */

#endif
