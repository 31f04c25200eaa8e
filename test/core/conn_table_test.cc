/*
 * The state machine of a connection as a table: what each event does in each state.
 * conn_test.cc has what takes several events, or several connections.
 *
 * A state is one of vqp_conn_state_t, with marks:
 *   p  passive: no endpoint uses it. ASKED, CLOSING and CLOSED are never used
 *   c  closed by its endpoint before it is LIVE: a BYE will be sent
 *   b  the peer has closed its side, by a BYE or an orderly RST
 *   a  NEW, REQ: a REQ of the peer has arrived, which proves nothing
 *   d  NEW, REQ: the peer demands a proof
 *   r  PEER: the peer's queue pairs are connected
 *   w  PEER: the own queue pairs can not be connected yet
 *
 * Messages have their flags: h have_yours, s still_active, o orderly, n number_used,
 * p prove. Other events, and messages of several kinds:
 *   REQ0            a REQ without the cookie of this side
 *   BYE> BYE= BYE<  its serial is newer than the last one, the same, or older; before
 *                   the first one, the same is 0, which is malformed
 *   ACK ACKs ACK<   a BYE_ACK for the own last BYE; for an earlier one
 *   RST             the peer has no such connection: the answer to any message
 *   RSTn RSTp       an answer to a REQ without the peer's cookie
 *   repeat give-up  the next repetition, or 100 ms later; the time-out, or 5 s later
 *   abort aborto    vqp_conn_abort(), not orderly and orderly
 *
 * A cell has the next state, if it changes; the actions in their order: messages,
 * CONNECT_QPS, PATH_MSG and LIVE as "qps", "path" and "live", END with its status and
 * the mark of CLOSED; and the counters that count, but for those of all messages. "-":
 * nothing of that.
 */
#include "conn_node.h"

using namespace vqp_test;

