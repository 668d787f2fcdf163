# Common tasks of the project. To get started: make run, make test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
SOURCES := services tests benchmarks docs docker deploy
INTEROP := tests/interop
SYSTEM := tests/system
FLEET := tests/fleet
FLEET_SERVERS := .venv-fleet
FRAMEWORKS := .venv-frameworks
PEERS := .venv-peers
AGENTDOJO := .venv-agentdojo
MCP1 := .venv-mcp1
GENERATOR := .venv-client-generator
RELEASE := .venv-release
DOCKER ?= docker
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
HOUSE := $(addprefix tests/test_,house.py plain_english.py modules.py documentation.py requirements.py)
QUICK := tests/unit tests/api $(wildcard tests/test_*.py)
TEST_WORKERS = $(shell expr 2 '*' "$$(getconf _NPROCESSORS_ONLN)")  # tests spend half of their time waiting

.DEFAULT_GOAL := help
unexport PYTHONDONTWRITEBYTECODE  # otherwise each worker compiles all tests again: 8 s of CPU

.PHONY: help run quick install-all test test-full compat test-interop test-fleet test-system roll-out breaks chart node check fmt lint types layers spell house cov bench bench-peers bench-agentdojo docs console-pictures retrieval dist sbom release release-needs release-verify lock clean

help:  ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

run: $(VENV)/.run  ## install dependencies and serve on 127.0.0.1:8082
	$(BIN)/mcp-tools-proxy serve --pretty

retrieval: $(VENV)/.run  ## serve the reference Retrieval Service on 127.0.0.1:8083
	$(BIN)/retrieval-service

quick: $(VENV)/.dev  ## run fast in-process tests, for local development
	$(BIN)/pytest --numprocesses $(TEST_WORKERS) --dist worksteal -m "not e2e and not slow and not full" $(QUICK)

install-all: node $(VENV)/.dev $(MCP1)/.installed $(GENERATOR)/.installed $(INTEROP)/node_modules/.installed $(FLEET)/node_modules/.installed $(FLEET_SERVERS)/.installed $(FRAMEWORKS)/.installed  ## install everything for tests, checks and the documentation
	$(MAKE) $(VENV)/.docs
	$(MAKE) $(VENV)/.browser

test: $(VENV)/.dev $(MCP1)/.installed $(GENERATOR)/.installed  ## run the main test suite
	$(BIN)/pytest --numprocesses $(TEST_WORKERS) --dist worksteal

test-full: $(VENV)/.dev  ## run what make test leaves out: more cases of costly tests, and all examples of Hypothesis
	$(BIN)/pytest --numprocesses $(TEST_WORKERS) --dist worksteal -m "full or hypothesis" --hypothesis-profile full --timeout 320 -o faulthandler_timeout=340

compat: $(VENV)/.dev $(GENERATOR)/.installed  ## run the unit and API tests with another Python: make compat PYTHON=python3.12 VENV=.venv-3.12
	$(BIN)/pytest --numprocesses $(TEST_WORKERS) --dist worksteal tests/unit tests/api

# One test runs the whole conformance suite, so its time limits are longer.
test-interop: node $(VENV)/.dev $(MCP1)/.installed $(INTEROP)/node_modules/.installed  ## test with servers and clients from npm and the conformance suite (needs Node)
	$(BIN)/pytest --numprocesses 2 --dist loadscope --timeout 320 -o faulthandler_timeout=340 $(INTEROP)

# One gateway serves all tests: a second worker would start the fleet a second time.
test-fleet: node $(VENV)/.dev $(FLEET)/node_modules/.installed $(FLEET_SERVERS)/.installed $(FRAMEWORKS)/.installed  ## test the gateway with 28 servers from npm and PyPI, and with client frameworks (needs Node and git)
	$(BIN)/pytest --timeout 320 -o faulthandler_timeout=340 $(FLEET)

test-system: $(VENV)/.browser  ## test with Debian packages: Chromium, promtool, Tesseract languages (.ci/setup installs them)
	$(BIN)/pytest $(SYSTEM)

roll-out: $(VENV)/.dev  ## test a roll-out: replace two pods under load in Docker, with the chart's constraints (needs Docker and the image)
	$(BIN)/python -m tests.roll_out

breaks: $(VENV)/.dev  ## break the code on purpose and check that a test fails each time (ONLY=auth for one theme, or part of an id)
	$(BIN)/python -m tests.breaks $(ONLY)

node:
	@command -v node >/dev/null && command -v npm >/dev/null || \
	  { echo "Node 20 or newer is required: node and npm must be on PATH" >&2; exit 1; }

check: lint types layers spell house  ## run lint, types, layers, spell and the house rules

house: $(VENV)/.dev
	$(BIN)/pytest -n0 -m "" $(HOUSE)

fmt: $(VENV)/.dev  ## format the code
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)

lint: $(VENV)/.dev
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)

types: $(VENV)/.dev
	$(BIN)/mypy

