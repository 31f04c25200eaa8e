/* The hub of the mix, see mix.h. */
#include "mix.h"
#include "mouth.h"

#include "test/fabric/fabric.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

namespace {

constexpr unsigned MAX_AHS = 8; /* one for each port that was met */

/* What must not grow */
struct level {
    unsigned qps = 0, cqs = 0, mrs = 0, ahs = 0;
    size_t   kbytes = 0;

    static level now();
    bool same_objects(const level &other) const
    {
        return (qps == other.qps) && (cqs == other.cqs) && (mrs == other.mrs);
    }
    std::string str() const /* address handles are kept for each peer port */
    {
        return std::to_string(qps) + " queue pairs, " + std::to_string(cqs) +
               " CQs, " + std::to_string(mrs) + " regions, " +
               std::to_string(ahs) + " address handles, " +
               std::to_string(kbytes) + " KB";
    }
};

level level::now()
{
    vqp_fabric_objects_t objects = {};
    size_t pages[2]              = {0, 0};
    level result;
    FILE *file;

    if (vqp_fabric() != NULL) {
        vqp_fabric()->objects(&objects);
    }
    file = fopen("/proc/self/statm", "r");
    if (file != NULL) {
        if (fscanf(file, "%zu %zu", &pages[0], &pages[1]) != 2) {
            pages[1] = 0;
        }
        fclose(file);
    }

    result.qps    = objects.qps;
    result.cqs    = objects.cqs;
    result.mrs    = objects.mrs;
    result.ahs    = objects.ahs;
    result.kbytes = pages[1] * 4;
    return result;
}

/* The hub's side of a guest: its process, and who speaks to it */
struct visit {
    std::unique_ptr<process> other;
    std::unique_ptr<mouth>   speaker;
    std::string              card;
    double                   kill_at;
    unsigned                 lives;
    enum { TALKS, PARTS, LEAVES } state;
    unsigned                 life, count; /* of its last messages */
};

class hub {
public:
    explicit hub(const arguments &args);
    int run();

private:
    void generation(double seconds);
    void arrive(unsigned place);
    void look_after(visit &one);
    void parts(visit &one);
    void leaves(visit &one);
    void speak_anew(visit &one);
    void gone(visit &one);
    void rest();
    void exchange();
    void close();
    void complain(const std::string &what);
    void complain_of(const mouth &one);
    int verdict(double seconds);