namespace {

/* Each part has all states. PEER* is PEER with any marks that no other line has. The
 * first part tells how states are reached: "held" is a connect whose REQ is held back
 * by an unanswered one, "accept" a REQ0 that creates the connection. */
const char *const table = R"(
state      path
NEW        held
NEW/c      held close
REQ        connect
REQ/c      connect close
REQ/a      connect REQ0
REQ/d      connect RSTp
ASKED      accept
PEER       connect REP
PEER/c     connect REP close
PEER/p     accept REQ
PEER/pr    accept REQh
PEER/r     connect REPh
PEER/w     connect REP qps_wait
READY      connect REP qps_ready
READY/c    connect REP qps_ready close
READY/p    accept REQ qps_ready
LIVE       accept REQh qps_ready adopt BYE> close ACKs adopt
LIVE/p     accept REQh qps_ready adopt BYE> close ACKs
LIVE/b     accept REQh qps_ready adopt BYE>
CLOSING    accept REQh qps_ready adopt BYE> close ACKs adopt close
CLOSING/b  accept REQh qps_ready adopt BYE> close
CLOSED     connect REP qps_ready REPh RST

state                  REQ0         REQ          REP
NEW                    >NEW/a REP   >PEER qps    >PEER qps
NEW/c                  >NEW/ca REP  >PEER/c qps  >PEER/c qps
REQ                    >REQ/a REP   >PEER qps    >PEER qps
REQ/c                  >REQ/ca REP  >PEER/c qps  >PEER/c qps
REQ/d                  >REQ/ad REP  >PEER qps    >PEER qps
REQ/a                  REP +dup     >PEER qps    >PEER qps
ASKED                  REP +dup     >PEER/p qps  >PEER/p qps
PEER*                  +dup         +dup         +dup
PEER/w                 qps +dup     qps +dup     qps +dup
READY* LIVE* CLOSING*  REPh +dup    REPh +dup    +dup
CLOSED                 RSTn +stale  RST +stale   RST +stale

state           REQh                    REPh               first_imm
NEW REQ*        >PEER/r qps             >PEER/r qps        -
NEW/c REQ/c     >PEER/cr qps            >PEER/cr qps       -
ASKED           >PEER/pr qps            >PEER/pr qps       -
PEER            >PEER/r                 >PEER/r            >PEER/r
PEER/c          >PEER/cr                >PEER/cr           >PEER/cr
PEER/p          >PEER/pr                >PEER/pr           >PEER/pr
PEER/pr PEER/r  +dup                    +dup               -
PEER/w          >PEER/rw qps            >PEER/rw qps       >PEER/rw
READY           >LIVE REPh live         >LIVE live         >LIVE live
READY/c         >CLOSING REPh BYE live  >CLOSING BYE live  >CLOSING BYE live
READY/p         >LIVE/p REPh live       >LIVE/p live       >LIVE/p live
LIVE* CLOSING*  REPh +dup               +dup               -
CLOSED          RST +stale              RST +stale         -

state            BYE>               BYE=       BYE<,ACK<   ACK         ACKs
NEW* REQ* ASKED  RST +stale         +mal       RST +stale  RST +stale  RST +stale
CLOSED           RST +stale         +mal       RST +stale  RST +stale  RST +stale
PEER*            +stale             +mal       +stale      +stale      +stale
READY            >LIVE/b ACKs live  +mal       +stale      +stale      +stale
READY*           ACK END:OK         +mal       +stale      +stale      +stale
LIVE             >LIVE/b ACKs       ACKs +dup  +stale      +stale      +stale
LIVE/p           ACK END:OK         ACKs +dup  +stale      +stale      +stale
LIVE/b           ACKs               ACKs +dup  +stale      +stale      +stale
CLOSING          ACK END:OK         ACKs +dup  +stale      END:OK      >LIVE/p
CLOSING/b        ACK END:OK/b       ACKs +dup  +stale      END:OK/b    >LIVE/p

state           RST             RSTo              RSTn                  RSTp
NEW             END:RESET +rst  +stale            +rst +renum           >NEW/d
NEW/c           END:OK +rst     +stale            END:OK +rst           >NEW/cd
REQ             END:RESET +rst  +stale            REQ +rst +renum       >REQ/d REQp
REQ/c           END:OK +rst     +stale            END:OK +rst           >REQ/cd REQp
REQ/d           END:RESET +rst  +stale            >REQ REQ +rst +renum  +ign
REQ/a           END:RESET +rst  +stale            >REQ REQ +rst +renum  >REQ/ad REQp
ASKED           END:RESET +rst  END:RESET/b +rst  END:RESET +rst        +ign
PEER* READY*    END:RESET +rst  END:RESET/b +rst  +stale                +stale
LIVE*           END:RESET +rst  END:RESET/b +rst  +stale                +stale
PEER/c READY/c  END:OK +rst     END:OK/b +rst     +stale                +stale
CLOSING*        END:OK +rst     END:OK/b +rst     +stale                +stale
CLOSED          +stale          +stale            +stale                +stale

state       DOWN,UP     repeat       give-up
NEW* ASKED  RST +stale  -            END:TIMEOUT +late
REQ*        RST +stale  REQ +again   END:TIMEOUT +late
REQ/d       RST +stale  REQp +again  END:TIMEOUT +late
REQ/a       RST +stale  REQ +again   RST END:TIMEOUT +late
PEER*       +ign        -            RST END:TIMEOUT +late
PEER/w      +ign        REQ +again   RST END:TIMEOUT +late
READY*      path        REQh +again  RST END:TIMEOUT +late
LIVE*       path        -            -
CLOSING     path        BYE +again   END:TIMEOUT +late
CLOSING/b   path        BYE +again   END:TIMEOUT/b +late
CLOSED      RST +stale  -            -

state                                         qps_ready          qps_wait
NEW* REQ* ASKED READY* LIVE* CLOSING* CLOSED  -                  -
PEER                                          >READY REQh        >PEER/w REQ
PEER/c                                        >READY/c REQh      >PEER/cw REQ
PEER/p                                        >READY/p REQh      >PEER/pw REQ
PEER/pr                                       >LIVE/p REPh live  >PEER/prw REQ
PEER/r                                        >LIVE REPh live    >PEER/rw REQ
PEER/w                                        >READY REQh        -

state            adopt              close
NEW              -                  >NEW/c
NEW/c            >NEW +adopt        -
REQ              -                  >REQ/c
REQ/c            >REQ +adopt        -
REQ/a            -                  >REQ/ca
REQ/d            -                  >REQ/cd
ASKED            >REQ/a REQ +adopt  -
PEER             -                  >PEER/c
PEER/c PEER/p    >PEER +adopt       -
PEER/pr          >PEER/r +adopt     -
PEER/r           -                  >PEER/cr
PEER/w           -                  >PEER/cw
READY            -                  >READY/c
READY*           >READY +adopt      -
LIVE             -                  >CLOSING BYE
LIVE/p           >LIVE +adopt       -
LIVE/b           -                  >CLOSING/b BYE
CLOSING* CLOSED  -                  -

state                                   abort          aborto          fail
NEW* REQ*                               >CLOSED        >CLOSED         END:IO
REQ/a ASKED PEER* READY* LIVE* CLOSING  >CLOSED RST    >CLOSED RSTo    RST END:IO
LIVE/b CLOSING/b                        >CLOSED/b RST  >CLOSED/b RSTo  RST END:IO/b
CLOSED                                  -              -               -
)";

