SHELL := /bin/bash
.DEFAULT_GOAL := help
BIN := .venv/bin
STAMP := .venv/.up-to-date

# The first interpreter that runs and is new enough; `make setup PYTHON=...` overrides it.
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)

# Pyright runs from its pinned wheel and asks no server for a newer one.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
# Tests and demo start many processes: none has to compile again what another has compiled.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo dev test slow lint check experiments prove bench compare format docs clean

help: ## Print this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1|/' | \
		while IFS='|' read -r target text; do printf '  make %-11s %s\n' "$$target" "$$text"; done

setup: $(STAMP) ## Build .venv from constraints.txt; instant when it is up to date

$(STAMP): constraints.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo "longshore needs Python 3.11 or newer as python3, python3.13, python3.12 or python3.11; install one, or name it: make setup PYTHON=/path/to/python" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: setup ## Kill workers under load and count the jobs; BREAK=fence shows what a fault looks like
	$(BIN)/python -m longshore_lab.demo $(if $(BREAK),--break $(BREAK))

dev: setup ## Run the whole queue in one process on SQLite
	$(BIN)/longshore dev

test: setup ## The tests, on real servers, in under five minutes; ARGS="-n 0 -k name" for a few
	$(BIN)/python -m pytest -n 3 --dist worksteal -m "not prove and not slow" $(ARGS)

slow: setup ## The tests that take seconds each: processes are killed, servers restarted
	$(BIN)/python -m pytest -n 3 --dist worksteal -m "slow and not prove" $(ARGS)

lint: setup ## Format, lint, types, import rules, spelling
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/codespell

check: lint test slow ## What CI runs: lint, then all tests but the proofs

experiments: setup ## The two experiments of the day, in short; NAMES="loss drain" for others
	$(BIN)/python -m longshore_lab.experiments $(or $(NAMES),today) --quick --out build/experiments

prove: setup ## Minutes of faults and histories, then all experiments in full (hours)
	HYPOTHESIS_PROFILE=prove $(BIN)/python -m pytest -m "prove or slow" $(ARGS)
	$(BIN)/python -m longshore_lab.experiments all

bench: setup ## Measure throughput and latency on this machine
	$(BIN)/longshore bench $(ARGS)

compare: setup ## Measure beside other queues; PEERS="rq celery" for some, QUICK=1 for a try
	$(BIN)/python -m bench.compare $(if $(PEERS),--peers $(PEERS)) $(if $(QUICK),--quick) $(ARGS)

format: setup ## Format the code and apply the safe lint fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: setup ## Write the generated pages again
	$(BIN)/python -m longshore_lab.docs

clean: ## Remove .venv, builds and caches
	rm -rf .venv build dist .pytest_cache .ruff_cache .import_linter_cache .hypothesis src/*.egg-info
	find src tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +
