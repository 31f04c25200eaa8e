/*
 * Prints the options of the fabric as the environment sets them, with their
 * help. May call libc.
 */
#include "fab_config.h"

int main(void)
{
    fab_config_print(stdout);
    return 0;
}
