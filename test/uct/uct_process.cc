/* A second process, files and statistics, see uct_fixture.h. */
#include "uct_fixture.h"

#include "test/fabric/fabric.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

/* ---- roles ---- */

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

static void write_line(int fd, const std::string &line)
{
    std::string text = line + "\n";

    EXPECT_EQ((ssize_t)text.size(), write(fd, text.data(), text.size()));
}

/* Descriptors 3 and 4: what the role prints goes where the test's output goes */
std::string role_read() { return read_line(3); }
void role_write(const std::string &line) { write_line(4, line); }

process::process(const std::string &role)
{
    char program[4096] = {};
    int to[2], from[2];

    /* its name, not the link: valgrind runs it then as well */
    EXPECT_GT(readlink("/proc/self/exe", program, sizeof(program) - 1), 0);
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
        execl(program, "test_uct", "--role", role.c_str(), NULL);
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

std::string to_hex(const std::string &bytes)
{
    static const char digits[] = "0123456789abcdef";
    std::string hex;

    for (unsigned char c : bytes) {
        hex += digits[c >> 4];
        hex += digits[c & 15];
    }

    return hex;
}

std::string from_hex(const std::string &hex)
{
    std::string bytes;

    for (size_t i = 0; i + 1 < hex.size(); i += 2) {
        bytes += (char)std::stoi(hex.substr(i, 2), nullptr, 16);
    }

    return bytes;
}

/* ---- files ---- */

temp_file::temp_file()
{
    char path[] = "/tmp/vqp_test_XXXXXX";
    int fd      = mkstemp(path);

    EXPECT_GE(fd, 0);
    ::close(fd);
    name = path;
}

temp_file::~temp_file()
{
    unlink(name.c_str());
}

std::string read_file(const std::string &name)
{
    std::ifstream file(name);
    std::stringstream text;

    text << file.rdbuf();
    return text.str();
}

static std::vector<uint64_t>
stats_values(const std::string &file, const std::string &name)
{
    std::string key = "\"" + name + "\":";
    std::istringstream lines(read_file(file));
    std::vector<uint64_t> values;
    std::string line;
    size_t pos;

    while (std::getline(lines, line)) {
        pos = line.find(key);
        if (pos != std::string::npos) {
            values.push_back(strtoull(line.c_str() + pos + key.size(), nullptr,
                                      10));
        }
    }

    return values;
}

uint64_t stats_sum(const std::string &file, const std::string &name)
{
    uint64_t sum = 0;

    for (uint64_t value : stats_values(file, name)) {
        sum += value;
    }

    return sum;
}

uint64_t stats_max(const std::string &file, const std::string &name)
{
    uint64_t max = 0;

    for (uint64_t value : stats_values(file, name)) {
        max = std::max(max, value);
    }

    return max;
}

/* ---- the machine ---- */

bool faults_allowed()
{
    const char *allowed = getenv("VQP_RXE_FAULTS");

    return (allowed != NULL) && (std::string(allowed) == "1");
}

bool ports_go_down()
{
    return faults_allowed() || (vqp_fabric() != NULL);
}

/* "down DEV" or "up DEV" on the software fabric */
static bool fabric_fault(const std::string &arguments)
{
    std::istringstream words(arguments);
    std::string what, device;

    words >> what >> device;
    return ((what == "down") || (what == "up")) &&
           (vqp_fabric()->port(device.c_str(), 1, what == "up") == 0);
}

bool fault(const std::string &arguments)
{
    std::string command = "bash " VQP_TEST_FAULT " " + arguments;

    if (vqp_fabric() != NULL) {
        return fabric_fault(arguments);
    }

    return faults_allowed() && (system(command.c_str()) == 0);
}

int count_qps(const std::string &device)
{
    vqp_fabric_objects_t objects;
    int count = 0;
    char line[512];
    FILE *pipe;

    if (vqp_fabric() != NULL) {
        vqp_fabric()->objects(&objects);
        return objects.qps;
    }

    pipe = popen("rdma resource show qp", "r");
    while ((pipe != NULL) && (fgets(line, sizeof(line), pipe) != NULL)) {
        for (const std::string &name : devices()) {
            /* those of the kernel have no pid */
            count += ((device == "") || (device == name)) &&
                     (strstr(line, (" " + name + "/").c_str()) != NULL) &&
                     (strstr(line, " pid ") != NULL);
        }
    }

    return ((pipe == NULL) || (pclose(pipe) != 0)) ? -1 : count;
}
