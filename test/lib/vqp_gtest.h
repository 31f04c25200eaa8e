/*
 * The header of googletest, for all of its test programs. The Makefile compiles it
 * once (gtest_header), and includes it first in each file.
 */
#ifndef VQP_GTEST_H
#define VQP_GTEST_H

#include <gtest/gtest.h>

#endif
