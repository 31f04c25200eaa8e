/*
 * Lengths that do not fit 31 or 32 bits. The memory is a small file that is
 * mapped again and again; only the end of the target is memory of its own, so
 * that what arrives there was really sent.
 *
 * A check that fails ends a test while its operation is under way: then the
 * endpoint goes before the memory and the completion do.
 */
#include "uct_fixture.h"

#include <sys/mman.h>
#include <unistd.h>

class aliased {
public:
    aliased(size_t length, bool own_end) : length((length + piece) & ~(piece - 1))
    {
        int fd = memfd_create("vqp_large", 0);

        data = (char*)mmap(NULL, this->length, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        mapped = (data != MAP_FAILED) && (ftruncate(fd, piece) == 0);
        for (size_t i = 0; mapped && (i < this->length); i += piece) {
            mapped = map(i, piece, MAP_SHARED, fd);
        }
        if (own_end && mapped) {
            end   = (length - window) & ~(size_t)4095;
            mapped = map(end, this->length - end, MAP_PRIVATE | MAP_ANONYMOUS,
                        -1);
        }
        close(fd);
    }

    ~aliased()
    {
        if (data != MAP_FAILED) {
            munmap(data, length);
        }
    }

    static constexpr size_t piece  = 32 << 20;
    static constexpr size_t window = 1 << 20;
    size_t length, end = 0;
    char   *data;
    bool   mapped; /* completely; else it must not be accessed */

private:
    bool map(size_t offset, size_t size, int flags, int fd)
    {
        return mmap(data + offset, size, PROT_READ | PROT_WRITE,
                    flags | MAP_FIXED, fd, 0) != MAP_FAILED;
    }
};

/* Destroys an endpoint at the end of a block, however that is left */
class closing {
public:
    explicit closing(std::unique_ptr<endpoint> &ep) : m_ep(ep) {}
    ~closing() { m_ep.reset(); }
    closing(const closing &)            = delete;
    closing &operator=(const closing &) = delete;

private:
    std::unique_ptr<endpoint> &m_ep;
};

class large : public uct_test {
protected:
    /* get: the aliased target is the local side */
    void move(bool get, size_t length)
    {
        open();
        settle();
        aliased from(length, false), to(length, true);
        ASSERT_TRUE(from.mapped && to.mapped) << "no memory";
        node &from_node = get ? *b : *a;
        node &to_node   = get ? *a : *b;
        memory source(from_node, from.length, from.data);
        memory target(to_node, to.length, to.data);
        uct_iov_t iov = get ? target.iov(0, length) : source.iov(0, length);
        completion comp;
        closing first(ab);

        ASSERT_TRUE(source.unpacked && target.unpacked) << "not registered";
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
        ASSERT_TRUE(until([&] { return comp.calls == 1; }, 600));
        EXPECT_EQ(UCS_OK, comp.status);
        EXPECT_EQ(0, memcmp(to.data, from.data, aliased::piece));
        EXPECT_EQ(0, memcmp(to.data + to.end, from.data + to.end,
                            length - to.end));
        EXPECT_EQ('x', to.data[length]);
        EXPECT_EQ(1, comp.calls);
    }
};

TEST_F(large, put_of_2_gib) { move(false, 2ul << 30); }
TEST_F(large, get_of_3e9_bytes) { move(true, 3000000000ul); }
TEST_F(large, put_of_4_gib_less_1) { move(false, (4ul << 30) - 1); }
TEST_F(large, get_of_4_gib_and_1) { move(true, (4ul << 30) + 1); }
TEST_F(large, put_of_5_gib) { move(false, 5ul << 30); }
