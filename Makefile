# Headlight: `make help` lists what there is to make.
SHELL := /bin/bash
.DELETE_ON_ERROR:
.SECONDARY:
MAKEFLAGS += --no-builtin-rules

B := build
EMCC := .toolchain/bin/emcc
EMAR := .toolchain/bin/emar
BIN := node_modules/.bin
VARIANTS := relaxed simd single
MODEL := smollm2-135m-instruct-q4_1

CORE := $(wildcard core/src/*.c core/src/*/*.c)
TESTS := $(wildcard tests/c/*.c)
FUZZERS := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/*.c))

WARN := -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion
# One meaning of every float expression: no contraction to fused multiply-add on any target.
CFLAGS_ALL := -std=c11 $(WARN) -Werror=implicit-function-declaration -Werror=incompatible-pointer-types -ffp-contract=off \
    -fvisibility=hidden -Icore/include -Icore/src -MMD -MP
# The scalar kernels and the block readers are the specification: the order that is written is the order that runs.
REFERENCE := -fno-tree-vectorize -fno-tree-slp-vectorize
reference = $(if $(filter core/src/kernels/scalar%.c core/src/quant/%.c,$(1)),$(REFERENCE))
# Code that runs once for a model or a text is made small: 20 KB less of each .wasm.
small = $(if $(filter core/src/api.c core/src/gguf/%.c core/src/kv/%.c core/src/model/%.c core/src/session/%.c core/src/tap/%.c core/src/tokenizer/%.c,$(1)),-Os)

flags_asan := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all -pthread -DHL_THREADS=1
flags_o2 := -O2 -g -pthread -DHL_THREADS=1
flags_relaxed := -O3 -msimd128 -mrelaxed-simd -pthread -DHL_THREADS=1
flags_simd := -O3 -msimd128 -pthread -DHL_THREADS=1
flags_single := -O3 -msimd128
# What ships as relaxed, with marks for the bench's time line.
flags_profile := $(flags_relaxed) -DHL_PROFILE
flags_fuzz := -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -pthread -DHL_THREADS=1

CC := gcc
ifeq ($(origin CLANG),undefined)
CLANG := $(firstword $(foreach c,clang-19 clang-20 clang-21 clang-18 clang,$(shell command -v $(c))))
endif
FUZZ_SECONDS ?= 60

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# ---- set-up ----

.PHONY: setup
setup: ## compiler, npm packages and model; FULL=1 adds browsers and fuzzer (apt, asks for root)
	@tools/setup $(if $(FULL),all,base)

$(EMCC):
	@tools/setup emscripten

# ---- native library and its tests ----

.PHONY: native
native: $(B)/asan/libheadlight.a $(B)/o2/libheadlight.a

# The build id: a hash over the core's sources and flags; JavaScript and wasm refuse each other when it differs.
.PHONY: FORCE
FORCE:
$(B)/build_id.h web/dist/build-id.js &: FORCE
	@node tools/build-id.js $(B)/build_id.h web/dist/build-id.js

# objects DIRECTORY COMPILER FLAGS: objects of core/src and tests/c below build/DIRECTORY, and the library
define objects
$(B)/$(1)/%.o: %.c Makefile $(4)
	@mkdir -p $$(@D)
	$$(if $$(V),,@echo "  cc $(1) $$<" &&) $(2) $$(CFLAGS_ALL) $(3) $$(call reference,$$<) $(6) $$(if $$(filter core/src/api.c,$$<),-include $(B)/build_id.h) -c -o $$@ $$<
$(B)/$(1)/core/src/api.o: $(B)/build_id.h
$(B)/$(1)/libheadlight.a: $(CORE:%.c=$(B)/$(1)/%.o)
	@rm -f $$@
	@$(5) rcs $$@ $$^
-include $(wildcard $(B)/$(1)/core/src/*.d $(B)/$(1)/core/src/*/*.d $(B)/$(1)/tests/*/*.d)
endef
$(foreach n,asan o2,$(eval $(call objects,$(n),$$(CC),$(flags_$(n)),,ar)))
$(foreach v,$(VARIANTS),$(eval $(call objects,$(v),$$(EMCC),$(flags_$(v)),$$(EMCC),$$(EMAR),$$(call small,$$<))))
$(eval $(call objects,profile,$$(EMCC),$(flags_profile),$$(EMCC),$$(EMAR),$$(call small,$$<)))
$(eval $(call objects,fuzz,$$(CLANG),$(flags_fuzz),,ar))

# ONLY="gguf utf8" keeps the tests whose file or name holds one of the words; V=1 prints every name.
ONLY ?=
RUN_ARGS = $(ONLY) $(if $(V),-v)
.PHONY: ctest ctest-native ctest-o2 ctest-wasm
ctest: ctest-native ctest-wasm ## the C tests: natively under ASan and UBSan, then as wasm in each variant
ctest-native: $(B)/asan/ctest
	@echo "C tests, native, AddressSanitizer and UndefinedBehaviorSanitizer"
	@$(B)/asan/ctest $(RUN_ARGS)
ctest-o2: $(B)/o2/ctest
	@echo "C tests, native, -O2"
	@$(B)/o2/ctest $(RUN_ARGS)
$(foreach n,asan o2,$(eval $(B)/$(n)/ctest: $(TESTS:%.c=$(B)/$(n)/%.o) $(B)/$(n)/libheadlight.a))
$(B)/asan/ctest $(B)/o2/ctest:
	@$(CC) $(flags_$(notdir $(@D))) -o $@ $(filter %.o,$^) $(filter %.a,$^) -lm

# ---- wasm ----

# Small stacks are a promise of the core: buffers live in arenas. The tests run with the same.
STACK := -sSTACK_SIZE=256KB
STACK_pthread := -sDEFAULT_PTHREAD_STACK_SIZE=128KB
MEMORY := -sALLOW_MEMORY_GROWTH -sMAXIMUM_MEMORY=4GB -sABORTING_MALLOC=0 -sMEMORY_GROWTH_GEOMETRIC_STEP=0
LINK := -sSTRICT -sMODULARIZE -sEXPORT_ES6 -sWASM_BIGINT -sIMPORTED_MEMORY -sINITIAL_MEMORY=4MB $(MEMORY) $(STACK) \
    -sFILESYSTEM=0 -sDYNAMIC_EXECUTION=0 --no-entry -sEXPORTED_FUNCTIONS=@$(B)/exports.json \
    -sINCOMING_MODULE_JS_API=wasmMemory,wasmBinary,instantiateWasm,locateFile,print,printErr,onAbort
# Workers are started before the module runs, since a worker that waits cannot start another: as many as the page says.
# More are refused with EAGAIN.
LINK_threads := -pthread -Wno-pthreads-mem-growth $(STACK_pthread) -sPTHREAD_POOL_SIZE=Module.nthreads -sPTHREAD_POOL_SIZE_STRICT=2
threads = $(if $(filter single,$(1)),,$(LINK_threads))

.PHONY: wasm
wasm: $(foreach v,$(VARIANTS),web/dist/headlight-$(v).wasm) web/dist/build-id.js
	@node tools/check-size.js 300000 $(filter %.wasm,$^)

$(B)/exports.json: core/include/headlight.h tools/exports.js
	@mkdir -p $(B)
	@node tools/exports.js $< >$@

# Glue is linked twice, for pages and for Node: bundlers cannot read glue that serves both. The .wasm is the same, since
# both links read one copy of the library, whatever another make does to it meanwhile.
define wasm
web/dist/headlight-$(1).wasm: $(B)/$(1)/libheadlight.a $(B)/exports.json tools/glue.js $(EMCC)
	@mkdir -p $(B)/$(1)/web $(B)/$(1)/node web/dist
	@echo "  link headlight-$(1).wasm"
	@cp $$< $(B)/$(1)/linked.a
	@$(EMCC) $(flags_$(1)) $(LINK) $(call threads,$(1)) -sENVIRONMENT=web,worker -o $(B)/$(1)/web/headlight-$(1).mjs $(B)/$(1)/linked.a
	@$(EMCC) $(flags_$(1)) $(LINK) $(call threads,$(1)) -sENVIRONMENT=node -o $(B)/$(1)/node/headlight-$(1).mjs $(B)/$(1)/linked.a
	@node tools/glue.js headlight-$(1) $(B)/$(1) web/dist
endef
$(foreach v,$(VARIANTS),$(eval $(call wasm,$(v))))

# ---- the C tests as wasm ----

# Relaxed SIMD needs a newer Node than the one that builds: it comes from npm.
NODE_relaxed = $(firstword $(wildcard node_modules/node-linux-*/bin/node) node)
NODE_simd := node
NODE_single := node
CTEST_LINK := -sENVIRONMENT=node -sNODERAWFS -sEXIT_RUNTIME -sINITIAL_MEMORY=32MB $(MEMORY) $(STACK) -sASSERTIONS \
    -sSTACK_OVERFLOW_CHECK=2 --profiling-funcs -sGL_ENABLE_GET_PROC_ADDRESS=0
CTEST_LINK_threads := -pthread -Wno-pthreads-mem-growth $(STACK_pthread) -sPTHREAD_POOL_SIZE=12

define ctest_wasm
$(B)/$(1)/ctest.js: $(TESTS:%.c=$(B)/$(1)/%.o) $(B)/$(1)/libheadlight.a
	@echo "  link $$@"
	@$(EMCC) $(flags_$(1)) $(CTEST_LINK) $(if $(filter single,$(1)),,$(CTEST_LINK_threads)) -o $$@ $$(filter %.o,$$^) $$(filter %.a,$$^)
	@echo '{"type":"commonjs"}' >$$(@D)/package.json
.PHONY: ctest-$(1)
ctest-$(1): $(B)/$(1)/ctest.js
	@echo "C tests, wasm $(1), Node $$$$($$(NODE_$(1)) --version)"
	@$$(NODE_$(1)) $(B)/$(1)/ctest.js $$(RUN_ARGS)
ctest-wasm: ctest-$(1)
endef
$(foreach v,$(VARIANTS),$(eval $(call ctest_wasm,$(v))))

# ---- fuzzing ----

.PHONY: fuzz
fuzz: $(if $(CLANG),$(FUZZERS:%=$(B)/fuzz/bin/%)) ## libFuzzer on the parsers; FUZZ_SECONDS=60 each
	@tools/fuzz $(FUZZ_SECONDS) $(FUZZERS)
