# Every command of the bundle. `make help` lists them; set-up happens by itself and only once.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
URL ?= http://127.0.0.1:8787
TOKEN ?=
DOOR ?=
POLICY ?=
FACILITATOR ?=
SEEKER_KEY ?=
WORKER_KEY ?=
WORKER_AGENT_ID ?=
NETWORK ?=
STACK ?= piecework
PARAMETERS ?=
DEPLOY_ARGS ?=
PYTEST_ARGS ?=
WORKERS ?= 3

unexport PYTHONDONTWRITEBYTECODE
unexport PYTHONPATH
export UV_PYTHON_DOWNLOADS := never
export SAM_CLI_TELEMETRY := 0
export PIECEWORK_UV := $(CURDIR)/.venv-uv/bin/uv
export PIECEWORK_PYTHON := $(CURDIR)/.venv/bin/python

PY := .venv/bin/python
# Files in their order, so that those which take long (bench, build, …) begin first, and the unit tests fill what is left.
PYTEST = $(PY) -m pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder
SAM := .venv-sam/bin/sam
COMPILE := $(PIECEWORK_UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate
STAMP := .synced
ENVS := .venv/$(STAMP) .venv-ministack/$(STAMP)
SEEKERS := .venv-seekers/$(STAMP) .venv-x402v1/$(STAMP) build/node/$(STAMP)
READERS := .venv-openapi/$(STAMP) build/openapi/$(STAMP)
SETUP_LOG := build/setup.log
# What set-up says when it fails: one sentence; the tools' own words go to the log.
WANTED_PYTHON := make: $(PYTHON) is not a Python 3.11 or newer; name one that is installed: make PYTHON=python3.12 …
NO_VENV := make: $(PYTHON) cannot make a virtual environment; install its venv module (on Debian: apt install python3-venv)
TOLD = >>$(SETUP_LOG) 2>&1 || { echo "make: packages for $@ cannot be installed; check that the package registry can be reached; $(SETUP_LOG) has the details" >&2; exit 1; }
SDKS := .venv-rebuno/$(STAMP) .venv-rebuno02/$(STAMP)

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | sort | awk -F'\t' '{printf "  %-12s %s\n", $$1, $$2}'

.PHONY: run
run: $(ENVS) ## Start the doors runtime, worker and kernel on 127.0.0.1, over an embedded AWS
	$(PY) -m local.run

.PHONY: demo-hire
demo-hire: .venv/$(STAMP) .venv-seekers/$(STAMP) ## Hire the worker of a running `make run`: sign, pay, fetch
	$(PY) -m local.demo_hire

.PHONY: test
test: environments ## Run the tests (build/junit.xml)
	@mkdir -p build
	$(PYTEST) --junitxml=build/junit.xml $(PYTEST_ARGS)
	@$(PY) -m tests.browser.chromium

.PHONY: test-all
test-all: test ## Run all tests: those of `make test`, then the slow ones (build/junit-slow.xml)
	$(PYTEST) -m slow --junitxml=build/junit-slow.xml $(PYTEST_ARGS)
	@$(PY) -m tests.browser.chromium

.PHONY: test-browser
test-browser: $(ENVS) build/node/$(STAMP) ## Run the tests of the console in Chromium alone (build/junit-browser.xml, build/screens)
	$(PY) -m pytest -q tests/browser -m "slow or not slow" --junitxml=build/junit-browser.xml $(PYTEST_ARGS)
	@$(PY) -m tests.browser.chromium

.PHONY: pictures
pictures: $(ENVS) ## Draw the pictures of docs/console.md anew, over ordinary work on a machine of its own
	$(PY) -m tests.browser.pictures

.PHONY: check
check: .venv/$(STAMP) .venv-sam/$(STAMP) build/node/$(STAMP) ## Format, lint, types, template, OpenAPI drift
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	$(PY) -m mypy
	.venv/bin/cfn-lint template.yaml
	AWS_DEFAULT_REGION=$${AWS_DEFAULT_REGION:-us-east-1} $(SAM) validate --lint --template template.yaml
	PYTHONPATH=layers/piecework:layers $(PY) -m piecework.extend.manifest --check
	$(PY) -m local.openapi --check
	$(PY) -m local.openapi.types

.PHONY: format
format: .venv/$(STAMP) ## Format the code
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

.PHONY: replay
replay: $(ENVS) ## Send events/ through the handlers and compare the answers
	$(PY) -m local.replay

.PHONY: conformance
conformance: export CONFORMANCE_URL := $(URL)
conformance: export CONFORMANCE_TOKEN := $(TOKEN)
conformance: export CONFORMANCE_DOOR := $(DOOR)
conformance: export CONFORMANCE_POLICY := $(POLICY)
conformance: export CONFORMANCE_FACILITATOR := $(FACILITATOR)
conformance: export CONFORMANCE_SEEKER_KEY := $(SEEKER_KEY)
conformance: export CONFORMANCE_WORKER_KEY := $(WORKER_KEY)
conformance: export CONFORMANCE_WORKER_AGENT_ID := $(WORKER_AGENT_ID)
conformance: export CONFORMANCE_NETWORK := $(NETWORK)
conformance: .venv/$(STAMP) ## Ask the door at URL=… its conformance cases: TOKEN=…, DOOR=runtime|worker|kernel if it cannot be told (docs/conformance.md)
	$(PY) -m pytest -q -p no:cacheprovider tests/conformance $(PYTEST_ARGS)

.PHONY: bench
bench: $(ENVS) .venv-seekers/$(STAMP) ## Measure the doors beside what one would write instead (build/bench.json)
	$(PY) -m bench

.PHONY: build
build: .venv/$(STAMP) .venv-sam/$(STAMP) ## Build what is deployed into .aws-sam/build
	$(SAM) build
	$(PY) -m local.build.deployable .aws-sam/build/template.yaml

.PHONY: deploy
deploy: build ## Build and deploy: STACK=… PARAMETERS="Name=Value …" (DEPLOY_ARGS go to sam)
	$(PY) -m local.deploy --stack "$(STACK)" --sam=" $(DEPLOY_ARGS)" $(PARAMETERS)

.PHONY: lock
lock: .venv-uv/$(STAMP) ## Lock every requirements file again, with hashes
	$(COMPILE) $(LOCK_ARGS) layers/piecework/requirements.in -o layers/piecework/requirements.txt
	$(COMPILE) $(LOCK_ARGS) -c layers/piecework/requirements.txt layers/executors/requirements.in -o layers/executors/requirements.txt
	$(COMPILE) $(LOCK_ARGS) -c layers/piecework/requirements.txt layers/worker/requirements.in -o layers/worker/requirements.txt
	$(COMPILE) $(LOCK_ARGS) -c layers/piecework/requirements.txt layers/kernel/requirements.in -o layers/kernel/requirements.txt
	$(COMPILE) $(LOCK_ARGS) -c layers/piecework/requirements.txt -c layers/worker/requirements.txt layers/ops/requirements.in -o layers/ops/requirements.txt
	$(COMPILE) $(LOCK_ARGS) -c layers/piecework/requirements.txt -c layers/kernel/requirements.txt functions/kernel/streams/requirements.in -o functions/kernel/streams/requirements.txt
	$(COMPILE) $(LOCK_ARGS) -c layers/piecework/requirements.txt -c layers/worker/requirements.txt functions/worker/streams/requirements.in -o functions/worker/streams/requirements.txt
	$(COMPILE) $(LOCK_ARGS) -c layers/piecework/requirements.txt -c functions/kernel/streams/requirements.txt functions/ops/kernel_streams/requirements.in -o functions/ops/kernel_streams/requirements.txt
	$(COMPILE) $(LOCK_ARGS) -c layers/piecework/requirements.txt -c layers/executors/requirements.txt -c layers/worker/requirements.txt -c layers/kernel/requirements.txt -c layers/ops/requirements.txt requirements/dev.in -o requirements/dev.txt
	$(COMPILE) $(LOCK_ARGS) -c requirements/dev.txt requirements/seekers.in -o requirements/seekers.txt
	$(COMPILE) $(LOCK_ARGS) requirements/x402v1.in -o requirements/x402v1.txt
	$(COMPILE) $(LOCK_ARGS) requirements/rebuno.in -o requirements/rebuno.txt
	$(COMPILE) $(LOCK_ARGS) requirements/rebuno02.in -o requirements/rebuno02.txt
	$(COMPILE) $(LOCK_ARGS) requirements/sam.in -o requirements/sam.txt
	$(COMPILE) $(LOCK_ARGS) requirements/ministack.in -o requirements/ministack.txt
	$(COMPILE) $(LOCK_ARGS) requirements/fuzz.in -o requirements/fuzz.txt
	$(COMPILE) $(LOCK_ARGS) requirements/openapi.in -o requirements/openapi.txt
	$(COMPILE) $(LOCK_ARGS) requirements/uv.in -o requirements/uv.txt

.PHONY: clean
clean: ## Remove environments and everything built
	rm -rf .venv .venv-* .aws-sam build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find bench cli functions layers local tests -name __pycache__ -type d -prune -exec rm -rf {} +

# All that the tests need, set up side by side.
.PHONY: environments
environments:
	@$(MAKE) --no-print-directory --silent -j4 $(ENVS) $(SEEKERS) $(SDKS) $(READERS) .venv-sam/$(STAMP) .venv-fuzz/$(STAMP) build/byte-code/$(STAMP)

# The tests' byte code: at a first run, each worker would make all of it.
build/byte-code/$(STAMP): .venv/$(STAMP)
	@mkdir -p $(@D)
	@$(PY) -m pytest --collect-only -q >/dev/null 2>&1 || true  # what is wrong with a test, its run says
	@touch $@

# uv has an environment of its own, so that syncing another one can never remove it.
.venv-uv/$(STAMP): requirements/uv.txt
	@mkdir -p build
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo "$(WANTED_PYTHON)" >&2; exit 1; }
	@test -x .venv-uv/bin/python || $(PYTHON) -m venv .venv-uv || { echo "$(NO_VENV)" >&2; exit 1; }
	@.venv-uv/bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all: --require-hashes -r requirements/uv.txt $(TOLD)
	@touch $@

