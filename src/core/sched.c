/* Path schedulers, see sched.h. Pure: libc only. */
#include "core/sched.h"

vqp_path_t *vqp_sched_pick(vqp_sched_t sched, vqp_path_t *paths,
                           uint32_t num_paths, uint32_t *next, uint64_t cap,
                           unsigned needs)
{
    vqp_path_t *best = NULL;
    uint32_t index   = *next;
    vqp_path_t *path;
    uint32_t i;

    /* least starts its search at a rotating place too: idle paths are equal,
     * and small messages shall not all take the first one */
    for (i = 0; i < num_paths; ++i) {
        path = &paths[index];
        if (++index == num_paths) {
            index = 0;
        }

        if (!vqp_sched_fits(path, cap, needs)) {
            continue;
        }

        if ((best == NULL) || (path->bytes < best->bytes)) {
            best = path;
            if ((sched == VQP_SCHED_RR) || (best->bytes == 0)) {
                break;
            }
        }
    }

    if (best != NULL) {
        *next = (best->index + 1u == num_paths) ? 0 : best->index + 1u;
    }

    return best;
}
