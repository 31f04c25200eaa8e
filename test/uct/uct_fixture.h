/*
 * What the tests of the transport share: interfaces, endpoints, registered
 * memory, completions, all through UCX's public UCT API, and a second process
 * where a test needs one. The module is loaded before main() of the tests
 * starts (main.cc). The tests need RDMA devices, two where there are two:
 * test/rxe/run has them. Without devices they are skipped.
 */
#ifndef VQP_TEST_UCT_FIXTURE_H
#define VQP_TEST_UCT_FIXTURE_H

#include "test/lib/process.h"

#include <uct/api/uct.h>
#include <uct/api/v2/uct_v2.h>
#include <uct/api/version.h>
#include <ucs/async/async.h>
#include <ucs/config/types.h>

#include <gtest/gtest.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

/* Names of the devices that the tests use: $RXE_DEVS, else all there are */
const std::vector<std::string> &devices();

/* The transport's component */
uct_component_h component();

/* Options of an interface, without the prefix UCX_VQP_ */
typedef std::map<std::string, std::string> options;

/* The same, of an interface whose endpoints fail with their first path: for tests of
 * how they fail */
inline options no_failover(options more = {})
{
    more["FAILOVER"] = "n";
    return more;
}

/* Everything logged between construction and destruction, at any level that
 * UCX_LOG_LEVEL allows, or at @a level; none of it is printed */
class log_capture {
public:
    log_capture();
    explicit log_capture(ucs_log_level_t level);
    ~log_capture();
    static bool has(const std::string &part);
    static unsigned count(const std::string &part);
    static std::string text();
    /* Of it, what the transport's own sources logged as diag or worse */
    static std::string complaints();
    /* Of these, the errors: something is lost */
    static std::string errors();
    /* Of these, what UCX prints by default, but for that an endpoint has failed */
    static std::string reasons();

private:
    ucs_log_level_t before;
};

class endpoint;

/* A memory domain, a worker and an interface on one device. The interfaces of
 * a thread are progressed together, see until(). */
class node {
public:
    typedef std::function<ucs_status_t(const char *, size_t)> am_handler;
    typedef std::function<ucs_status_t(endpoint *, ucs_status_t)> err_handler;

    /* With a domain: on the memory domain of that node, which must outlive this
     * one */
    explicit node(unsigned device = 0, const options &config = {},
                  node *domain = nullptr);
    /* On the memory domain vqp_<name>: a device, or a bond ("bond0") */
    explicit node(const std::string &name, const options &config = {});
    ~node();
    node(const node &)            = delete;
    node &operator=(const node &) = delete;

    unsigned progress() { return uct_worker_progress(worker); }
    void on_am(uint8_t id, const am_handler &handler);

    /* Hold off the handlers of control datagrams and timers */
    void block() { UCS_ASYNC_BLOCK(async); }
    void unblock() { UCS_ASYNC_UNBLOCK(async); }

    /* Close the interface now: its statistics are written */
    void close();

    /* Has the device atomics? Some have none: profile irdma of the fabric */
    bool has_atomics() const
    {
        return (attr.cap.atomic64.op_flags & UCS_BIT(UCT_ATOMIC_OP_ADD)) != 0;
    }

    /* Device and interface address, and the length of the former, as one string
     * for another process */
    std::string address() const;

    uct_md_h              md     = nullptr;
    uct_worker_h          worker = nullptr;
    uct_iface_h           iface  = nullptr;
    uct_md_attr_t         md_attr;
    uct_iface_attr_t      attr;
    std::string           name;         /* of the device */
    unsigned              errors = 0;   /* calls of the error handler */
    ucs_status_t          error  = UCS_OK; /* of the last one */
    err_handler           on_error;     /* called after counting, or empty */
    std::vector<endpoint*> endpoints;

private:
    void open(const options &config, node *domain);
    void open_md();
    void open_iface(const options &config);
    std::string device_name() const;

    ucs_async_context_t  *async = nullptr;
    bool                  own_md;
    std::map<uint8_t, am_handler> handlers;
};

/* In a test or SetUp() */
#define SKIP_WITHOUT_ATOMICS(_node) \
    if (!(_node).has_atomics()) { \
        GTEST_SKIP() << "the device has no atomics"; \
    }

/* How the threads of nodes that are opened from now on wait for the async
 * thread. Where time passes only while all threads sleep (UML's
 * time-travel=inf-cpu), a lock must not spin: UCS_ASYNC_MODE_THREAD_MUTEX. */
extern ucs_async_mode_t async_mode;

/* Seconds, longer than anything takes on a busy machine: only what hangs is ended by
 * them. The environment may have less: VQP_TEST_LIMIT. */
constexpr double wait_limit_s = 120;
double wait_limit(double seconds = wait_limit_s);
inline int wait_limit_ms() { return (int)(wait_limit() * 1000); }

/* Whether time goes on by what this process does, and not by itself (fabric-run -o
 * CLOCK=virtual) */
bool has_virtual_clock();

/* Progress the interfaces of this thread until the condition holds.
 * @return false if it does not within @a seconds. */
bool until(const std::function<bool()> &condition, double seconds = wait_limit_s);

/* Progress them for that long */
void run_for(double seconds);

/* Progress this one only */
void run_for_one(node &one, double seconds);

/* Monotonic, in seconds */
double now();

class endpoint {
public:
    /* To @a to's interface, or to an address that came from another process */
    endpoint(node &from, const node &to) : endpoint(from, to.address()) {}
    endpoint(node &from, const std::string &address);
    ~endpoint() { destroy(); }
    endpoint(const endpoint &)            = delete;
    endpoint &operator=(const endpoint &) = delete;

