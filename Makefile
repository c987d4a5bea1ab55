# gpujoin: PGXS front end.
#
#   make, make install, make installcheck, make clean    as for any PGXS extension;
#                                                        PG_CONFIG=... picks the PostgreSQL
#   make check     every test and lint in a throw-away server (test/check.sh says how)
#   make demo      the patents query with and without gpujoin  (DEMO_ROWS=...)
#   make bench     benchmark against stock indexes and plans   (BENCH_ROWS=..., BENCH_JOBS=...)
#   make calibrate measures this machine, proposes cost settings (CALIBRATE_ROWS=...)
#   make no-regret  where is the planner's choice not the best?   (REGRET_ROWS=...)
#   make bench-planning  what gpujoin adds to planning     (PLANNING_ROWS=..., PLANNING_RUNS=...)
#   make bench-service  what requests to the device cost  (SERVICE_ROWS=..., SERVICE_DEVICE=...)
#   make check-clients  real drivers and ORMs                  (CLIENTS="django jdbc")
#   make lint      only the static checks
#
# SUITES="regress tap" and TESTS="basic 001_crash" narrow down `make check`.

PG_CONFIG ?= pg_config
export PG_CONFIG

# The script goals work on a machine that has no PostgreSQL yet (the scripts install it), so
# they must not read PGXS. PGXS also has a rule `check` of its own, which only says no.
SCRIPT_GOALS = check check-clients demo bench bench-planning bench-service calibrate no-regret lint
.PHONY: $(SCRIPT_GOALS)

ifneq (,$(filter $(SCRIPT_GOALS),$(MAKECMDGOALS)))
ifneq (,$(filter-out $(SCRIPT_GOALS),$(MAKECMDGOALS)))

# Goals of both kinds: one after the other, each on its own.
.NOTPARALLEL:
.PHONY: $(MAKECMDGOALS)
$(MAKECMDGOALS):
	@$(MAKE) --no-print-directory $@

else

# The scripts call make again; its jobserver and PG_CONFIG must come from their own arguments.
unexport MAKEFLAGS MFLAGS MAKEOVERRIDES MAKELEVEL

check:
	@bash test/check.sh $(SUITES)

check-clients:
	@bash test/clients/clients.sh $(CLIENTS)

lint:
	@bash test/check.sh lint

demo:
	@bash test/demo/demo.sh

bench:
	@bash test/bench/bench.sh

calibrate:
	@bash test/bench/calibrate.sh

no-regret:
	@bash test/bench/no_regret.sh

bench-planning:
	@bash test/bench/bench_planning.sh

bench-service:
	@bash test/bench/bench_service.sh

endif
else

MODULE_big = gpujoin
OBJS = \
	src/am.o \
	src/ambuild.o \
	src/amcheck.o \
	src/amcheckheap.o \
	src/aminsert.o \
	src/amkey.o \
	src/amlayout.o \
	src/amopen.o \
	src/ampage.o \
	src/amread.o \
	src/amscan.o \
	src/amvacuum.o \
	src/amvalidate.o \
	src/blockguess.o \
	src/entryorder.o \
	src/entrypage.o \
	src/entryset.o \
	src/entryshare.o \
	src/choice.o \
	src/execalternative.o \
	src/execcomplete.o \
	src/execconvert.o \
	src/execentryfill.o \
	src/execentryvisible.o \
	src/execindexonly.o \
	src/execindexonlyshare.o \
	src/execjoin.o \
	src/execjoindirect.o \
	src/execjoinentries.o \
	src/execjoinroute.o \
	src/execjoinrows.o \
	src/execjoinscan.o \
	src/execkey.o \
	src/execkeyshare.o \
	src/execparallel.o \
	src/execpartition.o \
	src/execscan.o \
	src/execscanmatch.o \
	src/execsource.o \
	src/exectids.o \
	src/execblocks.o \
	src/execcursor.o \
	src/exectuple.o \
	src/execvisible.o \
	src/explain.o \
	src/explainjoin.o \
	src/gpujoin.o \
	src/guc.o \
	src/helperprocess.o \
	src/keyset.o \
	src/launcher.o \
	src/launcherdb.o \
	src/loader.o \
	src/keysetops.o \
	src/match.o \
	src/matchentries.o \
	src/matchpieces.o \
	src/matchranges.o \
	src/matchshare.o \
	src/mirror.o \
	src/mirrorcheck.o \
	src/mirrorclean.o \
	src/mirrorcommand.o \
	src/mirrorcommit.o \
	src/mirrorkey.o \
	src/mirrorload.o \
	src/mirrorpush.o \
	src/mirrorshmem.o \
	src/mirrorstats.o \
	src/mirrortable.o \
	src/mirrorwish.o \
	src/planalternative.o \
	src/planbitmap.o \
	src/planchoice.o \
	src/plancost.o \
	src/planfold.o \
	src/planfoldtree.o \
	src/planhooks.o \
	src/planindexonly.o \
	src/planjoin.o \
	src/planjoinbuild.o \
	src/planjoinclauses.o \
	src/planjointables.o \
	src/planmatch.o \
	src/planmirror.o \
	src/planpartition.o \
	src/planrows.o \
	src/planscan.o \
	src/plansubquery.o \
	src/region.o \
	src/search.o \
	src/searchkernel.o \
	src/selftest.o \
	src/selftestkeys.o \
	src/serviceclient.o \
	src/serviceexchange.o \
	src/servicereason.o \
	src/serviceshmem.o \
	src/serviceslot.o \
	src/servicetest.o \
	src/smallside.o \
	src/status.o \
	src/smallsort.o \
	src/supervisor.o \
	src/tidarray.o \
	src/tidbitmap.o \
	src/tidset.o \
	src/tidshare.o \
	src/exec/filter.o \
	src/exec/filteredmatch.o \
	src/exec/filterrun.o \
	src/exec/filtertest.o \
	src/plan/filter.o

