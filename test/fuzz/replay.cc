/*
 * Runs a fuzz target over files, without a fuzzer: the inputs of its corpus, or
 * those that are given (files or directories). For `make check`, any compiler,
 * and a debugger.
 */
#include "fuzz.h"

#include <algorithm>
#include <dirent.h>
#include <fstream>
#include <iterator>
#include <string>
#include <sys/stat.h>
#include <vector>

static std::vector<std::string> list(const std::string &path)
{
    std::vector<std::string> files;
    struct dirent *entry;
    struct stat st;
    DIR *dir;

    if ((stat(path.c_str(), &st) != 0) || !S_ISDIR(st.st_mode)) {
        return {path};
    }

    if ((dir = opendir(path.c_str())) != nullptr) {
        while ((entry = readdir(dir)) != nullptr) {
            if (entry->d_name[0] != '.') {
                files.push_back(path + "/" + entry->d_name);
            }
        }
        closedir(dir);
    }

    std::sort(files.begin(), files.end());
    return files;
}

static bool replay(const std::string &name)
{
    std::ifstream file(name, std::ios::binary);
    std::vector<char> data((std::istreambuf_iterator<char>(file)),
                           std::istreambuf_iterator<char>());

    if (!file.is_open() || file.bad()) {
        fprintf(stderr, "can not read %s\n", name.c_str());
        return false;
    }

    printf("%s\n", name.c_str()); /* the last line names what failed */
    fflush(stdout);
    LLVMFuzzerTestOneInput((const uint8_t*)data.data(), data.size());
    return true;
}

int main(int argc, char **argv)
{
    std::vector<std::string> args(argv + 1, argv + argc);
    const char *top  = getenv("top_srcdir");
    std::string self = argv[0];
    size_t count     = 0;

    if (args.empty()) {
        self = self.substr(self.rfind('/') + 1);
        args.push_back(std::string((top != nullptr) ? top : ".") +
                       "/test/fuzz/corpus/" + self);
    }

    for (const std::string &arg : args) {
        for (const std::string &name : list(arg)) {
            if (!replay(name)) {
                return 1;
            }
            ++count;
        }
    }

    printf("%zu inputs\n", count);
    return (count > 0) ? 0 : 1;
}
