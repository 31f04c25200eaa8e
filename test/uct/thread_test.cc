/*
 * Threads, each with a worker and an interface of its own, that talk to each
 * other: nothing of one is seen by the other but what verbs carry. Made for the
 * thread sanitizer (contrib/check.sh --only tsan), which finds what these tests
 * alone would not.
 */
#include "uct_fixture.h"

#include "test/fabric/fabric.h"

#include <array>
#include <atomic>
#include <future>
#include <random>

namespace {

constexpr unsigned num_ops = 24;        /* of each kind in a round */
constexpr size_t   slot    = 40000;     /* bytes that an op may write */
constexpr size_t   area    = num_ops * slot;
constexpr uint8_t  am_id   = 3;

/* Data exchanged by the threads beside the transport */
class meeting {
public:
    struct address_info {
        std::string address, key;
        uint64_t    memory;
    };

    void post(unsigned self, const address_info &own)
    {
        std::lock_guard<std::mutex> lock(mutex);
        addresses[self] = own;
    }

    address_info of(unsigned who)
    {
        std::lock_guard<std::mutex> lock(mutex);
        return addresses[who];
    }

    /* Both have come here so many times; meanwhile interfaces progress */
    bool wait(unsigned self)
    {
        unsigned count = ++times[self];

        return until([&] { return times[1 - self] >= count; }, 120);
    }

private:
    std::mutex                           mutex;
    std::array<address_info, 2>                  addresses;
    std::array<std::atomic<unsigned>, 2> times = {};
};

class talker {
public:
    talker(unsigned self, meeting &place, const options &config, node *domain) :
            self(self), place(place), own(domain ? 0 : self, config, domain),
            source(own, area), target(own, 2 * area + 64), random(self)
    {
        source.fill(self);
        target.fill(self);
        own.on_am(am_id, [this](const char *data, size_t length) {
            return hear(data, length);
        });
        place.post(self, {own.address(), target.packed_key(), target.addr()});
    }

    std::string talk(unsigned rounds);

private:
    struct message {
        uint32_t op;
        uint32_t length; /* of the put that came before it */
    };

    ucs_status_t hear(const char *data, size_t length);
    void say(endpoint &peer, const remote_key &key, uint64_t memory,
             unsigned op);
    void fetch(endpoint &peer, const remote_key &key, uint64_t memory,
               unsigned op);
    void complain(const std::string &what)
    {
        if (error.size() < 1000) {
            error += what + "; ";
        }
    }

    void expect(const std::string &what, bool good)
    {
        if (!good) {
            complain(what);
        }
    }

    unsigned     self;
    meeting     &place;
    node         own;
    memory       source, target; /* written by the peer; read; a counter */
    std::mt19937 random;
    unsigned     heard = 0;
    std::string  error;
};

/* The put of this op is complete in our memory before its message comes */
ucs_status_t talker::hear(const char *data, size_t length)
{
    message what;

    memcpy(&what, data, std::min(sizeof(what), length));
    expect("length of a message", length == sizeof(what) + what.op % 30);
    for (size_t i = 0; i < what.length; ++i) {
        if (target.data[what.op * slot + i] != pattern(1 - self, i)) {
            complain("byte " + std::to_string(i) + " of put " +
                     std::to_string(what.op));
            break;
        }
    }
    ++heard;
    return UCS_OK;
}

void talker::say(endpoint &peer, const remote_key &key, uint64_t memory,
                 unsigned op)
{
    char buffer[sizeof(message) + 30] = {};
    message what  = {op, 1 + (uint32_t)(random() % slot)};
    bytes packed  = {buffer, sizeof(what) + op % 30};
    uct_iov_t iov = source.iov(0, what.length);
    ucs_status_t status;

    memcpy(buffer, &what, sizeof(what));
    status = peer.retry([&] {
        return uct_ep_put_zcopy(peer, &iov, 1, memory + op * slot,
                                key.bundle.rkey, NULL);
    });
    expect("put", (status == UCS_INPROGRESS) || (status == UCS_OK));
    expect("fence", uct_ep_fence(peer, 0) == UCS_OK);
    if (op % 2) {
        ssize_t packed_size = peer.retry([&] {
            return uct_ep_am_bcopy(peer, am_id, pack_bytes, &packed, 0);
        });
        expect("am_bcopy", packed_size == (ssize_t)packed.length);
    } else {
        uint64_t header;

        memcpy(&header, buffer, 8);
        status = peer.retry([&] {
            return uct_ep_am_short(peer, am_id, header, buffer + 8,
                                   packed.length - 8);
        });
        expect("am_short", status == UCS_OK);
    }
}

/* A get of what stays as it is, and one to be added to the peer's counter */
void talker::fetch(endpoint &peer, const remote_key &key, uint64_t memory,
                   unsigned op)
{
    size_t length = 1 + random() % slot;
    uct_iov_t iov = source.iov(slot, length);
    uint64_t before = 0;
    completion got, added;
    ucs_status_t status;

    status = peer.retry([&] {
        return uct_ep_get_zcopy(peer, &iov, 1, memory + area + op,
                                key.bundle.rkey, &got.super);
    });
    expect("get", status == UCS_INPROGRESS);
    status = peer.retry([&] {
        return uct_ep_atomic64_fetch(peer, UCT_ATOMIC_OP_ADD, 1, &before,
                                     memory + 2 * area, key.bundle.rkey,
                                     &added.super);
    });
    expect("fetch", status == UCS_INPROGRESS);
    expect("get and fetch complete",
           until([&] { return got.calls + added.calls == 2; }));
    expect("status", (got.status == UCS_OK) && (added.status == UCS_OK));
    for (size_t i = 0; i < length; ++i) {
        if (source.data[slot + i] != pattern(1 - self, area + op + i)) {
            complain("byte " + std::to_string(i) + " of a get");
            break;
        }
    }
}

std::string talker::talk(unsigned rounds)
{
    uint64_t *counter = (uint64_t*)(target.data + 2 * area);

    *counter = 0;
    expect("begin", place.wait(self));
    meeting::address_info other = place.of(1 - self);
    remote_key key(other.key);
    for (unsigned round = 0; (round < rounds) && error.empty(); ++round) {
        endpoint peer(own, other.address);

        for (unsigned op = 0; op < num_ops; ++op) {
            say(peer, key, other.memory, op);
            if (op % 4 == 0) {
                fetch(peer, key, other.memory, op);
            }
        }
        expect("flush", peer.flush() == UCS_OK);
        expect("all messages of round " + std::to_string(round), until([&] {
            return heard >= (round + 1) * num_ops;
        }));
        /* half of the times one is gone while the other is still busy */
        if (round % 2) {
            expect("round", place.wait(self));
        }
        peer.destroy();
        expect("next round", place.wait(self));
    }
    expect("counter", *counter == rounds * (num_ops / 4));
    expect("end", place.wait(self));
    return error;
}

} /* namespace */

class thread_test : public uct_test {
protected:
    void SetUp() override
    {
        uct_test::SetUp();
        if (!IsSkipped()) {
            SKIP_WITHOUT_ATOMICS(node(0)); /* which talkers count with */
        }
    }

    /* Two threads; with a domain, both interfaces belong to it */
    static void talk(unsigned rounds, const options &config = {},
                     node *domain = nullptr)
    {
        std::array<std::future<std::string>, 2> players;
        meeting place;

        for (unsigned i = 0; i < 2; ++i) {
            players[i] = std::async(std::launch::async, [&, i, rounds] {
                return talker(i, place, config, domain).talk(rounds);
            });
        }
        for (auto &player : players) {
            EXPECT_EQ("", player.get());
        }
    }
};

TEST_F(thread_test, two_workers_talk_connect_and_disconnect)
{
    talk(12);
}

TEST_F(thread_test, two_workers_talk_by_spray_and_small_frags)
{
    talk(6, {{"NOTIFY", "spray"}, {"MIN_FRAG", "1k"}, {"FRAG_SIZE", "4k"},
             {"COMP_ORDER", "post"}, {"RING_SIZE", "16k"}});
}

TEST_F(thread_test, two_workers_share_a_memory_domain)
{
    node domain(0);

    talk(6, {}, &domain);
}

/* UCX's async thread sets up what the calls use */
TEST_F(thread_test, an_endpoint_may_be_used_while_it_connects)
{
    node here(0), there(1);
    unsigned got = 0, sent = 0;

    there.on_am(am_id, [&](const char *, size_t) { ++got; return UCS_OK; });
    for (unsigned round = 0; round < 40; ++round) {
        endpoint ep(here, there);
        unsigned calls      = 0;
        ucs_status_t status = UCS_ERR_NO_RESOURCE;

        /* half of them go before they are connected, or soon after */
        while ((status == UCS_ERR_NO_RESOURCE) &&
               ((round % 2) || (calls++ < 20 * round))) {
            EXPECT_EQ(UCS_OK, uct_ep_check(ep, 0, NULL));
            EXPECT_FALSE(uct_ep_flush(ep, 0, NULL) == UCS_ERR_IO_ERROR);
            status = uct_ep_am_short(ep, am_id, 0, NULL, 0);
            (void)here.progress();
        }
        if (status == UCS_OK) {
            ++sent;
            EXPECT_EQ(UCS_OK, ep.flush());
        }
        EXPECT_EQ(0u, ep.errors);
    }
    EXPECT_GE(sent, 20u);
    EXPECT_TRUE(until([&] { return got == sent; }));
}

/* The device's events come in UCX's async thread, and go through the list of
 * interfaces of the memory domain */
TEST_F(thread_test, interfaces_come_and_go_while_the_port_changes)
{
    const vqp_fabric_t *fabric = vqp_fabric();
    std::array<std::future<void>, 2> players;
    std::atomic<int> busy{2};
    std::mutex up; /* an interface opens where the port is up */
    node domain(0);

    if (fabric == NULL) {
        GTEST_SKIP() << "only where the port is ours to take down";
    }

    for (auto &player : players) {
        player = std::async(std::launch::async, [&] {
            for (unsigned i = 0; i < 30; ++i) {
                std::unique_lock<std::mutex> lock(up);
                node one(0, {}, &domain), two(0, {}, &domain);
                endpoint there(one, two);

                lock.unlock();
                run_for(0.003);
            }
            --busy;
        });
    }
    while (busy > 0) {
        up.lock();
        EXPECT_EQ(0, fabric->port(domain.name.c_str(), 1, 0));
        usleep(200);
        EXPECT_EQ(0, fabric->port(domain.name.c_str(), 1, 1));
        up.unlock();
        usleep(500);
    }
    for (auto &player : players) {
        player.get();
    }
}
