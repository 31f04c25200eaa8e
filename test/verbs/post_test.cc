/*
 * The post site: the frags of a batch that were posted when a post fails in
 * the middle of a chain, the work requests, and the status of completions.
 * Failures are made by the software fabric.
 */
#include "qp_end.h"

extern "C" {
#include "verbs/post.h"
}

#include "test/fabric/fabric.h"

#include <memory>
#include <set>

class post : public verbs_test {
protected:
    static constexpr unsigned PATHS = 3;

    void SetUp() override
    {
        verbs_test::SetUp();
        if (IsSkipped()) {
            return;
        }
        for (unsigned i = 0; i < PATHS; ++i) {
            x[i].reset(new qp_end(a));
            y[i].reset(new qp_end(b));
            x[i]->connect(*y[i], 100, 200);
            y[i]->connect(*x[i], 200, 100);
            tx[i]       = {};
            tx[i].index = (uint8_t)i;
            paths[i]    = {};
            paths[i].qp = x[i]->qp.qp;
            paths[i].rc = x[i]->qp;
            paths[i].wrid = vqp_ib_wrid(3, (uint8_t)i, 7);
        }
        batch.reset(new vqp_batch_t());
    }

    void TearDown() override
    {
        if (vqp_fabric() != NULL) {
            vqp_fabric()->faults(NULL, NULL, 0);
        }
        for (unsigned i = 0; i < PATHS; ++i) {
            x[i].reset();
            y[i].reset();
        }
        verbs_test::TearDown();
    }

    /* The i-th frag of this path: writes a word to its own place */
    void add(unsigned path)
    {
        vqp_sge_t *sge   = batch->sge[batch->count];
        vqp_frag_t *frag = &batch->frags[batch->count++];
        unsigned slot    = posted[path]++;

        *frag              = {};
        frag->path         = &tx[path];
        frag->sge          = sge;
        frag->slot         = (uint16_t)slot;
        frag->opcode       = VQP_WR_WRITE;
        frag->flags        = VQP_FRAG_SIGNALED;
        frag->nsge         = 1;
        frag->length       = 8;
        frag->raddr        = (uintptr_t)(y[path]->buffer + 8 * slot);
        frag->rkey         = y[path]->mr.rkey[0];
        frag->sge[0].addr   = (uintptr_t)(x[path]->buffer + 8 * slot);
        frag->sge[0].length = 8;
        frag->sge[0].lkey   = x[path]->mr.lkey[0];
        memset(x[path]->buffer + 8 * slot, 0x40 + slot, 8);
    }

    /* Frags of all paths, by turns */
    void fill(unsigned per_path)
    {
        batch->count = 0;
        for (unsigned i = 0; i < per_path; ++i) {
            for (unsigned path = 0; path < PATHS; ++path) {
                add(path);
            }
        }
    }

    /* The next post of a chain on this path fails behind so many */
    void fail(const std::vector<unsigned> &which, unsigned after)
    {
        std::string script;
        char error[128] = "";

        for (unsigned path : which) {
            script += "chain qpn=" + std::to_string(x[path]->qp.qpn) +
                      " after=" + std::to_string(after) + ";";
        }
        ASSERT_EQ(0, vqp_fabric()->faults(script.c_str(), error,
                                          sizeof(error))) << error;
    }

    /* Post 4 frags on each path; the chain of path 1 fails behind so many. Which
     * frags of that path are marked, by their place in the chain; -1: one of
     * another path. The first one that is marked counts as not posted, and so do
     * those behind it. */
    std::set<int> marked_behind(unsigned after)
    {
        log_capture log;
        std::set<int> marked;

        fill(4);
        fail({1}, after);
        EXPECT_EQ(VQP_ERR_IO, vqp_ib_post(paths, batch.get()));
        for (unsigned i = 0; i < batch->count; ++i) {
            if (batch->frags[i].flags & VQP_FRAG_UNPOSTED) {
                marked.insert((i % PATHS == 1) ? (int)(i / PATHS) : -1);
            }
        }
        return marked;
    }

