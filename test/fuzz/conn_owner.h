/*
 * An interface under attack: a table of connections, and the owner that the
 * contract of conntab.h requires. Each action that breaks the contract ends the
 * process; what the table has forgotten is freed, so that a sanitizer sees it
 * used again.
 */
#ifndef VQP_TEST_FUZZ_CONN_OWNER_H
#define VQP_TEST_FUZZ_CONN_OWNER_H

#include "fuzz.h"

#include <map>
#include <set>
#include <vector>

extern "C" {
#include "core/conn/conndrive.h"
}

namespace vqp_fuzz {

constexpr uint64_t MSEC   = 1000000ull;
constexpr uint64_t OWN_ID = 0x11;

/* A vqp, as far as the protocol sees it */
struct Vqp {
    vqp_conn_t      conn;
    vqp_wire_info_t info;
    bool            ep;     /* owned by an endpoint */
    bool            asked;  /* CONNECT_QPS came */
    bool            ready;  /* and was answered */
    bool            live;
    bool            failed;
};

class Owner {
public:
    /* @a strict: the peers are so few that none is ever forgotten */
    explicit Owner(bool strict);
    ~Owner();

    void connect(uint64_t peer_id);
    void close(Vqp *vqp);
    void abort(Vqp *vqp);
    void fail(Vqp *vqp);
    void qps_ready(Vqp *vqp);
    void first_imm(Vqp *vqp);
    void recv(const uint8_t *data, size_t len);
    void recv_undrained(const uint8_t *data, size_t len);
    /* The one that a REQ with that header and body has to bring */
    uint64_t proof(const vqp_wire_header_t &hdr, const vqp_wire_info_t &info) const;
    void pass(uint64_t ns);
    void wind_up(); /* silence, then the end: all must go */

    Vqp *pick(unsigned index); /* one of those that are there, or null */
    const std::vector<uint8_t> &sent(unsigned index) const;

    bool defer_qps = false; /* connect queue pairs only on a command of the
                               script */
    bool refuse    = false; /* passive connections */
    bool no_memory = false; /* for them */

private:
    static Vqp *vqp_of(vqp_conn_t *conn);
    Vqp *create();
    void forget(Vqp *vqp);
    vqp_conn_params_t params(Vqp *vqp, const vqp_conn_dest_t *to);
    void note_number(const Vqp *vqp);
    vqp_conn_dest_t sender(const vqp_wire_msg_t &msg, bool is_valid) const;
    void create_passive(const vqp_wire_msg_t *req);
    void check_send(const vqp_conntab_action_t &action);
    void act(const vqp_conntab_action_t &action);
    void drain();
    void settle();
    void run_timers();
    void check() const;
    void check_conn(const Vqp *vqp) const;

    bool                              m_strict;
    uint64_t                          m_now    = 1000 * MSEC;
    uint64_t                          m_cookie = 0x1000;
    unsigned                          m_sends  = 0;
    bool                              m_rst    = false; /* one was sent */
    vqp_conntab_config_t              m_config {};
    vqp_conntab_t                     m_tab;
    std::unique_ptr<uint64_t[]>       m_mem;
    std::vector<Vqp*>                 m_vqps;
    std::set<std::pair<uint64_t, uint32_t>> m_used; /* numbers, by identity */
    std::vector<std::vector<uint8_t>> m_sent;    /* the latest few */
};

} // namespace vqp_fuzz

#endif
