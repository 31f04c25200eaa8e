/*
 * Lengths that do not fit 31 or 32 bits. The memory is a small file that is
 * mapped again and again; only the end of the target is memory of its own, so
 * that what arrives there was really sent.
 */
#include "uct_fixture.h"

#include <sys/mman.h>
#include <unistd.h>

class aliased {
public:
    aliased(size_t length, bool own_end) : length((length + piece) & ~(piece - 1))
    {
        int fd = memfd_create("vqp_large", 0);

        EXPECT_EQ(0, ftruncate(fd, piece));
        data = (char*)mmap(NULL, this->length, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        for (size_t i = 0; i < this->length; i += piece) {
            EXPECT_NE(MAP_FAILED, mmap(data + i, piece, PROT_READ | PROT_WRITE,
                                       MAP_SHARED | MAP_FIXED, fd, 0));
        }
        if (own_end) {
            end = (length - window) & ~(size_t)4095;
            EXPECT_NE(MAP_FAILED, mmap(data + end, this->length - end,
                                       PROT_READ | PROT_WRITE, MAP_PRIVATE |
                                       MAP_ANONYMOUS | MAP_FIXED, -1, 0));
        }
        close(fd);
    }

    ~aliased() { munmap(data, length); }

    static constexpr size_t piece  = 32 << 20;
    static constexpr size_t window = 1 << 20;
    size_t length, end = 0;
    char   *data;
};

class large : public uct_test {
protected:
    /* get: the aliased target is the local side */
    void move(bool get, size_t length)
    {
        open();
        settle();
        {
            aliased from(length, false), to(length, true);
            node &from_node = get ? *b : *a;
            node &to_node   = get ? *a : *b;
            memory source(from_node, from.length, from.data);
            memory target(to_node, to.length, to.data);
            uct_iov_t iov = get ? target.iov(0, length) :
                                  source.iov(0, length);
            completion comp;

            for (size_t i = 0; i < aliased::piece; i += 8) {
                uint64_t value = i * 0x9e3779b97f4a7c15ull;
                memcpy(from.data + i, &value, 8);
            }
            to.data[length] = 'x';
            ASSERT_EQ(UCS_INPROGRESS, post([&] {
                return get ? uct_ep_get_zcopy(*ab, &iov, 1, source.addr(),
                                              source.rkey(), &comp.super) :
                             uct_ep_put_zcopy(*ab, &iov, 1, target.addr(),
                                              target.rkey(), &comp.super);
            }));
            ASSERT_TRUE(until([&] { return comp.calls == 1; }, 150));
            EXPECT_EQ(UCS_OK, comp.status);
            EXPECT_EQ(0, memcmp(to.data, from.data, aliased::piece));
            EXPECT_EQ(0, memcmp(to.data + to.end, from.data + to.end,
                                length - to.end));
            EXPECT_EQ('x', to.data[length]);
            EXPECT_EQ(1, comp.calls);
            ab.reset();
        }
    }
};

TEST_F(large, put_of_2_gib) { move(false, 2ul << 30); }
TEST_F(large, get_of_3e9_bytes) { move(true, 3000000000ul); }
TEST_F(large, put_of_4_gib_less_1) { move(false, (4ul << 30) - 1); }
TEST_F(large, get_of_4_gib_and_1) { move(true, (4ul << 30) + 1); }
TEST_F(large, put_of_5_gib) { move(false, 5ul << 30); }
