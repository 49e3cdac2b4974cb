# make help lists the targets. Variables: PYTHON (the interpreter that makes .venv), ARGS (more
# arguments for train, test, test-slow and benchmark), WORKERS (processes of test), ROOT_DIR (where
# train writes).

VENV := .venv
STAMP := $(VENV)/.installed
ENVPOOL_STAMP := $(VENV)/.envpool
RUN := $(VENV)/bin/python
ROOT_DIR ?= runs/impala_cartpole
WORKERS ?= 2
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help install install-envpool train test test-slow lint format benchmark docs docs-settings clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' Makefile

install: $(STAMP)  ## make .venv with ALF and all that it needs, see docs/packaging.md

# Prints "ok", then the path of the first interpreter that runs and is a Python 3.10 or 3.11; else
# "no", then what was found. Runs each: a name on PATH may be a shim for a version that is not
# there. The path is the real one: with .venv activated, the name is a link that --clear removes.
PROBE := import os, sys, importlib.util as u; \
	print("%d.%d.%d" % sys.version_info[:3] + \
	("" if u.find_spec("ensurepip") else " without ensurepip") + \
	":" + os.path.realpath(sys.executable))
define FIND_PYTHON
set -- "$${PYTHON:-python3.11}"; \
test -n "$$PYTHON" || set -- "$$@" python3.10 python3 python; \
found=; \
for python in "$$@"; do \
  answer=$$("$$python" -c '$(PROBE)' 2>/dev/null </dev/null) || continue; \
  version=$${answer%%:*}; \
  case "$$version" in \
    *" "*) ;; \
    3.10.*|3.11.*) echo "ok $${answer#*:}"; exit 0;; \
  esac; \
  found="$$found$${found:+, }$$python ($$version)"; \
done; \
if test -z "$$found"; then found="none that runs"; fi; \
echo "no $$found"
endef
# make does not export its variables to $(shell), so PYTHON is handed over by name.
SEARCH = $(shell PYTHON='$(PYTHON)'; $(FIND_PYTHON))
NO_PYTHON = ALF needs Python 3.10 or 3.11; found $(wordlist 2,99,$(FOUND)): \
	install one or set PYTHON=/path/to/python

# The stamp comes last, so that an interrupted install is started anew. One pip call for
# everything: TF-Agents' pins decide which versions of the others fit.
$(STAMP): setup.py pyproject.toml
	$(eval FOUND := $(SEARCH))$(if $(filter ok,$(firstword $(FOUND))),,$(error $(NO_PYTHON)))
	"$(wordlist 2,99,$(FOUND))" -m venv --clear $(VENV)
	$(RUN) -m pip install --quiet --upgrade pip
	$(RUN) -m pip install -e ".[dev]"
	@touch $@

install-envpool: $(ENVPOOL_STAMP)  ## add EnvPool, whose tests are skipped without it

$(ENVPOOL_STAMP): $(STAMP)
	$(RUN) -m pip install -e ".[dev,envpool]"
	@touch $@

train: $(STAMP)  ## train IMPALA on CartPole; ROOT_DIR=... ARGS=...
	$(RUN) -m alf.bin.train --gin_file=examples/impala_cartpole.gin --root_dir="$(ROOT_DIR)" $(ARGS)

test: $(STAMP)  ## run the tests, without the slow ones; ARGS=...
	$(RUN) -m pytest -q -n $(WORKERS) --dist worksteal $(ARGS)

test-slow: $(STAMP)  ## run the slow tests; ARGS=...
	$(RUN) -m pytest -q -m slow --timeout=1800 $(ARGS)

lint: $(STAMP)  ## check style, format and types
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

format: $(STAMP)  ## fix what ruff can fix
	$(RUN) -m ruff check --fix-only .
	$(RUN) -m ruff format .

benchmark: $(STAMP)  ## measure the throughput on CartPole; ARGS=...
	$(RUN) -m benchmarks.throughput --workload=cartpole_vector --seconds=20 $(ARGS)

# The variable hides a notice of mkdocs-material about its successor.
docs: $(STAMP)  ## build the site of docs/ in build/site; a broken link is an error; ARGS=...
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict $(ARGS)

docs-settings: $(STAMP)  ## write docs/settings.md from the docstrings
	$(RUN) docs/make_settings.py

clean:  ## remove .venv, caches and build outputs; runs/ stays
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
