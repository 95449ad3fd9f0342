# Everything a contributor runs. `make help` lists it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ROOT ?= data
CATALOG ?= sample
PORT ?= 3000
WORKERS ?= 2
LIVE_WORKERS ?= 4
FUZZ_SECONDS ?= 300
FUZZ_SEED ?= 1
LIVE := $(addprefix genolewm_assets_tests/,live browser deploy)
PYTEST := $(BIN)/python -m pytest --dist loadgroup --durations=25
HERE := not gpu and not network
# Without compiled files every process that a test starts compiles the package again, and each run all test modules.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo ui check format test test-all test-live test-fast fuzz golden bench docs clean

help:  ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-10s %s\n", $$1, $$2}'

setup: $(STAMP)  ## Create .venv and install the project with its development tools

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || \
		{ echo "make setup: $(PYTHON) is $$($(PYTHON) -V): expected Python 3.11 to 3.13. Run: make setup PYTHON=python3.12"; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,ray]'
	@touch $@

demo: $(STAMP)  ## Materialise the whole graph on the simulated sample (ROOT=data CATALOG=sample)
	$(BIN)/genolewm demo --catalog $(CATALOG) --root $(ROOT)

ui: $(STAMP)  ## Serve the Dagster UI of the demo's root on 127.0.0.1 (PORT=3000)
	$(BIN)/genolewm ui --catalog $(CATALOG) --root $(ROOT) --port $(PORT)

check: $(STAMP)  ## Lint, types, import rules, sizes of files and folders, the project as `dg` sees it
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	DAGSTER_DISABLE_TELEMETRY=1 $(BIN)/dg check defs
	$(BIN)/python -m pytest -q genolewm_assets_tests/test_layout.py

format: $(STAMP)  ## Rewrite the code in the house format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: $(STAMP)  ## All tests that need neither GPU, network nor a running server; of kill points, a sample
	$(PYTEST) -n $(WORKERS) -m '$(HERE) and not exhaustive' $(addprefix --ignore=,$(LIVE))

test-live: $(STAMP)  ## The tests with a live Dagster, PostgreSQL, nginx and Chromium (.ci/system_packages installs them)
	$(PYTEST) -n $(LIVE_WORKERS) $(LIVE)

test-all: $(STAMP)  ## The tests of `make test` with every kill point, then the live ones
	$(PYTEST) -n $(WORKERS) -m '$(HERE)' $(addprefix --ignore=,$(LIVE))
	$(MAKE) test-live

test-fast: $(STAMP)  ## The unit tests: neither Dagster nor torch is imported
	$(PYTEST) -n $(WORKERS) -m 'unit and not slow and $(HERE)'

fuzz: $(STAMP)  ## Mutated files for the VCF, index and HID readers (FUZZ_SECONDS=300 each), then the property tests with many more examples
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,fuzz]' || \
		echo "make fuzz: atheris cannot be installed here: inputs are mutated without looking at coverage"
	$(BIN)/python -m genolewm_assets_tests.fuzz --seconds $(FUZZ_SECONDS) --seed $(FUZZ_SEED)
	$(PYTEST) -n $(WORKERS) --hypothesis-profile=fuzz -m '$(HERE)'

golden: $(STAMP)  ## Rewrite the golden files after a deliberate change
	GENOLEWM_WRITE_GOLDEN=1 $(BIN)/python -m pytest genolewm_assets_tests/defs/assets/test_graph.py

bench: $(STAMP)  ## Measure against the peers (see benchmarks/README.md)
	$(BIN)/python -m benchmarks

docs: $(STAMP)  ## Generate docs/data_model.md
	$(BIN)/python docs/build.py

clean:  ## Remove the environment and caches (never a root)
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .fuzz .import_linter_cache
