# Everything a contributor runs. `make help` lists it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
COMPILED := $(VENV)/.compiled
ROOT ?= data
CATALOG ?= sample
PORT ?= 3000
WORKERS ?= 2
NIGHTLY_WORKERS ?= 4
ROOMS ?=
FUZZ_SECONDS ?= 300
FUZZ_SEED ?= 1
SEED ?= 17
COUNT ?= 24
MINUTES ?= 20
GPU_PYTHON_VERSION ?= 3.12
PYTEST := $(BIN)/python -m pytest --dist loadgroup --durations=30
HERE := not gpu and not network
# Without compiled files every process that a test starts compiles the package again, and each run all test modules.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo ui check format test test-fast test-nightly fuzz mutants golden bench gpu gpu-wheels docs dist clean

help:  ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-10s %s\n", $$1, $$2}'

setup: $(STAMP)  ## Create .venv and install the project with its development tools

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || \
		{ echo "make setup: $(PYTHON) is $$($(PYTHON) -V): expected Python 3.11 to 3.13. Run: make setup PYTHON=python3.12"; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,docs,ray]'
	@touch $@

$(COMPILED): $(STAMP) $(shell find genolewm_assets -name '*kernels.py' -o -name compiling.py) genolewm_assets/own_caches/signatures.json
	$(BIN)/genolewm compile
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
	@for folder in genolewm_assets genolewm_assets_tests; do \
		echo "$$folder: $$(git ls-files -- "$$folder/*.py" | xargs cat | wc -l) lines of Python"; done

format: $(STAMP)  ## Rewrite the code in the house format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: $(COMPILED)  ## What tells whether a change broke the product: what CI runs, without GPU and network
	$(PYTEST) -n $(WORKERS) -m '$(HERE) and not nightly'

test-fast: $(COMPILED)  ## The unit tests of `make test` that take less than seconds: neither Dagster nor torch is imported
	$(PYTEST) -n $(WORKERS) -m 'unit and not slow and $(HERE) and not nightly'

test-nightly: $(COMPILED)  ## Everything, live servers too (.ci/system_packages); ROOMS="store defs/engines": of rooms and those above
	tests=$$($(BIN)/python -m genolewm_assets_tests.rooms $(ROOMS)) && $(PYTEST) -n $(NIGHTLY_WORKERS) -m '$(HERE)' $$tests
	$(BIN)/python -m genolewm_assets_tests.fuzz --seconds 60 --seed $(FUZZ_SEED)

fuzz: $(STAMP)  ## Mutated files for the VCF, index and HID readers (FUZZ_SECONDS=300 each), then the property tests with many more examples
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,fuzz]' || \
		echo "make fuzz: atheris cannot be installed here: inputs are mutated without looking at coverage"
	$(BIN)/python -m genolewm_assets_tests.fuzz --seconds $(FUZZ_SECONDS) --seed $(FUZZ_SEED)
	$(PYTEST) -n $(WORKERS) --hypothesis-profile=fuzz -m '$(HERE)'

mutants: $(STAMP)  ## Faults planted in the product, one at a time, and the test that finds each (SEED=17 COUNT=24)
	$(BIN)/python -m genolewm_assets_tests.mutants --seed $(SEED) --count $(COUNT)

golden: $(STAMP)  ## Rewrite the golden files after a deliberate change
	GENOLEWM_WRITE_GOLDEN=1 $(BIN)/python -m pytest genolewm_assets_tests/defs/assets/test_graph.py

bench: $(STAMP)  ## Measure against the peers (see benchmarks/README.md)
	$(BIN)/python -m benchmarks

gpu-wheels: $(STAMP)  ## Collect what a bare CUDA image (Python 3.12) lacks, for `make gpu` there
	$(BIN)/python -m benchmarks.gpu.wheels gpu_wheels --python $(GPU_PYTHON_VERSION)

gpu:  ## Measure all about states on a card, with .venv or a bare image's PyTorch and gpu_wheels (MINUTES=20)
	test -x $(BIN)/python || $(PYTHON) -m pip install --quiet --no-index --no-deps --no-compile --upgrade \
		--target gpu_wheels/site gpu_wheels/*.whl
	PYTHONPATH=gpu_wheels/site $(if $(wildcard $(BIN)/python),$(BIN)/python,$(PYTHON)) -m benchmarks gpu --minutes $(MINUTES)

docs: $(STAMP)  ## Build the site of all pages, site/index.html; a dead link, a lost page or an unknown name breaks it
	rm -rf site
	$(BIN)/python -m sphinx -W --keep-going -qE -c docs . site

dist: $(STAMP)  ## Build what a release consists of in dist/: wheel, sdist, and the versions that it was tested with
	rm -rf dist
	$(BIN)/python -m pip install --quiet --disable-pip-version-check hatchling
	$(BIN)/python -m hatchling build -d dist
	cp constraints.txt dist/

clean:  ## Remove the environment and caches (never a root)
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .fuzz .import_linter_cache
