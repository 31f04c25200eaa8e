/* Interfaces, endpoints and memory for tests, see uct_fixture.h. */
#include "uct_fixture.h"

#include "test/fabric/fabric.h"
#include "test/lib/option.h"

#include <ucs/async/async.h>
#include <ucs/config/global_opts.h>
#include <ucs/debug/log.h>

#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

extern "C" {
#include <uct/base/uct_md.h>
}

#include <algorithm>
#include <mutex>
#include <sstream>

/* ---- devices ---- */

const std::vector<std::string> &devices()
{
    static std::vector<std::string> names;
    uct_component_attr_t attr;

    if (!names.empty()) {
        return names;
    }

    if (getenv("RXE_DEVS") != NULL) {
        std::istringstream list(getenv("RXE_DEVS"));
        std::string name;

        while (list >> name) {
            names.push_back(name);
        }
        return names;
    }

    attr.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
    if ((component() == NULL) ||
        (uct_component_query(component(), &attr) != UCS_OK)) {
        return names;
    }

    std::vector<uct_md_resource_desc_t> mds(attr.md_resource_count);
    attr.field_mask   = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
    attr.md_resources = mds.data();
    EXPECT_EQ(UCS_OK, uct_component_query(component(), &attr));
    for (auto &md : mds) {
        names.push_back(std::string(md.md_name).substr(strlen("vqp_")));
    }
    return names;
}

static uct_component_h find_component()
{
    uct_component_h found = NULL;
    uct_component_h *list;
    uct_component_attr_t attr;
    unsigned count, i;

    EXPECT_EQ(UCS_OK, uct_query_components(&list, &count));
    for (i = 0; i < count; ++i) {
        attr.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME;
        if ((uct_component_query(list[i], &attr) == UCS_OK) &&
            (strcmp(attr.name, "vqp") == 0)) {
            found = list[i];
        }
    }

    uct_release_component_list(list);
    EXPECT_TRUE(found != NULL) << "UCX does not know the transport";
    return found;
}

uct_component_h component()
{
    static uct_component_h found = find_component();

    return found;
}

/* ---- log ---- */

static std::mutex log_mutex;
static std::string log_text, log_complaints, log_errors, log_reasons;

static bool is_of_transport(const char *file)
{
    return (strstr(file, "src/verbs/") != NULL) ||
           (strstr(file, "src/uct/vqp") != NULL);
}

static ucs_log_func_rc_t
log_handler(const char *file, unsigned, const char *, ucs_log_level_t level,
            const ucs_log_component_config_t *, const char *format, va_list ap)
{
    char line[4096];

    vsnprintf(line, sizeof(line), format, ap);
    std::lock_guard<std::mutex> lock(log_mutex);
    log_text += std::string(line) + "\n";
    if ((level <= UCS_LOG_LEVEL_DIAG) && is_of_transport(file)) {
        log_complaints += std::string(line) + "\n";
        log_errors += (level <= UCS_LOG_LEVEL_ERROR) ? std::string(line) + "\n" : "";
        log_reasons += ((level <= UCS_LOG_LEVEL_WARN) &&
                        (strstr(line, ": endpoint to iface ") == NULL)) ?
                               std::string(line) + "\n" : "";
    }
    return UCS_LOG_FUNC_RC_STOP;
}

log_capture::log_capture() : log_capture(ucs_global_opts.log_component.log_level)
{
}

log_capture::log_capture(ucs_log_level_t level) :
    before(ucs_global_opts.log_component.log_level)
{
    std::lock_guard<std::mutex> lock(log_mutex);

    log_text.clear();
    log_complaints.clear();
    log_errors.clear();
    log_reasons.clear();
    ucs_global_opts.log_component.log_level = level;
    ucs_log_push_handler(log_handler);
}

log_capture::~log_capture()
{
    ucs_log_pop_handler();
    ucs_global_opts.log_component.log_level = before;
}

std::string log_capture::complaints()
{
    std::lock_guard<std::mutex> lock(log_mutex);

    return log_complaints;
}

std::string log_capture::errors()
{
    std::lock_guard<std::mutex> lock(log_mutex);

    return log_errors;
}

