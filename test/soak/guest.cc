/*
 * A guest of the mix: a process with an interface that exchanges data with the
 * hub in several sessions. The hub may kill it at any time.
 */
#include "mix.h"
#include "mix_sender.h"

#include "test/fabric/fabric.h"

#include <poll.h>
#include <unistd.h>

arguments mix_arguments()
{
    return arguments({{"seed", "1"}, {"seconds", "20"}, {"guests", "2"},
                      {"harm", "no"}, {"cuts", "no"}, {"serial", "0"}, {"index", "0"},
                      {"session-ms", "1000"}});
}

std::string fabric_violations()
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

/* Session numbers of a guest */
const unsigned SESSIONS = 64;

class guest {
public:
    guest(const arguments &args, const std::string &hub_address) :
            args(args), hub_address(hub_address), seed(args.number("seed")),
            random((unsigned)(seed * 31 + args.number("serial"))),
            own(1, args.config), own_receiver(own)
    {
        new_session();
    }

    std::string address() const { return own_receiver.address(); }
    void run();
    void finish();
    std::string wait_and_close(unsigned session, unsigned count);

private:
    void new_session();
    void end_session();

    const arguments &args;
    std::string      hub_address;
    uint64_t         seed;
    std::mt19937     random;
    node             own;
    mix_receiver             own_receiver;
    std::unique_ptr<mix_sender> sender;
    unsigned         sessions = 0;
    std::string      text;
};

/* Eight slots at the hub belong to the guests of an index */
void guest::new_session()
{
    uint32_t serial = (uint32_t)args.number("serial");
    uint32_t index  = (uint32_t)args.number("index");
    uint32_t session   = (serial * (SESSIONS / 8) + sessions / 8) * SLOTS +
                      8 * (index + 1) + sessions % 8;

    ++sessions;
    sender = std::make_unique<mix_sender>(own, hub_address, session, seed,
                                          args.text("harm") == "yes");
    if (args.text("cuts") == "yes") {
        sender->expect_cuts();
    }
}

void guest::end_session()
{
    bool harm = args.text("harm") == "yes";

    if ((!harm || (random() % 2)) &&
        !until([&] { return sender->finish() || sender->failed(); })) {
        text += "stuck at the end of a session: " + sender->state() + "\n";
    }
    sender->destroy();
    text += sender->errors_found();
    sender.reset();
}

void guest::run()
{
    double end = now() + (double)args.number("session-ms") / 1e3;

    while (now() < end) {
        unsigned what = random() % 10000;

        sender->step();
        if (random() % 4 == 0) {
            own.progress();
        }
        if (sender->failed() && (sessions == SESSIONS)) {
            return; /* the next numbers belong to later guests */
        }
        if ((sender->failed() && (what < 100)) ||
            ((what < 3) && (sessions < 60))) {
            end_session();
            new_session();
        } else if (what < 13) {
            nap(own, 2);
        }
    }
}

/* Report the number of messages sent, so that the hub can wait for them */
void guest::finish()
{
    bool clean = until([&] { return sender->finish() || sender->failed(); });

    if (!clean) {
        text += "stuck: " + sender->state() + "\n";
    }
    clean = clean && !sender->failed();
    role_write(std::to_string(sender->number()) + " " +
               std::to_string(sender->sent()) + (clean ? " clean" : " failed"));
    while (!role_ready()) {
        run_for(0.001);
    }
}

std::string guest::wait_and_close(unsigned session, unsigned count)
{
    if (!until([&] { return own_receiver.received(session) >= count; })) {
        text += "the hub has sent " + std::to_string(count) +
                " messages, received: " +
                std::to_string(own_receiver.received(session)) + "\n";
    }
    text += sender->errors_found();
    sender.reset();
    text += own_receiver.errors_found();
    own.close();
    return text + fabric_violations();
}

} /* namespace */

VQP_ROLE(mix_guest)
{
    arguments args = mix_arguments();
    unsigned session, count;
    std::string text;

    args.from_line(role_read());
    std::string hub_address = role_read();
    guest self(args, hub_address);

    role_write(self.address());
    self.run();
    self.finish();
    if (sscanf(role_read().c_str(), "%u %u", &session, &count) != 2) {
        return 1;
    }
    text = self.wait_and_close(session, count);
    for (char &c : text) {
        c = (c == '\n') ? ';' : c;
    }
    role_write(text.empty() ? "well" : text);
    return 0;
}
