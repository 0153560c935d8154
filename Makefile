# Coppice: build, test, measure. `make help` lists the targets.
#
# Settings one may override: CC, BUILD, SANITIZE (1: address and undefined; thread), DEBUG=1, V=1
# (shows the commands).

ifeq ($(origin CC),default)
CC := gcc
endif
MAKEFLAGS += --no-builtin-rules
SANITIZE ?=
DEBUG    ?=
V        ?=
Q        := $(if $(V),,@)
MAKEFLAGS += -j$(shell nproc) --output-sync=line
MODE     := $(if $(filter 1,$(SANITIZE)),asan,$(if $(filter thread,$(SANITIZE)),tsan,$(if $(DEBUG),debug,release)))
BUILD    ?= build
OBJ      := $(BUILD)/$(MODE)$(if $(findstring clang,$(CC)),-clang)

PACKAGES      := lua5.4 sqlite3 libpcre2-8 libutf8proc libcjson
DEB_PACKAGES  := gcc make pkg-config lua5.4 liblua5.4-dev libsqlite3-dev libpcre2-dev libutf8proc-dev libcjson-dev \
                 libedit-dev libcriterion-dev gnuplot-nox python3-pip bubblewrap ca-certificates
WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wdouble-promotion \
            -Wundef -Wvla -Wformat=2 -Wcast-qual -Wwrite-strings -Wstrict-prototypes \
            -Wold-style-definition -Wmissing-prototypes -Wredundant-decls -Wimplicit-fallthrough \
            -Wnull-dereference -Wswitch-enum -Werror
OPTIMISE := $(if $(DEBUG),-O0 -DCOP_DEBUG=1,$(if $(SANITIZE),-O1 -DCOP_DEBUG=1,-O2))
comma    := ,
SANFLAGS := $(if $(filter 1,$(SANITIZE)),-fsanitize=address$(comma)undefined -fno-sanitize-recover=all -fno-omit-frame-pointer,$(if $(filter thread,$(SANITIZE)),-fsanitize=thread))
CPPFLAGS := -I. -D_GNU_SOURCE $(shell pkg-config --cflags $(PACKAGES) 2>/dev/null | sed 's/-I/-isystem /g')
CFLAGS   := -std=c11 -g -fPIC -pthread -ffp-contract=off -fno-math-errno $(OPTIMISE) $(SANFLAGS)
LDFLAGS  := -pthread -rdynamic $(SANFLAGS)
LDLIBS   := $(shell pkg-config --libs $(PACKAGES) 2>/dev/null) -ldl -lm

# The rooms, bottom to top. A room includes what stands before it, never what stands after it.
ROOMS := kernels core/base core/sandbox core/files core/text core/cache core/model core/cycle core/proof core/trace algorithms lua
sources = $(wildcard $(1)/*.c $(1)/*/*.c $(1)/*/*/*.c)
archive = $(OBJ)/$(subst /,-,$(1)).a
# Instruction-set levels: kernels/cpu/level.c is compiled once for each, with these flags. Its wide
# vectors never cross a call, so what -Wpsabi says about passing them does not matter.
LEVELS := plain avx2 avx512 vnni
FLAGS_plain  := -Wno-psabi
FLAGS_avx2   := -Wno-psabi -mavx2 -mfma -mf16c
FLAGS_avx512 := $(FLAGS_avx2) -mavx512f -mavx512bw -mavx512vl -mavx512dq -mprefer-vector-width=512
FLAGS_vnni   := $(FLAGS_avx512) -mavx512vnni
ifneq ($(filter x86_64,$(shell uname -m)),x86_64)
LEVELS := plain
endif

objects = $(patsubst %.c,$(OBJ)/%.o,$(filter-out kernels/cpu/level.c lua/main.c lua/edit.c,$(call sources,$(1)))) \
          $(if $(filter kernels,$(1)),$(LEVELS:%=$(OBJ)/kernels/cpu/level_%.o)) \
          $(if $(filter lua,$(1)),$(OBJ)/lua/embedded.o)

# The release build's results lie in $(BUILD), those of other modes beside their objects.
OUT := $(if $(filter $(BUILD)/release,$(OBJ)),$(BUILD),$(OBJ))
all: $(OUT)/coppice $(OUT)/coppice.so ## the program and the Lua module

define room_rules
$(call archive,$(1)): $(call objects,$(1))
	@mkdir -p $$(@D)
	@rm -f $$@
	$$(Q)$$(if $$^,ar rcs $$@ $$^,ar rcs $$@)
