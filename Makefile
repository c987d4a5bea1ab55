# gpujoin: PGXS front end.
#
#   make, make install, make installcheck, make clean
#                         as for any PGXS extension; PG_CONFIG=... picks the PostgreSQL
#                         (installcheck needs the tests' own files: make -C test/module install)
#   make check            every test and lint in a throw-away server (test/check.sh says how)
#   make check-long       the same at full length, then all that takes too long for every day
#   make lint             only the static checks
#   make check-clients    real drivers and ORMs                    (CLIENTS="django jdbc")
#   make check-versions   tests with PostgreSQL 15 to 19           (VERSIONS="16 18")
#   make check-upgrade    pg_upgrade 15 to 17, 17 to 18, 18 to 19  (UPGRADES="17-19")
#   make check-packages   builds and tries packages and images     (PACKAGES="deb rpm")
#   make check-coexist    beside other extensions, tools           (COEXIST_PARTS="alone tools")
#   make check-cluster    shards of Citus and postgres_fdw         (CLUSTER_ROWS=...)
#   make check-sanitize   servers with ASan and UBSan, valgrind    (SANITIZE_SOURCE=..., KINDS=asan)
#   make check-device     the device library and the helper, without PostgreSQL
#   make soak             a long mixed load with kills, a standby  (SOAK_SECONDS=...)
#   make demo             a query with and without gpujoin         (DEMO_ROWS=...)
#   make bench            against stock indexes and plans          (BENCH_ROWS=..., BENCH_JOBS=...)
#   make bench-peers      the same beside DuckDB and PG-Strom      (BENCH_ROWS=..., DUCKDB=...)
#   make no-regret        where is the planner's choice not best?  (REGRET_ROWS=...)
#   make calibrate        measures the machine, proposes costs     (CALIBRATE_ROWS=...)
#   make bench-planning   what gpujoin adds to planning            (PLANNING_ROWS=...)
#   make bench-one        an application with one index a column    (ONE_ROWS=..., ONE_ROUNDS=...)
#   make bench-fresh      what unsorted rows and the workers cost  (BENCH_ROWS=..., FRESH_PARTS=...)
#   make bench-instructions  what each job executes            (INSTRUCTIONS_BASE=...)
#   make bench-service    what requests to the device cost         (SERVICE_ROWS=...)
#   make bench-device     what the kernels of the GPU cost; needs nvcc and a GPU
#   make dist             the release's file of sources, gpujoin-VERSION.zip
#   make help             this list
#
# SUITES="regress tap" and TESTS="basic 001_crash" narrow down `make check`.

PG_CONFIG ?= pg_config
export PG_CONFIG

# The script goals work on a machine that has no PostgreSQL yet (the scripts install it), so
# they must not read PGXS. PGXS also has a rule `check` of its own, which only says no.
SCRIPT_GOALS = check check-long check-clients check-cluster check-coexist check-versions \
	check-upgrade check-sanitize check-packages dist demo bench bench-peers bench-planning \
	bench-one bench-fresh bench-instructions bench-service calibrate no-regret lint soak help
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
unexport MAKEFLAGS MFLAGS MAKEOVERRIDES

check:
	@bash test/check.sh $(SUITES)

check-long:
	@bash test/long.sh $(SUITES)

check-clients:
	@bash test/clients/clients.sh $(CLIENTS)

check-cluster:
	@bash test/cluster/cluster.sh

check-coexist:
	@bash test/coexist/coexist.sh

check-versions:
	@bash test/versions/check.sh $(VERSIONS)

check-upgrade:
	@bash test/versions/upgrade.sh $(UPGRADES)

check-sanitize:
	@bash test/sanitize.sh $(KINDS)

check-packages:
	@bash packaging/check.sh $(PACKAGES)

dist:
	@bash packaging/dist.sh

lint:
	@bash test/check.sh lint

# The list at the head of this file
help:
	@sed -n '/^#   make/,/^$$/{s/^# *$$//;s/^# \{0,1\}//;p}' $(firstword $(MAKEFILE_LIST))

demo:
	@bash test/demo/demo.sh

bench:
	@bash test/bench/bench.sh

bench-peers:
	@BENCH_JOBS="peers types" bash test/bench/bench.sh

calibrate:
	@bash test/bench/calibrate.sh

soak:
	@bash test/soak/soak.sh

no-regret:
	@bash test/bench/no_regret.sh

bench-planning:
	@bash test/bench/bench_planning.sh

bench-one:
	@bash test/bench/bench_one.sh

bench-fresh:
	@bash test/bench/bench_fresh.sh

bench-instructions:
	@bash test/bench/instructions.sh

bench-service:
	@bash test/bench/bench_service.sh

endif
else

MODULE_big = gpujoin
OBJS = $(patsubst %.c,%.o,$(sort $(wildcard src/*.c src/*/*.c)))

EXTENSION = gpujoin
DATA = $(sort $(wildcard sql/gpujoin--*.sql))
PGFILEDESC = "gpujoin - fast look-ups of many keys in a big table"

# Parameters that a callback must take but does not use, partly filled node tags and PostgreSQL's
# mix of signed and unsigned block arithmetic are not worth a warning; everything else is.
PG_CPPFLAGS = -I$(srcdir)/src -I$(srcdir)
PG_CFLAGS = -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers -Wno-sign-compare

# The headers of PostgreSQL 15 declare callbacks without parameters, which C23, the default of newer
# compilers, takes for none.
PG_CFLAGS += $(if $(filter 15,$(MAJORVERSION)),-std=gnu17)

