# Two commands for a newcomer: `make demo` and `make test`. Both need only Python >= 3.11, pip and make.
PYTHON ?= python3
BIN := .venv/bin
export OMP_NUM_THREADS ?= 2

.PHONY: help demo test quick lint format types docs bench ratios faults fuzz mutants audit clean
help: ## list these targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# With HASHES=1 nothing is installed whose hash is not known: what CI does. The hashes are of files for one Python and
# one system (the first line of constraints-hashed.txt); torch is installed by its version, see tools/hashes.py.
.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
ifdef HASHES
	$(BIN)/python -m pip install --quiet --no-deps --require-hashes --requirement constraints-hashed.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	$(BIN)/python -m pip check
else
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
endif
	touch $@

demo: .venv/installed ## a small whole study on simulated people, two minutes (writes demo/report.html)
	$(BIN)/rmixup demo --out demo

test: .venv/installed lint types ## every check: style, types, import layers, tests and doctests
	$(BIN)/python -m pytest --cov --cov-report=term

quick: .venv/installed ## tests only, stop at the first failure
	$(BIN)/python -m pytest -x -q

lint: .venv/installed ## style and import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

format: .venv/installed ## rewrite to the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: .venv/installed ## strict type check
	$(BIN)/mypy

docs: .venv/installed ## the documentation site, warnings are errors
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

bench: .venv/installed ## speed on this machine
	$(BIN)/rmixup bench all

ratios: .venv/installed ## speed ratios against those kept in benchmarks/: more than a fifth lost fails
	$(BIN)/python -m pytest -q --no-header benchmarks

faults: .venv/installed ## kills, full disks, damage, hostile input: every fault at its full number of tries, as a table
	$(BIN)/python tests/faults/run.py

fuzz: .venv/installed ## a million inputs for every reader, the spec and the model folder
	$(BIN)/python tests/fuzz/run.py

mutants: .venv/installed ## change the code of spd, augment, statistics and splits at random: do the tests notice?
	$(BIN)/python tools/mutants.py

audit: .venv/installed ## known vulnerabilities of what is installed, and the list of it (sbom.json)
	$(BIN)/python tools/audit.py

clean: ## remove what the other targets made
	rm -rf .venv demo docs/_build .pytest_cache .mypy_cache .ruff_cache .coverage .import_linter_cache
