/*
 * The receiver of the order run: one interface, to which all senders send. It
 * compares each message with the expected one (stream.h), and reports
 * differences.
 */
#ifndef VQP_SOAK_RECEIVER_H
#define VQP_SOAK_RECEIVER_H

#include "stream.h"

#include "test/uct/uct_fixture.h"

class receiver {
public:
    receiver(unsigned senders, unsigned batches, bool small,
             const options &config);

    unsigned hellos() const { return num_hellos; }
    bool all_received() const { return num_ended == from.size(); }
    uint64_t messages() const { return num_messages; }
    uint64_t bytes() const { return num_bytes; } /* puts included */
    uint64_t wrong() const { return num_wrong; }
    const std::string &errors_found() const { return text; }
    unsigned messages_missing() const;

    /* Progress of the slowest sender when the first one has ended: its messages
     * over the messages of a complete sender */
    double fairness() const { return (double)slowest / (double)expected; }

    /* @return Percentile of the batches' latencies, in microseconds: from the
     *         first call for a batch to its last handler. */
    double latency(double percent);

    node   own;
    memory target;

private:
    struct state {
        unsigned batch, index, message;
    };

    ucs_status_t receive(const char *data, size_t length);
    void check(const stream_head &head, const char *data, size_t length,
               const state &at);
    void report(const stream_head &head, const state &at, const char *what);
    void advance(const stream_head &head, state &at);

    std::vector<stream_batch> batches;
    std::vector<state>        from;
    std::vector<float>        latencies;
    memory                    pattern_source;
    unsigned expected = 0, slowest = 0, num_hellos = 0, num_ended = 0;
    uint64_t num_messages = 0, num_bytes = 0, num_wrong = 0;
    std::string text;
};

#endif
