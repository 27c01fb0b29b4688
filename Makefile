# Everything runs in its own environment, which the first command makes: Python 3.11+, make and a package registry are enough.
#   make demo    a small story in a throw-away database        make test    the whole suite, on servers it starts itself
#   make check   what CI runs: lint, types, room test, suite   make clean   remove the environment and all caches
#   make faults  every fault scenario, three seeds, full size: SEED=2 SCENARIO=7 SIZE=ci pick one   make soak  30 minutes of all
#   make outbox  20 writers, 10,000 events, dispatchers that are killed each second (docs/events.md)
#   make mutants breaks the engine in many small ways; a scenario must notice each   (docs/reliability.md)
#   make catalog writes tests/db/catalog.txt anew: every function, owner, setting and right, compared by the suite
#   make guide   follows docs/operate.md in a clean Debian: root, namespaces and a Debian registry are needed, and minutes
#   make install-systemd   what docs/operate.md says: a checkout in /opt/reproq becomes a service. DESTDIR=… for packagers
#   make bench   floors, Reproq and other task queues, 15 minutes at most     make bench-full   everything, can be resumed
# PYTHON=… picks the interpreter, VENV=… another place, ARGS=… goes to pytest, JOBS=… is the number of test processes.

VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
JOBS ?= $(shell n=$$(nproc 2>/dev/null || echo 2); [ $$n -gt 4 ] && n=4; [ $$n -lt 2 ] && n=2; echo $$n)
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -q
CANDIDATES := $(PYTHON) python3.13 python3.12 python3.11 python3

.PHONY: demo test check outbox lint types rooms format catalog guide install-systemd uninstall-systemd bench bench-full clean
.DEFAULT_GOAL := test

demo: $(STAMP)
	@$(BIN)/reproq demo

# What compares two rates runs alone, first. 5 is pytest's word for: nothing of what ARGS names is of this kind.
test: $(STAMP)
	@$(BIN)/python -m pytest -q -m rates $(ARGS); alone=$$?; \
	$(PYTEST) -m "not rates" $(ARGS); beside=$$?; \
	[ $$alone = 5 ] && exit $$beside; [ $$beside = 5 ] && exit $$alone; exit $$((alone | beside))

check: lint types rooms test

SEED ?= 1,2,3
SIZE ?= full
FAULTS = FAULTS_SEED=$(SEED) FAULTS_SIZE=$(SIZE) $(BIN)/python -m pytest tests/faults -q -rP --no-header -p no:cacheprovider
faults: $(STAMP)
ifdef SCENARIO
	@$(FAULTS) -k "$$(case $(SCENARIO) in *[!0-9]*) echo $(SCENARIO) ;; *) printf 's%02d' $(SCENARIO) ;; esac)" $(ARGS)
else
	@$(FAULTS) -m rates $(ARGS)
	@$(FAULTS) -m "not rates" -n $(JOBS) --dist worksteal $(ARGS)
endif

# Full size; a small one is in the suite.
outbox: $(STAMP)
	@OUTBOX_SIZE=full $(BIN)/python -m pytest tests/outbox/test_storm.py -q -rP --no-header -p no:cacheprovider $(ARGS)

soak: SEED = 1
soak: $(STAMP)
	@FAULTS_SOAK_S=$${SECONDS_TO_SOAK:-1800} $(FAULTS) -k s20 $(ARGS)

mutants: $(STAMP)
	@$(BIN)/python -m tests.faults.mutants $(ARGS)

guide: $(STAMP)
	@command -v debootstrap >/dev/null || { apt-get update -q && apt-get install -y -q debootstrap; } || true
	@GUIDE=1 $(BIN)/python -m pytest -q tests/units/test_operate_guide.py $(ARGS)

install-systemd uninstall-systemd:
	@DESTDIR="$(DESTDIR)" sh deploy/systemd/$(@:-systemd=).sh

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

catalog: $(STAMP)
	@$(BIN)/python -m tests.db.catalog

# The peers get environments of their own (bench/.envs) at the first run. ARGS="--only no-op --scale 0.2" for a trial.
bench: $(STAMP)
	@$(BIN)/python -m bench --minutes 14 $(ARGS)

bench-full: $(STAMP)
	@$(BIN)/python -m bench --full $(ARGS)

clean:
	@rm -rf bench/.envs .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
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
