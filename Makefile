# The two commands: `make run` starts the app on http://127.0.0.1:7860, `make test` runs the tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# PyTorch's CPU wheels; set TORCH_INDEX= (empty) where your package index already offers a CPU build.
TORCH_INDEX ?=
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
TORCH := $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX),)

.PHONY: install run test test-all lint bench clean

install: $(VENV)/installed
$(VENV)/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade "pip>=25.1"
	$(PIP) $(TORCH) torch
	$(PIP) --group dev -e .
	$(BIN)/trinity backbone install
	touch $@

run: install
	$(BIN)/trinity serve

# At most 10 minutes on 2 cores. Browser tests run apart: Playwright keeps an event loop that asynchronous tests cannot share.
# A missing Debian tool (chromium, bubblewrap, postgresql) is a counted skip.
test: install lint
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow and not gpu" --ignore tests/e2e
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow and not gpu" tests/e2e

# The acceptance lists too: at most 60 minutes. Its last result is tests/RESULTS.md.
test-all: install lint
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not gpu" --ignore tests/e2e
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not gpu" tests/e2e

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: install
	$(BIN)/trinity bench decision --quick
	$(BIN)/trinity bench population --quick
	$(BIN)/trinity bench verifier --quick
	$(BIN)/trinity bench sandbox --quick
	$(BIN)/trinity bench calls --quick

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
