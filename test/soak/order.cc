/* Many senders, one receiver, see order.h. */
#include "order.h"

#include "arguments.h"
#include "receiver.h"
#include "sender.h"

#include "test/fabric/fabric.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>

static arguments order_arguments()
{
    return arguments({{"senders", "100"}, {"batches", "1000"},
                      {"processes", "0"}, {"sizes", "mixed"},
                      {"seconds", "300"}, {"first", "0"},
                      {"fairness", "0"}});
}

/* API violations that the fabric has seen in this process */
static std::string order_violations()
{
    char text[512] = "";

    if ((vqp_fabric() == NULL) || (vqp_fabric()->violations(NULL) == 0)) {
        return "";
    }
    vqp_fabric()->violation_text(text, sizeof(text));
    return text;
}

/* ---- a process with senders ---- */

typedef std::vector<std::unique_ptr<sender>> sender_list;

static bool for_all(sender_list &all, double seconds,
                    const std::function<bool(sender&)> &func)
{
    std::vector<bool> good(all.size());

    return until([&] {
        size_t count = 0;

        for (size_t i = 0; i < all.size(); ++i) {
            good[i] = good[i] || !all[i]->trouble().empty() || func(*all[i]);
            count  += good[i];
        }
        return count == all.size();
    }, seconds);
}

static std::string order_send(sender_list &all, double seconds)
{
    if (!for_all(all, 300, [](sender &each) { return each.hello(); })) {
        return "no connection";
    }
    role_write("ready");
    role_read();
    if (!for_all(all, seconds, [](sender &each) {
            each.step(4);
            return each.posted();
        })) {
        return "not every operation was accepted";
    }
    if (!for_all(all, 300, [](sender &each) { return each.done(); })) {
        return "not every operation was confirmed";
    }

    for (auto &each : all) {
        if (!each->trouble().empty()) {
            return each->trouble();
        }
    }
    return order_violations();
}

VQP_ROLE(order_sender)
{
    arguments args = order_arguments();
    args.from_line(role_read());
    std::string address = from_hex(role_read());
    remote_key key(from_hex(role_read()));
    stream_target target = {std::stoull(role_read()), key.bundle.rkey};
    node domain(1, args.config);
    memory source(domain, STREAM_PATTERN);
    std::vector<stream_batch> batches = stream_make(
            (unsigned)args.number("batches"), args.text("sizes") == "small",
            stream_limits_of(domain.attr));
    sender_list all;
    std::string error;

    source.fill(1);
    for (unsigned i = 0; i < args.number("senders"); ++i) {
        all.push_back(std::make_unique<sender>(
                (unsigned)args.number("first") + i, batches, 1, args.config,
                &domain, source, address, target));
    }

    error = order_send(all, (double)args.number("seconds"));
    role_write(error.empty() ? "done" : error);
    role_read();
    return error.empty() ? 0 : 1;
}

/* ---- the process of the receiver ---- */

typedef std::vector<std::unique_ptr<process>> process_list;

static void order_start(process_list &others, const arguments &args,
                        const receiver &to)
{
    unsigned senders   = (unsigned)args.number("senders");
    unsigned processes = (unsigned)args.number("processes");

    if (processes == 0) {
        /* UCX has room for 150 timers in a thread; an interface has one */
        processes = std::max(std::min(senders, 4u), (senders + 99) / 100);
    }

    for (unsigned i = 0; i < processes; ++i) {
        unsigned first = senders * i / processes;
        arguments part = args;

        part.set("first", std::to_string(first));
        part.set("senders", std::to_string(senders * (i + 1) / processes -
                                           first));
        others.push_back(std::make_unique<process>("order_sender"));
        others.back()->write(part.line());
        others.back()->write(to_hex(to.own.address()));
        others.back()->write(to_hex(to.target.packed_key()));
        others.back()->write(std::to_string(to.target.addr()));
    }
}

static bool order_run(process_list &others, const arguments &args,
                      receiver &to, double &seconds)
{
    if (!until([&] { return to.hellos() == args.number("senders"); }, 300)) {
        fprintf(stderr, "%u senders have connected\n", to.hellos());
        return false;
    }
    for (auto &other : others) {
        if (other->read() != "ready") {
            return false;
        }
    }

    seconds = now();
    for (auto &other : others) {
        other->write("go");
    }
    until([&] { return to.all_received() || (to.wrong() > 100); },
          (double)args.number("seconds"));
    seconds = now() - seconds;
    run_for(0.2); /* what should not come would come now */
    return true;
}

/* What the senders have found, all of which must have been confirmed */
static std::string order_results(process_list &others)
{
    std::string troubles;

    for (auto &other : others) {
        std::string answer = other->read();

        if (answer != "done") {
            troubles += "a process of senders: " + answer + "\n";
        }
    }

    return troubles;
}

/* Print the result in one line. The system's scheduling has a share in the
 * fairness, the progress of the slowest sender by that of the fastest one: it fails
 * only if the option gives a least value, in percent. In a short run the first
 * senders finish before others begin. */
static int order_verdict(const arguments &args, receiver &to, double seconds,
                         uint64_t ahead, const std::string &troubles)
{
    const char *mode = getenv("VQP_FABRIC_MODE");
    unsigned missing = to.messages_missing();
    bool is_unfair   = to.fairness() * 100 < (double)args.number("fairness");
    bool good        = troubles.empty() && (to.wrong() == 0) &&
                       (missing == 0) && !is_unfair;

    printf("%s order: %s senders x %s batches of %s sizes, %s: %lu messages, "
           "%lu wrong, %u missing; %lu frags ahead at most; slowest to fastest "
           "%.2f; a batch p50 %.0f "
           "us, p99 %.0f us; %.3f s, %.0f messages/s, %.3f GB/s\n",
           good ? "ok  " : "FAIL", args.text("senders").c_str(),
           args.text("batches").c_str(), args.text("sizes").c_str(),
           (mode == NULL) ? "immediate" : mode,
           (unsigned long)to.messages(), (unsigned long)to.wrong(), missing,
           (unsigned long)ahead, to.fairness(), to.latency(50), to.latency(99), seconds,
           (double)to.messages() / seconds,
           (double)to.bytes() / seconds * 1e-9);
    printf("%s%s", to.errors_found().c_str(), troubles.c_str());
    return good ? 0 : 1;
}

int order_main(int argc, char **argv)
{
    arguments args = order_arguments();
    process_list others;
    std::string troubles;
    double seconds = 0;
    temp_file stats;

    if (!args.parse(argc, argv)) {
        return 2;
    }

    options config       = args.config;
    config["STATS_FILE"] = stats.name;
    receiver to((unsigned)args.number("senders"),
                (unsigned)args.number("batches"),
                args.text("sizes") == "small", config);
    order_start(others, args, to);
    if (!order_run(others, args, to, seconds)) {
        troubles = "the senders did not start\n";
    }
    if (to.all_received()) {
        troubles += order_results(others);
    }
    troubles += order_violations();
    to.own.close();
    return order_verdict(args, to, seconds, stats_max(stats.name, "ooo_max"),
                         troubles);
}
