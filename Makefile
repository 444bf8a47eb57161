# `make demo` and `make test` set everything up by themselves; no other step is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Flower and NVFlare pin other versions than ours: their tests start children in this environment
FRAMEWORKS := .venv-frameworks
# shapiq's newest methods need Python 3.12 and, on tables of all coalitions, no torch: `make shapiq`, then `make paper`
SHAPIQ := .venv-shapiq
PYTHON312 ?= python3.12
# as many processes as there are cores; `make test JOBS=0` runs one test after another
JOBS ?= logical
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# the tests start many Python processes; without compiled modules each one compiles what it imports again
unexport PYTHONDONTWRITEBYTECODE

.PHONY: mutants demo test suite test-slow lint style types coverage browser frameworks shapiq bench paper docs wheel lock sbom clean help

help:
	@echo "make demo       set up and open the dashboard on the sample runs"
	@echo "make test       set up, lint, type-check and run all tests with a real browser"
	@echo "make test-slow  the long suites: kill loops, fuzzing, large benchmarks"
	@echo "make lint       style, format and types; the same before every commit with: $(BIN)/pre-commit install"
	@echo "make coverage   the tests with the share of the code they run, child processes included"
	@echo "make mutants    a spot check of the tests: how many changed lines do they notice?"
	@echo "make bench      the side-by-side measurements with their targets"
	@echo "make paper      the paper's figures again (FLCONTRIB_DATA, 40 minutes), as package and documentation show them"
	@echo "make shapiq     an environment for shapiq's newest methods in it (PYTHON312: a Python 3.12)"
	@echo "make docs       the documentation site in build/docs"
	@echo "make lock       pin what is shipped by hash, in requirements.lock"
	@echo "make sbom       install exactly that and list it with its licences, in docs/sbom.cdx.json"
	@echo "make wheel      build the wheel and try it alone in an empty environment"

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -e ".[test]" -c constraints.txt
	touch $(STAMP)

$(FRAMEWORKS)/.installed: $(STAMP) tests/frameworks/requirements.txt
	$(PYTHON) -m venv $(FRAMEWORKS)
	$(BIN)/python tests/frameworks/environment.py $(FRAMEWORKS)
	$(FRAMEWORKS)/bin/pip install -q -r tests/frameworks/requirements.txt
	touch $(FRAMEWORKS)/.installed

frameworks: $(FRAMEWORKS)/.installed

$(SHAPIQ)/.installed: pyproject.toml
	$(PYTHON312) -m venv $(SHAPIQ)
	$(SHAPIQ)/bin/pip install -q -e . "shapiq>=1.8,<1.9" "lightgbm>=4,<5" "xgboost-cpu>=3,<4"
	touch $(SHAPIQ)/.installed

shapiq: $(SHAPIQ)/.installed

demo: $(STAMP)
	$(BIN)/flcontrib demo

browser: $(STAMP)
	$(BIN)/python tests/browser/provide_browser.py

lint: style types

style: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

suite: $(STAMP)
	$(BIN)/pytest -m "not slow" -n $(JOBS) --maxfail 20

# the type checker is one long process: before the tests it would leave the other cores idle
test: $(STAMP) browser frameworks style
	$(MAKE) --no-print-directory --jobs 2 types suite

test-slow: $(STAMP) browser frameworks
	$(BIN)/pytest -m slow

coverage: $(STAMP) browser frameworks
	$(BIN)/coverage erase
	$(BIN)/pytest -m "not slow" -n $(JOBS) --cov --cov-report=term:skip-covered

build/mutants/.installed:
	$(PYTHON) -m venv build/mutants
	build/mutants/bin/pip install -q "cosmic-ray>=8.4,<9"
	touch build/mutants/.installed

mutants: $(STAMP) build/mutants/.installed
	build/mutants/bin/python -P tests/mutants.py

bench: $(STAMP)
	$(BIN)/python -m benchmarks

# The stored outcome is what this command wrote, and nothing else. After `make shapiq` it has shapiq's newest methods too.
OUTCOME ?= build/paper
FLCONTRIB_SHAPIQ ?= $(abspath $(wildcard $(SHAPIQ)/bin/python))
paper: export FLCONTRIB_SHAPIQ := $(FLCONTRIB_SHAPIQ)
paper: $(STAMP)
	$(BIN)/flcontrib reproduce all --scale small -o $(OUTCOME) --workers 2
	for stored in flcontrib_core/reports/paper/*.json; do name=$$(basename $$stored .json); \
	  cp $(OUTCOME)/$$name.json $$stored; cp $(OUTCOME)/$$name.csv $(OUTCOME)/$$name.svg docs/figures/; \
	  for more in $(OUTCOME)/$$name-[0-9].svg; do [ ! -e $$more ] || cp $$more docs/figures/; done; done

docs: $(STAMP)
	$(BIN)/sphinx-build -W --keep-going -q -b html -d build/docs-trees docs build/docs
	@echo "open build/docs/index.html"

wheel: $(STAMP)
	rm -rf dist build/alone
	$(BIN)/pip wheel -q --no-deps -w dist .
	$(PYTHON) -m venv build/alone
	build/alone/bin/pip install -q dist/*.whl -c constraints.txt
	cd build && alone/bin/python -P ../tests/installed_wheel.py base
	build/alone/bin/pip install -q "$$(ls dist/*.whl)[dashboard]" -c constraints.txt
	cd build && alone/bin/python -P ../tests/installed_wheel.py dashboard
	cd build && alone/bin/python -P ../tests/pages.py ../docs/start.md ../docs/how-to/in-python.md ../docs/how-to/own-metric.md ../docs/how-to/import-files.md ../docs/how-to/no-data-at-the-server.md

build/supply/.installed:
	$(PYTHON) -m venv build/supply
	build/supply/bin/pip install -q "cyclonedx-bom>=7,<8" "pip-tools>=7,<8"
	touch build/supply/.installed

lock: $(STAMP) build/supply/.installed
	$(BIN)/python docs/supply_chain.py requirements > build/requirements.in
	build/supply/bin/pip-compile -q --generate-hashes --allow-unsafe --strip-extras --no-annotate --no-header \
		--no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
		-c constraints.txt -o requirements.lock build/requirements.in

sbom: build/supply/.installed
	rm -rf build/locked
	$(PYTHON) -m venv --without-pip build/locked
	build/supply/bin/pip --python build/locked/bin/python install -q --require-hashes --no-deps -r requirements.lock
	build/supply/bin/cyclonedx-py environment build/locked/bin/python --pyproject pyproject.toml \
		--output-reproducible --of JSON -o docs/sbom.cdx.json
	$(PYTHON) docs/supply_chain.py shorten docs/sbom.cdx.json

clean:
	rm -rf $(VENV) $(FRAMEWORKS) $(SHAPIQ) .mypy_cache .ruff_cache .hypothesis .coverage* dist build
