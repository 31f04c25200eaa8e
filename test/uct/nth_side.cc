/* One side of the program that expects anything to fail, see nth_scenario.h. */
#include "nth_scenario.h"

#include "test/lib/option.h"

#include <ucs/async/async.h>

#include <algorithm>

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
    absent = num_resources == 0;
    if (absent || !ok(uct_md_iface_config_read(md, "vqp", NULL, NULL,
                                               &iface_config))) {
        failed = true;
        return false;
    }
    for (auto &option : config) {
        EXPECT_EQ(UCS_OK, vqp_option_set(iface_config, option.first.c_str(),
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