    operator uct_ep_h() const { return ep; }
    void destroy();

    /* Repeat an operation while it returns NO_RESOURCE
     * @return what it returned last */
    template <typename func_t> auto retry(func_t func, double seconds = wait_limit_s)
            -> decltype(func())
    {
        auto result = func();

        until([&] {
            if (result == UCS_ERR_NO_RESOURCE) {
                result = func();
            }
            return result != UCS_ERR_NO_RESOURCE;
        }, seconds);
        return result;
    }

    /* Flush with progress, without a completion */
    ucs_status_t flush(double seconds = wait_limit_s);

    node        &local;
    uct_ep_h     ep     = nullptr;
    unsigned     errors = 0; /* calls of the error handler for this one */
    ucs_status_t error  = UCS_OK;
};

/* A completion that counts its calls. While `inside` is set, a call is a
 * defect: no completion may run in the call that posts. */
struct completion_base {
    uct_completion_t super;
};

struct completion : completion_base {
    explicit completion(int count = 1, const std::function<void()> &f = {});

    int                   calls = 0;
    ucs_status_t          status;
    std::function<void()> func;

    static thread_local bool inside;
    static thread_local std::vector<completion*> order; /* of their calls */
};

/* Post; completions that run meanwhile fail the test */
template <typename func_t> auto post(func_t func) -> decltype(func())
{
    completion::inside = true;
    auto result        = func();
    completion::inside = false;
    return result;
}

/* Since UCX 1.15 there is one for RMA and one for atomics */
#if UCT_API >= UCT_VERSION(1, 15)
#  define PACK_INVALIDATE UCT_MD_MKEY_PACK_FLAG_INVALIDATE_RMA
#else
#  define PACK_INVALIDATE UCT_MD_MKEY_PACK_FLAG_INVALIDATE
#endif

/* Registered memory with its remote key, packed and unpacked. It is allocated
 * if no address is given; with an offset it begins at an odd address. */
class memory {
public:
    memory(node &owner, size_t length, void *address = nullptr,
           unsigned flags = UCT_MD_MEM_ACCESS_ALL);
    ~memory();
    memory(const memory &)            = delete;
    memory &operator=(const memory &) = delete;

    void deregister();
    /* Pack the key with these flags, and drop it */
    ucs_status_t pack(unsigned flags);
    /* Deregister, and be told when no peer can reach it any more */
    ucs_status_t invalidate(completion &comp);
    /* Both, at once: nobody else has the memory */
    void revoke();
    void fill(unsigned seed);
    uint64_t addr(size_t offset = 0) const { return (uint64_t)(data + offset); }
    uct_rkey_t rkey() const { return bundle.rkey; }
    uct_iov_t iov(size_t offset, size_t size) const;
    std::string packed_key() const;

    node             &owner;
    char             *data;
    size_t            length;
    uct_mem_h         memh = UCT_MEM_HANDLE_NULL;
    uct_rkey_bundle_t bundle;
    bool              unpacked; /* registered, and there is a key */

private:
    bool mapped;
};

/* A remote key of another process */
class remote_key {
public:
    explicit remote_key(const std::string &packed);
    ~remote_key() { uct_rkey_release(component(), &bundle); }
    uct_rkey_bundle_t bundle;
};

std::string to_hex(const std::string &bytes);
std::string from_hex(const std::string &hex);

/* The number behind "name": in a line of the statistics: the first, summed up
 * over all lines, or the largest */
uint64_t stats_sum(const std::string &file, const std::string &name);
uint64_t stats_max(const std::string &file, const std::string &name);
std::string read_file(const std::string &name);

/* test/rxe/fault with these arguments. False where no faults may be made; they
 * are all cleared after each test. On the software fabric: "down DEV" and
 * "up DEV" only, and the test undoes them. */
bool fault(const std::string &arguments);
bool faults_allowed();
bool ports_go_down();

/* On the software fabric: this script of faults is in force, instead of the last one */
void faults(const std::string &script);

/* Queue pairs of all processes, on one of the tests' devices or on all of them;
 * of this process, on all devices, on the software fabric; -1 if unknown */
int count_qps(const std::string &device = "");

/* A name for a file that is removed with the object */
class temp_file {
public:
    temp_file();
    ~temp_file();
    std::string name;
};

/* Byte i of a pattern */
inline char pattern(unsigned seed, size_t i)
{
    return (char)((i * 2654435761u + seed * 40503u + (i >> 12)) >> 7);
}

/* pack and unpack callbacks on a (pointer, length) pair */
struct bytes {
    const char *data;
    size_t      length;
};
size_t pack_bytes(void *dest, void *arg);

/* Two connected interfaces: on two devices where there are two */
class uct_test : public ::testing::Test {
protected:
    void SetUp() override;
    void TearDown() override;

    /* Open both with these options and connect a to b */
    void open(const options &config = {});
    void connect_back(); /* b to a */

    /* Both take the messages of settle() */
    void listen();

    /* Wait until a message has come through and is acknowledged */
    void settle();

    /* An idle endpoint has few slots for operations: from now on ab has all of them, for
     * messages, and for puts if there is memory to write to */
    void use_all_slots(memory *target = NULL);

    /* On the software fabric: this test has violated the API on purpose, and
     * the fabric has reported it. In other tests a violation is a failure, see
     * TearDown. */
    static void expect_violations(const char *rule);

    static constexpr uint8_t settle_id = 31; /* both take it, and count */
    unsigned             settled   = 0;

    std::unique_ptr<node>     a, b;
    std::unique_ptr<endpoint> ab, ba;
};

#endif