endef
$(foreach room,$(ROOMS),$(eval $(call room_rules,$(room))))

# $(call below,room): the archives of a room and of all rooms under it, in link order (top first)
reverse = $(if $(1),$(call reverse,$(wordlist 2,99,$(1))) $(firstword $(1)))
upto    = $(if $(filter $(1),$(firstword $(2))),$(1),$(firstword $(2)) $(call upto,$(1),$(wordlist 2,99,$(2))))
below   = $(foreach room,$(call reverse,$(call upto,$(1),$(ROOMS))),$(call archive,$(room)))

$(OBJ)/%.o: %.c
	@mkdir -p $(@D)
	@echo '  CC    $<'
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(WARNINGS) -MMD -MP -c $< -o $@

$(LEVELS:%=$(OBJ)/kernels/cpu/level_%.o): $(OBJ)/kernels/cpu/level_%.o: kernels/cpu/level.c
	@mkdir -p $(@D)
	@echo '  CC    $<'
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(WARNINGS) $(FLAGS_$*) -DCOP_LEVEL=$* -MMD -MP -c $< -o $@

# ---- Lua: scripts in the binary, the program, the module -------------------------------------------
# lua/scripts and the recipes become string literals of one C file, by the file's name (see lua/embed.h).
SCRIPTS := $(sort $(wildcard lua/scripts/*.lua lua/scripts/*/*.lua experiments/recipes/*.lua))
$(OBJ)/lua/embedded.c: $(SCRIPTS) Makefile
	@mkdir -p $(@D)
	@{ echo '#include "lua/embed.h"'; \
	   for f in $(SCRIPTS); do \
	       n=$${f%.lua}; case $$n in lua/*) n=$${n##*/};; *) n=$${n#experiments/};; esac; \
	       echo "static const char $$(echo $$n | tr / _)_text[] ="; \
	       sed 's/[\\"?]/\\&/g; s/^/"/; s/$$/\\n"/' $$f; echo '"";'; done; \
	   echo 'const struct cop_embedded cop_embedded_scripts[] = {'; \
	   for f in $(SCRIPTS); do n=$${f%.lua}; case $$n in lua/*) n=$${n##*/};; *) n=$${n#experiments/};; esac; i=$$(echo $$n | tr / _); \
	       echo "{\"$$n\", $${i}_text, sizeof $${i}_text - 1},"; done; \
	   echo '{0}};'; } >$@

$(OBJ)/lua/embedded.o: $(OBJ)/lua/embedded.c
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(WARNINGS) -Wno-overlength-strings -MMD -MP -c $< -o $@

# Whole archives, so that plug-ins find every function of the contracts.
WHOLE = -Wl,--whole-archive $(call below,lua) -Wl,--no-whole-archive
# The line editor belongs to the program alone: a stock Lua brings its own. Without libedit: plain lines.
EDIT := $(shell pkg-config --exists libedit 2>/dev/null && echo libedit)
$(OBJ)/lua/edit.o: CPPFLAGS += $(if $(EDIT),-DCOP_HAS_EDIT)
$(OUT)/coppice: $(OBJ)/lua/main.o $(OBJ)/lua/edit.o $(call below,lua)
	@echo '  LINK  $@'
	$(Q)$(CC) $(LDFLAGS) $(filter %.o,$^) $(WHOLE) $(LDLIBS) $(EDIT:lib%=-l%) -o $@

# Lua's own functions come from whoever loads the module.
$(OUT)/coppice.so: $(call below,lua)
	@echo '  LINK  $@'
	$(Q)$(CC) $(filter-out -rdynamic,$(LDFLAGS)) -shared $(WHOLE) $(filter-out -llua%,$(LDLIBS)) -o $@

# ---- Tests: tests/ROOM/**/test_*.c is one program, linked with that room and what is under it -------
TEST_ROOMS   := kernels base:core/base sandbox:core/sandbox files:core/files text:core/text model:core/model \
                cycle:core/cycle trace:core/trace algorithms lua
