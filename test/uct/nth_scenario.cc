/* The program that expects anything to fail, see nth_scenario.h. */
#include "nth_scenario.h"

#include <unistd.h>

#include <algorithm>

static size_t pack_number(void *dest, void *arg)
{
    memset(dest, 0, 500);
    memcpy(dest, arg, sizeof(uint64_t));
    return 500;
}

static size_t pack_500(void *dest, void *arg)
{
    memcpy(dest, arg, 500);
    return 500;
}

static void unpack_500(void *arg, const void *data, size_t length)
{
    memcpy(arg, data, length);
}

bool nth_scenario::progress_until(const std::function<bool()> &condition,
                                  double seconds)
{
    double end = now() + seconds;

    while (!condition()) {
        if (now() > end) {
            return false;
        }
        if (m_a.progress() + m_b.progress() == 0) {
            usleep(20);
        }
        nudge();
    }

    return true;
}

/* Traffic on all paths, with completions, every ten milliseconds */
void nth_scenario::nudge()
{
    if (!goes_on || !m_started || (now() < m_nudged + 0.01)) {
        return;
    }

    for (unsigned i = 0; i < 2; ++i) {
        if (uct_ep_am_short(m_a.ep, 1, m_sent + 1, NULL, 0) == UCS_OK) {
            ++m_sent;
        }
    }
    uct_ep_flush(m_a.ep, UCT_FLUSH_FLAG_LOCAL, NULL);
    m_nudged = now();
}

/* Post until there is room; a failed endpoint says so */
void nth_scenario::post(const std::string &name,
                        const std::function<ucs_status_t(uct_completion_t*)>
                                &func)
{
    auto op             = std::make_unique<nth_op>(name);
    ucs_status_t status = UCS_ERR_NO_RESOURCE;

    EXPECT_TRUE(progress_until([&] {
        status = func(&op->super);
        return status != UCS_ERR_NO_RESOURCE;
    }, wait_limit())) << name << " finds no room and no error";
    op->accepted = status == UCS_INPROGRESS;
    op->status   = status;
    if (UCS_STATUS_IS_ERR(status) && !is_loss(*op)) {
        m_a.failed = true;
    }
    m_ops.push_back(std::move(op));
}

/* An error that says that an atomic may be lost: its own, or that of a flush */
bool nth_scenario::is_loss(const nth_op &op) const
{
    return (op.status == UCS_ERR_IO_ERROR) &&
           ((op.name == "atomic_fetch") || (!exact && (op.name == "ep_flush")));
}

uct_iov_t nth_scenario::iov(size_t offset, size_t length) const
{
    uct_iov_t iov = {};

    iov.buffer = (void*)(m_a.mem.data.data() + offset);
    iov.length = length;
    iov.memh   = m_a.mem.memh;
    iov.count  = 1;
    return iov;
}

/* A message is accepted with success, or completes: it has its number then */
void nth_scenario::post_messages()
{
    uint64_t number = m_sent + 1;

    post("am_short", [&](uct_completion_t*) {
        return uct_ep_am_short(m_a.ep, 1, number, NULL, 0);
    });
    m_sent += m_ops.back()->status == UCS_OK;
    number  = m_sent + 1;
    post("am_bcopy", [&](uct_completion_t*) {
        ssize_t length = uct_ep_am_bcopy(m_a.ep, 1, pack_number, &number, 0);
        return (length < 0) ? (ucs_status_t)length : UCS_OK;
    });
    m_sent += m_ops.back()->status == UCS_OK;
    number  = m_sent + 1;
    post("am_zcopy", [&](uct_completion_t *comp) {
        uct_iov_t list = iov(ZCOPY_OFFSET, 5000);
        return uct_ep_am_zcopy(m_a.ep, 1, &number, sizeof(number), &list, 1, 0,
                               comp);
    });
    m_sent += !UCS_STATUS_IS_ERR(m_ops.back()->status);
}

void nth_scenario::post_puts()
{
    uint64_t remote = (uint64_t)m_b.mem.data.data();
    const char *src = m_a.mem.data.data() + ZCOPY_OFFSET;

    post("put_short", [&](uct_completion_t*) {
        return uct_ep_put_short(m_a.ep, src, 24, remote + SHORT_OFFSET,
                                m_b.mem.bundle.rkey);
    });
    post("put_bcopy", [&](uct_completion_t*) {
        ssize_t length = uct_ep_put_bcopy(m_a.ep, pack_500, (void*)src,
                                          remote + BCOPY_OFFSET,
                                          m_b.mem.bundle.rkey);
        return (length < 0) ? (ucs_status_t)length : UCS_OK;
    });
    post("put_zcopy", [&](uct_completion_t *comp) {
        uct_iov_t list = iov(ZCOPY_OFFSET, ZCOPY_LENGTH);
        return uct_ep_put_zcopy(m_a.ep, &list, 1, remote + ZCOPY_OFFSET,
                                m_b.mem.bundle.rkey, comp);
    });
}

void nth_scenario::post_gets()
{
    uint64_t remote = (uint64_t)m_b.mem.data.data() + GET_OFFSET;

    post("get_bcopy", [&](uct_completion_t *comp) {
        return uct_ep_get_bcopy(m_a.ep, unpack_500,
                                m_a.mem.data.data() + BCOPY_OFFSET, 500,
                                remote, m_b.mem.bundle.rkey, comp);
    });
    post("get_zcopy", [&](uct_completion_t *comp) {
        uct_iov_t list = iov(GET_OFFSET, GET_LENGTH);
        return uct_ep_get_zcopy(m_a.ep, &list, 1, remote, m_b.mem.bundle.rkey,
                                comp);
    });
}

