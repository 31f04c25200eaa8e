/*
 * One endpoint's sender: cuts puts into frags and gives them to paths. Either
 * the product's own (src/core: vqp_tx with its scheduler), or a fixed split as
 * UCX does it between lanes: one part for each path, decided at the start.
 */
#ifndef VQP_TEST_CLOS_SENDER_H
#define VQP_TEST_CLOS_SENDER_H

#include <cstdint>
#include <memory>
#include <vector>

extern "C" {
#include "core/data/confirm.h"
}

namespace clos {

enum class policy { FIXED, RR, LEFT };

/* One work request */
struct post {
    unsigned path;
    uint16_t slot;
    uint32_t length;
    bool     signaled;
};

class sender {
public:
    virtual ~sender() {}

    /* Begin a put; no other one is under way */
    virtual void start(uint64_t length, uint64_t now) = 0;

    /* A signaled work request is confirmed; it was not yet at @a seen. True if
     * the put is complete. */
    virtual bool confirm(unsigned path, uint16_t slot, uint64_t seen,
                         uint64_t now) = 0;

    /* What is to be sent now; to be called after each of the others */
    virtual void take(std::vector<post> &posts) = 0;

    /* @a path_bytes: as UCX_VQP_PATH_BYTES, 0 = auto; for a fixed split nothing */
    static std::unique_ptr<sender> make(policy which, unsigned paths,
                                        uint64_t path_bytes);
};

} /* namespace */

#endif
