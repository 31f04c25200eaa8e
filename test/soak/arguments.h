/*
 * Arguments of a soak run: "--name value" pairs on the command line, and the
 * same as one line of text for the other processes of the run.
 */
#ifndef VQP_SOAK_ARGUMENTS_H
#define VQP_SOAK_ARGUMENTS_H

#include "test/uct/uct_fixture.h"

#include <map>
#include <string>

class arguments {
public:
    /* @param known  Valid names, with their defaults. */
    explicit arguments(const std::map<std::string, std::string> &known) :
            values(known)
    {
    }

    /* Takes --NAME VALUE pairs, and NAME=VALUE for options of the interfaces
     * @return false after an error message, if there is anything else. */
    bool parse(int argc, char **argv);

    uint64_t number(const std::string &name) const;
    const std::string &text(const std::string &name) const;
    void set(const std::string &name, const std::string &value);

    /* All in one line, and back */
    std::string line() const;
    void from_line(const std::string &line);

    options config; /* of the interfaces, without UCX_VQP_ */

private:
    std::map<std::string, std::string> values;
};

#endif
