/*
 * Fuzz target: the handshake. A script of what an interface's owner does, of
 * time that passes, and of datagrams: arbitrary ones, well-formed ones that
 * name real connections with any field wrong, and own ones that come back. The
 * oracle is the contract of conntab.h, see conn_owner.h; and that silence ends
 * everything.
 */
#include "conn_owner.h"

using namespace vqp_fuzz;

namespace {

/* Which fields of a well-formed message the input chooses */
enum {
    WRONG_PEER   = 1 << 0,
    WRONG_OWN    = 1 << 1,
    WRONG_NUMBER = 1 << 2,
    OTHER_COOKIE = 1 << 3, /* of the peer */
    OWN_COOKIE   = 1 << 4, /* any, instead of the connection's */
    NO_COOKIE    = 1 << 5,
    TOUCHED      = 1 << 6  /* one byte of the message */
};

class Script {
public:
    Script(const uint8_t *data, size_t size) :
        m_in(data, size), m_strict(m_in.u8() & 1), m_owner(m_strict)
    {
    }

    void run()
    {
        while (!m_in.empty()) {
            step(m_in.u8());
        }
        m_owner.defer_qps = false;
        m_owner.wind_up();
    }

private:
    uint64_t peer_id(unsigned choice) const
    {
        static const uint64_t few[] = {0xa, 0xb, OWN_ID, 0xc};

        return ((choice & 0x80) && !m_strict) ? choice : few[choice & 3];
    }

    void step(unsigned command)
    {
        if (command & 0x80) {
            message(command);
            return;
        }

        switch (command & 0xf) {
        case 0:
            m_owner.connect(peer_id(m_in.u8()));
            break;
        case 1:
            m_owner.pass(m_in.u16() * MSEC);
            break;
        case 2:
            m_owner.defer_qps = command & 0x10;
            m_owner.refuse    = command & 0x20;
            m_owner.no_memory = command & 0x40;
            break;
        case 3:
            garbage();
            break;
        case 4:
            own(command);
            break;
        default:
            vqp(command & 0xf);
            break;
        }
    }

    void vqp(unsigned command)
    {
        Vqp *vqp = m_owner.pick(m_in.u8());

        if (vqp == nullptr) {
            return;
        }

        switch (command) {
        case 5:
            if (vqp->ep) {
                m_owner.close(vqp);
            }
            break;
        case 6:
            m_owner.abort(vqp);
            break;
        case 7:
            m_owner.fail(vqp);
            break;
        case 8:
            m_owner.first_imm(vqp);
            break;
        default:
            m_owner.qps_ready(vqp);
            break;
        }
    }

    void garbage()
    {
        uint8_t data[256];
        size_t len = m_in.bytes(data, m_in.u8());

        m_owner.recv(data, len);
    }

    /* What it sent comes back, as in loopback, or by mischief */
    void own(unsigned command)
    {
        std::vector<uint8_t> data = m_owner.sent(m_in.u8());

        if (data.empty()) {
            return;
        }

        if (command & 0x10) {
            data[m_in.u16() % data.size()] ^= m_in.u8();
        }
        m_owner.recv(data.data(), data.size());
    }

    static void fill_info(vqp_wire_info_t *info, unsigned rails)
    {
        info->ring_addr  = 0x30000;
        info->cell_addr  = 0x40000;
        info->ring_size  = 4096;
        info->fsn_window = 64;
        info->rx_depth   = 16;
        info->num_rails  = (uint8_t)(1 + (rails & 3));
        info->num_paths  = 1;
        for (unsigned i = 0; i < info->num_rails; ++i) {
            info->rails[i].ud_qpn  = 0x22 + i;
            info->rails[i].mtu     = 3;
            info->rails[i].link    = VQP_LINK_ETH;
            info->rails[i].gid[15] = 2;
        }
        info->paths[0].qpn = 0x44;
    }

    /* What the peer of a connection would send, or something near it */
    void fill_header(vqp_wire_header_t *hdr, const Vqp *vqp, unsigned wrong)
    {
        hdr->dst_iface  = OWN_ID;
        hdr->src_iface  = 0xa;
        hdr->number     = 1;
        hdr->src_cookie = 0x500;
        if (vqp != nullptr) {
            hdr->src_iface  = vqp->conn.peer_id;
            hdr->number     = vqp->conn.number;
            hdr->dst_cookie = vqp->conn.cookie;
            hdr->src_cookie = vqp->conn.peer_cookie ? vqp->conn.peer_cookie :
                                                      0x500 + hdr->number;
        }

        if (wrong & WRONG_PEER) {
            hdr->src_iface = peer_id(m_in.u8());
        }
        if (wrong & WRONG_OWN) {
            hdr->dst_iface = m_in.u8();
        }
        if (wrong & WRONG_NUMBER) {
            hdr->number = m_in.u8();
            if (hdr->number & 0x80) {
                hdr->number = VQP_WIRE_NUMBER_MAX - (hdr->number & 0x7f);
            }
        }
        if (wrong & OTHER_COOKIE) {
            hdr->src_cookie = m_in.u8();
        }
        if (wrong & OWN_COOKIE) {
            vqp             = m_owner.pick(m_in.u8());
            hdr->dst_cookie = (vqp != nullptr) ? vqp->conn.cookie : 7;
        }
        if (wrong & NO_COOKIE) {
            hdr->dst_cookie = 0;
        }
    }

    void message(unsigned command)
    {
        uint8_t data[VQP_WIRE_MAX_LEN] = {};
        unsigned what   = m_in.u8();
        unsigned wrong  = m_in.u8();
        const Vqp *vqp  = m_owner.pick(command);
        vqp_wire_info_t info {};
        vqp_wire_header_t hdr {};
        size_t len;

        fill_info(&info, what >> 4);
        fill_header(&hdr, vqp, wrong);
        hdr.type   = (vqp_wire_type_t)(1 + (what & 7));
        hdr.flags  = m_in.u8();
        hdr.serial = m_in.u8();
        if ((hdr.type == VQP_WIRE_REQ) && (hdr.flags & VQP_WIRE_FLAG_PROVE) &&
            (hdr.serial & 1)) {
            hdr.dst_cookie = m_owner.proof(hdr, info);
        }
        if (hdr.type < VQP_WIRE_PATH_DOWN) {
            len = vqp_wire_encode(&hdr, &info, data);
        } else {
            static const vqp_wire_path_down_t down {};
            static const vqp_wire_path_up_t up {0, 0, 5, 5, 0};
            len = vqp_wire_encode(&hdr, (hdr.type == VQP_WIRE_PATH_UP) ?
                                  (const void*)&up : (const void*)&down, data);
        }

        if (wrong & TOUCHED) {
            data[m_in.u16() % len] = m_in.u8();
        }

        if (wrong & 0x80) {
            m_owner.recv_undrained(data, len);
        } else {
            m_owner.recv(data, len);
        }
    }

    Input m_in;
    bool  m_strict;
    Owner m_owner;
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Script script(data, size);

    script.run();
    return 0;
}
