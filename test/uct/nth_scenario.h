/*
 * A program that uses every part of the transport once, and expects anything to
 * fail: two interfaces, endpoints both ways, each kind of operation, flushes,
 * and back down to nothing. What it asks of the transport, whatever happens:
 * every call ends with success or an error; what was accepted completes exactly
 * once, within a few seconds; data is right where success was reported.
 */
#ifndef VQP_TEST_NTH_SCENARIO_H
#define VQP_TEST_NTH_SCENARIO_H

#include "uct_fixture.h"

/* The layout of each side's memory */
enum {
    ATOMIC_OFFSET = 0,
    SHORT_OFFSET  = 64,
    BCOPY_OFFSET  = 1024,
    ZCOPY_OFFSET  = 8192,
    ZCOPY_LENGTH  = 200000,
    GET_OFFSET    = 256 << 10,
    GET_LENGTH    = 100000
};

/* An operation that was posted; its completion counts */
struct nth_op : completion_base {
    explicit nth_op(const std::string &name);
    std::string  name;
    bool         accepted = false;
    unsigned     calls    = 0;
    ucs_status_t status   = UCS_OK;
};

/* Memory of one side, with its key as the other one sees it */
struct nth_memory {
    std::vector<char> data;
    uct_mem_h         memh     = UCT_MEM_HANDLE_NULL;
    bool              unpacked = false;
    uct_rkey_bundle_t bundle;
};

/* One of the two interfaces, and its objects. Each step returns whether there
 * is a next one; down() releases the existing objects. */
class nth_side {
public:
    ~nth_side() { down(); }
    bool up(const options &config);
    bool reg(size_t size, unsigned seed);
    bool connect(nth_side &peer, unsigned count = 1);
    void destroy_eps();
    void down();
    unsigned progress();

    /* Messages that came: the number in each, and whether they were in order */
    ucs_status_t take(const char *data, size_t length);

    bool                  failed   = false; /* an error was reported */
    bool                  absent   = false; /* the device has no active port */
    unsigned              received = 0;
    bool                  disorder = false;
    uint64_t              last     = 0;
    uct_ep_h              ep       = nullptr; /* the first of these */
    std::vector<uct_ep_h> eps;
    nth_memory            mem;

private:
    friend class nth_scenario;
    bool open_md();
    bool open_iface(const options &config);
    bool ok(ucs_status_t status);

    ucs_async_context_t *async  = nullptr;
    uct_worker_h        worker  = nullptr;
    uct_md_h            md      = nullptr;
    uct_iface_h         iface   = nullptr;
    uct_md_attr_t       md_attr;
    uct_iface_attr_t    attr;
};

class nth_scenario {
public:
    /* From nothing to nothing. Failures of the test are added by gtest. */
    void run();

    /* The transport reported no error at any step */
    bool clean() const { return !m_a.failed && !m_b.failed && m_completed; }

    /* There was nothing to open: that is no error, and nothing is logged */
    bool absent() const { return m_a.absent || m_b.absent; }

    /* All operations were successful; but for results of atomics, with failover */
    bool all_done() const;

    options  more;              /* of the interfaces */
    unsigned endpoints = 1;     /* of the first side; one carries the traffic */
    bool     goes_on   = false; /* sends on while it waits, and no fences */

    /* With failover: makes a path fail, when some operations were posted. All that
     * follows is posted while it is down, or comes back. */
    std::function<void()> fail_path;
    /* ... the end of that: the path is up again */
    std::function<bool()> is_over;
    bool exact = true; /* every atomic is executed, whatever becomes of its result */

private:
    void transfer();
    void post(const std::string &name,
              const std::function<ucs_status_t(uct_completion_t*)> &func);
    void post_messages();
    void post_puts();
    void post_gets();
    void post_atomics();
    bool is_loss(const nth_op &op) const;
    void flush();
    void nudge();
    void check();
    bool progress_until(const std::function<bool()> &condition, double seconds);
    bool all_complete() const;
    uct_iov_t iov(size_t offset, size_t length) const;

    static constexpr size_t size = 512 << 10; /* of each side's memory */

    nth_side m_a, m_b;
    std::vector<std::unique_ptr<nth_op>> m_ops;
    uint64_t m_sent        = 0;
    unsigned m_adds        = 0; /* accepted */
    unsigned m_added       = 0; /* known to have been executed */
    uint64_t m_results[2]  = {0, 0};
    double   m_nudged      = 0;     /* when it was sent last, while waiting */
    bool     m_started     = false; /* all operations were posted */
    bool     m_completed   = false; /* the end of transfer() was reached */
};

#endif
