# Two commands do everything on a machine with Python >= 3.10 and make: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-drift check format lint types layers payload dist bench coverage-table clean

demo: .venv/installed
	tools/demo.sh

test: .venv/installed
	$(BIN)/pytest

# Opt-in: RELEASES="1.8.1 2.4.1" downloads these CUDA wheels, 0.6 to 0.9 GB each, and probes them on the CPU.
RELEASES ?= 2.0.0
test-drift: .venv/installed
	ENVKIT_DRIFT="$(CURDIR)/.cache/drift" ENVKIT_DRIFT_RELEASES="$(RELEASES)" $(BIN)/pytest tests/test_releases.py -k real_older_release

check: .venv/installed format lint types layers payload test dist

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[channel,dev]'
	touch $@

format: .venv/installed
	$(BIN)/ruff format --check .

lint: .venv/installed
	$(BIN)/ruff check .

types: .venv/installed
	$(BIN)/mypy

layers: .venv/installed
	$(BIN)/lint-imports

payload: .venv/installed
	$(BIN)/vermin --quiet --target=3.8- --violations --eval-annotations envkit/payload

dist: .venv/installed
	rm -rf dist
	$(BIN)/python -m build --quiet --outdir dist .
	$(BIN)/python tools/dist_files.py

# Half an hour and more: most of it is the grid of all settings, and 200 pairs of runs.
bench: .venv/installed
	$(BIN)/python tests/benchmarks/run.py
	$(BIN)/python tests/benchmarks/loading.py

coverage-table: .venv/installed
	$(BIN)/python tools/coverage_table.py ../shared/channels

clean:
	rm -rf .demo .cache dist