TEST_SOURCES := $(wildcard tests/*/test_*.c tests/*/*/test_*.c)
TESTS        := $(TEST_SOURCES:tests/%.c=$(OBJ)/tests/%)
room_of       = $(lastword $(subst :, ,$(filter $(1) $(1):%,$(TEST_ROOMS))))
TEST_WARNINGS := $(filter-out -Wconversion -Wsign-conversion -Wnull-dereference,$(WARNINGS))
# Criterion's runner and ThreadSanitizer do not fit into one process: tests/tsan/runner.c stands in.
SUPPORT      := $(patsubst %.c,$(OBJ)/%.o,$(wildcard tests/support/*.c) $(if $(filter tsan,$(MODE)),tests/tsan/runner.c))
RUNNER       := $(if $(filter tsan,$(MODE)),,-lcriterion)

$(OBJ)/tests/%.o: tests/%.c
	@mkdir -p $(@D)
	@echo '  CC    $<'
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(TEST_WARNINGS) -MMD -MP -c $< -o $@

# Gradients are checked in double: the same sources with another number, in front of the archives.
DOUBLE        := $(patsubst %.c,$(OBJ)/double/%.o,$(wildcard algorithms/networks/*.c))
$(OBJ)/double/%.o: %.c
	@mkdir -p $(@D)
	@echo '  CC    $< (double)'
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(WARNINGS) -DCOP_TRAIN_DOUBLE -MMD -MP -c $< -o $@
$(OBJ)/tests/algorithms/heads/test_gradients.o: CPPFLAGS += -DCOP_TRAIN_DOUBLE
EXTRA_algorithms/heads/test_gradients := $(DOUBLE)

define test_rules
$(OBJ)/tests/$(1): $(OBJ)/tests/$(1).o $(SUPPORT) $(EXTRA_$(1)) $(call below,$(call room_of,$(firstword $(subst /, ,$(1)))))
	@echo '  LINK  $$@'
	$$(Q)$$(CC) $$(LDFLAGS) $$^ $$(LDLIBS) $(RUNNER) -o $$@
endef
BENCHES := $(wildcard tests/*/bench_*.c tests/*/*/bench_*.c)
$(foreach test,$(TEST_SOURCES:tests/%.c=%) $(BENCHES:tests/%.c=%),$(eval $(call test_rules,$(test))))

# The Lua tests load plug-ins, and a stock Lua loads the module.
PLUGINS := $(addprefix $(OBJ)/tests/lua/,plugin_example.so plugin_wrong_1.so plugin_wrong_2.so plugin_wrong_3.so \
           plugin_controls.so plugin_page.so)
$(OBJ)/tests/lua/plugin_example.so $(OBJ)/tests/lua/plugin_controls.so: $(OBJ)/%.so: %.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(TEST_WARNINGS) -MMD -MP -MF $@.d -MT $@ -shared $< -o $@
$(OBJ)/tests/lua/plugin_wrong_%.so: tests/lua/plugin_wrong.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(TEST_WARNINGS) -MMD -MP -MF $@.d -MT $@ -DWRONG=$* -shared $< -o $@
# The listing of algorithms/README.md, as it stands there.
$(OBJ)/tests/lua/plugin_page.c: algorithms/README.md
	@mkdir -p $(@D)
	$(Q)awk '/^```c$$/ { on = 1; next } /^```$$/ { on = 0 } on' $< >$@
$(OBJ)/tests/lua/plugin_page.so: $(OBJ)/tests/lua/plugin_page.c
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(WARNINGS) -MMD -MP -MF $@.d -MT $@ -shared $< -o $@
$(OBJ)/tests/lua/test_lua: | $(PLUGINS) $(OUT)/coppice.so
$(OBJ)/tests/lua/test_repl: | $(OUT)/coppice

-include $(shell find $(OBJ) -name '*.d' 2>/dev/null)

# ---- What one types ---------------------------------------------------------------------------------
test: $(TESTS) all ## every test; the last line counts passed, failed and skipped ones
	@tests/run.sh $(OBJ)/reports $(TESTS)

# The programs that damage what each parser reads, 100,000 times.
HOSTILE := files/test_hostile files/test_safetensors files/test_torch text/test_hostile text/json/test_json_hostile \
           text/test_sentencepiece model/test_config lua/test_run
hostile: ## damaged files by the hundred thousand, with address and undefined sanitizers
	@$(MAKE) --no-print-directory SANITIZE=1 damage
damage: $(HOSTILE:%=$(OBJ)/tests/%)
	@COPPICE_SCRIPTS='tests/lua/run/*hostile*.lua' tests/run.sh $(OBJ)/reports $^

check: ## includes go one way, format, static analysis, Lua lint
	@tests/check_includes.sh
	@clang-format --dry-run --Werror $(SOURCES_ALL)
	@cppcheck --quiet --std=c11 --enable=warning,portability --inline-suppr --error-exitcode=1 \
	    --suppress=missingIncludeSystem --suppressions-list=tests/cppcheck.txt -I. -D_GNU_SOURCE kernels core algorithms lua
	@luacheck --quiet --std lua54 lua experiments tests
	@echo "check: clean"

SOURCES_ALL = $(wildcard $(foreach deep,/ /*/ /*/*/ /*/*/*/,$(foreach top,kernels core algorithms lua tests,$(top)$(deep)*.[ch])))

model: ## fetches SmolLM2-135M-Instruct into models/, once (98 MB)
	@experiments/fetch_model.sh smollm2

models: ## fetches that and Qwen2.5-Coder-0.5B-Instruct, which some tests need (590 MB)
	@experiments/fetch_model.sh

# `make deps` asks what is missing before it installs anything, and says what it does.
MISSING = $(shell for p in $(DEB_PACKAGES); do dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || echo $$p; done)
SUDO    = $(if $(filter 0,$(shell id -u)),,$(shell command -v sudo))
deps: ## installs the Debian packages that the build needs, if any is missing
	@missing="$(MISSING)"; if [ -z "$$missing" ]; then echo "deps: nothing is missing"; exit 0; fi; \
	if [ "$$(id -u)" != 0 ] && [ -z "$(SUDO)" ]; then \
	    echo "deps: missing $$missing: ask an administrator to run: apt-get install $$missing"; exit 1; fi; \
	echo "deps: installing$(if $(SUDO), with sudo): $$missing"; \
	$(SUDO) apt-get update -qq && DEBIAN_FRONTEND=noninteractive $(SUDO) apt-get install -y -qq --no-install-recommends $$missing >/dev/null

quickstart: ## packages, build, model, and a first experiment that ends in a table
	@$(MAKE) --no-print-directory deps
	@$(MAKE) --no-print-directory all model
	@$(BUILD)/coppice run experiments/quickstart.lua

bench: $(addprefix $(OBJ)/tests/,kernels/bench_kernels algorithms/accept/bench_verify algorithms/bench_builders algorithms/propose/bench_propose algorithms/engine/bench_trace) $(BUILD)/coppice $(BUILD)/coppice.so ## kernels against bandwidth and int8 peak; verify of each rule; tree builders; proposers without a model; what the trace adds; a step of an EAGLE-3 head; V(n) of the model
	@$(OBJ)/tests/kernels/bench_kernels
	@$(OBJ)/tests/algorithms/accept/bench_verify
	@$(OBJ)/tests/algorithms/bench_builders
	@$(OBJ)/tests/algorithms/propose/bench_propose
	@$(OBJ)/tests/algorithms/engine/bench_trace
	@lua5.4 tests/algorithms/heads/bench_eagle3.lua $(BUILD)
	@$(BUILD)/coppice cost --model models/SmolLM2-135M-Instruct.Q4_1.gguf --draft experiments/heads/draft-smollm2-q8_0.gguf

QWEN := models/Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf heads=
evidence: all models ## long proofs; rewrites experiments/evidence/
	@$(BUILD)/coppice check rules
	@$(BUILD)/coppice check rules --model models/SmolLM2-135M-Instruct.Q4_1.gguf --draft experiments/heads/draft-smollm2-q8_0.gguf \
	    runs=2000 table=experiments/evidence/rule_runs.md
	@$(BUILD)/coppice run experiments/evidence.lua
	@$(BUILD)/coppice run experiments/evidence_shelf.lua
	@$(BUILD)/coppice run experiments/evidence_answers.lua
	@$(BUILD)/coppice run experiments/evidence_answers.lua model=$(QWEN) table=experiments/evidence/answers_qwen.md out=runs/evidence_answers_qwen
	@$(BUILD)/coppice run experiments/evidence_adaptive.lua
	@$(BUILD)/coppice run experiments/evidence_adaptive.lua model=$(QWEN) table=experiments/evidence/adaptive_qwen.md out=runs/evidence_adaptive_qwen
	@$(BUILD)/coppice run experiments/evidence_sequoia.lua
	@$(BUILD)/coppice run experiments/evidence_heads.lua

browser: all model ## a report's page in a headless Chromium: no message, every cycle's tree opens
	@$(BUILD)/coppice run experiments/quickstart.lua limit=2 max_tokens=32 --out $(BUILD)/browser >/dev/null
	@tests/browser.sh $(BUILD)/browser/report.html

clean: ## removes build/
	rm -rf $(BUILD)

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

.PHONY: all test hostile damage check model models deps quickstart bench evidence clean help
.SECONDARY:
