# What people type. Everything here sets up what it needs by itself.
PRESET ?= release
BUILD := build/$(PRESET)
JOBS ?= $(shell nproc)

.PHONY: help setup setup-build setup-database setup-model build run run-chat run-endpoints test fuzz check-long check-clients bench bench-against bench-peer bench-peer-models format lint clean

help:
	@echo 'make run            build Dovetail, make and judge a dataset with the bundled model'
	@echo 'make run-chat       talk with a small real model, SmolLM2 (MODEL=...: with another)'
	@echo 'make run-endpoints  the same with models behind two servers and the cells in PostgreSQL'
	@echo 'make test           build and run all tests (PRESET=debug, asan, tsan: the same with checks; WITHOUT=REGEX: but these)'
	@echo 'make fuzz           throw damaged input at all that parses, ten seconds each (FUZZ_SECONDS=...)'
	@echo 'make bench          measure speed and memory'
	@echo 'make bench-against REVISION=...  compare the speed of models with that of another revision'
	@echo 'make bench-peer     compare the task runtime with oneTBB, StarPU and OpenMP'
	@echo 'make bench-peer-models MODELS="a.gguf ..."  compare the speed of models with that of llama.cpp'
	@echo 'make check-long     the tests that take long'
	@echo 'make check-clients  the tests of clients that take long to install (CLIENTS="litellm guidellm ...": these)'
	@echo 'make format         format the sources'
	@echo 'make lint           check format, include order and common mistakes'
	@echo 'make setup          install the Debian packages, and the Python tools and the real model of the tests'

setup:
	@scripts/setup.sh all

setup-build:
	@scripts/setup.sh build

# A server for the run, unless a database was named.
setup-database:
	@scripts/setup.sh $(if $(DATABASE_URL),build,database)

# The real model, unless another was named.
setup-model:
	@scripts/setup.sh $(if $(MODEL),build,model)

build: setup
	@test -f $(BUILD)/build.ninja || cmake --preset $(PRESET)
	@cmake --build $(BUILD) -j $(JOBS)

run: setup-build
	@test -f build/release/build.ninja || cmake --preset release
	@cmake --build build/release -j $(JOBS) --target dovetail
	@scripts/run_demo.sh build/release/dovetail

run-chat: setup-model
	@test -f build/release/build.ninja || cmake --preset release
	@cmake --build build/release -j $(JOBS) --target dovetail
	@scripts/run_chat.sh build/release/dovetail $(if $(MODEL),"$(MODEL)")

run-endpoints: setup-database
	@test -f build/release/build.ninja || cmake --preset release
	@cmake --build build/release -j $(JOBS) --target dovetail
	@scripts/run_endpoints.sh build/release/dovetail

test: build
	@ctest --test-dir $(BUILD) -j $(JOBS) --output-on-failure $(if $(WITHOUT),-E '$(WITHOUT)'); \
	  status=$$?; scripts/skipped_tests.py $(BUILD); exit $$status

check-long: build
	@DOVETAIL_LONG=1 DOVETAIL_HISTORIES=1000000 ctest --test-dir $(BUILD) --output-on-failure

check-clients: setup-build setup-model
	@test -f build/release/build.ninja || cmake --preset release
	@cmake --build build/release -j $(JOBS) --target dovetail
	@scripts/check_clients.sh build/release/dovetail $(CLIENTS)

fuzz: setup
	@scripts/fuzz.sh $(or $(FUZZ_SECONDS),10)

bench: setup-build
	@test -f build/release/build.ninja || cmake --preset release
	@cmake --build build/release -j $(JOBS) --target dovetail kernels_bench engine_bench grammar_bench schedule_bench frontier_bench run_bench executor_bench
	@scripts/bench.sh build/release

bench-against: setup-build
	@scripts/bench_against.py $(or $(REVISION),$(error usage: make bench-against REVISION=...)) $(MODELS)

bench-peer:
	@scripts/setup.sh peers
	@cmake --preset release >/dev/null
	@cmake --build build/release -j $(JOBS) --target dovetail_tasks tbb_tasks starpu_tasks openmp_tasks
	@scripts/bench_peers.py build/release

bench-peer-models: setup-build
	@test -f build/release/build.ninja || cmake --preset release
	@cmake --build build/release -j $(JOBS) --target dovetail
	@scripts/bench_peer_models.py build/release $(or $(MODELS),$(error usage: make bench-peer-models MODELS="FILE.gguf ..."))

format: setup
	@git ls-files '*.h' '*.cpp' | xargs clang-format -i

lint: setup
	@scripts/lint.sh

clean:
	@rm -rf build
