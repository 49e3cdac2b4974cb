# make help lists the targets. Variables: PYTHON (the interpreter that makes .venv), VENV (another folder for it),
# PACKAGES (more requirements for install, such as PACKAGES="numpy<2"), ARGS (more arguments for train, the tests
# and benchmark, tasks for agents), WORKERS (processes of tests), ROOT_DIR (where train writes), PEER_PYTHON (the
# interpreter that makes the environments of make peers).

VENV := .venv
STAMP := $(VENV)/.installed
ALL_STAMP := $(VENV)/.installed-all
RUN := $(VENV)/bin/python
ROOT_DIR ?= runs/impala_cartpole
WORKERS ?= 2
PACKAGES ?=
PEER_PYTHON ?= $(RUN)
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help install install-all train test test-all test-slow lint format benchmark peers agents docs docs-settings clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' Makefile

install: $(STAMP)  ## make .venv with ALF and what lint and test need, see docs/packaging.md

# Prints the path of the first interpreter that ALF can use, or nothing. It runs each: a name on PATH may be a shim for
# a version that is not there. The path is the real one: with .venv activated, the name is a link that --clear removes.
PYTHONS := $(or $(PYTHON),python3.13 python3.12 python3.11 python3.10 python3 python)
PROBE := import ensurepip, os, sys; \
	(3, 10) <= sys.version_info < (3, 14) and print(os.path.realpath(sys.executable))
FIND_PYTHON := for python in $(PYTHONS); do "$$python" -c '$(PROBE)' 2>/dev/null </dev/null | grep . && break; done
NO_PYTHON := ALF needs Python 3.10 to 3.13 with venv, and $(PYTHONS) is none: \
	install one (Debian: and python3-venv) or set PYTHON=/path/to/python

# PYTHON=... makes .venv anew if another interpreter has made it.
ifneq ($(PYTHON),)
ifneq ($(shell cat $(STAMP) 2>/dev/null),$(shell $(FIND_PYTHON)))
$(STAMP): FORCE
FORCE:
endif
endif

# The stamp comes last, so that an interrupted install is started anew.
$(STAMP): setup.py pyproject.toml alf/tf_agents.txt
	$(eval FOUND := $(shell $(FIND_PYTHON)))$(if $(FOUND),,$(error $(NO_PYTHON)))
	"$(FOUND)" -m venv --clear $(VENV)
	$(RUN) -m pip install --quiet --upgrade pip
	$(RUN) -m pip install -e ".[dev]" $(foreach package,$(PACKAGES),"$(package)")
	$(RUN) -m pip install --no-deps -r alf/tf_agents.txt
	@echo "$(FOUND)" > $@

install-all: $(ALL_STAMP)  ## add all extras, which test-all and docs need

$(ALL_STAMP): $(STAMP)
	$(RUN) -m pip install -e ".[dev,all]" $(foreach package,$(PACKAGES),"$(package)")
	@touch $@

train: $(STAMP)  ## train IMPALA on CartPole; ROOT_DIR=... ARGS=...
	$(RUN) -m alf train examples/impala_cartpole.gin --output="$(ROOT_DIR)" $(ARGS)

test: $(STAMP)  ## run the tests that stay in their process, before each commit; ARGS=...
	$(RUN) -m pytest -q -n $(WORKERS) --dist worksteal $(ARGS)

test-all: $(ALL_STAMP)  ## run the tests that start programs, too; ARGS=...
	$(RUN) -m pytest -q -n $(WORKERS) --dist worksteal --tier=all $(ARGS)

test-slow: $(ALL_STAMP)  ## run the tests that take minutes; ARGS=...
	$(RUN) -m pytest -q --tier=slow --timeout=1800 $(ARGS)

lint: $(STAMP)  ## check style, format and types
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

format: $(STAMP)  ## fix what ruff can fix
	$(RUN) -m ruff check --fix-only .
	$(RUN) -m ruff format .

benchmark: $(STAMP)  ## measure the throughput on CartPole; ARGS=...
	$(RUN) -m benchmarks.throughput --workload=cartpole_vector --seconds=20 $(ARGS)

# One that cannot be installed is left out. PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu brings the
# PyTorch without CUDA.
peers: $(STAMP)  ## install the libraries of python -m benchmarks.peers, each in .peers/NAME
	@for file in benchmarks/peers/requirements/*.txt; do \
	  name=$$(basename "$$file" .txt); echo "$$name"; \
	  "$(PEER_PYTHON)" -m venv --clear ".peers/$$name" && \
	  ".peers/$$name/bin/python" -m pip install --quiet --requirement "$$file" || \
	  { rm -rf ".peers/$$name"; echo "$$name is left out: see the error above"; }; \
	done

agents: $(STAMP)  ## train agents of small tasks and pack them into alf/agents, for a release; ARGS=...
	$(RUN) -m benchmarks.agents $(ARGS)

# The variable hides a notice of mkdocs-material about its successor.
docs: $(ALL_STAMP)  ## build the site of docs/ in build/site; a broken link is an error; ARGS=...
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict $(ARGS)

docs-settings: $(STAMP)  ## write docs/settings.md and the tables of docs/migration
	$(RUN) docs/make_settings.py

clean:  ## remove .venv, caches and build outputs; runs/ stays
	rm -rf .venv* .peers build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
