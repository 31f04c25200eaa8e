/* SPDX-License-Identifier: BSD-3-Clause */
/* The link of vqp-accept, see accept_link.h. */
#include "tools/accept_link.h"

#include "vqp_version.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define LINK_MAGIC  0x76717061u
#define LINK_FORMAT 1

/* ---- sockets ---- */

void accept_link_init(accept_link_t *link, int fd)
{
    int one = 1;

    memset(link, 0, sizeof(*link));
    link->fd = fd;
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    /* without effect on a local socket */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
}

void accept_link_close(accept_link_t *link)
{
    close(link->fd);
    link->fd = -1;
}

/* By exec: the libraries of this process have started threads */
pid_t accept_link_spawn(accept_link_t *link)
{
    char text[16];
    int fds[2];
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
        return -1;
    }

    snprintf(text, sizeof(text), "%d", fds[1]);
    pid = fork();
    if (pid == 0) {
        (void)fcntl(fds[1], F_SETFD, 0);
        execl("/proc/self/exe", "vqp-accept", "--serve", text, (char*)NULL);
        _exit(127);
    }

    close(fds[1]);
    if (pid == -1) {
        close(fds[0]);
    } else {
        accept_link_init(link, fds[0]);
    }

    return pid;
}

/* @return a connected socket, or -1: see errno */
static int link_connect(const struct addrinfo *to)
{
    const struct timeval limit = {.tv_sec = ACCEPT_LINK_PATIENCE / 1000};
    int fd                     = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int failed;

    if (fd == -1) {
        return -1;
    }

    /* Linux has this limit for connect(), too, which fails with EINPROGRESS then */
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    if (connect(fd, to->ai_addr, to->ai_addrlen) == 0) {
        return fd;
    }

    failed = (errno == EINPROGRESS) ? ETIMEDOUT : errno;
    close(fd);
    errno = failed;
    return -1;
}

const char *accept_link_connect(accept_link_t *link, const char *host, const char *port)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    const char *failed    = "has no address";
    struct addrinfo *list, *each;
    int fd, status;

    status = getaddrinfo(host, port, &hints, &list);
    if (status != 0) {
        return gai_strerror(status);
    }

    for (each = list; each != NULL; each = each->ai_next) {
        fd = link_connect(each);
        if (fd != -1) {
            accept_link_init(link, fd);
            failed = NULL;
            break;
        }
        failed = strerror(errno);
    }

    freeaddrinfo(list);
    return failed;
}

static int link_bind(int fd, int family, unsigned port)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int one = 1, zero = 0;

    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (family == AF_INET6) {
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
        return bind(fd, (const struct sockaddr*)&six, sizeof(six));
    }

    return bind(fd, (const struct sockaddr*)&four, sizeof(four));
}

/* A socket of IPv6 takes IPv4, too; a kernel may have no IPv6 */
int accept_link_listen(unsigned *port)
{
    static const int families[] = {AF_INET6, AF_INET};
    struct sockaddr_storage own;
    socklen_t length = sizeof(own);
    int fd = -1;
    unsigned i;

    for (i = 0; i < 2; ++i) {
        fd = socket(families[i], SOCK_STREAM | SOCK_CLOEXEC, 0);
        if ((fd != -1) && (link_bind(fd, families[i], *port) == 0) &&
            (listen(fd, 8) == 0) &&
            (getsockname(fd, (struct sockaddr*)&own, &length) == 0)) {
            /* the number is at the same place in both families */
            *port = ntohs(((const struct sockaddr_in*)&own)->sin_port);
            return fd;
        }
        if (fd != -1) {
            close(fd);
        }
    }

    return -1;
}

/* ---- frames ---- */

void accept_link_clean(char *text, size_t size)
{
    text[size - 1] = '\0';
    for (; *text != '\0'; ++text) {
        if ((*text < ' ') || (*text > '~')) {
            *text = '?';
        }
    }
}

int accept_link_send(accept_link_t *link, accept_frame_type_t type, const void *data,
                     size_t length)
{
    struct pollfd ready = {.fd = link->fd, .events = POLLOUT};
    accept_frame_t out;
    size_t size, sent = 0;
    ssize_t done;

    if (length > ACCEPT_FRAME_MAX) {
        abort();
    }

    out.head.type   = type;
    out.head.step   = link->step;
    out.head.length = (uint32_t)length;
    if (length > 0) {
        memcpy(out.data, data, length);
    }

    for (size = sizeof(out.head) + length; !link->ended && (sent < size);) {
        done = send(link->fd, (const char*)&out + sent, size - sent, MSG_NOSIGNAL);
        if (done >= 0) {
            sent += (size_t)done;
        } else if ((errno == EAGAIN) ? (poll(&ready, 1, ACCEPT_LINK_PATIENCE) == 0) :
                                       (errno != EINTR)) {
            link->ended = 1;
        }
    }

    return !link->ended;
}

