/*
 * Fuzz target: the reorder window. The input gives its size, its first number
 * and arrivals; the oracle is a set of numbers that do not wrap.
 */
#include "window_model.h"

#include <vector>

using namespace vqp_fuzz;

static void pass(vqp_window_t *win, WindowModel *model)
{
    uint32_t flags, expected;

    while (vqp_window_next(win, &flags)) {
        FUZZ_CHECK(model->next(&expected));
        FUZZ_CHECK(flags == expected);
    }
    FUZZ_CHECK(!model->next(&expected));
}

/* An arrival by the short way if it can take it, as the receiver does */
static void arrive(vqp_window_t *win, WindowModel *model, uint32_t imm)
{
    bool valid            = vqp_imm_is_valid(imm);
    bool expected_in_order = ((imm & 0xffffff) == model->base());
    vqp_status_t expected = model->arrive(imm);
    uint32_t flags;

    if (valid && vqp_window_in_order(win, imm)) {
        FUZZ_CHECK(expected_in_order && (expected == VQP_OK));
        FUZZ_CHECK(model->next(&flags) && (flags == (imm & ~0xffffffu)));
    } else {
        FUZZ_CHECK(vqp_window_insert(win, imm) == expected);
    }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Input in(data, size);
    uint32_t window = 1u << (in.u8() & 7);
    uint32_t first  = in.u24();
    std::vector<uint8_t> map(window, 0xee);
    WindowModel model(window, first);
    vqp_window_t win;

    vqp_window_init(&win, map.data(), window, first);
    model.check(&win);
    while (!in.empty()) {
        uint8_t command = in.u8();
        uint32_t imm    = draw_imm(in, win.base);

        if (command & 1) {
            arrive(&win, &model, imm);
        } else {
            vqp_status_t expected = model.arrive(imm);
            FUZZ_CHECK(vqp_window_insert(&win, imm) == expected);
        }

        if (command & 2) {
            pass(&win, &model);
        }
        model.check(&win);
    }

    return 0;
}