    /* On this path slots [first, end) completed, in order, and nothing else was
     * written up to @a limit */
    void expect_executed(unsigned path, unsigned first, unsigned end,
                         unsigned limit)
    {
        struct ibv_wc wc;

        for (unsigned slot = first; slot < end; ++slot) {
            wc = x[path]->wait_wc();
            ASSERT_EQ(paths[path].wrid | slot, wc.wr_id);
            ASSERT_EQ(IBV_WC_SUCCESS, wc.status);
        }
        EXPECT_EQ(0, ibv_poll_cq(x[path]->cq(), 1, &wc));
        for (unsigned slot = first; slot < limit; ++slot) {
            EXPECT_EQ((slot < end) ? (char)(0x40 + slot) : 0,
                      y[path]->buffer[8 * slot]) << path << " " << slot;
        }
    }

    std::unique_ptr<qp_end>      x[PATHS], y[PATHS];
    vqp_path_t                   tx[PATHS];
    vqp_ib_path_t                paths[PATHS];
    std::unique_ptr<vqp_batch_t> batch;
    unsigned                     posted[PATHS] = {};
};

TEST_F(post, a_batch_goes_out_by_paths)
{
    fill(5);
    ASSERT_EQ(VQP_OK, vqp_ib_post(paths, batch.get()));
    for (unsigned path = 0; path < PATHS; ++path) {
        ASSERT_NO_FATAL_FAILURE(expect_executed(path, 0, 5, 5));
    }
}

TEST_F(post, a_failure_in_a_chain_marks_the_first_frag_that_was_not_posted)
{
    const unsigned count = 5;

    if (vqp_fabric() == NULL) {
        GTEST_SKIP() << "failures are made by the software fabric";
    }

    for (unsigned path = 0; path < PATHS; ++path) {
        for (unsigned after = 0; after < count; ++after) {
            unsigned first = posted[path];
            log_capture log;

            for (auto &end : y) {
                memset(end->buffer, 0, sizeof(end->buffer));
            }
            fill(count);
            ASSERT_NO_FATAL_FAILURE(fail({path}, after));
            EXPECT_EQ(VQP_ERR_IO, vqp_ib_post(paths, batch.get()));
            EXPECT_TRUE(log.has("ibv_post_send"));
            for (unsigned i = 0; i < batch->count; ++i) {
                bool marked = batch->frags[i].flags & VQP_FRAG_UNPOSTED;

                EXPECT_EQ((i % PATHS == path) && (i / PATHS == after), marked)
                        << "path " << path << ", " << after << " posted, frag "
                        << i;
            }
            for (unsigned other = 0; other < PATHS; ++other) {
                ASSERT_NO_FATAL_FAILURE(expect_executed(
                        other, first, first + ((other == path) ? after : count),
                        first + count));
            }
        }
    }
}

/* Else the user gets back memory that the device still reads */
TEST_F(post, what_stands_before_the_refused_frag_counts_as_posted)
{
    if (vqp_fabric() == NULL) {
        GTEST_SKIP() << "failures are made by the software fabric";
    }

    EXPECT_EQ(std::set<int>({2}), marked_behind(2));
}

/* Else its op waits for a completion that never comes */
TEST_F(post, the_refused_frag_counts_as_not_posted)
{
    if (vqp_fabric() == NULL) {
        GTEST_SKIP() << "failures are made by the software fabric";
    }

    EXPECT_EQ(std::set<int>({0}), marked_behind(0));
}

TEST_F(post, each_path_that_fails_has_its_own_mark)
{
    std::set<unsigned> marked;
    log_capture log;

    if (vqp_fabric() == NULL) {
        GTEST_SKIP() << "failures are made by the software fabric";
    }

    fill(4);
    fail({0, 2}, 2);
    EXPECT_EQ(VQP_ERR_IO, vqp_ib_post(paths, batch.get()));
    for (unsigned i = 0; i < batch->count; ++i) {
        if (batch->frags[i].flags & VQP_FRAG_UNPOSTED) {
            marked.insert(i);
        }
    }
    EXPECT_EQ(std::set<unsigned>({2 * PATHS + 0, 2 * PATHS + 2}), marked);
    expect_executed(0, 0, 2, 4);
    expect_executed(1, 0, 4, 4);
    expect_executed(2, 0, 2, 4);
}

