/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys of vqp-top, see topkeys.h. */
#include "tools/topkeys.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

static struct {
    struct termios saved; /* settings that were found */
    struct termios own;
    volatile sig_atomic_t is_open;
} topkeys;

/* All up to topkeys_open() but topkeys_handle() is called by signal handlers: these
 * functions of POSIX may be. In the background the terminal belongs to others. */
static int topkeys_is_foreground(void)
{
    return topkeys.is_open && (tcgetpgrp(STDIN_FILENO) == getpgrp());
}

static void topkeys_apply(const struct termios *settings)
{
    if (topkeys_is_foreground()) {
        (void)tcsetattr(STDIN_FILENO, TCSANOW, settings);
    }
}

static void topkeys_restore(void)
{
    topkeys_apply(&topkeys.saved);
}

/* The signal does what it would do without a handler. To stop, if somebody can continue
 * it: a session leader, for example, is not stopped */
static void topkeys_on_signal(int number)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    struct sigaction old;
    int error = errno;
    sigset_t mask;

    topkeys_restore();
    (void)sigaction(number, &action, &old);
    (void)sigemptyset(&mask);
    (void)sigaddset(&mask, number);
    (void)raise(number);
    (void)sigprocmask(SIG_UNBLOCK, &mask, NULL);
    /* it was stopped, and goes on */
    (void)sigaction(number, &old, NULL);
    topkeys_apply(&topkeys.own);
    errno = error;
}

static void topkeys_on_resume(int number)
{
    int error = errno;

    (void)number;
    topkeys_apply(&topkeys.own);
    errno = error;
}

/* It interrupts ppoll() */
static void topkeys_on_resize(int number)
{
    (void)number;
}

static void topkeys_handle(int number, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    struct sigaction old;

    /* a signal that the parent ignores, as nohup does, stays so */
    if ((sigaction(number, NULL, &old) == 0) && (old.sa_handler != SIG_IGN)) {
        (void)sigaction(number, &action, NULL);
    }
}

void topkeys_open(void)
{
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) ||
        (tcgetpgrp(STDIN_FILENO) != getpgrp()) ||
        (tcgetattr(STDIN_FILENO, &topkeys.saved) != 0)) {
        return;
    }

    topkeys.own              = topkeys.saved;
    topkeys.own.c_lflag     &= ~(tcflag_t)(ICANON | ECHO);
    topkeys.own.c_cc[VMIN]   = 1;
    topkeys.own.c_cc[VTIME]  = 0;
    topkeys.is_open          = 1;
    (void)atexit(topkeys_restore);
    topkeys_handle(SIGINT, topkeys_on_signal);
    topkeys_handle(SIGTERM, topkeys_on_signal);
    topkeys_handle(SIGHUP, topkeys_on_signal);
    topkeys_handle(SIGQUIT, topkeys_on_signal);
    topkeys_handle(SIGTSTP, topkeys_on_signal);
    topkeys_handle(SIGCONT, topkeys_on_resume);
    topkeys_handle(SIGWINCH, topkeys_on_resize);
    topkeys_apply(&topkeys.own);
}

/* @return 1 if there is something to read, 0 if not, -1 if a signal came */
static int topkeys_poll(double seconds)
{
    struct pollfd input    = {.fd = STDIN_FILENO, .events = POLLIN};
    struct timespec limit = {.tv_sec = (time_t)seconds};

    limit.tv_nsec = (long)((seconds - (double)limit.tv_sec) * 1e9);
    return ppoll(&input, topkeys_is_foreground() ? 1 : 0, &limit, NULL);
}

/* What arrives in one piece is one key, or keys that were typed ahead: the first counts */
int topkeys_wait(double seconds)
{
    static const struct {
        const char *text;
        int         key;
    } keys[] = {
        {"\033[A", TOPKEYS_UP},       {"\033OA", TOPKEYS_UP},
        {"\033[B", TOPKEYS_DOWN},     {"\033OB", TOPKEYS_DOWN},
        {"\033[5~", TOPKEYS_PAGE_UP}, {"\033[6~", TOPKEYS_PAGE_DOWN}
    };
    char text[16];
    ssize_t length;
    unsigned i;

    if (topkeys_poll(seconds) <= 0) {
        return TOPKEYS_NONE;
    }

    length = read(STDIN_FILENO, text, sizeof(text) - 1);
    if (length <= 0) {
        topkeys_restore();
        topkeys.is_open = 0; /* the terminal is gone */
        return TOPKEYS_NONE;
    }

    text[length] = '\0';
    for (i = 0; i < sizeof(keys) / sizeof(keys[0]); ++i) {
        if (strncmp(text, keys[i].text, strlen(keys[i].text)) == 0) {
            return keys[i].key;
        }
    }

    return (unsigned char)text[0];
}
