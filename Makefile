# Needs Python 3.11 or newer, make and pip. Everything is installed into $(VENV); the second run installs nothing.
# All paths are relative, so the directory of the repository may have any name, with spaces too.

PYTHON ?= python3
VENV ?= .venv
RESULTS ?= results
PYTEST_ARGS ?= -n 2
# For the tests of evals. Not in the lock, since its builds differ by machine: pip takes the one that your configuration
# offers, which on Linux may be the large one for GPUs. `make setup TORCH=` leaves it out, and its tests are skipped.
TORCH ?= torch==2.13.0

BIN := $(VENV)/bin
# A virtual environment that is active elsewhere must not catch what is meant for this one.
UV := VIRTUAL_ENV="$(VENV)" "$$(command -v uv || echo $(BIN)/uv)" --quiet
CORE := $(VENV)/.core-installed
DEV := $(VENV)/.dev-installed
DEMO := $(VENV)/.demo-installed

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo nightly dashboard pictures docs test test-here test-clusters lint bench reference lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(DEV) ## Install Paceline and all that its development needs into .venv

# Exit code 1 is what a regression that nobody has looked at gives: in the demo it is planted.
DEMO_DIR = $(RESULTS)/demo
demo: $(DEMO) ## Run benchmarks, find a planted regression and its commit, build the dashboard
	@rm -rf "$(DEMO_DIR)"
	@$(BIN)/python tools/demo_nights.py repo "$(DEMO_DIR)/repo"
	@echo; echo "== A first look, for the nights before to be made of"
	@$(DEMO_NIGHTLY) --session-name first-look --db "$(DEMO_DIR)/first-look.db" --quiet
	@$(BIN)/python tools/demo_nights.py nights "$(DEMO_DIR)/first-look" --repo "$(DEMO_DIR)/repo" --db "$(DEMO_DIR)/benchmark.db"
	@echo; echo "== Tonight: paceline nightly examples/demo.yaml"
	@$(DEMO_NIGHTLY) --session-name tonight --db "$(DEMO_DIR)/benchmark.db" || [ $$? -eq 1 ]
	@echo; echo "== The history: paceline history log clean_text clean_overhead"
	@$(BIN)/paceline history log clean_text clean_overhead --last 15 --db "$(DEMO_DIR)/benchmark.db"
	@echo; echo "== What changed: paceline regressions"
	@$(BIN)/paceline regressions --metric clean_overhead --repo "$(DEMO_DIR)/repo" --db "$(DEMO_DIR)/benchmark.db" || [ $$? -eq 1 ]
	@echo; echo "== The dashboard: paceline dashboard build"
	@$(BIN)/paceline dashboard build "$(DEMO_DIR)/dashboard" --results-dir "$(DEMO_DIR)" --db "$(DEMO_DIR)/benchmark.db" \
		--repo "$(DEMO_DIR)/repo" --title "Demo, with made-up nights"
	@echo "Look at $(DEMO_DIR)/tonight/report.md, and at $(DEMO_DIR)/dashboard/index.html in a browser."

# A demo shows its regression on a busy machine, too: what runs beside it does not keep its numbers from being judged.
DEMO_NIGHTLY = PACELINE_DISTURBED=ignore DEMO_REPO="$$(cd "$(DEMO_DIR)/repo" && pwd)" $(BIN)/paceline nightly examples/demo.yaml --results-dir "$(DEMO_DIR)"

# Without torch the entries that need it are left out. A night that found something worse still gets its dashboard.
nightly: $(DEV) ## Run the smoke profile of our own benchmarks: run, history, verdicts, dashboard
	@status=0; \
	$(BIN)/paceline nightly benchmarks/nightly.yaml --only tag:smoke $(if $(TORCH),,--exclude tag:torch) \
		--results-dir "$(RESULTS)" --db "$(RESULTS)/benchmark.db" || status=$$?; \
	[ $$status -le 1 ] || exit $$status; \
	$(BIN)/paceline regressions --db "$(RESULTS)/benchmark.db" || [ $$? -eq 1 ] || exit 2; \
	$(BIN)/paceline dashboard build "$(RESULTS)/dashboard" --results-dir "$(RESULTS)" --db "$(RESULTS)/benchmark.db" \
		--title "Paceline's own benchmarks" || exit $$?; \
	echo "Report: newest session in $(RESULTS)/; history: $(RESULTS)/benchmark.db; charts: $(RESULTS)/dashboard/index.html"; \
	exit $$status

