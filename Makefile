# Two commands for a fresh machine:  make demo   and   make test.  Each makes .venv first if it is missing.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
AGENTS := $(VENV)/.ready-agents
MODELS := $(VENV)/.ready-models
DOCS   := $(VENV)/.ready-docs

.PHONY: demo test lint bench docs clean
.DEFAULT_GOAL := help

help:  ## Show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "tracekit needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1). Try: make PYTHON=python3.11"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) (again only when pyproject.toml or constraints.txt change)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

$(AGENTS): $(READY)
	@echo "adding agents to $(VENV) (torch, gymnasium)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,rl]'
	@touch $@

$(MODELS): $(READY)
	@echo "adding models, agents and Ray to $(VENV) (torch, SDV, REaLTabFormer, gymnasium, stable-baselines3, Ray)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,docs,all]'
	@touch $@

demo: $(AGENTS)  ## Run the main job on the embedded sample and leave demo/report.html to open
	$(BIN)/tracekit demo -o demo --force

test: $(MODELS) lint  ## Lint, types, then all tests; the last line is pytest's own summary
	$(BIN)/python -m pytest -q -n 2 --dist loadfile

lint: $(READY)  ## Style and types only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(DOCS): $(READY)
	@echo "adding mkdocs-material to $(VENV)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,docs]'
	@touch $@

docs: $(DOCS)  ## Build the documentation into site/; open site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html (its search needs a server: $(BIN)/python -m http.server -d site)"

bench: $(MODELS)  ## Measure speed and quality; prints ratios against named alternatives
	@for file in benchmarks/bench_*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

clean:  ## Remove the virtual environment and everything generated
	rm -rf $(VENV) demo site build dist .pytest_cache .mypy_cache .ruff_cache
