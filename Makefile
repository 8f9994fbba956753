# Everything one does with palaver while working on it. `make` alone lists the targets.
PYTHON ?= python3
ARGS ?=
export PYTHON

BIN := .venv/bin
TESTS := $(BIN)/python -m pytest -n 5 --dist loadfile --no-loadscope-reorder --timeout 300
HAVE_RUNTIME := .venv/.have-runtime
HAVE_DEV := .venv/.have-dev

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: oauth-clients help setup setup-dev serve test test-all lint format screenshots reference docs bench eval faults soak fuzz schemathesis conformance clients wheel sbom audit try-deploy lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(HAVE_RUNTIME) ## install what running needs, into .venv

setup-dev: $(HAVE_DEV) ## install what working on it needs, into .venv

serve: setup ## run the server: make serve ARGS="--port 8000"
	@$(BIN)/palaver serve $(ARGS)

test: setup-dev ## run the main tests, each behaviour once: make test ARGS="-k search"
	@tools/prepare-tests test
	@$(TESTS) --share main $(ARGS)

test-all: setup-dev ## run the tests that make test leaves out: all combinations, more examples, all clients
	@tools/prepare-tests test-all
	@$(TESTS) --share rest $(ARGS)

lint: setup-dev ## check style, format and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@tools/lint-javascript

format: setup-dev ## put the code in shape
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .
	@tools/lint-javascript --fix

screenshots: setup-dev ## make the pictures in docs/pictures from the story of palaver demo
	@$(BIN)/python tools/screenshots.py "$$(tools/ensure-chromium)"
	@$(BIN)/python tools/record_demo.py

reference: setup-dev ## write docs/reference and integrations from the code
	@$(BIN)/python tools/reference.py
	@$(BIN)/python tools/integrations.py

docs: .cache/docs/.have ## build the documentation site into site/, and check its links
	@.cache/docs/bin/mkdocs --quiet build --strict --clean
	@echo "==> site/index.html"

.cache/docs/.have: requirements/docs.txt
	@$(PYTHON) -m venv --clear .cache/docs
	@.cache/docs/bin/pip install -qq --disable-pip-version-check --require-hashes -r requirements/docs.txt
	@touch $@

bench: setup-dev ## measure: make bench ARGS="--seconds 5"
	@$(BIN)/python tests/bench/run.py $(ARGS)

eval: setup-dev ## ask labelled questions: tests/quality, and the dev splits in ../shared/bench if they are there
	@$(BIN)/python tools/evaluate.py tests/quality/questions.jsonl $(wildcard ../shared/bench/*_dev.json*.gz) $(ARGS)

faults: setup-dev ## the long run of what kills, fills and breaks things, and of who may see what
	@PALAVER_FAULTS=long $(BIN)/python -m pytest -s --timeout 3600 $(ARGS) $(if $(findstring tests/,$(ARGS)),,tests/faults tests/trust)

soak: setup-dev ## many clients do everything for a long time: make soak ARGS="--minutes 30 --engine sqlite"
	@$(BIN)/python -m tests.faults.mixed.soak $(ARGS)

fuzz: setup-dev ## read strange and hostile inputs with every parser: make fuzz ARGS="--minutes 10"
	@$(BIN)/python -m tests.fuzz.run $(ARGS)

schemathesis: setup-dev ## ask every operation with what schemathesis makes up: make schemathesis ARGS=100
	@tools/schemathesis $(ARGS)

conformance: setup-dev ## what the official MCP suite requires of a server, in both protocol eras (from npm)
	@tools/conformance

clients: setup-dev ## run real MCP clients with a scripted model (from npm and PyPI): make clients ARGS="claude codex"
	@tools/clients $(ARGS)
	@PALAVER_CLIENTS=newest $(BIN)/python -m pytest -q tests/clients/test_setup.py tests/clients/test_hooks.py tests/clients/test_journey.py

oauth-clients: setup-dev ## official SDKs and mcp-remote connect with OAuth, and a scripted browser
	@PALAVER_OAUTH_CLIENTS=install $(BIN)/python -m pytest tests/oauth/test_clients.py $(ARGS)

wheel: setup-dev ## build the wheel into dist/; the same commit gives the same bytes
	@tools/make-wheel

sbom: setup-dev ## write the list of everything that is shipped into dist/ (CycloneDX)
	@$(BIN)/python tools/sbom.py $(ARGS)

audit: setup-dev ## look for known vulnerabilities in a downloaded list: make audit ARGS="--osv all.zip"
	@$(BIN)/python tools/audit.py $(ARGS)

try-deploy: setup-dev ## run the systemd unit under systemd and the image without a daemon (as root, Debian)
	@tools/try-systemd
	@tools/try-image

lock: ## pin the newest allowed versions in requirements/
	@tools/lock $(ARGS)

clean: ## remove .venv, caches and build results
	rm -rf .venv .bench .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist site
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# The dev lock contains the runtime lock, so having it is having both.
$(HAVE_DEV): requirements/dev.txt requirements/build.txt pyproject.toml
	@tools/install dev
	@touch $(HAVE_RUNTIME) $(HAVE_DEV)

$(HAVE_RUNTIME): requirements/runtime.txt requirements/build.txt pyproject.toml
	@tools/install runtime
	@touch $@
