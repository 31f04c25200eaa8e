/*
 * Random numbers that a program takes from the kernel: on the fabric they come from SEED.
 */
#include "fabric_fixture.h"

#include <sys/random.h>
#include <unistd.h>

static std::string random_number()
{
    unsigned char bytes[11] = {}; /* not whole numbers */
    std::string text;
    char digits[3];

    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes)) {
        return "failed";
    }

    for (unsigned char byte : bytes) {
        snprintf(digits, sizeof(digits), "%02x", byte);
        text += digits;
    }
    return text;
}

VQP_ROLE(draw)
{
    device dev;

    role_write(random_number());
    role_write(random_number());
    role_read();
    return 0;
}

struct variable {
    variable(const char *name, const std::string &value) : name(name)
    {
        const char *text = getenv(name);

        was_set = text != nullptr;
        old     = was_set ? text : "";
        setenv(name, value.c_str(), 1);
    }
    ~variable()
    {
        was_set ? setenv(name, old.c_str(), 1) : unsetenv(name);
    }

    const char  *name;
    bool        was_set;
    std::string old;
};

/* What the first process of a new world draws */
static std::string first_of_a_world()
{
    process p("draw");
    std::string drawn = p.read();

    drawn += " " + p.read();
    p.write("");
    EXPECT_EQ(0, p.wait());
    return drawn;
}

TEST(random_numbers, are_those_of_the_seed)
{
    variable world("VQP_FABRIC_WORLD", "random." + std::to_string(getpid()));
    std::string first;

    {
        variable seed("VQP_FABRIC_SEED", "7");
        first = first_of_a_world();
        EXPECT_EQ(23u, first.find(' ') + 1);
        EXPECT_EQ(first, first_of_a_world());
    }
    variable seed("VQP_FABRIC_SEED", "8");
    EXPECT_NE(first, first_of_a_world());
}

TEST(random_numbers, differ_from_process_to_process)
{
    device dev; /* the world goes on */
    std::string dead, numbers[2];

    {
        process p("draw");
        dead = p.read();
        p.kill();
    }
    process p("draw"); /* in the entry of the dead one */
    numbers[0] = p.read();
    numbers[1] = p.read();
    EXPECT_NE(dead, numbers[0]);
    EXPECT_NE(numbers[0], numbers[1]);
    EXPECT_NE(numbers[0], random_number());
}
