# Everything here works from a fresh clone with Python 3.11+, make and a C compiler.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt

.PHONY: demo test check bench results web node clean help

help:  ## show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 10

demo: $(VENV)/.installed  ## train on the bundled demo graph, evaluate, predict
	$(BIN)/fivestar graph info
	rm -rf demo_run
	$(BIN)/fivestar demo --out demo_run

test: $(VENV)/.installed-dev  ## run the test suite
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto --dist loadfile

check: $(VENV)/.installed-dev  ## lint, format, types, layers and language
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/check_language.py

bench: $(VENV)/.installed-dev  ## run the benchmarks
	$(BIN)/python benchmarks/ingest.py

results: $(VENV)/.installed  ## generate the results pages from results/*.jsonl
	$(BIN)/fivestar reproduce results --ledger results/ledger.jsonl --out docs/results.md
	$(BIN)/python experiments/models/table.py
	$(BIN)/python experiments/tuning/table.py
	$(BIN)/python experiments/warm_start/table.py
	$(BIN)/python experiments/defaults/table.py
	$(BIN)/python experiments/geometry/table.py
	$(BIN)/python experiments/paper_method/table.py

web: node web/node_modules/.installed  ## build the page again (needs Node.js 18+)
	npm run --prefix web --silent check
	npm run --prefix web --silent build

clean:  ## remove build outputs
	rm -rf $(VENV) build dist demo_run web/node_modules src/fivestar/server/static/swagger

node:
	@node -e 'process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)' 2>/dev/null || \
	  { echo "make web needs Node.js 18 or newer (with npm); everything else works without it"; exit 1; }

web/node_modules/.installed: web/package.json web/package-lock.json | node
	npm ci --prefix web --no-audit --no-fund --loglevel=error
	@touch $@

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "fivestar needs Python 3.11 or newer; try: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) -e '.[all]'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) -e '.[dev]'
	@touch $@ $(VENV)/.installed
