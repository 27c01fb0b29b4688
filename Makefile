# Everything runs in its own environment, which the first command makes: Python 3.11+, make and a package registry are enough.
#   make demo    a small story in a throw-away database        make test    the whole suite, on servers it starts itself
#   make check   what CI runs: lint, types, room test, suite   make clean   remove the environment and all caches
# PYTHON=… picks the interpreter, VENV=… another place, ARGS=… goes to pytest, JOBS=… is the number of test processes.

VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
JOBS ?= $(shell n=$$(nproc 2>/dev/null || echo 2); [ $$n -gt 4 ] && n=4; [ $$n -lt 2 ] && n=2; echo $$n)
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -q
CANDIDATES := $(PYTHON) python3.13 python3.12 python3.11 python3

.PHONY: demo test check lint types rooms format clean
.DEFAULT_GOAL := test

demo: $(STAMP)
	@$(BIN)/reproq demo

test: $(STAMP)
	@$(PYTEST) $(ARGS)

check: lint types rooms test

lint: $(STAMP)
	@$(BIN)/ruff check -q .
	@$(BIN)/ruff format -q --check .

types: $(STAMP)
	@$(BIN)/mypy --no-error-summary

rooms: $(STAMP)
	@$(BIN)/python -m pytest -q --no-header tests/test_rooms.py

format: $(STAMP)
	@$(BIN)/ruff check -q --fix .
	@$(BIN)/ruff format -q .

clean:
	@rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# An environment that was made in another place, or whose Python is gone, is made again.
ifneq ($(shell $(BIN)/python -c '' 2>/dev/null && cat $(STAMP) 2>/dev/null),$(CURDIR))
.PHONY: $(STAMP)
endif

$(STAMP): pyproject.toml .ci/environment.py
	@for python in $(CANDIDATES); do \
	    if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	        exec $$python -I .ci/environment.py "$(VENV)" "$(CURDIR)"; \
	    fi; \
	done; \
	echo "no Python 3.11 or newer was found (tried: $(CANDIDATES)): install one, or name it: make PYTHON=/path/to/python" >&2; \
	exit 1
