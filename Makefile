# Every target first installs what it needs; run `make` for the list.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# A toolchain that scripts/setup.sh has just installed is not in PATH yet.
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)

TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
SHELL_SCRIPTS := .ci/run $(wildcard scripts/*.sh)
FUZZ_SECONDS ?= 600
BENCH_ARGS ?=
SOAK ?= 1h

.PHONY: help demo demo-live test test-all bench lint docs fuzz soak \
	setup-build setup-test setup-live setup-bench setup-lint

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: setup-build ## Make traffic, split it over four sensors, show the balance
	cargo build --release --locked -p forebay
	scripts/demo.sh $(TARGET_DIR)/release/forebay

demo-live: setup-live ## The live broker in a network of namespaces (takes root, a minute)
	cargo build --release --locked -p forebay
	scripts/demo-live.sh $(TARGET_DIR)/release/forebay

test: setup-test ## Run the tests of the product on its own corpus; list what cannot run here
	scripts/test.sh

test-all: setup-test ## All tests on the larger data of FOREBAY_DATA; what cannot run here fails
	FOREBAY_TEST_ALL=1 scripts/test.sh

bench: setup-bench ## Measure against tcpdump (BENCH_ARGS="--json FILE --quick")
	cargo build --release --locked -p forebay -p forebay-bench
	$(TARGET_DIR)/release/forebay-bench split $(BENCH_ARGS)

lint: setup-lint ## Formatting, clippy, house rules, kernel programs, shell scripts, dependencies
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo xtask style
	cargo xtask bpf --check
	shellcheck $(SHELL_SCRIPTS)
	scripts/deny.sh

docs: setup-build ## API pages, man pages and shell completions, below target/
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked
	mkdir -p $(TARGET_DIR)/man $(TARGET_DIR)/completions
	cargo run --quiet --locked -p forebay -- man --out $(TARGET_DIR)/man
	for shell in bash zsh fish; do \
	    cargo run --quiet --locked -p forebay -- completions $$shell \
	        > $(TARGET_DIR)/completions/forebay.$$shell; \
	done
	@echo "see $(TARGET_DIR)/doc/forebay/index.html, $(TARGET_DIR)/man, $(TARGET_DIR)/completions"

fuzz: setup-build ## Run each fuzz target for FUZZ_SECONDS (600)
	scripts/fuzz.sh $(FUZZ_SECONDS)

soak: setup-live ## Three brokers under changing load for SOAK (1h), every frame accounted for
	scripts/soak.sh $(SOAK)

setup-build setup-test setup-live setup-bench setup-lint: setup-%:
	@scripts/setup.sh $*
