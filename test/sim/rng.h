/*
 * Random numbers that are the same everywhere for the same seed: the standard
 * library's distributions are not.
 */
#ifndef VQP_SIM_RNG_H
#define VQP_SIM_RNG_H

#include <cstdint>
#include <initializer_list>

namespace sim {

class rng {
public:
    explicit rng(uint64_t seed) : m_state(seed) {}

    uint64_t next()
    {
        uint64_t z = (m_state += 0x9e3779b97f4a7c15ull); /* splitmix64 */

        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        return z ^ (z >> 31);
    }

    /* 0 .. limit - 1; 0 when there is no limit to be below of */
    uint64_t below(uint64_t limit)
    {
        return (limit == 0) ? 0 : (next() >> 8) % limit;
    }

    bool chance(uint64_t percent) { return below(100) < percent; }

    /* Once in a thousand times @a count */
    bool rarely(uint64_t count) { return below(1000) < count; }

    template<typename T> T pick(std::initializer_list<T> list)
    {
        return list.begin()[below(list.size())];
    }

private:
    uint64_t m_state;
};

/* A stream of numbers of its own, so that taking some part of a run away leaves
 * the other parts as they were */
inline rng stream(uint64_t seed, uint64_t which)
{
    return rng(rng(seed ^ (which << 56)).next());
}

} /* namespace sim */

#endif
