# Heddle's entry points. The work is in tools/*.sh; each script says what it does at its top.
IMAGE ?=
.PHONY: help setup build image run test test-unit test-cluster test-conformance test-skew lint asan tsan fuzz soak bench docs clean
.DEFAULT_GOAL := help

help: ## this list
	@sed -n 's/^\([a-z%-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 22

setup: ## install what is missing (Debian 12, as root or with sudo)
	@tools/setup.sh test

build: ## build everything into build/release
	@tools/setup.sh build
	@tools/build.sh release

image: ## the container image that the chart runs, as an OCI archive: build/heddle-image.tar (IMAGE=registry/name names it)
	@tools/setup.sh build
	@tools/build.sh release heddle-controller heddle-agent heddle-oci-hook heddle_guard heddle_guard_ascend
	@tools/make_image.py $(if $(IMAGE),--name $(IMAGE))

run: ## start Heddle on this machine and show it at work
	@tools/setup.sh build
	@tools/build.sh release heddle-standalone
	@tools/demo.sh

test: ## everything: build, tests, lint, sanitizers, real cluster
	@tools/setup.sh test
	@tools/test.sh

test-unit: ## the release build's tests only
	@tools/setup.sh unit
	@tools/build.sh release
	@ctest --preset release -j "$${JOBS:-$$(nproc)}"

test-cluster: ## the tests on a real Kubernetes cluster only
	@tools/setup.sh test
	@tools/build.sh release
	@PATH="$$(tools/goroot.sh)/bin:$$PATH" tools/as_root.sh tests/cluster/run.sh

test-conformance: ## Kubernetes' own tables for allocation and selectors only
	@tools/setup.sh test
	@tools/build.sh release heddle conformance_probe
	@PATH="$$(tools/goroot.sh)/bin:$$PATH" tests/conformance/run.sh build/release/bin/heddle build/conformance

test-skew: ## controller and agent of this tree with those of REF (the last tag) on a real cluster
	@tools/setup.sh test
	@PATH="$$(tools/goroot.sh)/bin:$$PATH" tools/skew.sh $(REF)

lint: ## layers, format, and clang-tidy on every file
	@tools/setup.sh lint
	@tools/lint.sh --all

asan: ## unit tests under the address and undefined-behaviour sanitizers
	@tools/setup.sh sanitize
	@tools/sanitize.sh asan

tsan: ## the tests of code with threads under the thread sanitizer
	@tools/setup.sh sanitize
	@tools/sanitize.sh tsan

fuzz: ## every fuzz target for an hour (FUZZ_SECONDS)
	@tools/setup.sh test
	@tools/fuzz.sh "$${FUZZ_SECONDS:-3600}"

soak: ## the thread sanitizer, random allocation problems (ALLOCATOR_CASES), random histories of placement (PLACEMENT_EVENTS) and of fleets with queues and gangs (HISTORY_EVENTS), deaths and random programs under the guard (GUARD_DEATHS, GUARD_STEPS), parts of a standalone Heddle killed under load (SOAK_SECONDS), and kubelet, agent and controller of a real cluster (KILL_SECONDS)
	@tools/setup.sh test
	@tools/build.sh release heddle-standalone heddle-controller heddle-agent allocator_random_test placement_test simulation_test guard_files_test guard_limits_test guard_random_test
	@HEDDLE_ALLOCATOR_CASES="$${ALLOCATOR_CASES:-100000}" build/release/test/allocator_random_test --gtest_brief=1
	@HEDDLE_PLACEMENT_EVENTS="$${PLACEMENT_EVENTS:-1000000}" build/release/test/placement_test --gtest_brief=1 --gtest_filter='*RandomHistory*'
	@HEDDLE_HISTORY_EVENTS="$${HISTORY_EVENTS:-1000000}" build/release/test/simulation_test --gtest_brief=1 --gtest_filter='SimulationHistory*'
	@HEDDLE_GUARD_DEATHS="$${GUARD_DEATHS:-100000}" build/release/test/guard_files_test --gtest_filter='*KilledProcesses*'
	@HEDDLE_GUARD_DEATHS="$$(($${GUARD_DEATHS:-100000} / 50))" build/release/test/guard_limits_test --gtest_filter='*KilledAtRandom*'
	@HEDDLE_GUARD_STEPS="$${GUARD_STEPS:-100000}" build/release/test/guard_random_test --gtest_brief=1
	@tools/sanitize.sh tsan
	@tests/standalone/soak.py --seconds "$${SOAK_SECONDS:-600}"
	@HEDDLE_KILL_SECONDS="$${KILL_SECONDS:-600}" HEDDLE_KILL_SEED="$${KILL_SEED:-$$$$}" tools/as_root.sh tests/cluster/run.sh -s -k random_kills_of_kubelet

bench: ## every benchmark, into build/bench/results.json
	@tools/setup.sh test
	@tools/bench.sh

bench-%: ## one benchmark, such as bench-e2e
	@tools/setup.sh test
	@tools/bench.sh $*

docs: ## the pages that are generated from catalog/
	@tools/setup.sh unit
	@tools/docs/vendors.py

clean: ## remove build/
	@rm -rf build
