# attnbench. `make help` lists the targets.
#
# Sources are found by wildcard: a new file needs no line here. Everything made goes to
# build/$(BUILD)/. CFLAGS, CPPFLAGS, LDFLAGS and LDLIBS from outside are added to what stands here.

BUILD ?= release
PREFIX ?= /usr/local
ifeq ($(origin CC),default)
CC = gcc
endif

O := build/$(BUILD)
MAKEFLAGS += --no-print-directory

# --- flags --------------------------------------------------------------------------------------

WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wdouble-promotion -Wmissing-prototypes \
    -Wstrict-prototypes -Wundef -Wvla -Wformat=2
ifdef WERROR
WARNINGS += -Werror
endif
ifneq ($(findstring clang,$(shell $(CC) --version 2>/dev/null)),)
WARNINGS += -Wno-pass-failed # a loop that is not vectorised is still right
endif

MODE_release := -O3
MODE_debug := -O0 -g
MODE_asan := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined \
    -fno-omit-frame-pointer
MODE_double := -O2 -DATTNBENCH_DOUBLE
MODE := $(MODE_$(BUILD))
ifeq ($(MODE),)
$(error BUILD is "$(BUILD)", not one of release, debug, asan, double)
endif

BASE_FLAGS := -std=c11 -D_POSIX_C_SOURCE=200809L -Isrc $(WARNINGS) $(MODE) -fno-math-errno -fopenmp
LIBRARIES := -lopenblas -lcjson -lpng -ljpeg -lz -lm -lpthread

# src/kernels/isa_*.c are compiled once per instruction set, all others once; product_SET.c for that
# set alone. -std=c11 forbids gcc to contract a * b + c; the sets that have the instruction may use
# it.
ISAS := portable
MACHINE := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine)))
ifeq ($(MACHINE) $(filter double,$(BUILD)),x86_64 )
ISAS += avx2 avx512 avx512bf16
else
ONE_ISA_SOURCES := $(wildcard src/kernels/product_*.c)
KERNEL_FLAGS := -DISA_ONLY_PORTABLE
endif
ISA_portable := -DISA=portable
ISA_avx2 := -DISA=avx2 -mavx2 -mfma -mf16c -ffp-contract=fast
AVX512 := -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mf16c \
    -mprefer-vector-width=512 -ffp-contract=fast
ISA_avx512 := -DISA=avx512 $(AVX512)
ISA_avx512bf16 := -DISA=avx512bf16 $(AVX512) -mavx512bf16
ISA_amx := $(AVX512) -mavx512bf16 -mamx-tile -mamx-bf16

# --- what is built ------------------------------------------------------------------------------