    arguments        args;
    uint64_t         seed;
    bool             harm;
    std::mt19937     random;
    node             own, mate;
    ears             own_ears, mate_ears;
    std::unique_ptr<mouth> there, back; /* they talk all the time */
    std::vector<visit> visits;
    unsigned         serial = 0, killed = 0, errors = 0, generations = 0;
    uint64_t         operations = 0;
    level            warm, last;
    std::string      text;
};

hub::hub(const arguments &args) :
        args(args), seed(args.number("seed")),
        harm(args.text("harm") == "yes"), random((unsigned)seed),
        own(0, args.config), mate(1, args.config), own_ears(own),
        mate_ears(mate), visits(args.number("guests"))
{
    there = std::make_unique<mouth>(own, mate_ears.card(), 1, seed, false);
    back  = std::make_unique<mouth>(mate, own_ears.card(), 1, seed + 1, false);
}

void hub::complain(const std::string &what)
{
    if (text.size() < 4000) {
        text += what + "\n";
    }
}

void hub::complain_of(const mouth &one)
{
    if (!one.complaints().empty()) {
        complain("the hub's " + one.complaints());
    }
}

/* ---- guests ---- */

void hub::arrive(unsigned place)
{
    visit &one     = visits[place];
    arguments part = args;
    unsigned ms    = 300 + (unsigned)(random() % 2000);

    part.set("serial", std::to_string(++serial));
    part.set("place", std::to_string(place));
    part.set("life-ms", std::to_string(ms));
    one.other = std::make_unique<process>("mix_guest");
    one.other->write(part.line());
    one.other->write(own_ears.card());
    one.card  = one.other->read();
    if (one.card.empty()) {
        complain("a guest did not come");
        one.other.reset();
        return;
    }

    one.lives   = 0;
    one.state   = visit::TALKS;
    one.kill_at = (random() % 3 == 0) ? now() + 1e-3 * (double)(random() % ms) :
                                        1e30;
    speak_anew(one);
}

void hub::speak_anew(visit &one)
{
    /* no lives but ours are heard there */
    one.speaker = std::make_unique<mouth>(own, one.card, 1 + one.lives++, seed,
                                          harm);
}

void hub::gone(visit &one)
{
    if (one.speaker != nullptr) {
        one.speaker->cut();
        operations += one.speaker->operations;
        complain_of(*one.speaker);
        one.speaker.reset();
    }
    one.other.reset();
}

/* It has said all. Say all, too, and tell how much that was. */
void hub::parts(visit &one)
{
    std::istringstream words(one.other->read());
    std::string how;

    words >> one.life >> one.count >> how;
    if (!until([&] { return one.speaker->finish() || one.speaker->failed(); })) {
        complain("stuck: the hub's messages to a guest");
    }
    if (one.speaker->failed() && !harm) {
        complain("an error of the endpoint to a guest that lives");
    }
    if (how != "clean") {
        one.count = 0;
        if (!harm) {
            complain("an error of a guest's endpoint");
        }
    }
    one.other->write(std::to_string(one.speaker->number()) + " " +
                     std::to_string(one.speaker->failed() ?
                                    0 : one.speaker->said()));
    one.state = visit::LEAVES;
}

void hub::leaves(visit &one)
{
    std::string said = one.other->read();

    if (said != "well") {
        complain("guest " + std::to_string(one.life) + ": " + said);
    }
    if (!until([&] { return own_ears.heard(one.life) >= one.count; })) {
        complain("a guest has said " + std::to_string(one.count) +
                 " messages, " + std::to_string(own_ears.heard(one.life)) +
                 " have come");
    }
    gone(one);
}

void hub::look_after(visit &one)
{
    if (now() > one.kill_at) {
        one.speaker->expect_harm();
        one.other->kill();
        ++killed;
        if (random() % 2) {
            run_for(0.001 * (double)(random() % 20)); /* it may be noticed */
        }
        gone(one);
    } else if (one.other->ready()) {
        (one.state == visit::TALKS) ? parts(one) : leaves(one);
    } else if (one.speaker->failed()) {
        errors += one.state == visit::TALKS;
        if (one.state == visit::TALKS) {
            one.speaker->cut();
            complain_of(*one.speaker);
            speak_anew(one);
        }
    } else if (one.state == visit::TALKS) {
        one.speaker->act();
    }
}

/* ---- generations ---- */

/* Guests come and go for a while; at the end all are gone */
void hub::generation(double seconds)
{
    double end = now() + seconds;

    until([&] {
        bool empty = true;

        for (unsigned i = 0; i < visits.size(); ++i) {
            if (visits[i].other != nullptr) {
                look_after(visits[i]);
            } else if ((now() < end) && text.empty()) {
                arrive(i);
            }
            empty = empty && (visits[i].other == nullptr);
        }
        if (random() % 2) {
            there->act();
            back->act();
        }
        return empty && ((now() >= end) || !text.empty());
    }, seconds + 60);
    for (visit &one : visits) {
        if (one.other != nullptr) {
            complain("stuck: a guest does not leave");
            gone(one);
        }
    }
    ++generations;
}

/* What guests have left goes: connections that nobody owns are probed */
void hub::rest()
{
    until([&] { return level::now().qps == warm.qps; }, 20);
    own_ears.forget_guests(); /* of a killed one, something may still come */
    last = level::now();
    if (last.qps != warm.qps) {
        complain("queue pairs are left: " + last.str());
    } else if (generations <= 2) {
        warm = last;
    } else if (!last.same_objects(warm) || (last.ahs > MAX_AHS)) {
        complain("left: " + last.str() + ", and it was " + warm.str());
    }
}

/* The endpoints that last still work */
void hub::exchange()
{
    uint64_t before = own_ears.total + mate_ears.total;

    until([&] {
        there->act();
        back->act();
        return own_ears.total + mate_ears.total > before + 100;
    });
    if (own_ears.total + mate_ears.total <= before + 100) {
        complain("stuck: the endpoints that last");
    }
}

void hub::close()
{
    for (mouth *each : {there.get(), back.get()}) {
        if (!until([&] { return each->finish() || each->failed(); })) {
            complain("stuck: the end of an endpoint that lasted");
        }
        if (each->failed()) {
            complain("an error of an endpoint that lasted");
        }
        operations += each->operations;
        complain_of(*each);
    }
    if (!until([&] {
            return (mate_ears.heard(1) == there->said()) &&
                   (own_ears.heard(1) == back->said());
        })) {
        complain("messages are missing at an endpoint that lasted");
    }
    there.reset();
    back.reset();
    text += own_ears.complaints() + mate_ears.complaints() + fabric_mistakes();
}

int hub::verdict(double seconds)
{
    bool good = text.empty();

    printf("%s mix: seed %lu, %.0f s, %u generations: %u guests, %u killed, %u "
           "errors at the hub; %lu operations, %lu messages heard; %s after "
           "warming up, %s at the end\n",
           good ? "ok  " : "FAIL", (unsigned long)seed, seconds, generations,
           serial, killed, errors, (unsigned long)operations,
           (unsigned long)(own_ears.total + mate_ears.total),
           warm.str().c_str(), last.str().c_str());
    printf("%s", text.c_str());
    return good ? 0 : 1;
}

int hub::run()
{
    double begin = now(), seconds = (double)args.number("seconds");

    if (vqp_fabric() != NULL) {
        vqp_fabric()->faults(NULL, NULL, 0); /* those are for the guests */
    }
    exchange();
    warm = level::now();
    while ((text.empty() && (now() < begin + seconds)) || (generations < 3)) {
        generation(seconds / 6);
        rest();
        exchange();
        if (!text.empty()) {
            break;
        }
    }
    if (last.kbytes > warm.kbytes + warm.kbytes / 20 + 4096) {
        complain("memory grows");
    }
    close();
    return verdict(now() - begin);
}

} /* namespace */

int mix_main(int argc, char **argv)
{
    arguments args = mix_arguments();

    if (!args.parse(argc, argv)) {
        return 2;
    }
    return hub(args).run();
}
