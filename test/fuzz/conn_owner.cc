/* The owner of a table under attack, see conn_owner.h. */
#include "conn_owner.h"

#include <algorithm>

namespace vqp_fuzz {

Owner::Owner(bool strict) : m_strict(strict)
{
    m_config.iface_id        = OWN_ID;
    m_config.retry_first     = 10 * MSEC;
    m_config.retry_max       = 400 * MSEC;
    m_config.connect_timeout = 1000 * MSEC;
    m_config.close_timeout   = 1000 * MSEC;
    m_config.num_rails       = 2;
    m_config.max_unproven    = 6;
    m_config.secret[0]       = 0x5eed;
    m_config.secret[1]       = 0xace;
    m_config.hash_order      = 1; /* chains */
    m_config.num_idle        = strict ? 16 : 2;
    m_mem.reset(new uint64_t[vqp_conntab_mem_size(&m_config) / 8 + 1]);
    FUZZ_CHECK(vqp_conntab_init(&m_tab, &m_config, m_mem.get()) == VQP_OK);
    m_sent.resize(8);
}

Owner::~Owner()
{
    for (Vqp *vqp : m_vqps) {
        delete vqp;
    }
}

Vqp *Owner::vqp_of(vqp_conn_t *conn)
{
    return reinterpret_cast<Vqp*>(reinterpret_cast<char*>(conn) -
                                  offsetof(Vqp, conn));
}

Vqp *Owner::pick(unsigned index)
{
    return m_vqps.empty() ? nullptr : m_vqps[index % m_vqps.size()];
}

const std::vector<uint8_t> &Owner::sent(unsigned index) const
{
    return m_sent[(m_sends + index) % m_sent.size()];
}

Vqp *Owner::create()
{
    Vqp *vqp              = new Vqp();
    vqp_wire_info_t &info = vqp->info;

    info.ring_addr        = 0x10000;
    info.cell_addr        = 0x20000;
    info.ring_size        = 4096;
    info.fsn_window       = 64;
    info.rx_depth         = 16;
    info.num_rails        = 1;
    info.num_paths        = 1;
    info.rails[0].ud_qpn  = 0x17;
    info.rails[0].mtu     = 3;
    info.rails[0].link    = VQP_LINK_ETH;
    info.rails[0].gid[15] = 1;
    info.paths[0].qpn     = 0x18;
    m_vqps.push_back(vqp);
    return vqp;
}

void Owner::forget(Vqp *vqp)
{
    vqp_conn_release(&vqp->conn);
    m_vqps.erase(std::find(m_vqps.begin(), m_vqps.end(), vqp));
    delete vqp;
}

vqp_conn_params_t Owner::params(Vqp *vqp, const vqp_conn_dest_t *to)
{
    vqp_conn_params_t params {};

    params.cookie    = ++m_cookie;
    params.dests     = to;
    params.num_dests = 1;
    params.local     = &vqp->info;
    return params;
}

/* Queue pairs are connected once at most under a number of a peer, as long as
 * its record is there */
void Owner::note_number(const Vqp *vqp)
{
    const vqp_conn_t &conn = vqp->conn;

    FUZZ_CHECK(conn.peer_cookie != 0);
    if (m_strict && (conn.peer_id != OWN_ID)) {
        FUZZ_CHECK(m_used.emplace(conn.identity, conn.number).second);
    }
}

/* ---- what an owner does ---- */

void Owner::connect(uint64_t peer_id)
{
    vqp_conn_dest_t to {};
    vqp_status_t status;
    vqp_conn_t *conn;
    Vqp *vqp;

    to.gid[15] = (peer_id == OWN_ID) ? 1 : 2;
    to.qpn     = (peer_id == OWN_ID) ? 0x17 : 0x22;
    conn       = vqp_conn_adopt(&m_tab, peer_id, &to, 1, m_now);
    if (conn != nullptr) {
        vqp = vqp_of(conn);
        FUZZ_CHECK(!vqp->ep && !vqp->failed);
        FUZZ_CHECK(conn->peer_id == peer_id);
        vqp->ep = true;
        settle();
        return;
    }

    vqp = create();
    vqp_conn_params_t connect_params = params(vqp, &to);
    connect_params.peer_id           = peer_id;
    status = vqp_conn_connect(&m_tab, &vqp->conn, &connect_params, m_now);
    if (status != VQP_OK) {
        /* a peer may have used up the numbers with a single REQ */
        FUZZ_CHECK(status == VQP_ERR_EXCEEDS_LIMIT);
        forget(vqp);
    } else {
        vqp->ep = true;
    }
    settle();
}

void Owner::close(Vqp *vqp)
{
    vqp->ep = false;
    vqp_conn_close(&vqp->conn, m_now);
    drain();
    if (vqp->failed) {
        forget(vqp);
    }
    check();
}

void Owner::abort(Vqp *vqp)
{
    vqp->ep = false;
    vqp_conn_abort(&vqp->conn, !vqp->conn.owned, m_now);
    drain();
    forget(vqp);
    check();
}

void Owner::fail(Vqp *vqp)
{
    vqp_conn_fail(&vqp->conn, VQP_ERR_IO, m_now);
    settle();
}

void Owner::qps_ready(Vqp *vqp)
{
    if (vqp->asked && !vqp->ready) {
        vqp->ready = true;
        vqp_conn_qps_ready(&vqp->conn, m_now);
        settle();
    }
}

void Owner::first_imm(Vqp *vqp)
{
    if (vqp->asked) {
        vqp_conn_first_imm(&vqp->conn, m_now);
        settle();
    }
}

void Owner::recv(const uint8_t *data, size_t len)
{
    vqp_wire_msg_t msg;
    vqp_conn_dest_t from {};
    Exact exact(data, len);
    vqp_status_t status, expected;
    bool is_full = m_tab.num_unproven >= m_config.max_unproven;

    expected = vqp_wire_decode(exact.get(), len, &msg);
    from     = sender(msg, expected == VQP_OK);
    status   = vqp_conntab_recv(&m_tab, &from, exact.get(), len, m_now);
    m_rst    = false;
    FUZZ_CHECK((expected == VQP_OK) ?
                       ((status == VQP_OK) || (status == VQP_ERR_RESET) ||
                        (status == VQP_ERR_INVALID_PARAM) ||
                        (is_full && (status == VQP_ERR_NO_RESOURCE))) :
                       (status == expected));
    settle();
    if (expected == VQP_OK) {
        FUZZ_CHECK(!m_rst || (msg.hdr.type != VQP_WIRE_RST));
        FUZZ_CHECK(m_rst || (status != VQP_ERR_RESET) ||
                   (msg.hdr.type == VQP_WIRE_RST));
    } else {
        FUZZ_CHECK(!m_rst);
    }
}

/* Where a datagram comes from: one of the rails in it, if it has any. Now and
 * then from elsewhere: then nothing may come of a REQ or REP. */
vqp_conn_dest_t Owner::sender(const vqp_wire_msg_t &msg, bool is_valid) const
{
    vqp_conn_dest_t from {};

    from.qpn     = 0x33;
    from.gid[15] = 3;
    if (is_valid && ((msg.hdr.type == VQP_WIRE_REQ) ||
                     (msg.hdr.type == VQP_WIRE_REP)) &&
        (msg.hdr.serial != 13)) {
        from.qpn = msg.info.rails[0].ud_qpn;
        from.lid = msg.info.rails[0].lid;
        memcpy(from.gid, msg.info.rails[0].gid, sizeof(from.gid));
    }
    return from;
}

uint64_t Owner::proof(const vqp_wire_header_t &hdr,
                      const vqp_wire_info_t &info) const
{
    vqp_conn_dest_t rails[VQP_MAX_RAILS];
    unsigned num = vqp_conntab_rails(&m_tab, &info, rails);

    return vqp_conntab_proof(&m_tab, vqp_conntab_identity(&m_tab, hdr.src_iface,
                                                          rails, num), &hdr);
}

/* A second datagram before the work of the first is taken: it may be dropped */
void Owner::recv_undrained(const uint8_t *data, size_t len)
{
    Exact exact(data, len);
    vqp_wire_msg_t msg;
    vqp_conn_dest_t from;
    vqp_status_t status;
    bool pending, is_full;

    status = vqp_wire_decode(exact.get(), len, &msg);
    from   = sender(msg, status == VQP_OK);
    vqp_conntab_recv(&m_tab, &from, exact.get(), len, m_now);
    pending  = m_tab.rx_create || m_tab.rx_rst || (m_tab.rx_conn != nullptr) ||
               (m_tab.rx_path != nullptr);
    is_full  = m_tab.num_unproven >= m_config.max_unproven;
    status   = vqp_conntab_recv(&m_tab, &from, exact.get(), len, m_now);
    FUZZ_CHECK((status == VQP_ERR_NO_RESOURCE) ? (pending || is_full) :
                                                 !pending);
    settle();
}

void Owner::pass(uint64_t ns)
{
    m_now += ns;
    vqp_conntab_tick(&m_tab, m_now);
    settle();
    for (const Vqp *vqp : m_vqps) {
        FUZZ_CHECK(!vqp->conn.timed || (vqp->conn.due > m_now));
    }
}

/* Until none is left, in steps of a few, which checks less than each alone */
void Owner::run_timers()
{
    uint64_t due;

    for (unsigned i = 0; (due = vqp_conntab_next_timeout(&m_tab)) !=
                         VQP_CONNTAB_NEVER; ++i) {
        FUZZ_CHECK(i < 10000);
        m_now = std::max(m_now, due) + 5 * MSEC;
        vqp_conntab_tick(&m_tab, m_now);
        drain();
    }
}

void Owner::wind_up()
{
    /* Whatever is on its way gets somewhere by its timers alone */
    run_timers();
    check();
    for (const Vqp *vqp : m_vqps) {
        FUZZ_CHECK((vqp->conn.state == VQP_CONN_LIVE) ||
                   (vqp->conn.state == VQP_CONN_CLOSED));
    }

    for (unsigned i = 0; i < m_vqps.size();) {
        size_t count = m_vqps.size();
        if (m_vqps[i]->ep) {
            close(m_vqps[i]);
        }
        i += (m_vqps.size() == count);
    }

    run_timers();
    check();
    while (!m_vqps.empty()) { /* the end of the interface */
        FUZZ_CHECK(m_vqps.back()->conn.state == VQP_CONN_LIVE);
        FUZZ_CHECK(!m_vqps.back()->ep);
        abort(m_vqps.back());
    }
    FUZZ_CHECK(m_tab.num_conns == 0);
    FUZZ_CHECK(m_tab.timers == nullptr);
    FUZZ_CHECK(m_tab.action_head == nullptr);
}

/* ---- actions of the table ---- */

void Owner::create_passive(const vqp_wire_msg_t *req)
{
    vqp_status_t status;
    Vqp *vqp;

    FUZZ_CHECK(req->hdr.type == VQP_WIRE_REQ);
    FUZZ_CHECK((req->hdr.dst_iface == OWN_ID) && (req->hdr.dst_cookie == 0));
    if (no_memory) {
        return;
    }

    if (refuse) {
        vqp_conntab_refuse(&m_tab, req);
        return;
    }

    vqp = create();
    vqp_conn_params_t accept_params = params(vqp, nullptr);
    status = vqp_conn_accept(&m_tab, &vqp->conn, &accept_params, req, m_now);
    FUZZ_CHECK(status == VQP_OK);
    FUZZ_CHECK(vqp->conn.passive && !vqp->conn.owned);
    FUZZ_CHECK(vqp->conn.state == VQP_CONN_ASKED);
    FUZZ_CHECK(vqp->conn.unproven == !m_tab.rx_proven);
    FUZZ_CHECK(m_tab.num_unproven <= m_config.max_unproven);
}

void Owner::check_send(const vqp_conntab_action_t &action)
{
    vqp_wire_msg_t msg;

    FUZZ_CHECK(action.len <= VQP_WIRE_MAX_LEN);
    FUZZ_CHECK(vqp_wire_decode(action.data, action.len, &msg) == VQP_OK);
    FUZZ_CHECK(msg.hdr.type == action.msg_type);
    FUZZ_CHECK((action.to.rail < m_config.num_rails) || (action.conn == NULL));
    m_rst = m_rst || (action.msg_type == VQP_WIRE_RST);
    if (action.conn != nullptr) {
        FUZZ_CHECK(msg.hdr.src_iface == OWN_ID);
        FUZZ_CHECK(msg.hdr.src_cookie == action.conn->cookie);
        FUZZ_CHECK((msg.hdr.dst_cookie == action.conn->peer_cookie) ||
                   (action.conn->peer_cookie == 0));
        FUZZ_CHECK((msg.hdr.dst_cookie != 0) ||
                   (msg.hdr.type == VQP_WIRE_REQ));
        /* have_yours: own queue pairs are connected, with receives posted */
        FUZZ_CHECK(((msg.hdr.type != VQP_WIRE_REQ) &&
                    (msg.hdr.type != VQP_WIRE_REP)) ||
                   !(msg.hdr.flags & VQP_WIRE_FLAG_HAVE_YOURS) ||
                   vqp_of(action.conn)->ready);
    } else {
        FUZZ_CHECK(action.msg_type == VQP_WIRE_RST);
    }
    m_sent[m_sends++ % m_sent.size()].assign(action.data,
                                             action.data + action.len);
}

void Owner::act(const vqp_conntab_action_t &action)
{
    Vqp *vqp = (action.conn != nullptr) ? vqp_of(action.conn) : nullptr;

    FUZZ_CHECK((vqp == nullptr) ||
               (std::find(m_vqps.begin(), m_vqps.end(), vqp) != m_vqps.end()));
    switch (action.type) {
    case VQP_CONNTAB_CREATE_PASSIVE:
        create_passive(action.peer);
        break;
    case VQP_CONNTAB_CONNECT_QPS:
        FUZZ_CHECK(!vqp->asked);
        FUZZ_CHECK(vqp_wire_info_check(&action.peer->info) == VQP_OK);
        FUZZ_CHECK(action.peer->hdr.src_cookie == action.conn->peer_cookie);
        note_number(vqp);
        vqp->asked = true;
        if (!defer_qps) {
            vqp->ready = true;
            vqp_conn_qps_ready(action.conn, m_now);
        }
        break;
    case VQP_CONNTAB_SEND:
        check_send(action);
        break;
    case VQP_CONNTAB_LIVE:
        FUZZ_CHECK(vqp->ready && !vqp->live);
        vqp->live = true;
        break;
    case VQP_CONNTAB_PATH_MSG:
        FUZZ_CHECK(action.conn->linked && (action.conn->peer_cookie != 0));
        break;
    case VQP_CONNTAB_END:
        FUZZ_CHECK(!action.conn->linked && !action.conn->timed);
        FUZZ_CHECK(!action.conn->queued && (action.conn->todo == 0));
        FUZZ_CHECK(action.conn->state == VQP_CONN_CLOSED);
        if (!vqp->ep) {
            forget(vqp);
        } else {
            FUZZ_CHECK(!vqp->failed && (action.status < 0));
            vqp->failed = true;
        }
        break;
    default:
        FUZZ_CHECK(!"an action that there is");
    }
}

void Owner::drain()
{
    vqp_conntab_action_t action;

    for (unsigned i = 0; vqp_conntab_next_action(&m_tab, &action); ++i) {
        FUZZ_CHECK(i < 10000);
        act(action);
    }
}

void Owner::settle()
{
    drain();
    check();
}

/* ---- structure ---- */

void Owner::check_conn(const Vqp *vqp) const
{
    const vqp_conn_t &conn = vqp->conn;

    FUZZ_CHECK(!conn.queued && (conn.todo == 0));
    FUZZ_CHECK((conn.state == VQP_CONN_CLOSED) == vqp->failed);
    FUZZ_CHECK((vqp->ep && !vqp->failed) == !!conn.owned);
    FUZZ_CHECK((conn.state != VQP_CONN_CLOSED) == !!conn.linked);
    FUZZ_CHECK(conn.linked || !conn.timed);
    FUZZ_CHECK((conn.state != VQP_CONN_LIVE) || (vqp->live && vqp->ready));
    if (!conn.linked) {
        return;
    }

    FUZZ_CHECK((conn.state != VQP_CONN_LIVE) == !!conn.timed);
    FUZZ_CHECK(!conn.timed || (vqp_conntab_next_timeout(&m_tab) <= conn.due));
    FUZZ_CHECK(vqp_conntab_find_cookie(&m_tab, conn.cookie) == &conn);
    FUZZ_CHECK(conn.peer == vqp_conntab_find_peer(&m_tab, conn.identity));
    FUZZ_CHECK(conn.peer->id == conn.identity);
    FUZZ_CHECK((conn.peer_cookie == 0) || (conn.peer->highest >= conn.number));
    FUZZ_CHECK((conn.state == VQP_CONN_ASKED) || !conn.unproven);
    FUZZ_CHECK((conn.peer_next == nullptr) ||
               ((conn.peer_next->number >= conn.number) &&
                (conn.peer_next->peer_prev == &conn)));
    FUZZ_CHECK((conn.peer_cookie == 0) == (conn.state <= VQP_CONN_ASKED));
}

void Owner::check() const
{
    std::set<std::pair<uint64_t, uint32_t>> numbers;
    std::map<const vqp_peer_t*, uint32_t> waiting;
    uint32_t linked = 0, unproven = 0;

    for (const Vqp *vqp : m_vqps) {
        check_conn(vqp);
        if (!vqp->conn.linked) {
            continue;
        }

        ++linked;
        unproven += vqp->conn.unproven;
        waiting[vqp->conn.peer] += (vqp->conn.state == VQP_CONN_NEW);
        if ((vqp->conn.peer_id != OWN_ID) || !vqp->conn.passive) {
            FUZZ_CHECK(numbers.emplace(vqp->conn.identity,
                                       vqp->conn.number).second);
        }
    }

    FUZZ_CHECK(m_tab.num_conns == linked);
    FUZZ_CHECK((m_tab.num_unproven == unproven) &&
               (unproven <= m_config.max_unproven));
    for (auto &it : waiting) {
        FUZZ_CHECK(it.first->num_new == it.second);
    }
}

} // namespace vqp_fuzz
