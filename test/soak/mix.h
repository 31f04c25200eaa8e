/*
 * A random mix of everything: a hub, and guests that come, talk in both
 * directions, go or are killed, and come back. See docs/testing.md.
 */
#ifndef VQP_SOAK_MIX_H
#define VQP_SOAK_MIX_H

#include "arguments.h"

arguments mix_arguments();

/* Mistakes in the use of verbs that the fabric has seen in this process, or "" */
std::string fabric_mistakes();

/* Sleep until something happens on an interface, for that long at most */
void nap(node &where, unsigned milliseconds);

/* Runs it, prints a line. @return the exit status, as order_main(). */
int mix_main(int argc, char **argv);

#endif
