/*
 * What the fuzz targets share: an input read as a script, and the check that
 * ends the process; the latter for C as well. A target is one function,
 * LLVMFuzzerTestOneInput, that keeps nothing between calls.
 */
#ifndef VQP_TEST_FUZZ_H
#define VQP_TEST_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C"
#endif
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A class may have an abort() of its own */
static inline void fuzz_die(void)
{
    abort();
}

/* The oracle: prints the violated condition, and aborts, in any build */
#define FUZZ_CHECK(_cond) \
    do { \
        if (!(_cond)) { \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, \
                    #_cond); \
            fuzz_die(); \
        } \
    } while (0)

#ifdef __cplusplus

#include <memory>

namespace vqp_fuzz {

/* Reads the input from its start; zeros follow its end. Numbers are little
 * endian, as in what is fuzzed, so that one dictionary serves both. */
class Input {
public:
    Input(const uint8_t *data, size_t size) : m_data(data), m_left(size) {}

    bool empty() const { return m_left == 0; }
    size_t left() const { return m_left; }
    const uint8_t *data() const { return m_data; }

    uint64_t number(unsigned bytes)
    {
        uint64_t value = 0;

        for (unsigned i = 0; (i < bytes) && (m_left > 0); ++i, --m_left) {
            value |= (uint64_t)*m_data++ << (8 * i);
        }
        return value;
    }

    uint8_t u8() { return (uint8_t)number(1); }
    uint16_t u16() { return (uint16_t)number(2); }
    uint32_t u24() { return (uint32_t)number(3); }
    uint32_t u32() { return (uint32_t)number(4); }
    uint64_t u64() { return number(8); }
    int s8() { return (int8_t)u8(); }

    /* At most that many bytes, moved to @a to */
    size_t bytes(void *to, size_t max)
    {
        size_t count = (max < m_left) ? max : m_left;

        if (count > 0) {
            memcpy(to, m_data, count);
        }
        m_data += count;
        m_left -= count;
        return count;
    }

private:
    const uint8_t *m_data;
    size_t         m_left;
};

/* A copy with nothing behind it: a sanitizer sees each byte read too much */
class Exact {
public:
    Exact(const uint8_t *data, size_t size) : m_copy(new uint8_t[size])
    {
        if (size > 0) {
            memcpy(m_copy.get(), data, size);
        }
    }

    const uint8_t *get() const { return m_copy.get(); }

private:
    std::unique_ptr<uint8_t[]> m_copy;
};

} // namespace vqp_fuzz

#endif /* __cplusplus */

#endif
