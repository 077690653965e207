# The whole set-up: `make demo` or `make test` on a fresh machine. `make help` lists the targets.
# A stamp in each environment remembers what was installed, so that a second call installs nothing.

ifeq ($(OS),Windows_NT)
PYTHON ?= python
BIN := Scripts
else
PYTHON ?= python3
BIN := bin
endif

VENV := .venv
BENCH := .venv-bench
FRESH := .venv-constraints
OLDEST := .venv-minimum
BUILD_TOOLS := scikit-build-core nanobind cmake ninja
QUIET := -qq --disable-pip-version-check
comma := ,
EXTRAS := test$(comma)docs$(comma)study$(comma)plots$(comma)review$(comma)cluster$(comma)remote$(comma)recordings$(comma)formats$(comma)torch$(comma)onnx
CORE := CMakeLists.txt $(wildcard src/stageguard/guard/kernels/_core/*.cpp src/stageguard/guard/kernels/_core/*.hpp src/stageguard/guard/kernels/_core/*.h)
TESTS_STAMP := $(VENV)/.installed-$(subst $(comma),-,$(EXTRAS))

# Without a compiler the package runs on NumPy alone; a compiler that fails must be seen.
export STAGEGUARD_ALLOW_NUMPY ?= $(if $(shell command -v c++ || command -v g++ || command -v clang++),0,1)

# $(1) is an environment, $(2) the extras in brackets or nothing. The build directory lives inside the environment,
# so that a changed C++ file is recompiled alone and environments do not disturb each other.
define install
$(1)/$(BIN)/python -m pip install $(QUIET) --no-build-isolation --constraint constraints.txt \
	--config-settings build-dir=$(1)/build --editable '.$(2)'
endef

define create
@command -v $(PYTHON) >/dev/null || { echo "stageguard: there is no '$(PYTHON)' here. \
Install Python 3.11 or newer, or name one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "stageguard: \
'$(PYTHON)' is $$($(PYTHON) --version 2>&1), expected Python 3.11 or newer. \
Install one and name it: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
@$(PYTHON) -m venv $(1) || { echo "stageguard: could not create $(1). \
Install the venv module of '$(PYTHON)' (on Debian and Ubuntu: python3-venv) and try again." >&2; exit 1; }
endef

.PHONY: help demo try-stage lint test test-all coverage tools docs bench fuzz faults load packages minimum audit constraints clean
.DELETE_ON_ERROR:

help:
	@echo "make demo         install into $(VENV), guard a simulated night, print what changed"
	@echo "make try-stage    add YASA to $(VENV), simulate a recording, stage and guard it"
	@echo "make lint         add the test tools to $(VENV), run ruff, its formatter and mypy"
	@echo "make test         add the test tools to $(VENV), run the linters and the quick tests"
	@echo "make test-all     the same with every test"
	@echo "make coverage     every test, and which lines of the package they run (half an hour)"
	@echo "make tools        add the test tools to $(VENV), and no more"
	@echo "make docs         build the site into build/site, strictly"
	@echo "make bench        install the peers into $(BENCH) and measure side by side"
	@echo "make fuzz         fuzz every reader by coverage, the compiled core under sanitizers, drawn tests with ten seeds (an hour)"
	@echo "make faults       kill what writes, fill its disk, go on, compare (half an hour)"
	@echo "make load         1,000,000 epochs through every verb, 100,000 nights, 64 threads (a quarter of an hour)"
	@echo "make packages     build sdist and wheel, try every extra in a fresh environment (a quarter of an hour)"
	@echo "make minimum      test with the oldest versions of the libraries, in $(OLDEST)"
	@echo "make audit        look for known vulnerabilities in what constraints.txt pins; asks the network"
	@echo "make constraints  resolve every dependency anew and rewrite constraints.txt"
	@echo "make clean        remove the environments and everything built"

demo: $(VENV)/.installed
	$(VENV)/$(BIN)/stageguard demo

TRIED := build/try-stage
try-stage: $(VENV)/.installed-yasa
	$(VENV)/$(BIN)/stageguard simulate --modality polysomnography --subjects 1 --seed 1 --output $(TRIED)/lab --overwrite
	$(VENV)/$(BIN)/stageguard stage $(TRIED)/lab/polysomnography/edfs/shhs1/shhs1-900001.edf --stager yasa \
		--output $(TRIED)/staged --overwrite

lint: tools
	$(VENV)/$(BIN)/ruff check .
	$(VENV)/$(BIN)/ruff format --check .
	$(VENV)/$(BIN)/mypy

test: lint
	$(VENV)/$(BIN)/python -m pytest --numprocesses auto --dist loadfile -m "not slow"

test-all: lint
	$(VENV)/$(BIN)/python -m pytest --numprocesses auto --dist loadfile

# Every test, with the lines of the package that it runs; docs/robustness.md names what is left.
coverage: lint
	$(VENV)/$(BIN)/python -m pytest --numprocesses auto --dist loadfile --cov --cov-report term-missing --cov-fail-under 95

tools: $(TESTS_STAMP)

docs: tools
	NO_MKDOCS_2_WARNING=1 $(VENV)/$(BIN)/mkdocs build --strict --quiet
	@echo "build/site/index.html is the site; with a search: $(VENV)/$(BIN)/python -m http.server --directory build/site --bind 127.0.0.1"

bench: $(BENCH)/.installed-bench
	@set -e; for script in bench/bench_*.py; do $(BENCH)/$(BIN)/python "$$script"; done

# Core and tests as ever, but memory and arithmetic are watched: every number of stages, every form of minimum bouts.
SANITIZED := $(VENV)/sanitized
fuzz: tools
	@$(call install,$(VENV),[fuzz])
	$(VENV)/$(BIN)/cmake -S . -B $(SANITIZED) -G Ninja -DCMAKE_BUILD_TYPE=None -DSKBUILD=2 \
		-DCMAKE_MAKE_PROGRAM=$(abspath $(VENV)/$(BIN)/ninja) -DPython_EXECUTABLE=$(abspath $(VENV)/$(BIN)/python) \
		-DCMAKE_CXX_FLAGS="-O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=undefined" > $(SANITIZED).log
	$(VENV)/$(BIN)/cmake --build $(SANITIZED)
	LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libubsan.so)" ASAN_OPTIONS=detect_leaks=0 \
		STAGEGUARD_SANITIZED="$$(ls $(SANITIZED)/_native*.so)" PYTHONPATH=robustness \
		$(VENV)/$(BIN)/python -m pytest -p sanitized_core --hypothesis-profile fuzz --numprocesses auto tests/guard \
		--ignore tests/guard/test_kernels_memory.py
	@set -e; for seed in $$($(VENV)/$(BIN)/python -c "import random; print(*random.sample(range(10**6), 10))"); do \
		echo "Tests that draw their input, with seed $$seed"; \
		$(VENV)/$(BIN)/python -m pytest -q -m hypothesis --hypothesis-profile local --hypothesis-seed "$$seed" \
			--numprocesses auto --dist loadfile; \
	done
	$(VENV)/$(BIN)/python robustness/fuzz_readers.py

faults load: tools
	$(VENV)/$(BIN)/python robustness/$@.py

packages:
	$(PYTHON) .ci/packages.py

# What computes and what reads, in a few minutes: an older library that lacks something fails here.
minimum: $(OLDEST)/.created
	$(PYTHON) .ci/minimum.py > $(OLDEST)/constraints.txt
	$(OLDEST)/$(BIN)/python -m pip install $(QUIET) --constraint $(OLDEST)/constraints.txt \
		'.[formats,plots,review]' pytest pytest-xdist hypothesis httpx
	$(OLDEST)/$(BIN)/python -m pytest --numprocesses auto --dist loadfile -W default \
		tests/base tests/night tests/profile tests/guard tests/measures tests/formats tests/signals tests/report

audit: $(VENV)/.installed
	$(VENV)/$(BIN)/python -m pip install $(QUIET) pip-audit
	$(VENV)/$(BIN)/python -m pip_audit --requirement constraints.txt --no-deps --disable-pip

$(VENV)/.created $(BENCH)/.created $(FRESH)/.created $(OLDEST)/.created:
	$(call create,$(@D))
	@touch $@

# cmake and ninja come as wheels, so that a compiler is all a machine needs, and not even that: without one the
# package falls back to NumPy.
$(VENV)/.installed $(BENCH)/.installed: %/.installed: pyproject.toml constraints.txt $(CORE) | %/.created
	@echo "Installing stageguard into $* (a minute or two)"
	@$*/$(BIN)/python -m pip install $(QUIET) --constraint constraints.txt $(BUILD_TOOLS)
	@$(call install,$*)
	@touch $@

$(TESTS_STAMP): pyproject.toml constraints.txt | $(VENV)/.installed
	@echo "Installing the test tools into $(VENV) (a few minutes)"
	@$(call install,$(VENV),[$(EXTRAS)])
	@touch $@

$(VENV)/.installed-yasa: pyproject.toml constraints.txt | $(VENV)/.installed
	@echo "Installing YASA into $(VENV) (a minute or two)"
	@$(call install,$(VENV),[yasa])
	@touch $@

$(BENCH)/.installed-bench: pyproject.toml constraints.txt | $(BENCH)/.installed
	@echo "Installing the peers into $(BENCH) (a few minutes)"
	@$(call install,$(BENCH),[bench])
	@touch $@

# torch moves by hand, and by the build that is at hand: a newer one may bring gigabytes for graphics cards.
constraints: TORCH := $(shell grep '^torch==' constraints.txt)
constraints: $(FRESH)/.created
	$(FRESH)/$(BIN)/python -m pip install $(QUIET) $(BUILD_TOOLS)
	$(FRESH)/$(BIN)/python -m pip install $(QUIET) --no-build-isolation $(TORCH) '.[torch,recordings,formats,study,plots,review,cluster,remote,gs,docs,test,fuzz,bench]'
	@{ echo "# Every version, base and extras and build tools, as resolved together by 'make constraints'."; \
	echo "# Resolved on Linux: what only macOS or Windows needs is not pinned."; \
	$(FRESH)/$(BIN)/python -m pip freeze --all --exclude pip --exclude stageguard | sed 's/+cpu$$//'; } > constraints.txt
	@rm -rf $(FRESH)

clean:
	rm -rf .venv .venv-* build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
