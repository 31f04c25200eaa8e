/*
 * A random mix of everything: a hub, and guests that start, exchange data in
 * both directions, end or are killed, and start again. See docs/testing.md.
 */
#ifndef VQP_SOAK_MIX_H
#define VQP_SOAK_MIX_H

#include "arguments.h"

arguments mix_arguments();

/* API violations that the fabric has seen in this process, or "" */
std::string fabric_violations();

/* Sleep until something happens on an interface, for that long at most */
void nap(node &where, unsigned milliseconds);

/* Runs it, prints a line. @return the exit status, as order_main(). */
int mix_main(int argc, char **argv);

#endif
