/* The program that expects anything to fail, see nth_scenario.h. */
#include "nth_scenario.h"

#include <ucs/async/async.h>

#include <unistd.h>

#include <algorithm>

/* Everything ends within this time, in seconds; timeouts of the transport that
 * are part of it are set to a fraction */
static const double patience = 8;

/* Where what lies in each side's memory */
enum {
    ATOMIC_OFFSET = 0,
    SHORT_OFFSET  = 64,
    BCOPY_OFFSET  = 1024,
    ZCOPY_OFFSET  = 8192,
    ZCOPY_LENGTH  = 200000,
    GET_OFFSET    = 256 << 10,
    GET_LENGTH    = 100000
};

static void op_complete(uct_completion_t *super)
{
    nth_op *op = static_cast<nth_op*>((completion_base*)super);

    ++op->calls;
    op->status = super->status;
}

nth_op::nth_op(const std::string &name_) : name(name_)
{
    super.func   = op_complete;
    super.count  = 1;
    super.status = UCS_OK;
}

/* ---- one side ---- */

bool nth_side::ok(ucs_status_t status)
{
    failed |= status != UCS_OK;
    return status == UCS_OK;
}

bool nth_side::open_md()
{
    uct_component_attr_t found = {};
    uct_md_config_t *config;
    ucs_status_t status;

    found.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
    if (!ok(uct_component_query(component(), &found)) ||
        !ok(uct_md_config_read(component(), NULL, NULL, &config))) {
        return false;
    }

    status = uct_md_open(component(), ("vqp_" + devices().front()).c_str(),
                         config, &md);
    uct_config_release(config);
    if (status != UCS_OK) {
        md = nullptr;
    }
    return ok(status) && ok(uct_md_query(md, &md_attr));
}

static ucs_status_t side_error(void *arg, uct_ep_h, ucs_status_t)
{
    ((nth_side*)arg)->failed = true;
    return UCS_OK;
}

static ucs_status_t side_am(void *arg, void *data, size_t length, unsigned)
{
    return ((nth_side*)arg)->take((const char*)data, length);
}

