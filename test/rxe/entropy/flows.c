/*
 * flows: which flows of RoCEv2 a machine sends. Listens on network devices until
 * SIGTERM or SIGINT, then prints a line per flow and queue pair:
 *
 *   SOURCE SOURCE_PORT DESTINATION DESTINATION_QP PACKETS
 *
 * Only requests and answers of connected queue pairs (RC); IPv4. Needs root.
 * Prints "ready" at the start, to stderr. Linux and libc only.
 *
 *   flows NETDEV...
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    ROCE_PORT   = 4791,
    MAX_DEVICES = 16,
    TABLE_SIZE  = 1 << 16, /* flows, at most; a power of two */
    SNAP        = 128      /* bytes of a packet that are looked at */
};

typedef struct flow {
    uint32_t src;
    uint32_t dst;
    uint32_t qpn;
    uint16_t port;
    unsigned packets; /* 0: free */
} flow_t;

static flow_t table[TABLE_SIZE];
static volatile sig_atomic_t stop;

static void on_signal(int signal)
{
    (void)signal;
    stop = 1;
}

static void die(const char *what)
{
    fprintf(stderr, "flows: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int listen_on(const char *name)
{
    /* IPv4, UDP, no options, to port 4791: SNAP bytes of it, else nothing */
    static struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x45, 0, 5),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 9),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 3),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 22),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ROCE_PORT, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SNAP),
        BPF_STMT(BPF_RET | BPF_K, 0)
    };
    struct sock_fprog filter  = {sizeof(code) / sizeof(code[0]), code};
    struct sockaddr_ll address = {
        .sll_family   = AF_PACKET,
        .sll_protocol = htons(ETH_P_ALL) /* ETH_P_IP: none that are sent */
    };
    int bytes = 64 << 20;
    int fd;

    address.sll_ifindex = (int)if_nametoindex(name);
    fd = socket(AF_PACKET, SOCK_DGRAM, 0);
    if ((address.sll_ifindex == 0) || (fd < 0) ||
        setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) ||
        setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) ||
        bind(fd, (struct sockaddr*)&address, sizeof(address))) {
        die(name);
    }
    return fd;
}

static void count(const flow_t *seen)
{
    uint32_t hash = (seen->src * 31 + seen->dst) * 0x9e3779b1u +
                    (seen->qpn * 31 + seen->port) * 0x85ebca77u;
    flow_t *flow;
    unsigned i;

    for (i = 0; i < TABLE_SIZE; ++i) {
        flow = &table[(hash + i) % TABLE_SIZE];
        if (flow->packets == 0) {
            *flow = *seen;
        } else if ((flow->src != seen->src) || (flow->dst != seen->dst) ||
                   (flow->qpn != seen->qpn) || (flow->port != seen->port)) {
            continue;
        }
        ++flow->packets;
        return;
    }
    errno = ENOSPC;
    die("table of flows");
}

/* IPv4 at 0, UDP at 20, the transport header at 28: opcode at 28, QP at 33 */
static void take_packet(int fd)
{
    struct sockaddr_ll from;
    socklen_t length = sizeof(from);
    uint8_t bytes[SNAP];
    flow_t seen;
    ssize_t n;

    n = recvfrom(fd, bytes, sizeof(bytes), MSG_DONTWAIT,
                 (struct sockaddr*)&from, &length);
    /* what is received was sent on another device; opcodes from 0x20 on are of
     * other services than RC */
    if ((n < 40) || (from.sll_pkttype != PACKET_OUTGOING) || (bytes[28] >> 5)) {
        return;
    }

    memset(&seen, 0, sizeof(seen));
    memcpy(&seen.src, bytes + 12, 4);
    memcpy(&seen.dst, bytes + 16, 4);
    seen.port = (uint16_t)((bytes[20] << 8) | bytes[21]);
    seen.qpn  = (uint32_t)((bytes[33] << 16) | (bytes[34] << 8) | bytes[35]);
    count(&seen);
}

static void report(const struct pollfd *fds, int num)
{
    char src[INET_ADDRSTRLEN], dst[INET_ADDRSTRLEN];
    struct tpacket_stats stats;
    socklen_t length;
    unsigned i;

    for (i = 0; i < TABLE_SIZE; ++i) {
        if (table[i].packets > 0) {
            inet_ntop(AF_INET, &table[i].src, src, sizeof(src));
            inet_ntop(AF_INET, &table[i].dst, dst, sizeof(dst));
            printf("%s %u %s %u %u\n", src, table[i].port, dst, table[i].qpn,
                   table[i].packets);
        }
    }

    while (num-- > 0) {
        length = sizeof(stats);
        if ((getsockopt(fds[num].fd, SOL_PACKET, PACKET_STATISTICS, &stats,
                        &length) == 0) && (stats.tp_drops > 0)) {
            fprintf(stderr, "flows: %u packets were missed\n", stats.tp_drops);
        }
    }
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = on_signal};
    struct pollfd fds[MAX_DEVICES];
    int num = argc - 1;
    int i;

    if ((num < 1) || (num > MAX_DEVICES)) {
        fprintf(stderr, "usage: flows NETDEV...\n");
        return 2;
    }

    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    for (i = 0; i < num; ++i) {
        fds[i].fd     = listen_on(argv[i + 1]);
        fds[i].events = POLLIN;
    }

    fprintf(stderr, "ready\n");
    /* a signal just before poll() is seen after a second */
    while (!stop) {
        if (poll(fds, (nfds_t)num, 1000) <= 0) {
            continue;
        }
        for (i = 0; i < num; ++i) {
            if (fds[i].revents & POLLIN) {
                take_packet(fds[i].fd);
            }
        }
    }

    report(fds, num);
    return 0;
}