EXTENSION = gpujoin
DATA = sql/gpujoin--1.0.sql
PGFILEDESC = "gpujoin - small set against one integer key of a big table"

# Parameters that a callback must take but does not use, partly filled node tags and PostgreSQL's
# mix of signed and unsigned block arithmetic are not worth a warning; everything else is.
PG_CPPFLAGS = -I$(srcdir)/src -I$(srcdir)
PG_CFLAGS = -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers -Wno-sign-compare

# Nobody replaces our functions: they call each other directly, and may be inlined, as if the
# library's symbols were hidden.
PG_CFLAGS += -fno-semantic-interposition
PG_LDFLAGS = -Wl,-Bsymbolic-functions

# Tests are found, not listed: a test that exists is a test that runs. Inputs are in test/,
# expected outputs in the top-level expected/ (the place where both pg_regress programs look when
# --outputdir is ".").
REGRESS = $(sort $(patsubst test/sql/%.sql,%,$(wildcard test/sql/*.sql)))
REGRESS_OPTS = --inputdir=test --load-extension=gpujoin
ISOLATION = $(sort $(patsubst test/specs/%.spec,%,$(wildcard test/specs/*.spec)))
ISOLATION_OPTS = --inputdir=test --outputdir=. --load-extension=gpujoin
ifneq (,$(wildcard test/t/*.pl))
TAP_TESTS = 1
PROVE_TESTS = test/t/*.pl
endif

EXTRA_CLEAN = src/*.gcno src/*.gcda test/__pycache__

PGXS := $(shell $(PG_CONFIG) --pgxs)
ifeq (,$(wildcard $(PGXS)))
$(error $(PG_CONFIG) has no PGXS: install the server development package of PostgreSQL 15 to 18, \
or name another pg_config with PG_CONFIG=)
endif

# A server built with LLVM asks every extension for bitcode. Without its clang here the extension
# works the same, only not inlined by JIT.
ifeq (,$(shell command -v $$(sed -n 's/^CLANG = //p' $(dir $(PGXS))../Makefile.global) 2>/dev/null))
override with_llvm = no
endif

# cuda/Makefile.inc builds the device libraries and their tests: it adds prerequisites to `all`,
# `install` and `clean`, has the goals check-device and bench-device, and sets CUDA_LIBRARY to the
# file it builds when there is an nvcc, to nothing otherwise.
NVCC ?= $(shell command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)
CUDA_LIBRARY =

# PGXS's first goal must stay `all`.
all:
include $(PGXS)
-include cuda/Makefile.inc

# The program that drives the device: no PostgreSQL in it, and no CUDA; it loads a library.
HELPER = gpujoin_helper
HELPER_SOURCES = $(wildcard cuda/helper*.c)

$(HELPER): $(HELPER_SOURCES) $(wildcard cuda/*.h)
	$(CC) -std=gnu99 -O2 -g -Wall -Wextra $(COPT) -Icuda -o $@ $(HELPER_SOURCES) -ldl

all: $(HELPER)
install: install-helper
clean: clean-helper
.PHONY: install-helper clean-helper
install-helper: $(HELPER)
	$(MKDIR_P) '$(DESTDIR)$(pkglibdir)'
	$(INSTALL_PROGRAM) $(HELPER) '$(DESTDIR)$(pkglibdir)'
clean-helper:
	rm -f $(HELPER)

# The helper alone, asked by an enemy: part of the device's tests.
.PHONY: check-helper
check-device: check-helper
check-helper: $(HELPER) $(REFERENCE_LIBRARY) cuda/build/helper_test
	GPUJOIN_HELPER_TEST=cuda/build/helper_test prove $(PROVE_FLAGS) test/helper/helper.t
HELPER_TEST_SOURCES = $(wildcard test/helper/*.c)
cuda/build/helper_test: $(HELPER_TEST_SOURCES) $(wildcard test/helper/*.h cuda/gpujoin_*.h)
	@mkdir -p $(@D)
	$(CC) -std=gnu99 -O2 -g -Wall -Wextra -Werror -Icuda -o $@ $(HELPER_TEST_SOURCES)

all: device-note
.PHONY: device-note
device-note: $(CUDA_LIBRARY) all-lib
	@echo "CUDA device library: $(if $(CUDA_LIBRARY),built,not built ($(if \
	  $(NVCC),no CUDA sources here,no nvcc)))"

# Loops over millions of TIDs and entries.
src/tidarray.o src/exec/filter.o src/exec/filterrun.o: CFLAGS += $(CFLAGS_VECTORIZE)

# PGXS knows no header dependencies; the headers are few and the compile is short.
$(OBJS): $(wildcard src/*.h src/*/*.h cuda/gpujoin_*.h)
ifeq ($(with_llvm),yes)
$(OBJS:.o=.bc): $(wildcard src/*.h src/*/*.h cuda/gpujoin_*.h)
endif

endif