.venv/$(STAMP): requirements/dev.txt pyproject.toml .venv-uv/$(STAMP)
	@test -x .venv/bin/python || $(PIECEWORK_UV) venv --quiet --clear --python $(PYTHON) .venv
	@$(PIECEWORK_UV) pip sync --quiet --python .venv/bin/python --require-hashes requirements/dev.txt $(TOLD)
	@$(PIECEWORK_UV) pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation --editable .
	@touch $@

.venv-%/$(STAMP): requirements/%.txt .venv-uv/$(STAMP)
	@test -x .venv-$*/bin/python || $(PIECEWORK_UV) venv --quiet --clear --python $(PYTHON) .venv-$*
	@$(PIECEWORK_UV) pip sync --quiet --python .venv-$*/bin/python --require-hashes requirements/$*.txt $(TOLD)
	@touch $@

# The TypeScript x402 client, and linters of OpenAPI; without Node their tests are skipped with that reason.
build/%/$(STAMP): requirements/%/package.json requirements/%/package-lock.json
	@mkdir -p build/$*
	cp requirements/$*/package.json requirements/$*/package-lock.json build/$*/
	if command -v npm >/dev/null; then npm ci --prefix build/$* --silent --no-audit --no-fund --ignore-scripts; fi
	@touch $@