/* Read up to a length of the next frame. @return as of a look */
static int link_read(accept_link_t *link, size_t length)
{
    ssize_t done;

    while (link->length < length) {
        done = recv(link->fd, (char*)&link->in + link->length, length - link->length, 0);
        if (done > 0) {
            link->length += (size_t)done;
        } else if ((done == 0) || ((errno != EAGAIN) && (errno != EINTR))) {
            return -1;
        } else if (errno == EAGAIN) {
            return 0;
        }
    }

    return 1;
}

/* See accept_link_poll() */
static int link_next(accept_link_t *link)
{
    accept_frame_t *in = &link->in;
    int status;

    status = link_read(link, sizeof(in->head));
    if (status != 1) {
        return status;
    } else if (in->head.length > ACCEPT_FRAME_MAX) {
        return -1;
    }

    status = link_read(link, sizeof(in->head) + in->head.length);
    if (status != 1) {
        return status;
    }

    link->length              = 0;
    in->data[in->head.length] = '\0';
    if (in->head.type == ACCEPT_FRAME_COMMAND) {
        link->step = in->head.step;
    } else if (in->head.type == ACCEPT_FRAME_FAILED) {
        accept_link_clean(in->data, in->head.length + 1);
    }

    return in->head.step == link->step; /* else it is dropped */
}

int accept_link_poll(accept_link_t *link)
{
    int status = link->ended ? -1 : link_next(link);

    link->ended = (status < 0);
    return status;
}

static long link_now(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec * 1000) + (now.tv_nsec / 1000000);
}

int accept_link_wait(accept_link_t *link, int timeout)
{
    struct pollfd ready = {.fd = link->fd, .events = POLLIN};
    long end            = link_now() + timeout;
    long left;
    int status;

    while ((status = accept_link_poll(link)) == 0) {
        left = end - link_now();
        if (left <= 0) {
            return 0;
        }
        (void)poll(&ready, 1, (int)left);
    }

    return status;
}

/* ---- the greeting ---- */

/* Another format may have another length */
static const char *link_judge(const accept_frame_t *in)
{
    const accept_hello_t *hello = (const accept_hello_t*)in->data;

    if ((in->head.type != ACCEPT_FRAME_HELLO) ||
        (in->head.length < offsetof(accept_hello_t, version)) ||
        (hello->magic != LINK_MAGIC)) {
        return "it is not vqp-run --accept";
    }

    return ((hello->format == LINK_FORMAT) && (in->head.length == sizeof(*hello)) &&
            (hello->num_ports <= ACCEPT_HELLO_PORTS)) ? NULL :
           "its uct_vqp has another format of the link: install the same version";
}

/* Names of hosts may be equal, and containers of a host have several */
static void link_boot_id(char *text, size_t size)
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

    if (file != NULL) {
        (void)fgets(text, (int)size, file);
        fclose(file);
    }
}

const char *accept_link_greet(accept_link_t *link, accept_hello_t *hello, int timeout)
{
    const char *failed;
    unsigned i;

    hello->magic  = LINK_MAGIC;
    hello->format = LINK_FORMAT;
    snprintf(hello->version, sizeof(hello->version), "%s", VQP_VERSION);
    (void)gethostname(hello->host, sizeof(hello->host) - 1);
    link_boot_id(hello->boot_id, sizeof(hello->boot_id));
    if (!accept_link_send(link, ACCEPT_FRAME_HELLO, hello, sizeof(*hello)) ||
        (accept_link_wait(link, timeout) != 1)) {
        return "it says nothing that vqp-run --accept would say";
    }

    failed = link_judge(&link->in);
    if (failed != NULL) {
        return failed;
    }

    memcpy(&link->peer, link->in.data, sizeof(link->peer));
    accept_link_clean(link->peer.version, sizeof(link->peer.version));
    accept_link_clean(link->peer.host, sizeof(link->peer.host));
    for (i = 0; i < ACCEPT_HELLO_PORTS; ++i) {
        accept_link_clean(link->peer.ports[i], sizeof(link->peer.ports[i]));
    }

    return NULL;
}