void nth_scenario::post_atomics()
{
    uint64_t remote = (uint64_t)m_b.mem.data.data() + ATOMIC_OFFSET;

    if (!(m_a.attr.cap.atomic64.op_flags & UCS_BIT(UCT_ATOMIC_OP_ADD))) {
        return;
    }
    post("atomic_post", [&](uct_completion_t*) {
        return uct_ep_atomic64_post(m_a.ep, UCT_ATOMIC_OP_ADD, 1, remote,
                                    m_b.mem.bundle.rkey);
    });
    m_adds += !UCS_STATUS_IS_ERR(m_ops.back()->status);
    for (uint64_t &result : m_results) {
        post("atomic_fetch", [&](uct_completion_t *comp) {
            return uct_ep_atomic64_fetch(m_a.ep, UCT_ATOMIC_OP_ADD, 1, &result,
                                         remote, m_b.mem.bundle.rkey, comp);
        });
        m_adds += !UCS_STATUS_IS_ERR(m_ops.back()->status);
    }
}

void nth_scenario::flush()
{
    ucs_status_t status = UCS_INPROGRESS;

    post("ep_flush", [&](uct_completion_t *comp) {
        return uct_ep_flush(m_a.ep, UCT_FLUSH_FLAG_LOCAL, comp);
    });
    EXPECT_TRUE(progress_until([&] {
        status = uct_iface_flush(m_a.iface, UCT_FLUSH_FLAG_LOCAL, NULL);
        return (status != UCS_INPROGRESS) && (status != UCS_ERR_NO_RESOURCE);
    }, wait_limit())) << "iface_flush has no end";
}

bool nth_scenario::all_complete() const
{
    for (auto &op : m_ops) {
        if (op->accepted && (op->calls == 0)) {
            return false;
        }
    }

    return true;
}

void nth_scenario::transfer()
{
    post_messages();
    if (!goes_on) {
        EXPECT_EQ(UCS_OK, uct_ep_fence(m_a.ep, 0));
    }
    post_puts();
    if (fail_path) {
        fail_path();
    }
    post_gets();
    post_atomics();
    if (fail_path) {
        post_puts();
    }
    post_messages();
    m_started = true;
    flush();
    EXPECT_TRUE(progress_until([&] { return all_complete(); }, wait_limit()))
            << "accepted, and neither success nor an error";
    /* What was sent may still be on its way through the receiver */
    EXPECT_TRUE(progress_until([&] {
        return m_a.failed || m_b.failed || (m_b.received == m_sent);
    }, wait_limit())) << m_b.received << " of " << m_sent << " messages arrived";
    m_started = false;
    m_completed = true;
    if (fail_path && clean()) {
        EXPECT_TRUE(progress_until([&] { return is_over() || !clean(); }, wait_limit()))
                << "the path does not come back";
    }
}

bool nth_scenario::all_done() const
{
    return clean() && std::all_of(m_ops.begin(), m_ops.end(), [&](const auto &op) {
        return (op->status == UCS_OK) || is_loss(*op);
    });
}

void nth_scenario::check()
{
    const char *target = m_b.mem.data.data();
    bool success       = clean();
    uint64_t value;

    for (auto &op : m_ops) {
        EXPECT_EQ(op->accepted ? 1u : 0u, op->calls) << op->name;
        success &= op->status == UCS_OK;
        if ((op->name == "atomic_fetch") && op->accepted &&
            (op->status == UCS_OK)) {
            ++m_added;
        }
        if ((op->name == "put_zcopy") && (op->status == UCS_OK)) {
            EXPECT_EQ(0, memcmp(m_a.mem.data.data() + ZCOPY_OFFSET,
                                target + ZCOPY_OFFSET, ZCOPY_LENGTH));
        }
        if ((op->name == "get_zcopy") && (op->status == UCS_OK)) {
            EXPECT_EQ(0, memcmp(m_a.mem.data.data() + GET_OFFSET,
                                target + GET_OFFSET, GET_LENGTH));
        }
    }

    EXPECT_FALSE(m_b.disorder) << "messages out of order, or twice";
    EXPECT_LE(m_b.received, m_sent);
    if (!m_b.mem.data.empty()) {
        memcpy(&value, target + ATOMIC_OFFSET, sizeof(value));
        EXPECT_LE(m_added, value);
        EXPECT_LE(value, m_adds) << "an atomic was executed twice";
        if (fail_path && exact && all_done()) {
            EXPECT_EQ(m_adds, value) << "an atomic was not executed";
        }
    }
    if (success) {
        EXPECT_EQ(m_sent, m_b.received);
        EXPECT_EQ(0, memcmp(target + SHORT_OFFSET, target + ZCOPY_OFFSET, 24));
        EXPECT_EQ(0, memcmp(target + BCOPY_OFFSET, target + ZCOPY_OFFSET, 500));
    }
}

void nth_scenario::run()
{
    options config = {
        {"NUM_PATHS", "2"},         {"TIMEOUT", "2ms"},
        {"RETRY_COUNT", "2"},       {"CONNECT_TIMEOUT", "1s"},
        {"GAP_TIMEOUT", "100ms"},   {"RNR_TIMEOUT", "100us"},
        {"RNR_RETRY_COUNT", "3"},   {"FRAG_SIZE", "16k"},
    };

    if (fail_path) {
        config["FAILOVER"] = "y";
    }
    for (auto &option : more) {
        config[option.first] = option.second;
    }

    if (m_a.up(config) && m_b.up(config) && m_a.reg(size, 1) &&
        m_b.reg(size, 2) && m_a.connect(m_b, endpoints) && m_b.connect(m_a)) {
        transfer();
    }

    m_a.destroy_eps();
    progress_until([] { return false; }, 0.001);
    m_b.down();
    m_a.down();
    check();
}
