# Every target prepares .venv by itself: the first run installs (minutes), later ones start at once.
#   PYTHON=python3.12              another interpreter (pyproject.toml says from which version on)
#   PIP_FLAGS="..."                more options for pip, for instance an index that has CPU builds of torch
#   PYTEST_FLAGS="-k lstm -x"      more options for pytest
#   N=20000                        how many programs `make fuzz` makes, how many exports `make soak` does

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
OLDEST_PYTHON := $(shell sed -nE 's/^requires-python = ">=(.*)"$$/\1/p' pyproject.toml)
PIP_FLAGS ?=
PYTEST_FLAGS ?=
CONFORMANCE ?=
FUZZ ?=

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
COMMAND := $(VENV)/.installed-command
# Constraints go with every install: one looser requirement without them and pip fetches another torch, CUDA and all.
INSTALL = $(BIN)/python -m pip install --disable-pip-version-check --progress-bar off \
	--constraint constraints.txt $(PIP_FLAGS)
# pip talks into a file; when it fails, the end of what it said is shown.
QUIETLY = >> $(VENV)/pip.log 2>&1 || { tail -n 30 $(VENV)/pip.log >&2; exit 1; }

# The environment of whoever calls must not leak other packages into the pinned one.
unexport PYTHONPATH PYTHONHOME

# What `make check` runs: every room, a sample of each table of cases, and the tests that find most breakage.
CHECKED := tests/test_layout.py tests/test_names.py tests/test_program.py tests/test_usual_suspects.py tests/capture \
	tests/onnx_operators tests/lower tests/passes tests/write tests/verify tests/contract tests/reliability

.PHONY: help install demo check test fuzz soak threads bench bench-quant conformance docs docs-serve picture web browser lint \
	format clean

help: ## show this list
	@sed -nE 's/^([a-z-]+):.*## (.*)$$/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

install: $(COMMAND) ## the onward command, .venv/bin/onward, with the packages that it needs and no others
	@echo "$(CURDIR)/$(BIN)/onward is ready"

demo: $(COMMAND) ## export a bundled model, verify it at other sizes, write its report page
	@$(BIN)/python -m onward.demo

test: lint browser ## ruff, mypy and every test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 $(PYTEST_FLAGS)

check: lint ## the fast tier, under 3 minutes: ruff, mypy, and a sample of the tests from every room
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --sample 25 $(CHECKED) $(PYTEST_FLAGS)

fuzz: $(STAMP) ## random programs, exported and compared with PyTorch (N=20000, FUZZ="--seed 7000")
	@OMP_NUM_THREADS=1 $(BIN)/python -W ignore -m reliability.fuzz -n $(or $(N),20000) $(or $(FUZZ),--record)

soak: $(STAMP) ## thousands of exports in one process: memory and time stay flat (N=2000)
	@OMP_NUM_THREADS=1 $(BIN)/python -W ignore -m reliability.soak -n $(or $(N),2000) --record

conformance: $(STAMP) ## every operator of PyTorch's database: exported, run, compared (CONFORMANCE="--dtypes int64")
	@$(BIN)/python -W ignore -m conformance $(or $(CONFORMANCE),--record)

bench: $(STAMP) ## compare with torch.onnx.export, and the backend with eager, side by side
	@$(BIN)/python -m bench
	@$(BIN)/python -m bench.backend

bench-quant: $(VENV)/.installed-bench ## quantised models beside float ones, onnxruntime's quantiser, brevitas, torchao
	@$(BIN)/python -W ignore -m bench.quant

threads: $(STAMP) ## export from 8 threads while others serve and train the same models (docs/reliability.md)
	@OMP_NUM_THREADS=1 $(BIN)/python -W ignore -m reliability.threads

docs: $(STAMP) ## the documentation as a site, in out/site (needs Python 3.11)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

docs-serve: $(STAMP) ## the same on a local port, built anew whenever a page changes
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs serve --strict

picture: $(STAMP) ## take the picture of the report page in README.md anew (needs a Chromium)
	@$(BIN)/python tools/report_picture.py

web: ## bundle the script of the report page from web/ into the package (needs npm; what it makes is committed)
	@mkdir -p src/onward/report/static
	cd web && npm ci --ignore-scripts --no-fund --no-audit && npm run --silent build

# The tests of the report page need a Chromium. Where there is none they say so; as root on Debian it is installed.
browser:
	@if [ "$${ONWARD_NO_BROWSER:-}" = 1 ] || command -v chromium > /dev/null || command -v chromium-browser > /dev/null \
		|| command -v google-chrome > /dev/null; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
		echo "Installing chromium for the tests of the report page."; \
		{ apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium; } \
			> apt.log 2>&1 && rm -f apt.log && exit 0; \
		echo "apt-get could not install chromium (apt.log): the tests of the report page will fail."; \
	else \
		echo "No Chromium here: install one for the tests of the report page, or set ONWARD_NO_BROWSER=1."; \
	fi

lint: $(STAMP) ## ruff (rules and format) and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP) ## let ruff format and fix what it can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## remove what make made: .venv, caches, build products, out/
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist out src/*.egg-info web/node_modules apt.log
	rm -f src/onward/quant/_native.*.so src/onward/quant/_native.pyd
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The order matters: torch by its exact version first, and the pinned setuptools, so that the package itself is built
# with it (--no-build-isolation) and not with whatever is newest.
$(COMMAND): pyproject.toml setup.py constraints.txt src/onward/quant/_native.c
	@$(PYTHON) -c 'import sys; sys.exit("onward needs Python $(OLDEST_PYTHON) or newer, and $(PYTHON) is " \
		+ sys.version.split()[0] + ": try make PYTHON=python3.12") \
		if sys.version_info < tuple(map(int, "$(OLDEST_PYTHON)".split("."))) else None'
	@echo "Installing the pinned packages into $(VENV); the first time this takes some minutes."
	@test -x $(BIN)/python || $(PYTHON) -m venv --clear $(VENV)
	@$(INSTALL) "$$(grep '^torch==' constraints.txt)" "$$(grep '^setuptools==' constraints.txt)" $(QUIETLY)
	@$(INSTALL) --no-build-isolation --editable . $(QUIETLY)
	@touch $@

$(STAMP): $(COMMAND)
	@$(INSTALL) --no-build-isolation --editable '.[dev,docs]' $(QUIETLY)
	@touch $@

$(VENV)/.installed-bench: $(STAMP)
	@$(INSTALL) --no-build-isolation --editable '.[dev,docs,bench]' $(QUIETLY)
	@$(INSTALL) --no-deps brevitas $(QUIETLY)
	@touch $@
