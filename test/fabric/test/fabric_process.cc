/*
 * The second process of a test of the software fabric, and the lines that both
 * talk by.
 */
#include "fabric_fixture.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iostream>
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
    auto found = roles().find(name);

    return (found == roles().end()) ? 2 : found->second();
}

std::string role_read()
{
    std::string line;

    std::getline(std::cin, line);
    return line;
}

void role_write(const std::string &line)
{
    std::cout << line << std::endl;
}

process::process(const std::string &role)
{
    int to[2], from[2];

    EXPECT_EQ(0, pipe(to));
    EXPECT_EQ(0, pipe(from));
    pid = fork();
    if (pid == 0) {
        dup2(to[0], 0);
        dup2(from[1], 1);
        for (int fd : {to[0], to[1], from[0], from[1]}) {
            close(fd);
        }
        execl("/proc/self/exe", "test_fabric", "--role", role.c_str(),
              (char*)nullptr);
        _exit(127);
    }

    EXPECT_GT(pid, 0);
    close(to[0]);
    close(from[1]);
    out = to[1];
    in  = from[0];
}

process::~process()
{
    kill();
    close(in);
    close(out);
}

std::string process::read()
{
    std::string line;
    char c;

    while ((::read(in, &c, 1) == 1) && (c != '\n')) {
        line += c;
    }

    return line;
}

void process::write(const std::string &line)
{
    std::string text = line + "\n";

    EXPECT_EQ((ssize_t)text.size(), ::write(out, text.data(), text.size()));
}

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
        waitpid(pid, &status, 0);
        pid = -1;
    }

    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