constexpr uint64_t PEER = 77, PROOF = 99; /* cookies of the peer */
const std::string FLAGS = "hson--p";      /* of messages, from the lowest bit */

/* A connection of a. The messages of its peer, b, are made here */
struct Side {
    bool is_unanswered() const { return vqp_conn_is_unanswered(conn); }

    std::string state() const
    {
        bool is_peer = conn->state == VQP_CONN_PEER;
        bool is_used = (conn->state <= VQP_CONN_LIVE) &&
                       (conn->state != VQP_CONN_ASKED);
        std::string marks;

        marks += (is_used && !conn->owned && !conn->want_close) ? "p" : "";
        marks += (is_used && conn->want_close) ? "c" : "";
        marks += conn->peer_closed ? "b" : "";
        marks += (is_unanswered() && (conn->asked_by != 0)) ? "a" : "";
        marks += (is_unanswered() && (conn->proof != 0)) ? "d" : "";
        marks += (is_peer && conn->peer_ready) ? "r" : "";
        marks += (is_peer && conn->qps_wait) ? "w" : "";
        return vqp_conn_state_name(conn->state) + (marks.empty() ? "" : "/" + marks);
    }

    void connect() { conn = &a.connect(b)->conn; }

    /* The difference of both numbers is the window of unanswered REQs */
    void connect_held()
    {
        first = &a.connect(b)->conn;
        for (unsigned i = 1; i < VQP_PEER_MAX_UNANSWERED; ++i) {
            a.abort(a.connect(b));
        }
        connect();
    }

    /* A message of the peer; with or without the cookie of the connection */
    void recv(vqp_wire_type_t type, const std::string &flags = "", uint32_t serial = 0,
              uint64_t src_cookie = PEER, bool has_cookie = true)
    {
        vqp_wire_path_down_t down {};
        vqp_wire_path_up_t up {0, 0, 1, 0, 0};
        const void *body[VQP_WIRE_TYPE_LAST] = {
                nullptr, info, info, nullptr, nullptr, nullptr, &down, &up};
        vqp_conn_dest_t from = b.dest();
        uint8_t data[VQP_WIRE_MAX_LEN];
        vqp_wire_header_t hdr {type, 0, (conn != nullptr) ? conn->number : 1, b.id(),
                               a.id(), src_cookie, has_cookie ? conn->cookie : 0, 0,
                               serial};

        for (char flag : flags) {
            hdr.flags |= (uint16_t)(1u << FLAGS.find(flag));
        }
        types.insert(type);
        vqp_conntab_recv(&a.tab, &from, data, vqp_wire_encode(&hdr, body[type], data),
                         net.now);
    }

