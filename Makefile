PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TRAIN := $(VENV)/.set-up-to-train
SETUP := $(VENV)/.set-up
# More than there are cores: many tests wait for a JVM to start, or for a time-out to pass.
WORKERS ?= $(shell expr $$(nproc) \* 3 / 2)
# Debuggers, JVMs and containers miss a limit now and then on a busy machine. A test that passes
# only at its second try is listed at the end as RERUN.
RERUN := --reruns 1 -raR
CLUSTER := tests/collect/rollouts/ray_cluster
# The tests start many Python processes: each would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE
PAGES := .cache/site
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

.PHONY: quickstart test test-all interpreters check site setup bubblewrap clean

# Set up, then collect, format, train and eval on real debugger sessions.
quickstart: $(TRAIN) bubblewrap
	$(BIN)/stepinto run configs/quickstart.yaml

# Set up, then lint, type-check and run the tests that take a few seconds at most.
test: check interpreters
	$(BIN)/pytest -n $(WORKERS) --dist worksteal $(RERUN) --durations 20 -m 'not slow and not cluster'
	$(BIN)/pytest $(RERUN) --durations 5 -m 'cluster and not slow' $(CLUSTER)

# The same with every test: every CPython, every bundled bug, killed clusters, longer fuzzing.
test-all: check interpreters
	$(BIN)/pytest -n $(WORKERS) --dist worksteal $(RERUN) --durations 40 -m 'not cluster' --fuzz-actions 100
	$(BIN)/pytest $(RERUN) --durations 20 -m cluster

interpreters: setup
	$(BIN)/python -m tests.interpreters

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The documentation as `site/`, with an API reference and a gallery. Needs no network.
site: setup
	rm -rf site $(PAGES) .cache/gallery
	mkdir -p $(PAGES)/docs/gallery $(PAGES)/demonstrations $(PAGES)/tests
	cp *.md $(PAGES)
	cp docs/*.md docs/site-only/*.md $(PAGES)/docs
	cp demonstrations/README.md $(PAGES)/demonstrations
	cp tests/security_claims.md $(PAGES)/tests
	$(BIN)/stepinto view demonstrations --bug textflow__wide-word-break \
		--variant debug2fix_tool_limit --output $(PAGES)/docs/gallery/session
	$(BIN)/stepinto format configs/played.yaml runs_folder=.cache/gallery
	cp .cache/gallery/played/sft/README.md $(PAGES)/docs/gallery/card.md
	$(BIN)/stepinto eval configs/quickstart.yaml run=pairs runs_folder=.cache/gallery \
		eval.benchmark.limit=4 'models.silent={backend: oracle, answer: nothing}' \
		'eval.pairs={main: oracle, sub: [oracle, silent]}'
	$(BIN)/zensical build --strict
	cp -r .cache/gallery/pairs site/docs/gallery

setup: $(SETUP) bubblewrap

# torch comes first, so that nothing else chooses another build of it.
$(TRAIN): pyproject.toml constraints.txt
	@echo "Installing into $(VENV), which takes some minutes"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[train,mcp]'
	touch $(TRAIN)

$(SETUP): $(TRAIN)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[train,ray,docs,dev]'
	touch $(SETUP)

# The sandbox that commands and programs under test run in.
bubblewrap:
	@command -v bwrap >/dev/null || { \
		$(SUDO) apt-get update -qq && \
		$(SUDO) apt-get install -y -qq --no-install-recommends bubblewrap util-linux; }

# Runs stay: they may hold what took days or dollars.
clean:
	rm -rf $(VENV) .cache site .mypy_cache .pytest_cache .ruff_cache
