PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SETUP := $(VENV)/.set-up
# More than there are cores: many tests wait for a JVM to start, or for a time-out to pass.
WORKERS ?= $(shell expr $$(nproc) \* 3 / 2)
CLUSTER := tests/collect/rollouts/ray_cluster
# The tests start many Python processes: each would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

.PHONY: quickstart test test-all interpreters check setup bubblewrap clean

# Set up, then collect, format, train and eval on real debugger sessions.
quickstart: setup
	$(BIN)/stepinto run configs/quickstart.yaml

# Set up, then lint, type-check and run the tests that take a few seconds at most.
test: check interpreters
	$(BIN)/pytest -n $(WORKERS) --dist worksteal --durations 20 -m 'not slow and not cluster'
	$(BIN)/pytest --durations 5 -m 'cluster and not slow' $(CLUSTER)

# The same with every test: every CPython, every bundled bug, killed clusters, longer fuzzing.
test-all: check interpreters
	$(BIN)/pytest -n $(WORKERS) --dist worksteal --durations 40 -m 'not cluster' --fuzz-actions 100
	$(BIN)/pytest --durations 20 -m cluster

interpreters: setup
	$(BIN)/python -m tests.interpreters

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

setup: $(SETUP) bubblewrap

# torch comes first, so that nothing else chooses another build of it.
$(SETUP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[train,ray,dev]'
	touch $(SETUP)

# The sandbox that commands and programs under test run in.
bubblewrap:
	@command -v bwrap >/dev/null || { \
		$(SUDO) apt-get update -qq && \
		$(SUDO) apt-get install -y -qq --no-install-recommends bubblewrap util-linux; }

# Runs stay: they may hold what took days or dollars.
clean:
	rm -rf $(VENV) .cache .mypy_cache .pytest_cache .ruff_cache
