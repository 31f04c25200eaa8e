/*
 * A second process for tests: the program runs itself again, in a role. Its
 * main() gives "--role NAME" to role_run().
 */
#ifndef VQP_TEST_PROCESS_H
#define VQP_TEST_PROCESS_H

#include <sys/types.h>

#include <string>

/* Another process of this program, which runs a role: a function that was
 * registered with VQP_ROLE. Both talk by lines. It dies with the object. */
class process {
public:
    explicit process(const std::string &role);
    ~process();
    std::string read(); /* one line; empty at the end */
    bool ready();       /* read() would not wait */
    void write(const std::string &line);
    void kill();        /* SIGKILL, and wait for the end */
    int wait();         /* exit status */

private:
    pid_t pid;
    int   in, out;
};

/* In the other process: a line from, or to, the test */
std::string role_read();
bool role_ready();
void role_write(const std::string &line);

typedef int (*role_func)();
int role_register(const char *name, role_func func);
int role_run(const std::string &name);

#define VQP_ROLE(_name) \
    static int role_##_name(); \
    static int role_registered_##_name = role_register(#_name, role_##_name); \
    static int role_##_name()

#endif
