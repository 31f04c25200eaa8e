/* Keys of other processes, files and statistics, see uct_fixture.h. */
#include "uct_fixture.h"

#include "test/fabric/fabric.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

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