    /* What happens before the last tick is not of the event */
    void wait(uint64_t until)
    {
        while (net.now < until) {
            begin();
            net.now = std::min(until, net.now + VQP_CONNTAB_LOOK);
            vqp_conntab_tick(&a.tab, net.now);
        }
    }

    void repeat()
    {
        bool repeats = conn->timed && (conn->due < conn->give_up);
        wait(repeats ? conn->due : net.now + 100 * MSEC);
    }

    void give_up()
    {
        do { /* the peer's first answer extends it */
            wait(conn->timed ? conn->give_up : net.now + 5 * SEC);
        } while (conn->timed && (net.now < conn->give_up));
    }

    void adopt()
    {
        auto to             = b.dests();
        vqp_conn_t *adopted = vqp_conn_adopt(&a.tab, b.id(), to.data(), 1, net.now);
        EXPECT_TRUE((adopted == nullptr) || (adopted == conn));
    }

    /* @return What the event did, as the table has it. */
    std::string handle(const std::string &event);

    /* @return What the last event of the path did. */
    std::string handle_all(const std::string &path);

    /* Without the counts of the connection whose REQ holds this one back */
    vqp_conntab_stats_t own_stats() const
    {
        vqp_conntab_stats_t own = a.tab.stats;

        if (first != nullptr) {
            own.retransmits -= first->retransmits;
            own.timeouts    -= first->state == VQP_CONN_CLOSED;
        }
        return own;
    }

    void begin()
    {
        drain();
        text.clear();
        before = (conn != nullptr) ? state() : "";
        stats  = own_stats();
    }

    void drain()
    {
        vqp_conntab_action_t action;

        while (vqp_conntab_next_action(&a.tab, &action)) {
            if ((first == nullptr) || (action.conn != first)) {
                act(action);
            }
        }
    }

    void act(const vqp_conntab_action_t &action)
    {
        static const std::map<int, std::string> status = {
                {VQP_OK, "OK"}, {VQP_ERR_RESET, "RESET"}, {VQP_ERR_IO, "IO"},
                {VQP_ERR_TIMEOUT, "TIMEOUT"}};

        if (action.type == VQP_CONNTAB_CREATE_PASSIVE) {
            Vqp *vqp            = a.new_vqp();
            vqp_conn_params_t p = a.params(vqp, nullptr);
            conn                = &vqp->conn;
            EXPECT_EQ(VQP_OK, vqp_conn_accept(&a.tab, conn, &p, action.peer, net.now));
            return;
        }
        text += (action.type == VQP_CONNTAB_SEND)        ? message(action) :
                (action.type == VQP_CONNTAB_CONNECT_QPS) ? " qps" :
                (action.type == VQP_CONNTAB_PATH_MSG)    ? " path" :
                (action.type == VQP_CONNTAB_LIVE)        ? " live" :
                " END:" + status.at(action.status) + state().substr(strlen("CLOSED"));
    }

    std::string message(const vqp_conntab_action_t &action) const
    {
        bool is_ack      = action.msg_type == VQP_WIRE_BYE_ACK;
        std::string name = is_ack ? "ACK" : vqp_wire_type_name(action.msg_type);
        vqp_wire_msg_t msg;

        EXPECT_EQ(VQP_OK, vqp_wire_decode(action.data, action.len, &msg));
        EXPECT_TRUE(!is_ack || (msg.hdr.serial == conn->peer_serial));
        for (size_t bit = 0; bit < FLAGS.size(); ++bit) {
            name += ((msg.hdr.flags >> bit) & 1) ? FLAGS.substr(bit, 1) : "";
        }
        return " " + name;
    }

    static std::set<unsigned> types; /* of all messages that were received */

    Net                    net;
    Node                   a {net}, b {net};
    const vqp_wire_info_t *info  = &b.new_vqp()->info;
    vqp_conn_t            *conn  = nullptr;
    vqp_conn_t            *first = nullptr; /* its REQ holds the connection back */
    vqp_conntab_stats_t    stats {};        /* before the event, */
    std::string            before;          /* and the state */
    std::string            text;            /* the actions since */
};