# Tests can stop a server at the steps of src/base/step.h, or crash it there, if GPUJOIN_STEPS is
# not empty, as in `make check`. Without it `make installcheck` leaves out the tests that do so.
PG_CPPFLAGS += $(if $(GPUJOIN_STEPS),-DGPUJOIN_STEPS)
stepping = $(if $(GPUJOIN_STEPS),,$(shell grep -lE 'debug_step' test/sql/*.sql test/specs/*.spec \
	test/t/*.pl))
tests = $(sort $(filter-out $(stepping),$(wildcard $1)))

# Nobody replaces our functions: they call each other directly, and may be inlined, as if the
# library's symbols were hidden. They are not: test/module calls them.
PG_CFLAGS += -fno-semantic-interposition
PG_LDFLAGS = -Wl,-Bsymbolic-functions

# Tests are found, not listed: a test that exists is a test that runs. Inputs are in test/,
# expected outputs in the top-level expected/ (the place where both pg_regress programs look when
# --outputdir is ".").
REGRESS = $(patsubst test/sql/%.sql,%,$(call tests,test/sql/*.sql))
REGRESS_OPTS = --inputdir=test --load-extension=gpujoin
ISOLATION = $(patsubst test/specs/%.spec,%,$(call tests,test/specs/*.spec))
ISOLATION_OPTS = --inputdir=test --outputdir=. --load-extension=gpujoin
ifneq (,$(wildcard test/t/*.pl))
TAP_TESTS = 1
PROVE_TESTS = $(call tests,test/t/*.pl)
endif

EXTRA_CLEAN = $(foreach s,d bc.d gcno gcda,$(OBJS:.o=.$s)) test/__pycache__

PGXS := $(shell $(PG_CONFIG) --pgxs)
ifeq (,$(wildcard $(PGXS)))
$(error $(PG_CONFIG) has no PGXS: install the server development package of PostgreSQL 15 to 19, \
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
HELPER_SOURCES = $(wildcard cuda/helper/*.c)

$(HELPER): $(HELPER_SOURCES) $(wildcard cuda/helper/*.h cuda/border/*.h)
	$(CC) -std=gnu99 -O2 -g -Wall -Wextra $(COPT) -Icuda -pthread -o $@ $(HELPER_SOURCES) -ldl

all: $(HELPER)
install: install-helper
uninstall: uninstall-helper
clean: clean-helper
.PHONY: install-helper uninstall-helper clean-helper
install-helper: $(HELPER)
	$(MKDIR_P) '$(DESTDIR)$(pkglibdir)'
	$(INSTALL_PROGRAM) $(HELPER) '$(DESTDIR)$(pkglibdir)'
uninstall-helper:
	rm -f '$(DESTDIR)$(pkglibdir)/$(HELPER)'
clean-helper:
	rm -f $(HELPER)

# The advisor, an extension of its own, is built and installed with this one.
all: advisor
install: install-advisor
uninstall: uninstall-advisor
clean: clean-advisor
.PHONY: advisor install-advisor uninstall-advisor clean-advisor
advisor:
	$(MAKE) -C advisor all
install-advisor: advisor
	$(MAKE) -C advisor install
uninstall-advisor:
	$(MAKE) -C advisor uninstall
clean-advisor:
	$(MAKE) -C advisor clean

# The helper alone, asked by an enemy: part of the device's tests.
.PHONY: check-helper
check-device: check-helper
check-helper: $(HELPER) $(REFERENCE_LIBRARY) cuda/build/helper_test
	GPUJOIN_HELPER_TEST=cuda/build/helper_test prove $(PROVE_FLAGS) test/helper/helper.t
HELPER_TEST_SOURCES = $(wildcard test/helper/*.c)
cuda/build/helper_test: $(HELPER_TEST_SOURCES) $(wildcard test/helper/*.h cuda/border/*.h)
	@mkdir -p $(@D)
	$(CC) -std=gnu99 -O2 -g -Wall -Wextra $(COPT) -Icuda -o $@ $(HELPER_TEST_SOURCES)

all: device-note
.PHONY: device-note
device-note: $(CUDA_LIBRARY) all-lib
	@echo "CUDA device library: $(if $(CUDA_LIBRARY),built,not built ($(if \
	  $(NVCC),no CUDA sources here,without nvcc)))"

# Loops over millions of TIDs and entries, and over the columns of batches.
src/sets/tidset.o src/sets/top.o: CFLAGS += $(CFLAGS_VECTORIZE)
src/rows/filter.o src/match/visible.o src/pages/narrow.o: CFLAGS += $(CFLAGS_VECTORIZE)
src/agg/%.o src/groups/%.o: CFLAGS += $(CFLAGS_VECTORIZE) $(CFLAGS_UNROLL_LOOPS)

# The compiler says which headers an object was made from. These rules are narrower than those of
# PGXS, which has none for headers, or (where PostgreSQL was configured with --enable-depend) keeps
# them by file name alone: two folders may have files of the same name. From 16 on PostgreSQL has
# modules compiled with hidden symbols, which is taken back at the end.
src/%.o: src/%.c
	$(COMPILE.c) -fvisibility=default -MMD -MP -MF $(@:.o=.d) -o $@ $<
src/%.bc: src/%.c
	$(COMPILE.c.bc) -MMD -MP -MF $@.d -MT $@ -o $@ $<

-include $(wildcard $(OBJS:.o=.d) $(OBJS:.o=.bc.d))

endif
