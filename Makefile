# For a fresh machine:  make demo,  make test,  or for a change to the code  make quick.  Each makes its environment first.
PYTHON ?= python3
JOBS   ?= 2
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
MODELS := $(VENV)/.ready-models
DOCS   := $(VENV)/.ready-docs

# Versions are pinned per Python: constraints/py311.txt, py312.txt, py313.txt. An environment keeps the Python it was made with.
tag     = $(shell $(1) -c 'import sys; print("py%d%d" % sys.version_info[:2])' 2>/dev/null)
PINS    = constraints/$(call tag,$(if $(wildcard $(BIN)/python),$(BIN)/python,$(PYTHON))).txt
INSTALL = -m pip install --quiet --disable-pip-version-check
QUICK  := .venv-quick/$(call tag,$(PYTHON))

.PHONY: help demo test quick quicktests matrix lint wheel bench docs clean python
.DEFAULT_GOAL := help

help:  ## Show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "tracekit needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1). Try: make PYTHON=python3.11"; exit 1; }
	@test -e constraints/$(call tag,$(PYTHON)).txt || \
	  { echo "no tested versions for $$($(PYTHON) -V) in constraints/. Try: make PYTHON=python3.13"; exit 1; }

$(READY): pyproject.toml $(wildcard constraints/*.txt) | python
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) (again only when pyproject.toml or constraints/ change)"
	$(BIN)/python $(INSTALL) -c $(PINS) -e '.[dev]'
	@touch $@

$(MODELS): $(READY)
	@echo "adding models, agents and Ray to $(VENV) (torch, SDV, REaLTabFormer, gymnasium, stable-baselines3, Ray)"
	$(BIN)/python $(INSTALL) -c $(PINS) -e '.[dev,docs,all]'
	@touch $@

.venv-quick/%/.ready: pyproject.toml constraints/%.txt
	@test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	@echo "installing into $(@D), without torch, SDV, Ray and gymnasium"
	$(@D)/bin/python $(INSTALL) -c constraints/$*.txt -e '.[dev]'
	@touch $@

demo: $(READY)  ## Run the main job on the embedded sample and leave demo/report.html to open
	$(BIN)/tracekit demo -o demo --force

test: $(MODELS) lint  ## Lint, types, then all tests; the last line is pytest's own summary
	$(BIN)/python -m pytest -q -n $(JOBS) --dist loadfile

define style
$(1)/ruff check .
$(1)/ruff format --check .
$(1)/codespell
$(1)/mypy
endef

lint: $(READY)  ## Style, spelling and types only
	$(call style,$(BIN))

quick: python $(QUICK)/.ready  ## Lint, types and the tests that need no extras and are not slow; in an environment without torch
	$(call style,$(QUICK)/bin)
	@$(MAKE) --no-print-directory quicktests

quicktests: python $(QUICK)/.ready
	$(QUICK)/bin/python -m pytest -q -n $(JOBS) --dist loadfile -m 'not slow'

matrix:  ## The tests of quick on every Python that is found (3.11, 3.12, 3.13), or on those of MATRIX='python3.12 …'
	@MAKE='$(MAKE)' MATRIX='$(MATRIX)' .ci/matrix

wheel: $(READY)  ## Build the wheel into dist/, install it into an empty environment and try its commands
	$(BIN)/python $(INSTALL) -c $(PINS) hatchling
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation -w dist .
	$(BIN)/python -m pytest -q tests/test_wheel.py

$(DOCS): $(READY)
	@echo "adding mkdocs-material to $(VENV)"
	$(BIN)/python $(INSTALL) -c $(PINS) -e '.[dev,docs]'
	@touch $@

docs: $(DOCS)  ## Build the documentation into site/; open site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html (its search needs a server: $(BIN)/python -m http.server -d site)"

bench: $(MODELS)  ## Measure speed and quality; prints ratios against named alternatives
	@for file in benchmarks/bench_*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

clean:  ## Remove the virtual environment and everything generated
	rm -rf $(VENV) .venv-quick demo site build dist .pytest_cache .mypy_cache .ruff_cache
