/*
 * The frags that a failed path has left are sent again: on which path, in which
 * order, in which form, and with which credits.
 */
#include "failkit.h"

extern "C" {
#include "core/failover/replay.h"
}

#include <algorithm>
#include <cstring>
#include <set>

namespace {

class replay : public failkit {
protected:
    static void same(const vqp_frag_t &was, const vqp_frag_t &is,
                     uint32_t lkey) {
        EXPECT_EQ(was.raddr, is.raddr);
        EXPECT_EQ(was.length, is.length);
        EXPECT_EQ(was.opcode, is.opcode);
        EXPECT_EQ(was.kind, is.kind);
        EXPECT_EQ(was.op, is.op);
        ASSERT_EQ(was.nsge, is.nsge);
        if (was.opcode == VQP_WR_WRITE_IMM) {
            EXPECT_EQ(was.imm, is.imm);
        }
        for (unsigned i = 0; i < was.nsge; ++i) {
            EXPECT_EQ(was.sge[i].addr, is.sge[i].addr);
            EXPECT_EQ(was.sge[i].length, is.sge[i].length);
            EXPECT_EQ(lkey, is.sge[i].lkey);
        }
    }
};

/* ---- order, and where to ---- */

TEST_F(replay, goes_in_posting_order_with_the_same_immediates) {
    open(2);
    auto was = only(1, [&] {
        for (int n = 0; n < 3; ++n) {
            am(8 + n, &u[n]);
            rma(VQP_KIND_PUT, 64 + n, &u[3 + n]);
        }
    });
    ASSERT_EQ(6u, was.size());
    uint32_t fsn = m_tx.fc.fsn_next;
    die(1, msn(1, 1));
    EXPECT_EQ(users_t {was[0].op->user}, done());
    auto is = next();
    ASSERT_EQ(5u, is.size());
    EXPECT_EQ(5u, on_path(is, 0));
    for (unsigned n = 0; n < 5; ++n) {
        same(was[n + 1], is[n], m_lkeys[0]);
        EXPECT_TRUE(is[n].flags & VQP_FRAG_SIGNALED);
    }
    EXPECT_EQ(fsn, m_tx.fc.fsn_next);
    EXPECT_EQ(5u, m_stats.replayed);
    EXPECT_EQ(bytes(is), m_stats.replayed_bytes);
    EXPECT_TRUE(next().empty());
    confirm_all(0);
    EXPECT_EQ(5u, done().size());
}

TEST_F(replay, starts_before_the_peer_has_our_count) {
    open(2);
    puts(1, 2, u);
    drain(1);
    EXPECT_TRUE(next().empty());
    hear_down(DRAINED, 0, 1);
    EXPECT_EQ(VQP_PATH_DRAINED, state(1));
    EXPECT_EQ(2u, next().size());
}

TEST_F(replay, waits_for_the_path_itself_if_there_is_no_other) {
    open(1);
    auto was = puts(0, 3, u);
    die(0, msn(1));
    EXPECT_TRUE(next().empty());
    ASSERT_TRUE(rma(VQP_KIND_PUT, 100, &u[3])); /* a new one comes behind them */
    revive();
    auto is = next();
    ASSERT_EQ(3u, is.size());
    same(was[1], is[0], m_lkeys[0]);
    same(was[2], is[1], m_lkeys[0]);
    EXPECT_EQ(100u, is[2].length);
    EXPECT_TRUE(path().up);
    confirm_all(0);
    EXPECT_EQ(4u, done().size());
}

TEST_F(replay, all_of_it_goes_to_one_path) {
    open(3);
    puts(2, 6, u);
    puts(0, 1, nullptr, 1 << 17); /* busier */
    die(2, msn(0));
    auto frags = next();
    EXPECT_EQ(6u, frags.size());
    EXPECT_EQ(6u, on_path(frags, 1));
}

TEST_F(replay, uses_the_keys_of_the_path_that_it_goes_to) {
    m_two_rails = true;
    open(2);
    auto was = only(1, [&] {
        am(8, &u[0]);
    });
    ASSERT_EQ(m_lkeys[1], was[0].sge[0].lkey);
    ASSERT_EQ(m_rkeys[1], was[0].rkey);
    die(1, msn(0));
    auto is = next();
    ASSERT_EQ(1u, is.size());
    same(was[0], is[0], m_lkeys[0]);
    EXPECT_EQ(m_rkeys[0], is[0].rkey);
}

/* Two devices are not atomic to each other */
TEST_F(replay, of_atomics_waits_for_a_path_to_the_same_rail) {
    m_two_rails = true;
    open(2);
    only(1, [&] {
        fadd(nullptr, &u[0], VQP_OP_SIGNAL, 1);
    });
    die(1, msn(0));
    EXPECT_TRUE(next().empty());
    revive(1);
    auto frags = next();
    ASSERT_EQ(1u, frags.size());
    EXPECT_EQ(1, frags[0].path->index);
}

/* ---- room ---- */

TEST_F(replay, waits_for_room) {
    open(2);
    auto was = puts(1, 20);
    puts(0, 20);
    die(1, msn(0));
    auto first = next();
    EXPECT_EQ(m_depth - VQP_CONTROL_RESERVE - 20u, first.size());
    EXPECT_TRUE(next().empty());
    /* what is new does not overtake it on the path, nor wait for it */
    confirm_all(0);
    auto rest = next();
    ASSERT_EQ(20u, first.size() + rest.size());
    first.insert(first.end(), rest.begin(), rest.end());
    EXPECT_EQ(ops(was), ops(first));
}

TEST_F(replay, waits_for_bytes) {
    m_cfg.path_cap  = 1000;
    m_cfg.min_shift = 10; /* puts of one frag */
    open(2);
    puts(1, 2, u, 600);
    puts(0, 2, u + 2, 600);
    die(1, msn(0));
    EXPECT_TRUE(next().empty());
    confirm_all(0);
    EXPECT_EQ(2u, next().size());
}

TEST_F(replay, of_a_fast_message_finds_its_record) {
    open(2);
    std::vector<vqp_frag_t> was;
    vqp_set_path_up(&m_vqp, 0, 0);
    was.push_back(send_am(8, &u[0]));
    was.push_back(send_am(8, &u[1], 100));
    was.push_back(send_am(200, &u[2]));
    vqp_set_path_up(&m_vqp, 0, 1);
    die(1, msn(0));
    auto is = next();
    ASSERT_EQ(3u, is.size());
    for (unsigned i = 0; i < 3; ++i) {
        same(was[i], is[i], m_lkeys[0]);
    }
    confirm_all(0);
    EXPECT_EQ((users_t {&u[0], &u[1], &u[2]}), done());
    EXPECT_EQ(m_tx.fc.ring_head, m_tx.fc.ring_local);
}

TEST_F(replay, of_a_message_at_the_begin_of_the_ring_finds_it) {
    open(2);
    only(0, [&] { am(3000); });
    confirm_all(0);
    credit_all();
    auto was = only(1, [&] { am(2000, &u[0]); });
    ASSERT_FALSE(was.empty());
    ASSERT_EQ(VQP_IMM_WRAP, was.back().imm & VQP_IMM_WRAP);
    die(1, msn(0));
    auto is = next();
    ASSERT_EQ(was.size(), is.size());
    for (unsigned i = 0; i < was.size(); ++i) {
        same(was[i], is[i], m_lkeys[0]);
    }
}

TEST_F(replay, gathers_the_pieces_from_any_offset) {
    std::vector<vqp_iov_t> ext;

    for (vqp_kind_t kind : {VQP_KIND_PUT, VQP_KIND_GET}) {
        open(2);
        m_tx.cfg.frag_shift = 9; /* a single path splits, too */
        ext.resize(vqp_tx_iov_ext_count(&m_tx, 8));
        vqp_tx_set_iov_ext(&m_tx, ext.data(), 8);
        auto was = only(1, [&] {
            rma_iov(kind, {{USER_ADDR, 100, m_lkeys},
                           {USER_ADDR + 0x1000, 0, m_lkeys},
                           {USER_ADDR + 0x2000, 700, m_lkeys},
                           {USER_ADDR + 0x3000, 1, m_lkeys},
                           {USER_ADDR + 0x4000, 1199, m_lkeys}}, &u[0]);
            rma_iov(kind, {{USER_ADDR, 1000, m_lkeys},
                           {USER_ADDR + 0x2000, 1000, m_lkeys}}, &u[1]);
            rma(kind, 2000, &u[2]);
        });
        ASSERT_GE(was.size(), 9u);
        die(1, msn(0));
        auto is = next();
        ASSERT_EQ(was.size(), is.size());
        for (unsigned i = 0; i < was.size(); ++i) {
            same(was[i], is[i], m_lkeys[0]);
        }
        confirm_all(0);
        EXPECT_EQ(3u, done().size());
    }
}

TEST_F(replay, of_an_inline_put_has_its_data_in_the_op) {
    open(2);
    auto was = only(1, [&] {
        vqp_op_t *op = begin(VQP_KIND_PUT, &u[0],
                             VQP_OP_SIGNAL | VQP_OP_INLINE);

        op->length     = 24;
        op->frag_shift = m_cfg.frag_shift;
        vqp_tx_rma_commit(&m_tx, op);
    });
    ASSERT_TRUE(was[0].flags & VQP_FRAG_INLINE);
    die(1, msn(0));
    auto is = next();
    ASSERT_EQ(1u, is.size());
    same(was[0], is[0], 0);
    EXPECT_TRUE(is[0].flags & VQP_FRAG_INLINE);
}

TEST_F(replay, of_a_fence_keeps_its_place) {
    open(2);
    puts(0, 1, u);
    auto put = puts(1, 1, u + 1);
    vqp_tx_fence(&m_tx);
    ASSERT_TRUE(am(8, &u[2]));
    auto was = next();
    ASSERT_EQ(3u, was.size());
    ASSERT_EQ(2u, count(was, VQP_KIND_FENCE));
    die(1, msn(0));
    auto is = next();
    ASSERT_LE(2u, is.size());
    EXPECT_EQ(VQP_KIND_PUT, (int)is[0].kind);
    EXPECT_EQ(VQP_KIND_FENCE, (int)is[1].kind);
    EXPECT_EQ(0u, is[1].length);
    EXPECT_EQ(0u, is[1].nsge);
    for (const vqp_frag_t &frag : was) {
        if ((frag.path->index == 1) && (frag.kind == VQP_KIND_FENCE)) {
            same(frag, is[1], 0);
        }
    }
    confirm_all(0);
    EXPECT_EQ(3u, done().size());
}

/* On one path the fence flag of a frag orders what follows it, too: it remains
 * when that frag does not go again */
TEST_F(replay, of_a_get_is_before_what_a_lost_atomic_kept_behind_it) {
    open(1);
    ASSERT_TRUE(rma(VQP_KIND_GET, 64, &u[0]));
    vqp_tx_fence(&m_tx);
    ASSERT_TRUE(rma(VQP_KIND_FADD, 8, &u[1]));
    ASSERT_EQ(2u, next().size());
    die(0, {VQP_SOURCE_IMM, 0, 0});
    EXPECT_EQ((ends_t {{&u[1], VQP_ERR_UNDECIDED}}), ends());
    ASSERT_TRUE(rma(VQP_KIND_FADD, 8, &u[2]));
    revive();
    auto is = next();
    ASSERT_EQ(3u, is.size());
    EXPECT_EQ(VQP_KIND_GET, (int)is[0].kind);
    EXPECT_EQ(VQP_KIND_NOP, (int)is[1].kind);
    EXPECT_TRUE(is[1].flags & VQP_FRAG_FENCE);
    EXPECT_EQ(VQP_KIND_FADD, (int)is[2].kind);
    /* and once more, if the nop is lost */
    die(0, {VQP_SOURCE_IMM, 0, 0});
    revive(0);
    is = next();
    ASSERT_EQ(2u, is.size());
    EXPECT_EQ(VQP_KIND_GET, (int)is[0].kind);
    EXPECT_TRUE(is[1].flags & VQP_FRAG_FENCE);
    confirm_all(0);
    EXPECT_EQ((ends_t {{&u[2], VQP_ERR_UNDECIDED}, {&u[0], VQP_OK}}), ends());
}

TEST_F(replay, of_a_get_is_before_what_a_message_kept_behind_it) {
    open(1);
    ASSERT_TRUE(rma(VQP_KIND_GET, 64, &u[0]));
    vqp_tx_fence(&m_tx);
    ASSERT_TRUE(am(8, &u[1]));
    auto was = next();
    ASSERT_EQ(2u, was.size());
    EXPECT_TRUE(was[1].flags & VQP_FRAG_FENCE);
    die(0, msn(99, 99)); /* the count is unknown */
    EXPECT_EQ(1, vqp_tx_credit(&m_tx, m_tx.fc.ring_peer + 16,
                               vqp_imm_fsn(was[1].imm) + 1));
    ASSERT_TRUE(rma(VQP_KIND_PUT, 64, &u[2]));
    revive();
    auto is = next();
    ASSERT_EQ(3u, is.size());
    EXPECT_EQ(VQP_KIND_GET, (int)is[0].kind);
    EXPECT_EQ(VQP_KIND_NOP, (int)is[1].kind);
    EXPECT_TRUE(is[1].flags & VQP_FRAG_FENCE);
    EXPECT_EQ(VQP_KIND_PUT, (int)is[2].kind);
    confirm_all(0);
    EXPECT_EQ(3u, done().size());
}

/* A longer send queue needs it. The slots are not those of the first entries */
TEST_F(replay, frags_that_wait_move_to_a_larger_array) {
    std::vector<vqp_inflight_t> larger(256);

    open(1);
    for (unsigned i = 0; i < 70; ++i) {
        (void)puts(0, 1);
        confirm_all(0);
        (void)done();
    }
    auto was = puts(0, 3, u);
    die(0, msn(71));
    EXPECT_EQ(users_t {&u[0]}, done());
    vqp_replay_move(&path(), larger.data(), 256);
    std::fill(m_inflight[0].begin(), m_inflight[0].end(), vqp_inflight_t {});
    revive();
    auto is = next();
    ASSERT_EQ(2u, is.size());
    EXPECT_EQ(was[1].op, is[0].op);
    EXPECT_EQ(was[2].op, is[1].op);
    EXPECT_EQ(was[2].raddr, is[1].raddr);
    EXPECT_EQ(64u, is[1].length);
    confirm_all(0);
    EXPECT_EQ((users_t {&u[1], &u[2]}), done());
}

TEST_F(replay, of_a_notify_has_its_immediate) {
    m_cfg.notify = VQP_NOTIFY_SPRAY;
    open(2);
    ASSERT_TRUE(am(1000, &u[0]));
    auto data = next();
    ASSERT_LT(1u, data.size());
    EXPECT_TRUE(imms(data).empty());
    confirm(data);
    auto was = only(1, [] {});
    ASSERT_EQ(1u, was.size());
    ASSERT_EQ(VQP_KIND_NOTIFY, (int)was[0].kind);
    die(1, msn(0));
    auto is = next();
    ASSERT_EQ(1u, is.size());
    same(was[0], is[0], 0);
    EXPECT_TRUE(done().empty());
    confirm_all(0);
    EXPECT_EQ(users_t {&u[0]}, done());
}

TEST_F(replay, of_a_control_message_has_the_present_credit) {
    vqp_rx_am_t rx_am;
    vqp_record_t rec = {8, 1, 0, 0, 0, 100};
    vqp_cell_t cell;

    open(2);
    auto was = only(1, [&] { want_credit(); });
    ASSERT_EQ(1u, was.size());
    memcpy(m_ring.data(), &rec, sizeof(rec)); /* an AM comes meanwhile */
    ASSERT_EQ(0, vqp_recv_fast(&m_vqp, &path(0), PEER_FIRST | VQP_IMM_LAST,
                               &rx_am)); /* the first one of all */
    ASSERT_EQ(1, vqp_recv(&m_vqp, &path(0), PEER_FIRST | VQP_IMM_LAST, &rx_am));
    vqp_recv_done(&m_vqp, &rx_am);
    die(1, msn(0));
    auto is = next();
    ASSERT_EQ(1u, is.size());
    EXPECT_EQ(VQP_KIND_CREDIT, (int)is[0].kind);
    EXPECT_EQ(was[0].imm, is[0].imm);
    EXPECT_EQ(CELLS_ADDR, is[0].raddr); /* of the path that it goes to */
    memcpy(&cell, (void*)is[0].sge[0].addr, sizeof(cell));
    EXPECT_EQ(PEER_FIRST + 1, cell.credit_fsn);
    EXPECT_EQ(PEER_FIRST + 1, m_vqp.rx.advertised.fsn);
    EXPECT_EQ(1u, m_tx.credit_updates);
    confirm_all(0);
    EXPECT_EQ(0u, m_tx.credit_updates);
}

/* ---- credits ---- */

TEST_F(replay, takes_the_credits_of_its_new_path) {
    open(2);
    only(1, [&] {
        am(100, &u[0]);
        rma(VQP_KIND_PUT, 200, &u[1]);
        rma(VQP_KIND_GET, 150, &u[2]);
        fadd(nullptr, &u[3]);
    });
    uint64_t bytes = path(1).bytes;
    die(1, msn(0));
    next();
    EXPECT_EQ(0u, path(1).bytes);
    EXPECT_EQ(bytes, path(0).bytes);
    EXPECT_EQ(2u, path(0).reads);
    EXPECT_EQ(3u, path(0).rma);
    credit_all();
    confirm_all(0);
    EXPECT_EQ(4u, done().size());
    EXPECT_EQ(0u, path(0).bytes);
    EXPECT_EQ(0u, path(0).reads);
    EXPECT_EQ(0u, path(0).rma);
}

TEST_F(replay, leaves_out_what_the_peer_has_given_credit_for) {
    open(2);
    auto was = only(1, [&] {
        for (unsigned i = 0; i < 3; ++i) {
            am(8, &u[i]);
        }
    });
    die(1, msn(99, 99)); /* the count is unknown */
    EXPECT_TRUE(done().empty());
    EXPECT_EQ(1, vqp_tx_credit(&m_tx, m_tx.fc.ring_peer + 64,
                               vqp_imm_fsn(was[1].imm) + 1));
    auto is = next();
    EXPECT_EQ((users_t {&u[0], &u[1]}), done());
    ASSERT_EQ(1u, is.size());
    same(was[2], is[0], m_lkeys[0]);
    EXPECT_EQ(0u, path(1).bytes);
    confirm_all(0);
    EXPECT_EQ(users_t {&u[2]}, done());
    EXPECT_EQ(m_tx.fc.ring_head, m_tx.fc.ring_local);
}

/* ---- more paths fail ---- */

TEST_F(replay, follows_when_the_second_path_dies) {
    std::vector<int> users(40);

    m_cfg.min_shift = 14; /* puts of one frag */
    for (unsigned num_paths : {2, 3}) {
        unsigned last = num_paths - 1;

        open(num_paths);
        auto first  = puts(1, 20, &users[20], 4096);
        auto second = puts(0, 20, users.data(), 64);
        if (num_paths == 3) {
            puts(2, 20, nullptr, 8192); /* busier */
        }
        die(1, msn(0));
        auto some = next();
        ASSERT_EQ(8u, some.size());
        ASSERT_EQ(8u, on_path(some, 0));
        die(0, msn(0));
        if (num_paths == 2) {
            revive(1);
        } else {
            confirm_all(2);
        }

        std::vector<vqp_frag_t> all, more;
        while (!(more = next()).empty()) {
            EXPECT_EQ(more.size(), on_path(more, last));
            all.insert(all.end(), more.begin(), more.end());
            confirm_all(last);
        }
        ASSERT_EQ(40u, all.size()) << num_paths;
        /* The first path to be up, or to be asked, begins */
        auto &begin = (num_paths == 2) ? first : second;
        auto &end   = (num_paths == 2) ? second : first;
        begin.insert(begin.end(), end.begin(), end.end());
        EXPECT_EQ(ops(begin), ops(all)) << num_paths;
        EXPECT_EQ(40u, done().size());
    }
}

/* The order matters for a put behind a fence on a single path, and for the last
 * immediate of a tail message. A post that fails ends the batches. */
TEST_F(replay, keeps_the_order_when_the_path_dies_in_the_middle) {
    m_depth = 60;
    open(1);
    auto first = puts(0, 40);
    ASSERT_EQ(40u, first.size());
    die(0, msn(0));
    revive(0);
    ASSERT_EQ(VQP_BATCH_MAX, (int)vqp_next_batch(&m_vqp, &m_batch));
    die(0, msn(0));
    revive(0);
    EXPECT_EQ(ops(first), ops(next()));
}

/* The first path does not come back, the second one does. */
TEST_F(replay, goes_to_the_path_that_comes_back_first) {
    m_depth = 60;
    open(2);
    puts(0, 40);
    die(1, msn(0));
    die(0, msn(0));
    revive(0);
    ASSERT_EQ(VQP_BATCH_MAX, (int)vqp_next_batch(&m_vqp, &m_batch));
    die(0, msn(0));
    revive(1);
    EXPECT_EQ(40u, next().size());
}

TEST_F(replay, keeps_the_order_when_the_paths_die_in_turn) {
    open(2);
    auto first = puts(0, 20);
    puts(1, 20);
    die(0, msn(0));
    ASSERT_EQ(8u, next().size()); /* 0 .. 7 are on path 1, */
    die(1, msn(20));              /* and not executed */
    revive(0);
    auto some = next();           /* they are back in front of the rest */
    ASSERT_EQ(20u, some.size());
    EXPECT_EQ(ops(first), ops(some));
    die(0, msn(0));
    revive(0);
    EXPECT_EQ(ops(first), ops(next()));
}

/* Path 2 replays path 0, has no room for all of it, and dies. Path 1 waits behind path 0. Wherever they go then, and whoever comes back: the frags of a path go to
 * one path, in their order. */
TEST_F(replay, the_frags_of_a_path_never_go_to_two) {
    m_depth   = 30;
    m_num_ops = 128;
    open(4);
    std::vector<std::vector<vqp_frag_t>> was;
    for (const char *ops : {"GPGPGPGPPPPPPPPPPPPPPPPPP", "PPGPGPGPPPPPPPPPPPPPPPPPP",
                            "GPGPGPPPPPPPPPP"}) {
        was.push_back(only((unsigned)was.size(), [&] {
            for (; *ops != 0; ++ops) {
                rma((*ops == 'G') ? VQP_KIND_GET : VQP_KIND_PUT, 64);
            }
        }));
    }
    vqp_set_path_up(&m_vqp, 3, 0);
    die(0, msn(0));
    die(1, msn(0));
    EXPECT_EQ(13u, on_path(next(), 2)); /* beside 15 of its own */
    die(2, msn(0));
    vqp_set_path_up(&m_vqp, 3, 1);
    auto all = next();
    EXPECT_EQ(all.size(), on_path(all, 3));
    revive(2);
    do {
        auto more = next();
        all.insert(all.end(), more.begin(), more.end());
    } while (confirm_all(2) + confirm_all(3) > 0);

    for (auto &frags : was) {
        auto expected = ops(frags);
        std::vector<vqp_op_t*> came;
        std::set<unsigned> paths;
        for (const vqp_frag_t &frag : all) {
            if (std::count(expected.begin(), expected.end(), frag.op)) {
                came.push_back(frag.op);
                paths.insert(frag.path->index);
            }
        }
        EXPECT_EQ(expected, came);
        EXPECT_EQ(1u, paths.size());
    }
}

/* Path 1 has died first, and path 2 has room for a part of it. Path 0 has its turn before
 * path 1, and waits nevertheless: of one path at a time is known which frags path 2 has */
TEST_F(replay, a_second_path_waits_until_the_target_has_all_of_the_first) {
    open(3);
    auto second = puts(0, 3);
    auto first  = puts(1, 20, u);
    puts(2, 15);
    die(1, msn(0));
    vqp_set_path_up(&m_vqp, 0, 0);
    EXPECT_EQ(13u, on_path(next(), 2));
    die(0, msn(0));
    EXPECT_EQ(15u, vqp_on_send(&m_vqp, &path(2), 14));
    auto rest = ops(next());
    auto expected = ops(first);
    expected.erase(expected.begin(), expected.begin() + 13);
    EXPECT_EQ(expected, rest);
    EXPECT_EQ(ops(second), ops(next()));
    confirm_all(2);
    EXPECT_EQ(20u, done().size());
    EXPECT_TRUE(vqp_tx_is_flushed(&m_tx));
}

/* Those that the target has executed are not sent again, and those that were its own stay
 * there */
TEST_F(replay, a_target_that_dies_gives_back_what_it_has_not_executed) {
    open(3);
    auto first = puts(0, 20, u);
    auto own   = puts(1, 15);
    vqp_set_path_up(&m_vqp, 2, 0);
    die(0, msn(0));
    auto some = next();
    ASSERT_EQ(13u, on_path(some, 1));
    EXPECT_EQ(7, path(0).fo.replay_end - path(0).fo.replay);
    die(1, msn(15 + 5));
    EXPECT_EQ(users_t({&u[0], &u[1], &u[2], &u[3], &u[4]}), done());
    EXPECT_EQ(15, path(0).fo.replay_end - path(0).fo.replay);
    EXPECT_FALSE(vqp_path_has_replay(&path(1)));
    vqp_set_path_up(&m_vqp, 2, 1);
    auto is = ops(next()), expected = ops(first);
    expected.erase(expected.begin(), expected.begin() + 5);
    EXPECT_EQ(expected, is);
}

/* A nop that holds the place of an atomic is given back too, and is no frag of the target */
TEST_F(replay, a_target_that_dies_keeps_its_own_beside_a_nop_that_goes_back) {
    m_depth = 5;
    open(3);
    (void)only(0, [&] {
        rma(VQP_KIND_GET, 64, &u[0]);
        fadd(nullptr, &u[1], VQP_OP_SIGNAL, 0);
        rma(VQP_KIND_GET, 64, &u[2]);
    });
    (void)only(1, [&] { rma(VQP_KIND_GET, 64, &u[3]); });
    vqp_set_path_up(&m_vqp, 2, 0);
    die(0, msn(0));
    EXPECT_EQ(2u, on_path(next(), 1)); /* one waits for room */
    die(1, imm(0));                    /* it is not known about the atomic */
    EXPECT_TRUE(vqp_path_has_replay(&path(1)));
    vqp_set_path_up(&m_vqp, 2, 1);
    auto all = ends();
    do {
        (void)next();
        auto more = ends();
        all.insert(all.end(), more.begin(), more.end());
    } while (confirm_all(2) > 0);
    std::sort(all.begin(), all.end());
    EXPECT_EQ((ends_t {{&u[0], VQP_OK}, {&u[1], VQP_ERR_UNDECIDED},
                       {&u[2], VQP_OK}, {&u[3], VQP_OK}}), all);
    EXPECT_TRUE(vqp_tx_is_flushed(&m_tx));
}

TEST_F(replay, a_path_that_dies_again_and_again_loses_nothing) {
    open(1);
    puts(0, 8, u);
    for (unsigned i = 0; i < 7; ++i) {
        die(0, msn((i == 0) ? 1 : 2)); /* the probe is the first one */
        EXPECT_EQ(users_t {&u[i]}, done());
        revive();
        EXPECT_EQ(7 - i, next().size());
    }
    confirm_all(0);
    EXPECT_EQ(users_t {&u[7]}, done());
    EXPECT_EQ(0u, path().bytes);
    EXPECT_EQ(0u, path().rma);
}

/* All that the table holds waits, and each epoch adds a probe and a nop that drains */
TEST_F(replay, needs_no_places_but_those_of_the_queue) {
    open(1);
    auto was = puts(0, m_depth - 2u, u);
    for (unsigned i = 0; i < 2; ++i) {
        want_credit();
        auto credit = next();
        ASSERT_EQ(1u, credit.size());
        was.push_back(credit[0]);
    }
    ASSERT_EQ(m_depth, vqp_path_outstanding(&path()));
    ASSERT_EQ(m_depth + 1u, path().mask);
    die(0, msn(0));
    for (unsigned i = 0; i < 70; ++i) {
        revive();
        auto some = next();
        ASSERT_EQ(m_depth - 2u, some.size());
        vqp_path_down(&m_vqp, &path(), VQP_ERR_TIMEOUT);
        (void)vqp_path_on_post_error(&m_vqp, &path(), some.back().slot);
        vqp_path_at(&path(), some.back().slot)->flags = 0; /* not refused for good */
        quiesce();
        auto nop = next();
        ASSERT_EQ(1u, nop.size());
        ASSERT_EQ(VQP_KIND_NOP, nop[0].kind);
        ASSERT_LE((uint16_t)(path().tail - path().fo.replay), path().mask + 1) << i;
        flush_sends();
        flush_recvs();
        EXPECT_TRUE(event(VQP_EVENT_PATH_COUNT));
        vqp_path_counted(&m_vqp, &path(), VQP_SOURCE_MSN, 0);
        hear_down(DRAINED | HAVE, path().fo.epoch, 0, msn(1)); /* the probe */
        ASSERT_EQ(VQP_PATH_DOWN, state());
    }
    revive();
    auto is = next();
    confirm_all(0);
    auto rest = next();
    is.insert(is.end(), rest.begin(), rest.end());
    EXPECT_EQ(ops(was), ops(is));
    confirm_all(0);
    EXPECT_EQ(m_depth - 2u, done().size());
}

/* Results come to cells, one for each place in the table, while others wait in it */
TEST_F(replay, of_atomics_on_the_path_itself_has_a_result_for_each) {
    uint64_t results[28];

    open(1);
    ASSERT_EQ(28, m_depth - 2);
    only(0, [&] {
        for (uint64_t &result : results) {
            result = 0;
            fadd(&result, &u[0], VQP_OP_SIGNAL, 0);
        }
    });
    die(0, msn(0));
    revive();
    auto is = next();
    ASSERT_EQ(28u, is.size());
    for (unsigned i = 0; i < 28; ++i) {
        *(uint64_t*)is[i].sge[0].addr = 100 + i;
    }
    confirm_all(0);
    EXPECT_EQ(28u, done().size());
    for (unsigned i = 0; i < 28; ++i) {
        EXPECT_EQ(100 + i, results[i]);
    }
}

/* Each probe takes a slot beside those of the frags that wait. */
TEST_F(replay, probes_that_fail_leave_what_waits_for_them) {
    open(1);
    puts(0, 20, u);
    die(0, msn(0));
    for (unsigned i = 0; i < 100; ++i) {
        reach_probe();
        ASSERT_EQ(1u, next().size());
        ASSERT_LE((uint16_t)(path().tail - path().fo.replay), path().mask) << i;
        die(0, msn(0));
    }
    revive();
    EXPECT_EQ(20u, next().size());
    confirm_all(0);
    EXPECT_EQ(20u, done().size());
}

TEST_F(replay, a_path_that_dies_before_its_replay_keeps_it) {
    open(1);
    auto was = puts(0, 3, u);
    die(0, msn(0));
    revive();
    die(0, msn(0)); /* nothing was posted in between */
    revive();
    auto is = next();
    ASSERT_EQ(3u, is.size());
    for (unsigned i = 0; i < 3; ++i) {
        same(was[i], is[i], m_lkeys[0]);
    }
}

/* ---- immediates that a failed path lacks ---- */

TEST_F(replay, a_tail_message_goes_on_on_the_other_path) {
    for (uint32_t executed : {6, 0}) {
        m_cfg.notify     = VQP_NOTIFY_TAIL;
        m_cfg.frag_shift = m_cfg.min_shift = 8;
        m_depth          = 8;
        open(2);
        ASSERT_TRUE(am((14 * 256) - sizeof(vqp_record_t), &u[0]));
        auto frags = next();
        ASSERT_EQ(12u, frags.size()); /* both are full */
        ASSERT_TRUE(imms(frags).empty());
        die(1, msn(executed));

        std::vector<vqp_frag_t> rest, more;
        confirm_all(0);
        while (!(more = next()).empty()) {
            rest.insert(rest.end(), more.begin(), more.end());
            EXPECT_TRUE(done().empty());
            confirm_all(0);
        }
        EXPECT_EQ(2 + 6 - executed + (rest.size() > 8 - executed),
                  rest.size());
        ASSERT_EQ(1u, imms(rest).size()) << executed;
        EXPECT_EQ(VQP_IMM_LAST, imms(rest)[0] & VQP_IMM_LAST);
        EXPECT_EQ(VQP_WR_WRITE_IMM, rest.back().opcode);
        EXPECT_EQ(0u, m_tx.fc.fsn_reserved);
        EXPECT_EQ(users_t {&u[0]}, done());
    }
}

TEST_F(replay, a_fence_goes_on_on_the_other_path) {
    for (uint32_t executed : {6, 0}) {
        m_depth = 8;
        open(2);
        puts(0, 1);
        puts(1, 6); /* no room for its fence */
        vqp_tx_fence(&m_tx);
        ASSERT_TRUE(am(8, &u[0]));
        auto frags = next();
        ASSERT_EQ(1u, frags.size());
        ASSERT_EQ(VQP_KIND_FENCE, (int)frags[0].kind);
        die(1, msn(executed));
        std::vector<vqp_frag_t> rest, more;
        confirm_all(0);
        while (!(more = next()).empty()) {
            rest.insert(rest.end(), more.begin(), more.end());
            confirm_all(0);
        }
        ASSERT_EQ(6 - executed + 2, rest.size());
        EXPECT_EQ(VQP_KIND_FENCE, (int)rest[rest.size() - 2].kind);
        EXPECT_EQ(VQP_KIND_AM, (int)rest.back().kind);
        EXPECT_EQ(0u, m_tx.fc.fsn_reserved);
        EXPECT_EQ(users_t {&u[0]}, done());
    }
}

/* ---- flush ---- */

TEST_F(replay, a_flush_ends_when_the_replay_is_confirmed) {
    open(2);
    only(1, [&] {
        am(8, &u[0]);
        rma(VQP_KIND_PUT, 64, &u[1]);
    });
    ASSERT_TRUE(vqp_flush(&m_vqp, VQP_OP_BUFFER, &u[2], 1));
    die(1, msn(1, 1));
    EXPECT_EQ(users_t {&u[0]}, done());
    EXPECT_EQ(1u, next().size());
    EXPECT_TRUE(done().empty());
    confirm_all(0);
    EXPECT_EQ((users_t {&u[1], &u[2]}), done());
}

TEST_F(replay, a_flush_ends_when_all_was_executed) {
    open(2);
    only(1, [&] { rma(VQP_KIND_PUT, 64, &u[0]); });
    ASSERT_TRUE(vqp_flush(&m_vqp, VQP_OP_BUFFER, &u[1], 1));
    die(1, msn(1));
    EXPECT_EQ((users_t {&u[0], &u[1]}), done());
}

/* The message before the flush waits at the peer for the credit update */
TEST_F(replay, a_flush_waits_for_a_control_message_that_is_replayed) {
    for (bool is_first : {true, false}) {
        open(2);
        only(1, [&] { want_credit(); });
        auto data = only(0, [&] { am(8, &u[0]); });
        if (is_first) { /* the barrier is armed before the path fails */
            confirm(data);
            confirm_all(0);
            ASSERT_TRUE(vqp_flush(&m_vqp, VQP_OP_BUFFER, &u[1], 1));
            die(1, msn(0));
        } else {
            die(1, msn(0));
            confirm_all(0);
            ASSERT_TRUE(vqp_flush(&m_vqp, VQP_OP_BUFFER, &u[1], 1));
        }
        EXPECT_EQ(users_t {&u[0]}, done());
        auto is = next();
        EXPECT_EQ(1u, count(is, VQP_KIND_CREDIT));
        EXPECT_TRUE(done().empty());
        confirm_all(0);
        EXPECT_EQ(users_t {&u[1]}, done()) << is_first;
    }
}

/* ---- failing ---- */

TEST_F(replay, a_vqp_that_fails_meanwhile_ends_each_op_once) {
    for (unsigned when : {0, 1, 2, 3, 5}) {
        open(1);
        auto frags = puts(0, 3, u);
        if (when == 0) { /* QUIESCE: some are back, the others come */
            fail_send(0, frags[0].slot);
        } else if (when == 1) {
            drain();
        } else {
            die(0, msn(0));
        }
        if (when == 3) {
            rebuild();
        } else if (when == 5) {
            revive();
            EXPECT_EQ(3u, next().size());
        }
        vqp_fail(&m_vqp, VQP_ERR_TIMEOUT);
        take();
        vqp_qps_failed(&m_vqp);
        ends_t all = ends();
        for (uint16_t slot = path().head; slot != path().tail; ++slot) {
            fail_send(0, slot);
        }
        for (auto &end : ends()) {
            all.push_back(end);
        }
        EXPECT_EQ((ends_t {{&u[0], VQP_ERR_TIMEOUT}, {&u[1], VQP_ERR_TIMEOUT},
                           {&u[2], VQP_ERR_TIMEOUT}}), all) << when;
        EXPECT_EQ(0u, path().bytes) << when;
        EXPECT_EQ(0u, path().rma) << when;
        EXPECT_FALSE(vqp_path_has_replay(&path())) << when;
    }
}


TEST_F(replay, a_vqp_that_fails_before_the_replay_ends_each_op) {
    open(1);
    puts(0, 2, u);
    die(0, msn(0));
    revive();
    vqp_fail(&m_vqp, VQP_ERR_TIMEOUT);
    EXPECT_EQ((ends_t {{&u[0], VQP_ERR_TIMEOUT}, {&u[1], VQP_ERR_TIMEOUT}}),
              ends());
    EXPECT_FALSE(vqp_path_has_replay(&path()));
}

/* What was never posted brings no completion. */
TEST_F(replay, a_vqp_that_fails_after_a_failed_post_ends_all_ops) {
    for (bool has_nop : {false, true}) {
        open(1);
        rma(VQP_KIND_PUT, 64, &u[0], has_nop ? 0 : VQP_OP_SIGNAL);
        rma(VQP_KIND_PUT, 64, &u[1], has_nop ? 0 : VQP_OP_SIGNAL);
        auto frags = next();
        ASSERT_EQ(2u, frags.size());
        frags[1].flags |= VQP_FRAG_UNPOSTED;
        vqp_post_failed(&m_vqp, frags.data(), 2);
        quiesce();
        if (has_nop) {
            ASSERT_EQ(1u, next().size());
        }
        vqp_fail(&m_vqp, VQP_ERR_TIMEOUT);
        take();
        vqp_qps_failed(&m_vqp);
        fail_send(0, frags[0].slot);
        auto nops = next();
        if (!nops.empty()) {
            fail_send(0, nops[0].slot);
        } else if (has_nop) {
            fail_send(0, (uint16_t)(frags[1].slot + 1));
        }
        ends_t all = ends();
        std::sort(all.begin(), all.end());
        EXPECT_EQ((ends_t {{&u[0], VQP_ERR_TIMEOUT},
                           {&u[1], VQP_ERR_TIMEOUT}}), all) << has_nop;
        EXPECT_EQ(0u, vqp_path_outstanding(&path())) << has_nop;
    }
}

/* The device refuses it: another path does not help. */
TEST_F(replay, of_a_frag_that_can_not_be_posted_again_fails_the_vqp) {
    open(2);
    auto frags = puts(0, 1, u);
    for (unsigned i = 0; i < 2; ++i) {
        ASSERT_EQ(1u, frags.size());
        EXPECT_EQ(1u, on_path(frags, i));
        EXPECT_FALSE(vqp_is_failed(&m_vqp));
        frags[0].flags |= VQP_FRAG_UNPOSTED;
        vqp_post_failed(&m_vqp, frags.data(), 1);
        if (i == 0) {
            die(0, msn(0));
            frags = next();
        }
    }
    EXPECT_TRUE(vqp_is_failed(&m_vqp));
    EXPECT_EQ(VQP_ERR_IO, m_vqp.status);
    EXPECT_EQ((ends_t {{&u[0], VQP_ERR_IO}}), ends());
}

TEST_F(replay, an_operation_error_is_not_replayed) {
    open(2);
    auto frags = puts(0, 2, u);
    fail_send(0, frags[0].slot, VQP_ERR_REMOTE);
    EXPECT_TRUE(vqp_is_failed(&m_vqp));
    EXPECT_EQ(VQP_ERR_REMOTE, m_vqp.status);
    EXPECT_EQ(VQP_PATH_UP, state());
    EXPECT_EQ((ends_t {{&u[0], VQP_ERR_REMOTE}}), ends());
    EXPECT_TRUE(next().empty());
}

/* The peer, whose queue pair it has moved to ERR, may be faster. */
TEST_F(replay, an_operation_error_in_quiesce_is_not_replayed) {
    open(2);
    auto frags = puts(0, 2, u);
    hear_down(0);
    quiesce();
    fail_send(0, frags[0].slot, VQP_ERR_REMOTE);
    EXPECT_TRUE(vqp_is_failed(&m_vqp));
    EXPECT_EQ(VQP_ERR_REMOTE, m_vqp.status);
}

/* Local memory that can not be read, or an atomic that is not aligned, is not a fault of
 * a path */
TEST_F(replay, an_error_that_comes_twice_fails_the_vqp) {
    for (vqp_status_t status : {VQP_ERR_IO, VQP_ERR_RESPONDER}) {
        open(2);
        auto frags = puts(1, 1, u);
        fail_send(1, frags[0].slot, status);
        EXPECT_FALSE(vqp_is_failed(&m_vqp));
        EXPECT_EQ(VQP_PATH_QUIESCE, state(1));
        die(1, msn(0));
        frags = next();
        ASSERT_EQ(1u, frags.size());
        fail_send(0, frags[0].slot, status);
        EXPECT_TRUE(vqp_is_failed(&m_vqp));
        EXPECT_EQ(status, m_vqp.status);
        EXPECT_EQ((ends_t {{&u[0], status}}), ends());
    }
}

/* A device that fails may report what it flushes by a local error */
TEST_F(replay, an_error_of_what_is_flushed_is_not_that_frags) {
    open(2);
    auto frags = puts(0, 2, u);
    for (const vqp_frag_t &frag : frags) {
        fail_send(0, frag.slot, VQP_ERR_IO);
    }
    EXPECT_EQ(VQP_PATH_QUIESCE, state(0));
    die(0, msn(0));
    frags = next();
    ASSERT_EQ(2u, frags.size());
    frags[1].flags |= VQP_FRAG_UNPOSTED;
    vqp_post_failed(&m_vqp, frags.data(), 2);
    EXPECT_FALSE(vqp_is_failed(&m_vqp));
    EXPECT_EQ(VQP_PATH_QUIESCE, state(1));
}

/* It was sent before, because something else had failed there */
TEST_F(replay, an_error_of_a_frag_that_its_path_took_down_is_the_paths) {
    for (vqp_status_t status : {VQP_ERR_IO, VQP_ERR_RESPONDER}) {
        open(3);
        puts(2, 1, u);
        die(2, msn(0));
        auto frags = next();
        ASSERT_EQ(1u, frags.size());
        unsigned i = frags[0].path->index;
        fail_send(i, frags[0].slot, status);
        EXPECT_FALSE(vqp_is_failed(&m_vqp));
        EXPECT_EQ(VQP_PATH_QUIESCE, state(i));
        die(i, msn(0));
        frags = next();
        ASSERT_EQ(1u, frags.size());
        fail_send(1 - i, frags[0].slot, status); /* the second time that it has failed */
        EXPECT_TRUE(vqp_is_failed(&m_vqp));
    }
}

/* The peer's PATH_DOWN arrives first each time */
TEST_F(replay, a_request_that_no_responder_executes_fails_the_vqp) {
    open(2);
    auto frags = puts(1, 1, u);
    hear_down(0, 0, 1);
    quiesce(1);
    fail_send(1, frags[0].slot, VQP_ERR_RESPONDER);
    EXPECT_FALSE(vqp_is_failed(&m_vqp));
    flush_recvs(1);
    EXPECT_TRUE(event(VQP_EVENT_PATH_COUNT, 1));
    vqp_path_counted(&m_vqp, &path(1), VQP_SOURCE_MSN, 0);
    hear_down(DRAINED | HAVE, 0, 1, msn(0));
    frags = next();
    ASSERT_EQ(1u, frags.size());
    hear_down(0, 0, 0);
    quiesce(0);
    fail_send(0, frags[0].slot, VQP_ERR_RESPONDER);
    EXPECT_TRUE(vqp_is_failed(&m_vqp));
    EXPECT_EQ(VQP_ERR_RESPONDER, m_vqp.status);
}

TEST_F(replay, a_fault_of_the_way_may_come_twice) {
    for (vqp_status_t status : {VQP_ERR_TIMEOUT, VQP_ERR_CANCELED}) {
        open(2);
        puts(1, 1, u);
        die(1, msn(0));
        auto frags = next();
        fail_send(0, frags[0].slot, status);
        EXPECT_FALSE(vqp_is_failed(&m_vqp));
        EXPECT_EQ(VQP_PATH_QUIESCE, state(0));
    }
}

} // namespace