std::set<unsigned> Side::types;

#define ON(_call) [](Side &s) { _call; }

const std::map<std::string, void (*)(Side&)> events = {
    {"REQ0", ON(s.recv(VQP_WIRE_REQ, "", 0, PEER, false))},
    {"REQ", ON(s.recv(VQP_WIRE_REQ))},
    {"REQh", ON(s.recv(VQP_WIRE_REQ, "h"))},
    {"REP", ON(s.recv(VQP_WIRE_REP))},
    {"REPh", ON(s.recv(VQP_WIRE_REP, "h"))},
    {"BYE>", ON(s.recv(VQP_WIRE_BYE, "", s.conn->peer_serial + 1))},
    {"BYE=", ON(s.recv(VQP_WIRE_BYE, "", s.conn->peer_serial))},
    {"BYE<", ON(s.recv(VQP_WIRE_BYE, "", s.conn->peer_serial - 1000))},
    {"ACK", ON(s.recv(VQP_WIRE_BYE_ACK, "", std::max(1u, s.conn->serial)))},
    {"ACKs", ON(s.recv(VQP_WIRE_BYE_ACK, "s", std::max(1u, s.conn->serial)))},
    {"ACK<", ON(s.recv(VQP_WIRE_BYE_ACK, "", s.conn->serial - 1000))},
    {"RST", ON(s.recv(VQP_WIRE_RST, "", 0, s.is_unanswered() ? 0 : PEER))},
    {"RSTo", ON(s.recv(VQP_WIRE_RST, "o"))},
    {"RSTn", ON(s.recv(VQP_WIRE_RST, "n", 100, 0))},
    {"RSTp", ON(s.recv(VQP_WIRE_RST, "p", 0, PROOF))},
    {"DOWN", ON(s.recv(VQP_WIRE_PATH_DOWN))},
    {"UP", ON(s.recv(VQP_WIRE_PATH_UP))},
    {"repeat", ON(s.repeat())},
    {"give-up", ON(s.give_up())},
    {"qps_ready", ON(vqp_conn_qps_ready(s.conn, s.net.now))},
    {"qps_wait", ON(vqp_conn_qps_wait(s.conn, s.net.now))},
    {"first_imm", ON(vqp_conn_first_imm(s.conn, s.net.now))},
    {"adopt", ON(s.adopt())},
    {"close", ON(vqp_conn_close(s.conn, s.net.now))},
    {"abort", ON(vqp_conn_abort(s.conn, 0, s.net.now))},
    {"aborto", ON(vqp_conn_abort(s.conn, 1, s.net.now))},
    {"fail", ON(vqp_conn_fail(s.conn, VQP_ERR_IO, s.net.now))}};

/* What creates the connection */
const std::map<std::string, void (*)(Side&)> creations = {
    {"accept", ON(s.recv(VQP_WIRE_REQ, "", 0, PEER, false))},
    {"connect", ON(s.connect())},
    {"held", ON(s.connect_held())}};