std::string log_capture::reasons()
{
    std::lock_guard<std::mutex> lock(log_mutex);

    return log_reasons;
}

std::string log_capture::text()
{
    std::lock_guard<std::mutex> lock(log_mutex);

    return log_text;
}

bool log_capture::has(const std::string &part)
{
    return text().find(part) != std::string::npos;
}

unsigned log_capture::count(const std::string &part)
{
    std::string all = text();
    unsigned count  = 0;

    for (size_t at = all.find(part); at != all.npos; at = all.find(part, at + 1)) {
        ++count;
    }
    return count;
}

/* ---- time and progress ---- */

static thread_local std::vector<node*> nodes;

double now()
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

bool has_virtual_clock()
{
    const char *clock = getenv("VQP_FABRIC_CLOCK");

    return (clock != nullptr) && (strcmp(clock, "virtual") == 0);
}

static void progress_all()
{
    static const bool is_virtual = has_virtual_clock();
    static thread_local unsigned empty;
    unsigned count = 0;

    for (size_t i = 0; i < nodes.size(); ++i) {
        count += nodes[i]->progress();
    }

    /* A software device needs the CPU. Not each time: on a busy machine a yield takes
     * milliseconds, and some options bring little with each progress call. Who waits for
     * long leaves it to others. Virtual time goes on by these calls only */
    if ((count != 0) || is_virtual) {
        empty = 0;
    } else if (++empty % 64 == 0) {
        if (empty < 4096) {
            sched_yield();
        } else {
            usleep(50);
        }
    }
}

double wait_limit(double seconds)
{
    const char *least = getenv("VQP_TEST_LIMIT");

    return (least == nullptr) ? seconds : std::min(seconds, atof(least));
}

bool until(const std::function<bool()> &condition, double seconds)
{
    double end = now() + wait_limit(seconds);

    while (!condition()) {
        if (now() > end) {
            return false;
        }
        progress_all();
    }

    return true;
}

void run_for(double seconds)
{
    until([] { return false; }, seconds);
}

void run_for_one(node &one, double seconds)
{
    for (double end = now() + seconds; now() < end;) {
        (void)one.progress();
    }
}

/* ---- node ---- */

ucs_async_mode_t async_mode = UCS_ASYNC_MODE_THREAD_SPINLOCK;

node::node(unsigned device, const options &config, node *domain) :
        name(devices()[std::min<size_t>(device, devices().size() - 1)]),
        own_md(domain == nullptr)
{
    open(config, domain);
}

node::node(const std::string &name, const options &config) :
        name(name), own_md(true)
{
    open(config, nullptr);
}

void node::open(const options &config, node *domain)
{
    EXPECT_EQ(UCS_OK, ucs_async_context_create(async_mode, &async));
    EXPECT_EQ(UCS_OK, uct_worker_create(async, UCS_THREAD_MODE_SINGLE,
                                        &worker));
    if (own_md) {
        open_md();
    } else {
        md      = domain->md;
        md_attr = domain->md_attr;
    }
    open_iface(config);
    nodes.push_back(this);
}

void node::open_md()
{
    uct_md_config_t *md_config;

    EXPECT_EQ(UCS_OK, uct_md_config_read(component(), NULL, NULL, &md_config));
    EXPECT_EQ(UCS_OK, uct_md_open(component(), ("vqp_" + name).c_str(),
                                  md_config, &md));
    uct_config_release(md_config);
    EXPECT_EQ(UCS_OK, uct_md_query(md, &md_attr));
}

static ucs_status_t node_err_handler(void *arg, uct_ep_h ep,
                                     ucs_status_t status)
{
    node *self      = (node*)arg;
    endpoint *which = nullptr;

    ++self->errors;
    self->error = status;
    for (endpoint *each : self->endpoints) {
        if (each->ep == ep) {
            which = each;
            ++each->errors;
            each->error = status;
        }
    }

    return self->on_error ? self->on_error(which, status) : UCS_OK;
}

