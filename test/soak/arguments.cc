/* Arguments of a soak run, see arguments.h. */
#include "arguments.h"

#include <stdio.h>
#include <stdlib.h>

#include <sstream>

bool arguments::parse(int argc, char **argv)
{
    for (int i = 0; i < argc; ++i) {
        std::string word = argv[i];
        size_t equal     = word.find('=');

        if ((word.compare(0, 2, "--") == 0) && (i + 1 < argc) &&
            (values.count(word.substr(2)) != 0)) {
            values[word.substr(2)] = argv[++i];
        } else if ((word[0] != '-') && (equal != std::string::npos)) {
            config[word.substr(0, equal)] = word.substr(equal + 1);
        } else {
            fprintf(stderr, "vqp_soak: what is '%s'? There are:", argv[i]);
            for (auto &value : values) {
                fprintf(stderr, " --%s %s", value.first.c_str(),
                        value.second.c_str());
            }
            fprintf(stderr, " and OPTION=VALUE of the interfaces\n");
            return false;
        }
    }

    return true;
}

uint64_t arguments::number(const std::string &name) const
{
    return strtoull(values.at(name).c_str(), nullptr, 10);
}

const std::string &arguments::text(const std::string &name) const
{
    return values.at(name);
}

void arguments::set(const std::string &name, const std::string &value)
{
    values[name] = value;
}

std::string arguments::line() const
{
    std::string text;

    for (auto &value : values) {
        text += "--" + value.first + " " + value.second + " ";
    }
    for (auto &option : config) {
        text += option.first + "=" + option.second + " ";
    }

    return text;
}

void arguments::from_line(const std::string &line)
{
    std::istringstream words(line);
    std::string word, value;

    while (words >> word) {
        size_t equal = word.find('=');

        if (word.compare(0, 2, "--") == 0) {
            words >> value;
            values[word.substr(2)] = value;
        } else {
            config[word.substr(0, equal)] = word.substr(equal + 1);
        }
    }
}
