# Builds UCX's own test programs, gtest_uct and gtest_ucp, in the directory where
# make runs, from the sources of the installed UCX, against its libraries; UCX
# itself is not built. test/conformance/lib.sh calls it with:
#   UCX=DIR      the sources, with the edits of edit.sh
#   CONFIG=DIR   where the config.h is that describes the installed UCX
#   LIBDIR=DIR   the directory of the installed UCX's libuct_ib
#   UCXLIB=DIR   of its libraries, where the compiler does not look for them
#   UCXINC=DIR   of its headers, likewise
S := $(UCX)/test/gtest
CXX ?= g++
CC ?= gcc

googletest := $(filter-out %/gtest_main.cc, \
	$(wildcard $(S)/common/googletest/*.cc))
common := $(addprefix $(S)/common/, \
	main.cc mem_buffer.cc test_helpers.cc test.cc)

# The suites that hold for any transport; uct/ib, uct/tcp, uct/sm and tags are
# about one kind of them
uct := $(addprefix $(S)/uct/, \
	test_amo.cc test_amo_add_xor.cc test_amo_and_or.cc test_amo_cswap.cc \
	test_amo_fadd_fxor.cc test_amo_fand_for.cc test_amo_swap.cc \
	test_event.cc test_fence.cc test_flush.cc test_many2one_am.cc test_md.cc \
	test_mem.cc test_p2p_am.cc test_p2p_err.cc test_p2p_mix.cc \
	test_p2p_rma.cc test_peer_failure.cc test_pending.cc test_progress.cc \
	test_stats.cc test_uct_ep.cc test_uct_perf.cc test_zcopy_comp.cc \
	v2/test_uct_query.cc uct_p2p_test.cc uct_test.cc)
# test_ucp_device.cc is for GPUs
ucp := $(filter-out %/test_ucp_device.cc, $(wildcard $(S)/ucp/*.cc))
# both have tests of ucx_perftest's library
perf := $(S)/common/test_perf.cc $(wildcard $(UCX)/src/tools/perf/lib/*.c) \
	$(wildcard $(UCX)/src/tools/perf/lib/*.cc)

flags := -w -g1 -O0 -DHAVE_CONFIG_H -DUCX_SHARED_LIB '-DCPU_FLAGS=""' \
	'-DTOP_SRCDIR="$(UCX)"' '-DGTEST_UCM_HOOK_LIB_DIR="/nonexistent"' \
	-DGTEST_LANG_CXX11=1 -DGTEST_HAS_PTHREAD=1 -I$(CONFIG) -I$(UCX)/src \
	-I$(UCX)/test -I$(S) -I$(S)/common -I$(S)/common/googletest \
	-I$(UCX)/src/tools -I$(UCX)/src/tools/perf/lib $(addprefix -I,$(UCXINC))
libs := $(foreach dir,$(UCXLIB),-L$(dir) -Wl,-rpath,$(dir)) \
	-luct -lucs -lucm -lucp -libverbs -lpthread -ldl -lrt
objects = $(patsubst $(UCX)/%,o/%.o,$(1))

all: gtest_uct gtest_ucp

# perf/lib calls the IB component by its symbols
gtest_uct: $(call objects,$(googletest) $(common) $(perf) $(uct))
gtest_ucp: $(call objects,$(googletest) $(common) $(perf) $(ucp))
gtest_uct gtest_ucp:
	$(CXX) -fopenmp -o $@ $^ -rdynamic -L$(LIBDIR) \
	    -Wl,-rpath,$(LIBDIR) -l:libuct_ib.so.0 $(libs)

o/%.cc.o: $(UCX)/%.cc
	@mkdir -p $(@D)
	$(CXX) -std=c++11 -fpermissive $(flags) -c -o $@ $<
o/%.c.o: $(UCX)/%.c
	@mkdir -p $(@D)
	$(CC) $(flags) -c -o $@ $<

.PHONY: all
