# Everything here works from a fresh clone with Python 3.11+, make and a C compiler.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
AUDIT := $(VENV)-audit
COMPILE := $(AUDIT)/bin/uv pip compile --quiet --no-config --upgrade --universal --python-version 3.11 \
  --generate-hashes --custom-compile-command 'make lock'
INSTALL := $(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt

.PHONY: demo test coverage mutation check lock locked sbom audit bench docs results web node clean help

help:  ## show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 10

demo: $(VENV)/.installed  ## train on the bundled demo graph, evaluate, predict
	$(BIN)/fivestar graph info
	rm -rf demo_run
	$(BIN)/fivestar demo --out demo_run

test: $(VENV)/.installed-dev  ## run the test suite
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto --dist loadfile

coverage: $(VENV)/.installed-dev  ## run the test suite, and report its branch coverage (at least 92 %)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto --dist loadfile --cov

mutation: $(VENV)/.installed-dev  ## test the tests with 1,500 mutants
	rm -f results/mutation.jsonl
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.reliability.mutation
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.reliability.mutation --again
	$(BIN)/python -m tests.reliability.mutation_table

check: $(VENV)/.installed-dev  ## lint, format, types, layers, language and licenses
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/check_language.py
	$(BIN)/python scripts/licenses.py

lock: $(AUDIT)/.installed  ## resolve all dependencies anew, for all platforms, with hashes
	$(COMPILE) pyproject.toml --all-extras -c constraints.txt -o requirements/dev.txt
	$(COMPILE) requirements/audit.in -o requirements/audit.txt

locked: | $(VENV)/bin/python  ## install exactly what requirements/dev.txt lists, checked by hash
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $(VENV)/.installed $(VENV)/.installed-dev $(VENV)/.installed-docs

sbom: $(VENV)/.installed $(AUDIT)/.installed  ## list all installed packages in sbom.json (CycloneDX)
	$(AUDIT)/bin/cyclonedx-py environment --validate --output-reproducible --pyproject pyproject.toml \
	  --mc-type library --output-format JSON --output-file sbom.json $(BIN)/python

audit: $(AUDIT)/.installed  ## look up known vulnerabilities of the locked packages (needs the network)
	$(AUDIT)/bin/pip-audit --strict --require-hashes --disable-pip -r requirements/dev.txt
	$(AUDIT)/bin/pip-audit --strict --require-hashes --disable-pip -r requirements/audit.txt

bench: $(VENV)/.installed-dev  ## run the benchmarks
	$(BIN)/python benchmarks/ingest.py

docs: $(VENV)/.installed-docs  ## build the docs site into docs/_build/html
	$(BIN)/python docs/figures.py
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -W --keep-going -q -d docs/_build/doctrees docs docs/_build/html
	@echo "open docs/_build/html/index.html"

results: $(VENV)/.installed  ## generate the results pages from results/*.jsonl
	$(BIN)/fivestar reproduce results --ledger results/ledger.jsonl --out docs/results.md
	$(BIN)/python experiments/answers/table.py
	$(BIN)/python experiments/models/table.py
	$(BIN)/python experiments/tuning/table.py
	$(BIN)/python experiments/warm_start/table.py
	$(BIN)/python experiments/defaults/table.py
	$(BIN)/python experiments/geometry/table.py
	$(BIN)/python experiments/facts/table.py
	$(BIN)/python experiments/paper_method/table.py
	$(BIN)/python experiments/scale/table.py
	$(BIN)/python benchmarks/side_by_side/table.py

web: node web/node_modules/.installed  ## build the page again (needs Node.js 18+)
	npm run --prefix web --silent check
	npm run --prefix web --silent build

clean:  ## remove build outputs
	rm -rf $(VENV) $(AUDIT) sbom.json build dist demo_run docs/_build docs/reference/generated web/node_modules src/fivestar/server/static/swagger

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

$(VENV)/.installed-docs: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) -e '.[docs]'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) -e '.[dev]'
	@touch $@ $(VENV)/.installed $(VENV)/.installed-docs

$(AUDIT)/.installed: requirements/audit.txt
	$(PYTHON) -m venv $(AUDIT)
	$(AUDIT)/bin/python -m pip install --disable-pip-version-check --quiet --require-hashes -r $<
	@touch $@