$(B)/fuzz/bin/%: $(B)/fuzz/tests/fuzz/%.o $(B)/fuzz/libheadlight.a
	@mkdir -p $(@D)
	@$(CLANG) $(subst fuzzer-no-link,fuzzer,$(flags_fuzz)) -o $@ $^ -lm

# ---- everything ----

# Said before the longest step of a first run.
BUILD_WASM = [ -e web/dist/headlight-single.wasm ] || echo 'building the engine in three variants (3 minutes on two cores)'; \
    $(MAKE) --no-print-directory -j2 wasm

.PHONY: test demo chat bench format clean dist
test: ## all tests: C (native, wasm x 3), fuzz, Node, browsers, types, formatting
	@tools/setup all
	@node tools/test.js

demo: ## the page, at the address that is printed
	@tools/setup base
	@$(BUILD_WASM)
	@cd demo && ../$(BIN)/vite

chat: ## a chat with SmolLM2 in the terminal
	@tools/setup base
	@$(BUILD_WASM)
	@node web/bin/headlight.js chat $(MODEL)

bench: ## speed, side by side with other engines; QUICK=1 for 3 minutes of it, ONLY="busy watch", BIG=1
	@tools/setup base
	@tools/setup browsers
	@$(BUILD_WASM)
	@$(if $(QUICK),,$(MAKE) --no-print-directory -j2 $(BENCH_PROGRAMS))
	@node tests/bench/run.js $(if $(QUICK),--quick) $(if $(ONLY),--only "$(ONLY)") $(if $(BIG),--big)

# The machine's own limit and the time line of a token: programs that the bench runs.
BENCH_PROGRAMS := $(B)/relaxed/bench-kernels.js $(B)/profile/bench-timeline.js
$(B)/profile/bench-timeline.js: $(B)/profile/tests/bench/timeline.o $(B)/profile/libheadlight.a
	@$(EMCC) $(flags_profile) -sENVIRONMENT=node -sNODERAWFS -sEXIT_RUNTIME -sINITIAL_MEMORY=64MB $(MEMORY) $(STACK) \
	    -Wno-pthreads-mem-growth $(STACK_pthread) -sPTHREAD_POOL_SIZE=1 -o $@ $^
	@echo '{"type":"commonjs"}' >$(@D)/package.json

# Rates of the kernels alone, in processor time.
.PHONY: bench-kernels
define bench_kernels
$(B)/$(1)/bench-kernels.js: $(B)/$(1)/tests/bench/kernels.o $(B)/$(1)/libheadlight.a
	@$(EMCC) $(flags_$(1)) -sENVIRONMENT=node -sEXIT_RUNTIME -sINITIAL_MEMORY=256MB $(if $(filter single,$(1)),,-Wno-pthreads-mem-growth -sPTHREAD_POOL_SIZE=1) -o $$@ $$^
	@echo '{"type":"commonjs"}' >$$(@D)/package.json
bench-kernels: bench-kernels-$(1)
.PHONY: bench-kernels-$(1)
bench-kernels-$(1): $(B)/$(1)/bench-kernels.js
	@echo "$(1)"
	@$$(NODE_$(1)) --no-liftoff $$<
endef
$(foreach v,$(VARIANTS),$(eval $(call bench_kernels,$(v))))

dist: ## the npm package and the page's static folder
	@tools/setup base
	@$(BUILD_WASM)
	@node tools/types.js
	@cd demo && ../$(BIN)/vite build
	@mkdir -p $(B)/dist && npm pack --workspace web --pack-destination $(B)/dist

format: ## clang-format and prettier over everything
	@tools/format

clean: ## removes what was built; the toolchain, npm packages and models stay
	rm -rf $(B) web/dist web/types demo/dist
