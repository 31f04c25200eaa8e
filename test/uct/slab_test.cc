/*
 * Memory of connections is allocated for four together: what one leaves, the next one takes.
 */
#include "failover_fixture.h"

namespace {

class slab : public failover_fixture {
protected:
    static constexpr unsigned together = 4, slabs = 3, count = slabs * together - 1;

    void connect(unsigned i)
    {
        all[i] = std::make_unique<endpoint>(*a, *b);
        ASSERT_EQ(UCS_OK, all[i]->flush()); /* connected, without a message */
    }

    /* One for each connection, and one for each slab, at both sides */
    static unsigned registrations()
    {
        vqp_fabric_objects_t objects;

        vqp_fabric()->objects(&objects);
        return objects.mrs;
    }

    std::unique_ptr<endpoint> all[count];
};

TEST_F(slab, has_room_for_others_where_connections_have_ended)
{
    unsigned before, each, full;

    open({});
    settle();
    before = registrations(); /* with ab, and a slab for it at each side */
    connect(0);
    each = registrations() - before; /* on each rail, at both sides */
    for (unsigned i = 1; i < count; ++i) {
        connect(i);
    }
    full = registrations();
    EXPECT_EQ(before + each * (count + slabs - 1), full);

    /* one of each slab: those of the newest slab first, then those of the oldest */
    for (unsigned first : {0u, 1u}) {
        for (unsigned i = 0; i < slabs; ++i) {
            all[first ? i * together : count - 1 - i * together].reset();
        }
        EXPECT_TRUE(until([&] { return registrations() == full - each * slabs; }));
        for (auto &ep : all) {
            if (ep == nullptr) {
                connect((unsigned)(&ep - all));
            }
        }
        EXPECT_EQ(full, registrations()); /* no slab more */
    }

    for (auto &ep : all) {
        ep.reset();
    }
    EXPECT_TRUE(until([&] { return registrations() == before; }));
}

} /* namespace */