/* The domain's first device: a bond has the name of its first port */
std::string node::device_name() const
{
    uct_tl_resource_desc_t *list;
    std::string first = name + ":1";
    unsigned count;

    if (uct_md_query_tl_resources(md, &list, &count) == UCS_OK) {
        first = (count > 0) ? list[0].dev_name : first;
        uct_release_tl_resource_list(list);
    }
    return first;
}

void node::open_iface(const options &config)
{
    std::string dev_name       = device_name();
    uct_iface_params_t params  = {};
    uct_iface_config_t *iface_config;

    EXPECT_EQ(UCS_OK, uct_md_iface_config_read(md, "vqp", NULL, NULL,
                                               &iface_config));
    for (auto &option : config) {
        EXPECT_EQ(UCS_OK, vqp_option_set(iface_config, option.first.c_str(),
                                         option.second.c_str()))
                << option.first;
    }
    /* A test that says how many paths there are has them from the beginning */
    if (config.count("NUM_PATHS") && !config.count("MIN_PATHS")) {
        EXPECT_EQ(UCS_OK, vqp_option_set(iface_config, "MIN_PATHS",
                                         config.at("NUM_PATHS").c_str()));
    }

    params.field_mask           = UCT_IFACE_PARAM_FIELD_OPEN_MODE |
                                  UCT_IFACE_PARAM_FIELD_DEVICE |
                                  UCT_IFACE_PARAM_FIELD_ERR_HANDLER |
                                  UCT_IFACE_PARAM_FIELD_ERR_HANDLER_ARG |
                                  UCT_IFACE_PARAM_FIELD_ERR_HANDLER_FLAGS;
    params.open_mode            = UCT_IFACE_OPEN_MODE_DEVICE;
    params.mode.device.tl_name  = "vqp";
    params.mode.device.dev_name = dev_name.c_str();
    params.err_handler          = node_err_handler;
    params.err_handler_arg      = this;
    EXPECT_EQ(UCS_OK, uct_iface_open(md, worker, &params, iface_config,
                                     &iface));
    uct_config_release(iface_config);
    if (iface == NULL) {
        abort(); /* a test can not go on */
    }

    EXPECT_EQ(UCS_OK, uct_iface_query(iface, &attr));
    uct_iface_progress_enable(iface, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
}

void node::close()
{
    while (!endpoints.empty()) {
        endpoints.back()->destroy();
    }

    if (iface != NULL) {
        uct_iface_close(iface);
        iface = NULL;
    }
}

node::~node()
{
    close();
    nodes.erase(std::find(nodes.begin(), nodes.end(), this));
    if (own_md) {
        uct_md_close(md);
    }
    uct_worker_destroy(worker);
    ucs_async_context_destroy(async);
}

static ucs_status_t
node_am_handler(void *arg, void *data, size_t length, unsigned)
{
    return (*(node::am_handler*)arg)((const char*)data, length);
}

void node::on_am(uint8_t id, const am_handler &handler)
{
    handlers[id] = handler;
    EXPECT_EQ(UCS_OK, uct_iface_set_am_handler(iface, id, node_am_handler,
                                               &handlers[id], 0));
}

std::string node::address() const
{
    std::string result(attr.device_addr_len + attr.iface_addr_len, '\0');

    EXPECT_EQ(UCS_OK, uct_iface_get_device_address(
                              iface, (uct_device_addr_t*)&result[0]));
    EXPECT_EQ(UCS_OK, uct_iface_get_address(
                              iface, (uct_iface_addr_t*)
                              &result[attr.device_addr_len]));
    result.push_back((char)attr.device_addr_len);
    return result;
}

/* ---- endpoint ---- */

endpoint::endpoint(node &from, const std::string &address) : local(from)
{
    uct_ep_params_t params = {};

    params.field_mask = UCT_EP_PARAM_FIELD_IFACE |
                        UCT_EP_PARAM_FIELD_DEV_ADDR |
                        UCT_EP_PARAM_FIELD_IFACE_ADDR;
    params.iface      = from.iface;
    params.dev_addr   = (const uct_device_addr_t*)address.data();
    params.iface_addr = (const uct_iface_addr_t*)(address.data() +
                                                  (uint8_t)address.back());
    EXPECT_EQ(UCS_OK, uct_ep_create(&params, &ep));
    from.endpoints.push_back(this);
}

void endpoint::destroy()
{
    auto &list = local.endpoints;

    if (ep != NULL) {
        list.erase(std::find(list.begin(), list.end(), this));
        uct_ep_destroy(ep);
        ep = NULL;
    }
}

ucs_status_t endpoint::flush(double seconds)
{
    ucs_status_t status = UCS_INPROGRESS;

    until([&] {
        status = uct_ep_flush(ep, UCT_FLUSH_FLAG_LOCAL, NULL);
        return (status != UCS_INPROGRESS) && (status != UCS_ERR_NO_RESOURCE);
    }, seconds);
    return status;
}

/* ---- completion ---- */

thread_local bool completion::inside = false;
thread_local std::vector<completion*> completion::order;

static void completion_func(uct_completion_t *super)
{
    completion *self = static_cast<completion*>((completion_base*)super);

    EXPECT_FALSE(completion::inside) << "a completion ran in the posting call";
    ++self->calls;
    self->status = super->status;
    completion::order.push_back(self);
    if (self->func) {
        self->func();
    }
}

completion::completion(int count, const std::function<void()> &f) :
        status(UCS_INPROGRESS), func(f)
{
    super.func   = completion_func;
    super.count  = count;
    super.status = UCS_OK;
}

/* ---- memory ---- */

/* UCP of UCX 1.15 and newer registers without access flags. The uct_md_mem_reg() of
 * older ones does not let them pass */
static ucs_status_t mem_reg(uct_md_h md, void *address, size_t length,
                            unsigned flags, uct_mem_h *memh)
{
#if UCT_API < UCT_VERSION(1, 14)
    return md->ops->mem_reg(md, address, length, flags, memh);
#else
    uct_md_mem_reg_params_t params = {};

    params.field_mask = UCT_MD_MEM_REG_FIELD_FLAGS;
    params.flags      = flags;
    return uct_md_mem_reg_v2(md, address, length, &params, memh);
#endif
}

memory::memory(node &owner, size_t length, void *address, unsigned flags) :
        owner(owner), data((char*)address), length(length),
        mapped(address == nullptr)
{
    std::string packed(owner.md_attr.rkey_packed_size, '\0');

    if (mapped) {
        data = (char*)mmap(NULL, length, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        EXPECT_NE((char*)MAP_FAILED, data);
    }

    ucs_status_t status = mem_reg(owner.md, data, length, flags, &memh);
    if (status != UCS_OK) {
        memh = UCT_MEM_HANDLE_NULL;
    } else if ((status = uct_md_mkey_pack(owner.md, memh, &packed[0])) ==
               UCS_OK) {
        status = uct_rkey_unpack(component(), packed.data(), &bundle);
    }
    EXPECT_EQ(UCS_OK, status);
    unpacked = (status == UCS_OK);
}

void memory::deregister()
{
    if (memh != UCT_MEM_HANDLE_NULL) {
        EXPECT_EQ(UCS_OK, uct_md_mem_dereg(owner.md, memh));
        memh = UCT_MEM_HANDLE_NULL;
    }
}

void faults(const std::string &script)
{
    char error[128] = "";

    ASSERT_EQ(0, vqp_fabric()->faults(script.c_str(), error, sizeof(error))) << error;
}

ucs_status_t memory::pack(unsigned flags)
{
    uct_md_mkey_pack_params_t params = {};
    std::vector<char> key(owner.md_attr.rkey_packed_size);

    params.field_mask = UCT_MD_MKEY_PACK_FIELD_FLAGS;
    params.flags      = flags;
#if UCT_API >= UCT_VERSION(1, 16)
    return uct_md_mkey_pack_v2(owner.md, memh, data, length, &params, key.data());
#else
    return uct_md_mkey_pack_v2(owner.md, memh, &params, key.data());
#endif
}

ucs_status_t memory::invalidate(completion &comp)
{
    uct_md_mem_dereg_params_t params = {};
    ucs_status_t status;

    params.field_mask = UCT_MD_MEM_DEREG_FIELD_MEMH | UCT_MD_MEM_DEREG_FIELD_FLAGS |
                        UCT_MD_MEM_DEREG_FIELD_COMPLETION;
    params.memh       = memh;
    params.flags      = UCT_MD_MEM_DEREG_FLAG_INVALIDATE;
    params.comp       = &comp.super;
    status = uct_md_mem_dereg_v2(owner.md, &params);
    if (status == UCS_OK) {
        memh = UCT_MEM_HANDLE_NULL;
    }

    return status;
}

void memory::revoke()
{
    completion comp;

    EXPECT_EQ(UCS_OK, pack(PACK_INVALIDATE));
    EXPECT_EQ(UCS_OK, invalidate(comp));
    EXPECT_EQ(1, comp.calls);
}

memory::~memory()
{
    if (unpacked) {
        uct_rkey_release(component(), &bundle);
    }
    deregister();
    if (mapped) {
        munmap(data, length);
    }
}

void memory::fill(unsigned seed)
{
    for (size_t i = 0; i < length; ++i) {
        data[i] = pattern(seed, i);
    }
}

uct_iov_t memory::iov(size_t offset, size_t size) const
{
    uct_iov_t iov = {};

    iov.buffer = data + offset;
    iov.length = size;
    iov.memh   = memh;
    iov.count  = 1;
    return iov;
}

std::string memory::packed_key() const
{
    std::string packed(owner.md_attr.rkey_packed_size, '\0');

    EXPECT_EQ(UCS_OK, uct_md_mkey_pack(owner.md, memh, &packed[0]));
    return packed;
}

remote_key::remote_key(const std::string &packed)
{
    EXPECT_EQ(UCS_OK, uct_rkey_unpack(component(), packed.data(), &bundle));
}

size_t pack_bytes(void *dest, void *arg)
{
    bytes *source = (bytes*)arg;

    memcpy(dest, source->data, source->length);
    return source->length;
}

/* ---- two interfaces ---- */

void uct_test::SetUp()
{
    if (devices().empty()) {
        GTEST_SKIP() << "no RDMA device";
    }
    completion::order.clear();
}

static void expect_no_violations()
{
    char text[512] = "";

    if (vqp_fabric() != NULL) {
        vqp_fabric()->violation_text(text, sizeof(text));
        EXPECT_EQ(0u, vqp_fabric()->violations(NULL)) << text;
        vqp_fabric()->violations_reset();
    }
}

void uct_test::TearDown()
{
    ab.reset();
    ba.reset();
    b.reset();
    a.reset();
    if (faults_allowed()) {
        EXPECT_TRUE(fault("clear"));
    }
    expect_no_violations();
}

void uct_test::expect_violations(const char *rule)
{
    if (vqp_fabric() != NULL) {
        EXPECT_GT(vqp_fabric()->violations(rule), 0u);
        vqp_fabric()->violations_reset();
    }
}

void uct_test::open(const options &config)
{
    a  = std::make_unique<node>(0, config);
    b  = std::make_unique<node>(1, config);
    listen();
    ab = std::make_unique<endpoint>(*a, *b);
}

void uct_test::listen()
{
    for (node *each : {a.get(), b.get()}) {
        each->on_am(settle_id, [this](const char *, size_t) {
            ++settled;
            return UCS_OK;
        });
    }
}

void uct_test::connect_back()
{
    ba = std::make_unique<endpoint>(*b, *a);
}

void uct_test::settle()
{
    unsigned before = settled;

    EXPECT_EQ(UCS_OK, ab->retry([&] {
        return uct_ep_am_short(*ab, settle_id, 0, NULL, 0);
    }));
    EXPECT_TRUE(until([&] { return settled == before + 1; }));
    EXPECT_EQ(UCS_OK, ab->flush());
}

void uct_test::use_all_slots(memory *target)
{
    unsigned awaited = settled;

    while (uct_ep_am_short(*ab, settle_id, 0, NULL, 0) == UCS_OK) {
        ++awaited;
    }
    while ((target != NULL) &&
           (uct_ep_put_short(*ab, target->data, 1, target->addr(), target->rkey()) ==
            UCS_OK)) {
    }
    EXPECT_EQ(UCS_OK, ab->flush());
    EXPECT_TRUE(until([&] { return settled == awaited; }));
}