std::string Side::handle(const std::string &event)
{
    static const std::map<std::string, std::string> counters = {
            {"duplicates", " +dup"}, {"ignored", " +ign"}, {"malformed", " +mal"},
            {"rst_received", " +rst"}, {"timeouts", " +late"}, {"stale", " +stale"},
            {"retransmits", " +again"}, {"adoptions", " +adopt"}, {"connects", ""},
            {"renumbered", " +renum"}, {"accepts", ""}, {"sent", ""}, {"rst_sent", ""},
            {"received", ""}};

    begin();
    ((conn == nullptr) ? creations : events).at(event)(*this);
    drain();
    if ((state() != before) && (text.find(" END:") == std::string::npos)) {
        text = " >" + state() + text;
    }

    vqp_conntab_stats_t now = own_stats();
#define VQP_TEST_COUNT(_name, _help) \
    text += (now._name == stats._name) ? "" : counters.at(#_name);
    VQP_CONNTAB_COUNTERS(VQP_TEST_COUNT)
#undef VQP_TEST_COUNT
    EXPECT_EQ(conn->linked && (conn->state != VQP_CONN_LIVE), conn->timed);
    EXPECT_TRUE((conn->state == VQP_CONN_ASKED) || !conn->linked || !conn->unproven);
    return text.empty() ? "-" : text.substr(1);
}

/* Without empty parts, and without blanks before a part */
std::vector<std::string> split(const std::string &text, const std::string &separator)
{
    std::vector<std::string> parts;

    for (size_t begin = 0, end; begin < text.size(); begin = end + separator.size()) {
        end = std::min(text.find(separator, begin), text.size());
        if (end > begin) {
            begin = text.find_first_not_of(' ', begin);
            parts.push_back(text.substr(begin, end - begin));
        }
    }
    return parts;
}

std::string Side::handle_all(const std::string &path)
{
    std::string last;

    for (auto &event : split(path, " ")) {
        last = handle(event);
    }
    return last;
}

/* The cells, by state and event; how the state is reached is one of them */
std::map<std::string, std::map<std::string, std::string>> read_table()
{
    std::map<std::string, std::map<std::string, std::string>> all, cells;
    std::vector<std::string> head;

    for (auto &line : split(table, "\n")) {
        auto columns = split(line, "  ");
        if (columns[0] == "state") {
            head = columns;
            continue;
        }
        for (auto &state : split(columns[0], " ")) {
            for (size_t i = 1; i < columns.size(); ++i) {
                for (auto &event : split(head.at(i), ",")) {
                    EXPECT_TRUE(all[state].emplace(event, columns[i]).second) << line;
                }
            }
        }
    }
    for (auto &row : all) {
        if (row.first.back() != '*') {
            auto &others = all[row.first.substr(0, row.first.find('/')) + "*"];
            cells[row.first] = row.second;
            cells[row.first].insert(others.begin(), others.end());
        }
    }
    return cells;
}

} // namespace

TEST(conn_table, tells_what_each_event_does_in_each_state)
{
    std::set<unsigned> states;

    for (auto &row : read_table()) {
        EXPECT_EQ(events.size() + 1, row.second.size()) << row.first;
        for (auto &event : events) {
            Side side;
            side.handle_all(row.second["path"]);
            EXPECT_EQ(row.first, side.state());
            states.insert(side.conn->state);
            EXPECT_EQ(row.second[event.first], side.handle(event.first))
                    << row.first << ", " << event.first;
        }
    }
    EXPECT_EQ(VQP_CONN_STATE_LAST + 0u, states.size());
    EXPECT_EQ(VQP_WIRE_TYPE_LAST - 1u, Side::types.size());
}

/* The state and its marks tell all: the event before does not matter. But no BYE is
 * the same as the last one before there is one; and a CLOSED connection leaves its
 * number unused if its peer was not proven. */
TEST(conn_table, holds_after_each_event)
{
    auto cells = read_table();
    std::set<std::string> others; /* without a row: marks that add nothing to a row */

    for (auto &row : cells) {
        for (auto &event : events) {
            for (auto &last : events) {
                Side side;
                side.handle_all(row.second["path"] + " " + event.first);
                auto next = cells.find(side.state());
                if (next == cells.end()) {
                    others.insert(side.state());
                }
                if ((next != cells.end()) && (next->first != "CLOSED") &&
                    ((last.first != "BYE=") || (side.conn->peer_serial != 0))) {
                    EXPECT_EQ(next->second[last.first], side.handle(last.first))
                            << row.first << ", " << event.first << ", " << last.first;
                }
            }
        }
    }
    EXPECT_EQ((std::set<std::string> {"CLOSED/b", "NEW/a", "NEW/ca", "NEW/cd", "NEW/d",
                                      "PEER/cr", "PEER/cw", "PEER/prw", "PEER/pw",
                                      "PEER/rw", "REQ/ad", "REQ/ca", "REQ/cd"}),
              others);
}
