# Needs Python 3.11.2 to 3.13 with venv, and make.  Everything else comes with the lock file.

PYTHON ?= python3
UV ?= uv
VENV := .venv
PYTHONS ?= python3.11 python3.12 python3.13
BIN := $(VENV)/bin
# One more process than processors: much of what tests do is to wait.
WORKERS ?= $(shell expr $$(nproc) + 1)
STAMP := $(VENV)/installed
QUICK := $(addprefix tests/,odf sql planner lineage state project executors/data executors/engine/arrow test_layers.py)
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check --no-input

# Compiled modules are kept, also where the environment forbids it: tests start Python a thousand times.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo check test test-long test-pythons lint types bench faults fuzz docs image azurite lock clean

help:
	@echo "make demo       build a small project, add a file, build again"
	@echo "make check      style, types and the tests of functions: the quick half, minutes"
	@echo "make test       run the tests, of those that take long a sample"
	@echo "make test EACH=1  run each test, of those that take long a part: the gate"
	@echo "make test ALL=1 run all tests"
	@echo "make test-long  run the slow tests too, with many more examples"
	@echo "make test-pythons  run the tests with each of PYTHONS: $(PYTHONS)"
	@echo "make lint       check style"
	@echo "make types      check types"
	@echo "make bench      measure; see bench/README.md"
	@echo "make fuzz       feed the readers a million damaged inputs; see fuzz/run.py"
	@echo "make faults     disturb applies at every file-system call, for hours; see tests/faults"
	@echo "make docs       rewrite the generated pages of docs/"
	@echo "make image      build an image of the engines; SPARK=1, BASE=IMAGE, TAG=NAME, see docs/engines.md"
	@echo "make azurite    install a server of Azure Blob Storage for tests (needs npm)"
	@echo "make lock       resolve the dependencies again (needs uv)"
	@echo "make clean      remove everything that was made"

demo: $(STAMP)
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh examples/demo.sh

check: lint types
	@$(BIN)/python -m pytest -q -m "not slow and not spark" -n auto --dist loadfile $(QUICK)

test: $(STAMP)
	@$(BIN)/python -m pytest -q -m "not slow" -n $(WORKERS) --dist loadfile --no-loadscope-reorder \
		$(if $(ALL),,--sample=$(if $(EACH),each,some))

test-long: $(STAMP)
	@$(BIN)/python -m pytest -q --hypothesis-profile=long

test-pythons:
	@for each in $(PYTHONS); do \
		echo "== $$($$each -V), $$each"; \
		$(MAKE) --no-print-directory VENV=.venv-$$(basename $$each) PYTHON=$$each test || exit 1; \
	done

lint: $(STAMP)
	@$(BIN)/python -m ruff check .
	@$(BIN)/python -m ruff format --check .

types: $(STAMP)
	@$(BIN)/python -m mypy
	@$(BIN)/python -m mypy --explicit-package-bases docs bench fuzz image

bench: $(STAMP)
	@$(BIN)/python -m bench.run

fuzz: $(STAMP)
	@$(BIN)/python -m fuzz.run

faults: $(STAMP)
	@$(BIN)/python -m tests.faults.run

docs: $(STAMP)
	@$(BIN)/python docs/generate.py

image: $(STAMP)
	@$(BIN)/python -m image.build $(if $(SPARK),--spark) $(if $(BASE),--base "$(BASE)") \
		$(if $(TAG),--tag "$(TAG)")

azurite:
	@npm ci --prefix tests/support/servers/azurite --ignore-scripts --no-audit --no-fund

lock:
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
		--no-annotate --group dev --output-file requirements.lock pyproject.toml
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
		--no-annotate --extra connect --constraint requirements.lock \
		$$(sed -nE 's/^([A-Za-z0-9.-]+)==.*/--no-emit-package \1/p' requirements.lock) \
		--output-file requirements-connect.lock pyproject.toml

clean:
	rm -rf .venv .venv-* build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis bench/.data
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The client of Spark Connect has a folder of its own: pyarrow loads pandas wherever it is installed,
# which takes half a second of each command.
$(STAMP): requirements.lock requirements-connect.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11, 2) <= sys.version_info[:3] < (3, 14))' || \
		{ echo "odfbuild needs Python 3.11.2 to 3.13; name one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@test -x $(BIN)/python || { echo "Making $(VENV) ..."; $(PYTHON) -m venv $(VENV); }
	@echo "Installing what requirements.lock names into $(VENV) (once) ..."
	@$(PIP) install --require-hashes -r requirements.lock
	@$(PIP) install --require-hashes --no-deps --upgrade --target $(VENV)/connect \
		-r requirements-connect.lock
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@
