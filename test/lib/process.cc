/* A second process of a test program, see process.h. */
#include "test/lib/process.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>

static std::map<std::string, role_func> &roles()
{
    static std::map<std::string, role_func> all;

    return all;
}

int role_register(const char *name, role_func func)
{
    roles()[name] = func;
    return 0;
}

int role_run(const std::string &name)
{
    return (roles().count(name) == 0) ? 126 : roles()[name]();
}

static std::string read_line(int fd)
{
    std::string line;
    char c;

    while ((read(fd, &c, 1) == 1) && (c != '\n')) {
        line += c;
    }

    return line;
}

static bool is_ready(int fd)
{
    struct pollfd poll_fd = {fd, POLLIN, 0};

    return poll(&poll_fd, 1, 0) > 0;
}

static void write_line(int fd, const std::string &line)
{
    std::string text = line + "\n";

    EXPECT_EQ((ssize_t)text.size(), write(fd, text.data(), text.size()));
}

/* Descriptors 3 and 4: what the role prints goes where the test's output goes */
std::string role_read() { return read_line(3); }
bool role_ready() { return is_ready(3); }
void role_write(const std::string &line) { write_line(4, line); }

process::process(const std::string &role)
{
    char program[4096] = {};
    int to[2], from[2];

    /* its name, not the link: valgrind runs it then as well */
    ssize_t len = readlink("/proc/self/exe", program, sizeof(program) - 1);
    EXPECT_GT(len, 0);
    program[len > 0 ? len : 0] = '\0'; /* valgrind 3.24 writes more than len bytes */
    EXPECT_EQ(0, pipe2(to, O_CLOEXEC));
    EXPECT_EQ(0, pipe2(from, O_CLOEXEC));
    pid = fork();
    if (pid == 0) {
        /* out of the way first: the pipes may have the numbers 3 and 4 */
        int read_end  = fcntl(to[0], F_DUPFD, 64);
        int write_end = fcntl(from[1], F_DUPFD, 64);

        dup2(read_end, 3);
        dup2(write_end, 4);
        ::close(read_end);
        ::close(write_end);
        execl(program, program, "--role", role.c_str(), NULL);
        _exit(126);
    }

    EXPECT_GT(pid, 0);
    ::close(to[0]);
    ::close(from[1]);
    in  = from[0];
    out = to[1];
}

process::~process()
{
    kill();
    ::close(in);
    ::close(out);
}

std::string process::read() { return read_line(in); }
bool process::ready() { return is_ready(in); }
void process::write(const std::string &line) { write_line(out, line); }

void process::kill()
{
    if (pid > 0) {
        ::kill(pid, SIGKILL);
        wait();
    }
}

int process::wait()
{
    int status = -1;

    if (pid > 0) {
        EXPECT_EQ(pid, waitpid(pid, &status, 0));
        pid = 0;
    }

    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