dashboard: ## Build the dashboard's bundle from frontend/; needs Node 20 or newer
	cd frontend && npm install --no-audit --no-fund --omit-lockfile-registry-resolved && npm run build

pictures: $(DEV) ## Take the pictures of the dashboard in docs/; needs Chromium
	$(BIN)/python tools/dashboard_pictures.py docs/images/dashboard

# Not --quiet: what it does not say, --strict does not see.
docs: $(DEV) ## Build the documentation's site into site/; needs no network
	NO_MKDOCS_2_WARNING=1 PYTHONWARNINGS=ignore $(BIN)/mkdocs build --strict
	@echo "site/index.html; to search in it: $(BIN)/python -m http.server --bind 127.0.0.1 --directory site"

test: lint test-here test-clusters ## Run the checks and all tests; `make --jobs=3 test` side by side

test-here: $(DEV) ## Run the tests that need no cluster
	$(BIN)/python -m pytest -m "not ray and not dask" $(PYTEST_ARGS)

# One at a time and in a process of their own: each cluster takes all cores while it comes up, and Ray leaves threads.
# Only files that have such tests are read: to import the others takes longer than a cluster takes to start.
test-clusters: $(DEV) ## Run the tests that start Ray or Dask
	$(BIN)/python -m pytest -m "ray or dask" $$(grep -lrE 'mark\.(ray|dask)' --include='test_*.py' tests | sort)

lint: $(DEV) ## Check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(DEV) ## Measure what Paceline itself costs
	$(BIN)/python benchmarks/overhead.py

reference: $(DEV) ## Write the pages of docs/ that are made from the code
	$(BIN)/python -m tools.reference.cli docs/cli.md
	$(BIN)/python -m tools.reference.python docs/python-api.md
	$(BIN)/python -m tools.reference.config > docs/config.md
	$(BIN)/python -m tools.reference.metrics > docs/metrics.md

lock: $(DEV) ## Pin the newest versions that pyproject.toml allows
	$(UV) pip compile --universal --generate-hashes --upgrade --extra dev pyproject.toml \
		--no-emit-index-url --custom-compile-command "make lock" --output-file requirements.lock
	$(UV) pip compile --universal --generate-hashes --upgrade --python-version 3.12 docker/mlflow.in \
		--no-emit-index-url --custom-compile-command "make lock" --output-file docker/mlflow.lock

clean: ## Remove .venv, caches and results
	rm -rf "$(VENV)" "$(RESULTS)" build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests benchmarks examples tools -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Paceline needs Python 3.11 or newer, and $(PYTHON) is not: try 'make PYTHON=python3.11 $(MAKECMDGOALS)'" >&2; exit 1; }
	$(PYTHON) -m venv "$(VENV)"

# uv installs in seconds what takes pip a minute. It is pinned like the rest.
$(VENV)/.uv: $(BIN)/python
	@command -v uv >/dev/null || { \
		awk '/^uv==/ { found = 1 } found { print } found && !/\\$$/ { exit }' requirements.lock > $(VENV)/uv.lock; \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(VENV)/uv.lock; }
	@touch $@

# What running needs: the core's dependencies, at the locked versions and hashes, and Paceline itself.
$(CORE): pyproject.toml requirements.lock | $(VENV)/.uv
	$(UV) pip install --constraint requirements.lock --requirement pyproject.toml hatchling
	$(UV) pip install --no-deps --no-build-isolation --editable .
	@touch $@

# The demo's benchmarks read and write Parquet and hash texts: what of the extra `curate` they import.
$(DEMO): $(CORE)
	$(UV) pip install --constraint requirements.lock pyarrow xxhash
	@touch $@

$(DEV): $(CORE)
	$(UV) pip install --require-hashes --requirement requirements.lock
	$(if $(TORCH),$(BIN)/python -m pip install --quiet --disable-pip-version-check "$(TORCH)")
	@touch $@
