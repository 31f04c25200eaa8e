/*
 * What the reorder window does, as a set of numbers that do not wrap.
 * The targets compare it with the window itself.
 */
#ifndef VQP_TEST_FUZZ_WINDOW_MODEL_H
#define VQP_TEST_FUZZ_WINDOW_MODEL_H

#include "fuzz.h"

#include <map>

extern "C" {
#include "core/data/window.h"
}

namespace vqp_fuzz {

class WindowModel {
public:
    WindowModel(uint32_t size, uint32_t first) :
        m_size(size), m_base((1ll << 32) + first)
    {
    }

    uint32_t base() const { return (uint32_t)(m_base & 0xffffff); }
    size_t ahead() const { return m_present.size(); }

    /* What an arrival is; it is noted if it is new */
    vqp_status_t arrive(uint32_t imm)
    {
        uint32_t flags   = imm >> 24;
        int64_t distance = (int64_t)(imm & 0xffffff) - base();

        if ((flags != 0) && (flags != 1) && (flags != 3) && (flags != 4) &&
            (flags != 9) && (flags != 11)) {
            return VQP_ERR_PROTOCOL;
        }

        if (distance >= (1 << 23)) {
            distance -= 1 << 24;
        } else if (distance < -(1 << 23)) {
            distance += 1 << 24;
        }

        if ((distance >= m_size) || (distance < -m_size)) {
            return VQP_ERR_PROTOCOL;
        }

        if ((distance < 0) || m_present.count(m_base + distance)) {
            return VQP_INPROGRESS;
        }

        m_present[m_base + distance] = flags;
        return VQP_OK;
    }

    /* Pass the next expected number, if it is there */
    bool next(uint32_t *flags)
    {
        auto it = m_present.find(m_base);

        if (it == m_present.end()) {
            return false;
        }

        *flags = it->second << 24;
        m_present.erase(it);
        ++m_base;
        return true;
    }

    /* Compare the window with the set */
    void check(const vqp_window_t *win) const
    {
        uint32_t i, slot;

        FUZZ_CHECK(win->base == base());
        FUZZ_CHECK(win->ahead == m_present.size());
        for (i = 0; i <= win->mask; ++i) {
            auto it = m_present.find(m_base + i);
            slot    = win->map[(win->base + i) & win->mask];
            if (it == m_present.end()) {
                FUZZ_CHECK(slot == 0);
            } else {
                FUZZ_CHECK(slot == (it->second | VQP_WINDOW_PRESENT));
            }
        }
    }

private:
    int64_t                     m_size;
    int64_t                     m_base;
    std::map<int64_t, uint32_t> m_present; /* number -> flags */
};

/* Numbers near the base are what matters: mostly a small distance */
inline uint32_t draw_imm(Input &in, uint32_t base)
{
    uint32_t how = in.u8();

    if (how & 0x80) {
        return in.u32();
    }

    return ((base + (uint32_t)in.s8()) & 0xffffff) |
           (((how & 0x7) | ((how >> 3) & 0x8)) << 24);
}

} // namespace vqp_fuzz

#endif