ISA_SOURCES := $(wildcard src/kernels/isa_*.c)
SOURCES := $(filter-out $(ISA_SOURCES) $(ONE_ISA_SOURCES),$(wildcard src/*/*.c))
MAIN_OBJECT := $(O)/cli/main.o
LIB_OBJECTS := $(filter-out $(MAIN_OBJECT),$(SOURCES:src/%.c=$(O)/%.o)) \
    $(foreach isa,$(ISAS),$(ISA_SOURCES:src/%.c=$(O)/%.$(isa).o))
LIB := $(O)/libattnbench.a
PROGRAM := $(O)/attnbench

# tests/ROOM/test_NAME.c are programs. Other files of a room belong to all its programs, and those in
# tests/ itself to all programs.
TEST_SOURCES := $(sort $(wildcard tests/*/test_*.c))
TEST_HELPERS := $(filter-out $(TEST_SOURCES),$(wildcard tests/*/*.c))
TEST_OBJECTS := $(patsubst tests/%.c,$(O)/tests/%.o,\
    $(TEST_SOURCES) $(TEST_HELPERS) $(wildcard tests/*.c))
test_objects = $(patsubst tests/%.c,$(O)/tests/%.o,\
    $(1) $(filter $(dir $(1))%,$(TEST_HELPERS)) $(wildcard tests/*.c))
test_program = $(O)/tests/$(subst /test_,_,$(1:tests/%.c=%))
TEST_PROGRAMS := $(foreach t,$(TEST_SOURCES),$(call test_program,$t))

OBJECTS := $(LIB_OBJECTS) $(MAIN_OBJECT) $(TEST_OBJECTS)

# What `make test` runs: the tests of these rooms in each of these builds.
TEST_ROOMS := $(sort $(notdir $(patsubst %/,%,$(dir $(TEST_SOURCES)))))
TEST_BUILDS := release double asan
TEST_ROOMS_release := $(TEST_ROOMS)
TEST_ROOMS_double := $(TEST_ROOMS)
TEST_ROOMS_asan := $(TEST_ROOMS)
QUICK_ROOMS := $(filter-out cli golden train,$(TEST_ROOMS))
# Rooms whose release tests run once more on the kernels of each level below the best of this CPU; a
# level that it lacks is skipped. The kernels' own tests go through the levels by themselves.
LEVEL_ROOMS := attention graph models nn ops optim
LEVELS := portable avx2 avx512
programs_of = $(foreach t,$(TEST_SOURCES),$(if $(filter $(2:%=tests/%/),$(dir $t)),\
    $(patsubst $(O)/%,build/$(1)/%,$(call test_program,$t))))

# The flags of one object; kernels have some of their own.
isa_of = $(patsubst product_%,%,$(filter product_%,$(basename $(notdir $(1))))) \
    $(patsubst .%,%,$(suffix $(basename $(1))))
flags_of = $(BASE_FLAGS) $(if $(filter $(O)/tests/%,$(1)),-Itests) \
    $(if $(filter $(O)/kernels/%,$(1)),$(KERNEL_FLAGS)) \
    $(foreach isa,$(call isa_of,$(1)),$(ISA_$(isa))) $(CPPFLAGS) $(CFLAGS)
link = $(CC) $(BASE_FLAGS) $(CFLAGS) $(LDFLAGS)

.PHONY: all tests test test-quick test-levels layers bench-peers install clean help FORCE
.DELETE_ON_ERROR:
.SECONDARY:

all: $(PROGRAM)
ifeq ($(BUILD),release)
all: attnbench
endif

attnbench: $(PROGRAM)
	@ln -sf $< $@

$(PROGRAM): $(MAIN_OBJECT) $(LIB)
	@echo "  LINK  $@"
	@$(link) -o $@ $^ $(LIBRARIES) $(LDLIBS)

$(LIB): $(LIB_OBJECTS) $(O)/objects
	@echo "  AR    $@"
	@rm -f $@
	@$(AR) qcs $@ $(LIB_OBJECTS) # q: rooms may have files of the same name

COMPILE = @mkdir -p $(@D) && echo "  CC    $@" && \
    $(CC) $(call flags_of,$@) -MMD -MP -c -o $@ $<

$(O)/%.o: src/%.c $(O)/flags
	$(COMPILE)

$(O)/tests/%.o: tests/%.c $(O)/flags
	$(COMPILE)

define isa_rule
$(O)/kernels/%.$(1).o: src/kernels/%.c $(O)/flags
	$$(COMPILE)
endef
$(foreach isa,$(ISAS),$(eval $(call isa_rule,$(isa))))

define test_rule
$(call test_program,$(1)): $(call test_objects,$(1)) $(LIB)
	@echo "  LINK  $$@"
	@$$(link) -o $$@ $$^ $(LIBRARIES) $(LDLIBS)
endef
$(foreach t,$(TEST_SOURCES),$(eval $(call test_rule,$t)))

# Files that change when what they hold changes: other flags or another compiler make everything
# again, an object that came or went makes the library again.
$(O)/flags: TEXT = $(CC) $(shell $(CC) --version | head -n 1) $(BASE_FLAGS) $(LIBRARIES) \
    $(KERNEL_FLAGS) $(foreach isa,$(ISAS) avx512bf16 amx,$(ISA_$(isa))) $(CPPFLAGS) $(CFLAGS) \
    $(LDFLAGS) $(LDLIBS)
$(O)/objects: TEXT = $(LIB_OBJECTS)
$(O)/flags $(O)/objects: FORCE
	@mkdir -p $(@D)
	@echo '$(TEXT)' | cmp -s - $@ || echo '$(TEXT)' > $@

-include $(OBJECTS:.o=.d)

# --- checks -------------------------------------------------------------------------------------

tests: $(TEST_PROGRAMS)

test: layers
	@for build in $(TEST_BUILDS); do $(MAKE) BUILD=$$build all tests || exit 1; done
	@scripts/run-tests $(foreach b,$(TEST_BUILDS),$(call programs_of,$b,$(TEST_ROOMS_$b))) \
	    $(foreach l,$(LEVELS),$(addprefix $l:,$(call programs_of,release,$(LEVEL_ROOMS))))

test-levels:
	@$(MAKE) BUILD=release tests
	@scripts/run-tests $(foreach l,$(LEVELS),$(addprefix $l:,$(call programs_of,release,$(LEVEL_ROOMS))))

test-quick: layers
	@$(MAKE) BUILD=release tests
	@scripts/run-tests $(call programs_of,release,$(QUICK_ROOMS))

layers:
	@scripts/layers

bench-peers:
	@$(MAKE) BUILD=release all
	@scripts/bench-peers $(ARGS)

# --- the rest -----------------------------------------------------------------------------------

install: $(PROGRAM)
	install -d '$(DESTDIR)$(PREFIX)/bin'
	install -m 755 $(PROGRAM) '$(DESTDIR)$(PREFIX)/bin/attnbench'

source_of = $(firstword $(wildcard $(patsubst $(O)/%,src/%,$(1:.o=.c)) \
    $(patsubst $(O)/%,src/%,$(basename $(1:.o=)).c) $(patsubst $(O)/%,%,$(1:.o=.c))))
compile_commands.json: FORCE
	$(file >$@,[)
	$(foreach o,$(OBJECTS),$(file >>$@,{"directory": "$(CURDIR)", "file": "$(call source_of,$o)", \
	    "output": "$o", "command": "$(CC) $(strip $(call flags_of,$o)) -c $(call source_of,$o) -o $o"},))
	@sed -i '$$s/,$$/]/' $@

clean:
	rm -rf build attnbench compile_commands.json

help:
	@echo 'make [BUILD=release|debug|asan|double] [CC=gcc|clang] [WERROR=1]   build/BUILD/attnbench'
	@echo 'make test             all tests in the builds: $(TEST_BUILDS)'
	@echo 'make test-quick       the fast tests, release build'
	@echo 'make test-levels      tests of numbers on the kernels of every lower level (ATTNBENCH_ISA)'
	@echo 'make tests            builds the test programs of one BUILD, build/BUILD/tests/ROOM_NAME'
	@echo 'make layers           checks who includes whom'
	@echo 'make bench-peers [ARGS=--quick]   attnbench and PyTorch side by side, into'
	@echo '                      docs/performance.md; ARGS go to scripts/bench-peers'
	@echo 'make install [PREFIX=/usr/local] [DESTDIR=]'
	@echo 'make compile_commands.json   for editors and clang tools'
	@echo 'make clean            removes all that make has made'