/* Nothing of the chain that failed is left in the next one */
TEST_F(post, goes_on_after_a_failure)
{
    log_capture log;

    if (vqp_fabric() == NULL) {
        GTEST_SKIP() << "failures are made by the software fabric";
    }

    fill(3);
    fail({1}, 1);
    EXPECT_EQ(VQP_ERR_IO, vqp_ib_post(paths, batch.get()));
    for (unsigned path = 0; path < PATHS; ++path) {
        ASSERT_NO_FATAL_FAILURE(expect_executed(path, 0, (path == 1) ? 1 : 3,
                                                3));
    }
    fill(3);
    EXPECT_EQ(VQP_OK, vqp_ib_post(paths, batch.get()));
    for (unsigned path = 0; path < PATHS; ++path) {
        ASSERT_NO_FATAL_FAILURE(expect_executed(path, 3, 6, 6));
    }
}

TEST_F(post, of_one_returns_the_error)
{
    log_capture log;

    if (vqp_fabric() == NULL) {
        GTEST_SKIP() << "failures are made by the software fabric";
    }

    ASSERT_EQ(0, vqp_fabric()->faults("call verb=post_send errno=EINVAL", NULL,
                                      0));
    add(0);
    EXPECT_EQ(VQP_ERR_IO, vqp_ib_post_frag(&paths[0], &batch->frags[0]));
    EXPECT_TRUE(batch->frags[0].flags & VQP_FRAG_UNPOSTED);
    EXPECT_TRUE(log.has(a->dev.name));
    EXPECT_TRUE(log.has(strerror(EINVAL)));
}

TEST_F(post, the_immediate_goes_in_network_order)
{
    struct ibv_wc wc;

    fill(1);
    batch->count           = 1;
    batch->frags[0].opcode = VQP_WR_WRITE_IMM;
    batch->frags[0].imm    = 0x01020304;
    ASSERT_EQ(VQP_OK, vqp_ib_post(paths, batch.get()));
    wc = y[0]->wait_wc();
    EXPECT_EQ(IBV_WC_RECV_RDMA_WITH_IMM, wc.opcode);
    EXPECT_EQ(htonl(0x01020304), wc.imm_data);
    x[0]->wait_wc();
}

TEST(wc_status, is_a_time_out_a_refusal_a_cancellation_or_an_io_error)
{
    static const struct {
        enum ibv_wc_status status;
        vqp_status_t       expected;
    } all[] = {
        {IBV_WC_SUCCESS,           VQP_OK},
        {IBV_WC_LOC_LEN_ERR,       VQP_ERR_IO},
        {IBV_WC_LOC_QP_OP_ERR,     VQP_ERR_IO},
        {IBV_WC_LOC_PROT_ERR,      VQP_ERR_IO},
        {IBV_WC_WR_FLUSH_ERR,      VQP_ERR_CANCELED},
        {IBV_WC_MW_BIND_ERR,       VQP_ERR_IO},
        {IBV_WC_BAD_RESP_ERR,      VQP_ERR_IO},
        {IBV_WC_LOC_ACCESS_ERR,    VQP_ERR_IO},
        {IBV_WC_REM_INV_REQ_ERR,   VQP_ERR_RESPONDER},
        {IBV_WC_REM_ACCESS_ERR,    VQP_ERR_REMOTE},
        {IBV_WC_REM_OP_ERR,        VQP_ERR_RESPONDER},
        {IBV_WC_RETRY_EXC_ERR,     VQP_ERR_TIMEOUT},
        {IBV_WC_RNR_RETRY_EXC_ERR, VQP_ERR_TIMEOUT},
        {IBV_WC_REM_ABORT_ERR,     VQP_ERR_RESPONDER},
        {IBV_WC_FATAL_ERR,         VQP_ERR_IO},
        {IBV_WC_RESP_TIMEOUT_ERR,  VQP_ERR_TIMEOUT},
        {IBV_WC_GENERAL_ERR,       VQP_ERR_IO}
    };

    for (const auto &each : all) {
        EXPECT_EQ(each.expected, vqp_ib_wc_status(each.status))
                << ibv_wc_status_str(each.status);
    }
}

/* irdma writes the first element of a list that is there, whatever its length says */
TEST_F(post, empty_write_has_no_list)
{
    struct ibv_send_wr wr;

    batch->count = 0;
    add(0);
    vqp_ib_fill_wr(&wr, &paths[0], &batch->frags[0]);
    EXPECT_EQ((void*)batch->sge[0], (void*)wr.sg_list);
    batch->frags[0].nsge = 0;
    vqp_ib_fill_wr(&wr, &paths[0], &batch->frags[0]);
    EXPECT_EQ(nullptr, wr.sg_list);
    EXPECT_EQ(0, wr.num_sge);
}
