#!/bin/sh
# The short run of the simulator: the kept seeds, and new ones for five seconds.
sim=${top_builddir:-.}/test/sim/vqp_sim
exec "$sim" --seeds "${top_srcdir:-.}/test/sim/seeds.txt" --seconds 5
