/*
 * A guest of the mix: a process with an interface that talks to the hub, in
 * several lives, for a while. The hub may kill it at any time.
 */
#include "mix.h"
#include "mouth.h"

#include "test/fabric/fabric.h"

#include <poll.h>
#include <unistd.h>

arguments mix_arguments()
{
    return arguments({{"seed", "1"}, {"seconds", "20"}, {"guests", "2"},
                      {"harm", "no"}, {"serial", "0"}, {"place", "0"},
                      {"life-ms", "1000"}});
}

std::string fabric_mistakes()
{
    char text[512] = "";

    if ((vqp_fabric() == NULL) || (vqp_fabric()->violations(NULL) == 0)) {
        return "";
    }
    vqp_fabric()->violation_text(text, sizeof(text));
    return std::string(text) + "\n";
}

void nap(node &where, unsigned milliseconds)
{
    struct pollfd event = {-1, POLLIN, 0};

    if ((uct_iface_event_fd_get(where.iface, &event.fd) != UCS_OK) ||
        (uct_iface_event_arm(where.iface, UCT_EVENT_SEND_COMP |
                             UCT_EVENT_RECV) != UCS_OK)) {
        return;
    }
    poll(&event, 1, (int)milliseconds);
}

namespace {

/* That a guest has numbers for */
const unsigned LIVES = 64;

class guest {
public:
    guest(const arguments &args, const std::string &hub_card) :
            args(args), hub_card(hub_card), seed(args.number("seed")),
            random((unsigned)(seed * 31 + args.number("serial"))),
            own(1, args.config), own_ears(own)
    {
        new_life();
    }

    std::string card() const { return own_ears.card(); }
    void talk();
    void part();
    std::string farewell(unsigned heard_life, unsigned heard_count);

private:
    void new_life();
    void end_life();

    const arguments &args;
    std::string      hub_card;
    uint64_t         seed;
    std::mt19937     random;
    node             own;
    ears             own_ears;
    std::unique_ptr<mouth> speaker;
    unsigned         lives = 0;
    std::string      text;
};

/* Eight seats at the hub are for guests in our place */
void guest::new_life()
{
    uint32_t serial = (uint32_t)args.number("serial");
    uint32_t place  = (uint32_t)args.number("place");
    uint32_t life   = (serial * (LIVES / 8) + lives / 8) * SEATS +
                      8 * (place + 1) + lives % 8;

    ++lives;
    speaker = std::make_unique<mouth>(own, hub_card, life, seed,
                                      args.text("harm") == "yes");
}

void guest::end_life()
{
    bool harm = args.text("harm") == "yes";

    if ((!harm || (random() % 2)) &&
        !until([&] { return speaker->finish() || speaker->failed(); })) {
        text += "stuck at the end of a life: " + speaker->state() + "\n";
    }
    speaker->cut();
    text += speaker->complaints();
    speaker.reset();
}

void guest::talk()
{
    double end = now() + (double)args.number("life-ms") / 1e3;

    while (now() < end) {
        unsigned what = random() % 10000;

        speaker->act();
        if (random() % 4 == 0) {
            own.progress();
        }
        if (speaker->failed() && (lives == LIVES)) {
            return; /* the numbers that follow are those of later guests */
        }
        if ((speaker->failed() && (what < 100)) || ((what < 3) && (lives < 60))) {
            end_life();
            new_life();
        } else if (what < 13) {
            nap(own, 2);
        }
    }
}

/* Say how much was said, so that the hub can wait for it */
void guest::part()
{
    bool clean = until([&] { return speaker->finish() || speaker->failed(); });

    if (!clean) {
        text += "stuck: " + speaker->state() + "\n";
    }
    clean = clean && !speaker->failed();
    role_write(std::to_string(speaker->number()) + " " +
               std::to_string(speaker->said()) + (clean ? " clean" : " failed"));
    while (!role_ready()) {
        run_for(0.001);
    }
}

std::string guest::farewell(unsigned life, unsigned count)
{
    if (!until([&] { return own_ears.heard(life) >= count; })) {
        text += "the hub has said " + std::to_string(count) + " messages, " +
                std::to_string(own_ears.heard(life)) + " have come\n";
    }
    text += speaker->complaints();
    speaker.reset();
    text += own_ears.complaints();
    own.close();
    return text + fabric_mistakes();
}

} /* namespace */

VQP_ROLE(mix_guest)
{
    arguments args = mix_arguments();
    unsigned life, count;
    std::string text;

    args.from_line(role_read());
    std::string hub_card = role_read();
    guest self(args, hub_card);

    role_write(self.card());
    self.talk();
    self.part();
    if (sscanf(role_read().c_str(), "%u %u", &life, &count) != 2) {
        return 1;
    }
    text = self.farewell(life, count);
    for (char &c : text) {
        c = (c == '\n') ? ';' : c;
    }
    role_write(text.empty() ? "well" : text);
    return 0;
}
