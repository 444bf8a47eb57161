# `make demo` and `make test` set everything up by themselves; no other step is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: demo test test-slow lint browser bench clean help

help:
	@echo "make demo       set up and open the dashboard on the sample runs"
	@echo "make test       set up, lint, type-check and run all tests with a real browser"
	@echo "make test-slow  the long suites: kill loops, fuzzing, large benchmarks"
	@echo "make bench      the side-by-side measurements with their targets"

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -e ".[test]" -c constraints.txt
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/flcontrib demo

browser: $(STAMP)
	$(BIN)/python tests/browser/provide_browser.py

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/mypy

test: $(STAMP) browser lint
	$(BIN)/pytest -m "not slow"

test-slow: $(STAMP) browser
	$(BIN)/pytest -m slow

bench: $(STAMP)
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis dist build
