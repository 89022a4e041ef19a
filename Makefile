# Grass: `make demo` shows it, `make test` proves it. `make help` lists the rest.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SEED ?=
SEEDS ?= 1000
PEERS ?=
# Many tests wait for a time of their own, so there is one more than cores.
TESTERS ?= $(shell echo $$((1 + $$(nproc))))
# 3,000 unless SEEDS= was typed.
SSH_SEEDS = $(if $(filter command line environment,$(origin SEEDS)),$(SEEDS),3000)

.PHONY: help demo test check e2e sim ssh-faults bench docs clean

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(VENV)/made: pyproject.toml setup.sh hatch_build.py
	@PYTHON=$(PYTHON) ./setup.sh $(VENV) .
	@touch $@

$(VENV)/dev: $(VENV)/made
	@PYTHON=$(PYTHON) ./setup.sh $(VENV) '.[dev]'
	@touch $@

demo: $(VENV)/made ## set up, then run a small grid of pretend trainings on two logical GPUs
	@$(BIN)/python examples/demo.py

test: $(VENV)/dev ## set up and run the whole suite
	@tests/needs.sh
	$(BIN)/python -m pytest -n $(TESTERS) --dist worksteal

check: $(VENV)/dev ## formatting, lint, types and layers, and the same of the web page
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_architecture.py
	@if command -v npm >/dev/null; then cd webui && npm ci --silent --no-audit --no-fund && npm run --silent check; \
	else echo "grass: no npm here, so the web page is not checked"; fi

e2e: $(VENV)/dev ## only the tests with real daemons
	$(BIN)/python -m pytest -n auto tests/e2e

sim: $(VENV)/dev ## random histories of broker and workers: SEED=n replays one, SEEDS=n runs so many
	$(BIN)/python -m tests.sim $(if $(SEED),--seed $(SEED),--seeds $(SEEDS))

ssh-faults: $(VENV)/dev ## bad lines to machines over ssh: SEED=n replays one schedule, SEEDS=n runs so many
	@tests/needs.sh
	$(BIN)/python -m tests.machines.fault_run $(if $(SEED),--seed $(SEED),--seeds $(SSH_SEEDS))

bench: $(VENV)/made ## measure, as ratios in one run; PEERS=1 first installs other queues to compare with
	@$(if $(PEERS),bench/needs.sh)
	$(BIN)/python -m bench

docs: $(VENV)/dev ## write docs/reference anew from the parsers and settings
	$(BIN)/python docs/generate.py

page: $(VENV)/dev ## build the web page anew if its sources changed
	@$(BIN)/python hatch_build.py

clean: ## remove what make made
	rm -rf $(VENV) webui/node_modules src/grassq/web/static .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
