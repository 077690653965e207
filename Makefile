# `make demo` or `make test` on a fresh machine; `make help` lists the targets. Stamps remember what was installed.
PYTHON ?= $(if $(filter Windows_NT,$(OS)),python,python3)
BIN := $(if $(filter Windows_NT,$(OS)),Scripts,bin)
VENV := .venv
RUN := $(VENV)/$(BIN)
comma := ,
EXTRAS := test$(comma)docs$(comma)study$(comma)plots$(comma)review$(comma)cluster$(comma)remote$(comma)recordings$(comma)formats$(comma)torch$(comma)onnx
CORE := CMakeLists.txt $(wildcard src/stageguard/guard/kernels/_core/*.[ch]*)
TESTED := $(VENV)/.installed-$(subst $(comma),-,$(EXTRAS))
TRIED := build/try-stage

# Without a compiler the package runs on NumPy alone; a compiler that fails must be seen.
export STAGEGUARD_ALLOW_NUMPY ?= $(if $(shell command -v c++ || command -v g++ || command -v clang++),0,1)
PIP = $(RUN)/python -m pip install -qq --disable-pip-version-check
# $(1): the extras in brackets. The build directory lives in the environment, so that a changed C++ file is recompiled alone.
install = $(PIP) --no-build-isolation --constraint constraints.txt --config-settings build-dir=$(VENV)/build --editable '.$(1)'

.PHONY: help demo try-stage tools lint test test-all docs tables bench packages minimum audit clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /make \1: /p' Makefile

demo: $(VENV)/.installed ## install into .venv, guard a simulated night, print what changed
	$(RUN)/stageguard demo

try-stage: $(VENV)/.installed-yasa ## add YASA, simulate a recording, stage and guard it
	$(RUN)/stageguard simulate --modality polysomnography --subjects 1 --seed 1 --output $(TRIED)/lab --overwrite
	$(RUN)/stageguard stage $(TRIED)/lab/polysomnography/edfs/shhs1/shhs1-900001.edf --stager yasa --output $(TRIED)/staged --overwrite

tools: $(TESTED) ## add the test tools, and no more

lint: tools ## run ruff, its formatter and mypy
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/mypy

test: lint ## run the linters and the quick tests
	$(RUN)/python -m pytest --numprocesses auto --dist loadfile -m "not slow"

test-all: lint ## run the linters and every test
	$(RUN)/python -m pytest --numprocesses auto --dist loadfile

docs: tools ## build the site into build/site, strictly
	NO_MKDOCS_2_WARNING=1 $(RUN)/mkdocs build --strict --quiet

tables: tools ## write the tables and figures of the studies into build/studies
	$(RUN)/python studies/tables.py

bench: $(VENV)/.installed-bench ## add the peers and measure side by side
	@set -e; for script in bench/bench_*.py; do $(RUN)/python "$$script"; done

packages: ## build sdist and wheel, try every extra in a fresh environment
	$(PYTHON) .ci/packages.py

minimum: ## test what computes and what reads with the oldest versions of the libraries
	$(PYTHON) -m venv .venv-minimum
	$(PYTHON) .ci/minimum.py > .venv-minimum/constraints.txt
	.venv-minimum/$(BIN)/python -m pip install -qq --constraint .venv-minimum/constraints.txt '.[formats,plots,review]' \
		pytest pytest-xdist hypothesis httpx
	.venv-minimum/$(BIN)/python -m pytest --numprocesses auto --dist loadfile -W default \
		$(addprefix tests/,base night profile guard measures formats signals report)

audit: $(VENV)/.installed ## look for known vulnerabilities in what constraints.txt pins
	$(PIP) pip-audit
	$(RUN)/python -m pip_audit --requirement constraints.txt --no-deps --disable-pip

$(VENV)/.installed: pyproject.toml constraints.txt $(CORE)
	@$(PYTHON) -c 'import sys; sys.exit("make: Python 3.11 or newer is needed; name one: make PYTHON=python3.12") if sys.version_info < (3, 11) else 0'
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --constraint constraints.txt scikit-build-core nanobind cmake ninja
	@$(call install,)
	@touch $@

$(VENV)/.installed-%: pyproject.toml constraints.txt | $(VENV)/.installed
	@$(call install,[$(subst -,$(comma),$*)])
	@touch $@

clean: ## remove the environments and everything built
	rm -rf .venv .venv-* build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