layers: $(VENV)/.dev
	$(BIN)/lint-imports

spell: $(VENV)/.dev
	$(BIN)/codespell services tests benchmarks docker docs deploy README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md Makefile pyproject.toml .env.example

cov: $(VENV)/.dev $(MCP1)/.installed $(GENERATOR)/.installed  ## run the main test suite and show uncovered lines
	$(BIN)/pytest --cov --cov-report=term-missing:skip-covered

bench: $(VENV)/.dev  ## compare performance with bare FastAPI and a minimal forwarder (QUICK=1: main ratios, 4 minutes)
	$(BIN)/python -m benchmarks $(if $(QUICK),--quick ratios)

bench-peers: $(VENV)/.dev $(PEERS)/.installed  ## compare performance with other gateways, on a quiet machine (QUICK=1: a short run)
	$(BIN)/python -m benchmarks.peers $(if $(QUICK),--quick)

bench-agentdojo: $(AGENTDOJO)/.installed  ## replay AgentDojo's attacks through the checks of runs, without a model
	$(AGENTDOJO)/bin/python -m benchmarks.agentdojo
	$(AGENTDOJO)/bin/python -m benchmarks.agentdojo --without-tools
	$(AGENTDOJO)/bin/python -m benchmarks.agentdojo --plant-claimed

docs: $(VENV)/.docs  ## build the documentation into site/; fails on dead links and anchors
	$(BIN)/python -m docs.settings_table
	$(BIN)/python -m docs.http_api
	$(BIN)/python -m docs.command_line
	$(BIN)/python -m docs.metrics_table
	$(BIN)/python -m docs.config_tables
	$(BIN)/python -m docs.tools_table
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@$(BIN)/python -m tests.plain_english words
	@echo "open site/index.html"

console-pictures: $(VENV)/.browser  ## take the console's screenshots for the documentation, from the tests' demo
	$(BIN)/python -m tests.system.console.pictures