bool nth_side::open_iface(const options &config)
{
    std::string dev_name      = devices().front() + ":1";
    uct_iface_params_t params = {};
    uct_tl_resource_desc_t *resources;
    uct_iface_config_t *iface_config;
    unsigned num_resources;
    ucs_status_t status;

    if (!ok(uct_md_query_tl_resources(md, &resources, &num_resources))) {
        return false;
    }
    uct_release_tl_resource_list(resources);
    if ((num_resources == 0) ||
        !ok(uct_md_iface_config_read(md, "vqp", NULL, NULL, &iface_config))) {
        failed = true;
        return false;
    }
    for (auto &option : config) {
        EXPECT_EQ(UCS_OK, uct_config_modify(iface_config, option.first.c_str(),
                                            option.second.c_str()));
    }

    params.field_mask           = UCT_IFACE_PARAM_FIELD_OPEN_MODE |
                                  UCT_IFACE_PARAM_FIELD_DEVICE |
                                  UCT_IFACE_PARAM_FIELD_ERR_HANDLER |
                                  UCT_IFACE_PARAM_FIELD_ERR_HANDLER_ARG;
    params.open_mode            = UCT_IFACE_OPEN_MODE_DEVICE;
    params.mode.device.tl_name  = "vqp";
    params.mode.device.dev_name = dev_name.c_str();
    params.err_handler          = side_error;
    params.err_handler_arg      = this;
    status = uct_iface_open(md, worker, &params, iface_config, &iface);
    uct_config_release(iface_config);
    if (status != UCS_OK) {
        iface = nullptr;
    }
    if (!ok(status) || !ok(uct_iface_query(iface, &attr)) ||
        !ok(uct_iface_set_am_handler(iface, 1, side_am, this, 0))) {
        return false;
    }

    uct_iface_progress_enable(iface, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
    return true;
}

bool nth_side::up(const options &config)
{
    return ok(ucs_async_context_create(UCS_ASYNC_MODE_THREAD_SPINLOCK,
                                       &async)) &&
           ok(uct_worker_create(async, UCS_THREAD_MODE_SINGLE, &worker)) &&
           open_md() && open_iface(config);
}

bool nth_side::reg(size_t size, unsigned seed)
{
    std::string packed(md_attr.rkey_packed_size, '\0');
    ucs_status_t status;

    mem.data.assign(size, 0);
    for (size_t i = ZCOPY_OFFSET; i < size; ++i) {
        mem.data[i] = pattern(seed, i);
    }

    status = uct_md_mem_reg(md, mem.data.data(), size, UCT_MD_MEM_ACCESS_ALL,
                            &mem.memh);
    if (status != UCS_OK) {
        mem.memh = UCT_MEM_HANDLE_NULL;
    }
    if (!ok(status) || !ok(uct_md_mkey_pack(md, mem.memh, &packed[0])) ||
        !ok(uct_rkey_unpack(component(), packed.data(), &mem.bundle))) {
        return false;
    }

    mem.unpacked = true;
    return true;
}

bool nth_side::connect(nth_side &peer, unsigned count)
{
    std::string device(peer.attr.device_addr_len, '\0');
    std::string address(peer.attr.iface_addr_len, '\0');
    uct_ep_params_t params = {};
    uct_ep_h created;

    if (!ok(uct_iface_get_device_address(peer.iface,
                                         (uct_device_addr_t*)&device[0])) ||
        !ok(uct_iface_get_address(peer.iface,
                                  (uct_iface_addr_t*)&address[0]))) {
        return false;
    }

    params.field_mask = UCT_EP_PARAM_FIELD_IFACE |
                        UCT_EP_PARAM_FIELD_DEV_ADDR |
                        UCT_EP_PARAM_FIELD_IFACE_ADDR;
    params.iface      = iface;
    params.dev_addr   = (const uct_device_addr_t*)device.data();
    params.iface_addr = (const uct_iface_addr_t*)address.data();
    while ((eps.size() < count) && ok(uct_ep_create(&params, &created))) {
        eps.push_back(created);
    }
    ep = eps.empty() ? nullptr : eps.front();
    return eps.size() == count;
}

void nth_side::destroy_eps()
{
    for (uct_ep_h each : eps) {
        uct_ep_destroy(each);
    }
    eps.clear();
    ep = nullptr;
}

void nth_side::down()
{
    destroy_eps();
    if (mem.unpacked) {
        uct_rkey_release(component(), &mem.bundle);
        mem.unpacked = false;
    }
    if (iface != nullptr) {
        uct_iface_close(iface);
        iface = nullptr;
    }
    if (mem.memh != UCT_MEM_HANDLE_NULL) {
        ok(uct_md_mem_dereg(md, mem.memh));
        mem.memh = UCT_MEM_HANDLE_NULL;
    }
    if (md != nullptr) {
        uct_md_close(md);
        md = nullptr;
    }
    if (worker != nullptr) {
        uct_worker_destroy(worker);
        worker = nullptr;
    }
    if (async != nullptr) {
        ucs_async_context_destroy(async);
        async = nullptr;
    }
}

unsigned nth_side::progress()
{
    return (worker == nullptr) ? 0 : uct_worker_progress(worker);
}

ucs_status_t nth_side::take(const char *data, size_t length)
{
    uint64_t number = 0;

    memcpy(&number, data, std::min(length, sizeof(number)));
    disorder |= number != last + 1;
    last      = number;
    ++received;
    return UCS_OK;
}

/* ---- both ---- */

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
    }, patience)) << name << " finds no room and no error";
    op->accepted = status == UCS_INPROGRESS;
    op->status   = status;
    if (UCS_STATUS_IS_ERR(status)) {
        m_a.failed = true;
    }
    m_ops.push_back(std::move(op));
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
        return uct_ep_put_short(m_a.ep, src, 32, remote + SHORT_OFFSET,
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
    }, patience)) << "iface_flush has no end";
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
    post_gets();
    post_atomics();
    post_messages();
    m_started = true;
    flush();
    EXPECT_TRUE(progress_until([&] { return all_complete(); }, patience))
            << "accepted, and neither success nor an error";
    /* What was sent may still be on its way through the receiver */
    EXPECT_TRUE(progress_until([&] {
        return m_a.failed || m_b.failed || (m_b.received == m_sent);
    }, patience)) << m_b.received << " of " << m_sent << " messages arrived";
    m_started = false;
    m_whole   = true;
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
    }
    if (success) {
        EXPECT_EQ(m_sent, m_b.received);
        EXPECT_EQ(0, memcmp(target + SHORT_OFFSET, target + ZCOPY_OFFSET, 32));
        EXPECT_EQ(0, memcmp(target + BCOPY_OFFSET, target + ZCOPY_OFFSET, 500));
    }
}

void nth_scenario::run()
{
    static const options config = {
        {"NUM_PATHS", "2"},         {"TIMEOUT", "2ms"},
        {"RETRY_COUNT", "2"},       {"CONNECT_TIMEOUT", "1s"},
        {"GAP_TIMEOUT", "100ms"},   {"RNR_TIMEOUT", "100us"},
        {"RNR_RETRY_COUNT", "3"},   {"FRAG_SIZE", "16k"},
    };

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