dist: $(RELEASE)/.installed  ## build the sdist and the wheel into dist/ and check their metadata
	rm -f dist/*.whl dist/*.tar.gz
	$(RELEASE)/bin/python -m build --no-isolation
	$(RELEASE)/bin/python -m twine check --strict dist/*.whl dist/*.tar.gz

sbom: $(VENV)/.dev  ## write the image's bill of materials to dist/sbom.cdx.json (DEBIAN=file adds its Debian packages)
	$(BIN)/python -m docker.sbom $(if $(DEBIAN),--debian $(DEBIAN)) dist/sbom.cdx.json

release: release-needs  ## build and sign wheel, sdist, image and SBOM of this commit (BASE_IMAGE=name@sha256:… SOURCE=url RELEASE_KEY=file)
	$(MAKE) dist
	$(DOCKER) build -f docker/Dockerfile -t mcp-tools-proxy:$(VERSION) --build-arg BASE_IMAGE=$(BASE_IMAGE) \
	  --build-arg VERSION=$(VERSION) --build-arg REVISION=$$(git rev-parse HEAD) --build-arg SOURCE=$(SOURCE) .
	$(DOCKER) run --rm --entrypoint dpkg-query mcp-tools-proxy:$(VERSION) --show \
	  --showformat '$${Package}\t$${Version}\t$${Architecture}\n' > dist/debian.tsv
	$(MAKE) sbom DEBIAN=dist/debian.tsv
	$(BIN)/python -m docker.attestation sign --key '$(RELEASE_KEY)' --base-image '$(BASE_IMAGE)' --source '$(SOURCE)' dist

release-verify: $(VENV)/.run  ## verify the signatures of dist/ (PUBLIC_KEY=file)
	$(BIN)/python -m docker.attestation verify --key '$(PUBLIC_KEY)' dist

release-needs:
	@printf '%s' '$(BASE_IMAGE)' | grep -Eq '^[^@]+@sha256:[0-9a-f]{64}$$' || \
	  { echo "BASE_IMAGE has no digest: '$(BASE_IMAGE)'; set it like BASE_IMAGE=python:3.12-slim@sha256:…" >&2; exit 1; }
	@test -f '$(RELEASE_KEY)' || \
	  { echo "RELEASE_KEY is not a file: '$(RELEASE_KEY)'; set it to an Ed25519 key in PEM format outside the repository" >&2; exit 1; }
	@test -n '$(SOURCE)' || { echo "SOURCE is not set; set it to the URL of the repository" >&2; exit 1; }
	@git diff --quiet HEAD || \
	  { echo "the work tree has uncommitted changes; commit or remove them" >&2; exit 1; }

chart: $(VENV)/.dev  ## generate deploy/kubernetes, and the chart's schema and README
	$(BIN)/python -m deploy.render

lock: $(VENV)/.dev  ## pin the dependencies in pyproject.toml, with hashes (needs uv)
	for part in build runtime dev browser ocr formats docs release mcp1 client-generator fleet frameworks peers agentdojo; do \
	  uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	    --no-emit-index-url --no-emit-find-links --no-header --no-annotate \
	    $$(case $$part in \
	      build | release | mcp1 | client-generator | fleet | frameworks | peers) echo requirements/$$part.in ;; \
	      agentdojo) echo pyproject.toml requirements/agentdojo.in --extra policies --constraint requirements/runtime.lock ;; \
	      runtime) echo pyproject.toml --extra embeddings --extra otel --extra policies --extra secrets ;; \
	      dev) echo pyproject.toml --extra dev --constraint requirements/runtime.lock ;; \
	      ocr | formats) echo pyproject.toml --extra embeddings --extra otel --extra policies --extra secrets --extra $$part --constraint requirements/dev.lock ;; \
	      browser | docs) echo pyproject.toml --extra $$part --constraint requirements/dev.lock ;; esac) \
	    --output-file requirements/$$part.lock || exit 1; \
	done

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) $(MCP1) $(GENERATOR) $(RELEASE) $(FLEET_SERVERS) $(FRAMEWORKS) $(PEERS) $(AGENTDOJO) $(INTEROP)/node_modules $(FLEET)/node_modules .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage dist site

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is required: make PYTHON=python3.12 …" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: $(BIN)/python requirements/build.lock requirements/runtime.lock pyproject.toml
	$(PIP) install --quiet --no-deps --require-hashes -r requirements/build.lock -r requirements/runtime.lock
	$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.run requirements/dev.lock
	$(PIP) install --quiet --no-deps --require-hashes -r requirements/dev.lock
	@touch $@

$(VENV)/.browser: $(VENV)/.dev requirements/browser.lock
	$(PIP) install --quiet --no-deps --require-hashes -r requirements/browser.lock
	@touch $@

$(VENV)/.docs: $(VENV)/.run requirements/docs.lock
	$(PIP) install --quiet --no-deps --require-hashes -r requirements/docs.lock
	@touch $@

# Clients that need version 1 of the mcp package, which cannot be installed with version 2.
$(MCP1)/.installed: $(BIN)/python requirements/mcp1.lock
	$(BIN)/python -m venv $(MCP1)
	$(MCP1)/bin/python -m pip --disable-pip-version-check install --quiet --no-deps --require-hashes -r requirements/mcp1.lock
	@touch $@

# It needs an older version of typer.
$(GENERATOR)/.installed: $(BIN)/python requirements/client-generator.lock
	$(BIN)/python -m venv $(GENERATOR)
	$(GENERATOR)/bin/python -m pip --disable-pip-version-check install --quiet --no-deps --require-hashes -r requirements/client-generator.lock
	@touch $@

# The servers of the fleet, and frameworks, need different versions of the same packages. Modules are compiled
# when they are imported: compiling all of them takes 20 s of CPU.
$(FLEET_SERVERS)/.installed: $(BIN)/python requirements/fleet.lock
	$(BIN)/python -m venv $(FLEET_SERVERS)
	$(FLEET_SERVERS)/bin/python -m pip --disable-pip-version-check install --quiet --no-compile --no-deps --require-hashes -r requirements/fleet.lock
	@touch $@

$(FRAMEWORKS)/.installed: $(BIN)/python requirements/frameworks.lock
	$(BIN)/python -m venv $(FRAMEWORKS)
	$(FRAMEWORKS)/bin/python -m pip --disable-pip-version-check install --quiet --no-compile --no-deps --require-hashes -r requirements/frameworks.lock
	@touch $@

$(PEERS)/.installed: $(BIN)/python requirements/peers.lock
	$(BIN)/python -m venv $(PEERS)
	$(PEERS)/bin/python -m pip --disable-pip-version-check install --quiet --no-compile --no-deps --require-hashes -r requirements/peers.lock
	@touch $@

$(AGENTDOJO)/.installed: $(BIN)/python requirements/build.lock requirements/agentdojo.lock pyproject.toml
	$(BIN)/python -m venv $(AGENTDOJO)
	$(AGENTDOJO)/bin/python -m pip --disable-pip-version-check install --quiet --no-compile --no-deps --require-hashes -r requirements/build.lock -r requirements/agentdojo.lock
	$(AGENTDOJO)/bin/python -m pip --disable-pip-version-check install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(RELEASE)/.installed: $(BIN)/python requirements/release.lock
	$(BIN)/python -m venv $(RELEASE)
	$(RELEASE)/bin/python -m pip --disable-pip-version-check install --quiet --no-deps --require-hashes -r requirements/release.lock
	@touch $@

$(INTEROP)/node_modules/.installed: $(INTEROP)/package.json $(INTEROP)/package-lock.json
	npm ci --prefix $(INTEROP) --ignore-scripts --no-audit --no-fund
	@touch $@

$(FLEET)/node_modules/.installed: $(FLEET)/package.json $(FLEET)/package-lock.json
	npm ci --prefix $(FLEET) --ignore-scripts --no-audit --no-fund
	@touch $@
