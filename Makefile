# Two commands do everything on a fresh machine with Python, make and pip: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-long bench docs clean

# A job that is checked before it starts; then one under `crashcart run`, which dies where a checkpoint and sampling meet.
demo: $(VENV)/demo
	@$(BIN)/crashcart check examples/preflight/train.sh || echo
	@rm -rf $(VENV)/scratch && cp -r examples/collision $(VENV)/scratch
	@cd $(VENV)/scratch && export PATH="$(abspath $(BIN)):$$PATH" && { crashcart run -- bash train.sh; crashcart why; }

test: $(VENV)/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n 3 --dist worksteal

# What `make test` has samples of: the other variants of slow tests, and generated inputs by the thousand, others each time. An input
# that fails is left as a file that tells it again; SEED=N tries those of an earlier call.
INPUTS ?= 20000
SEED := $(or $(SEED),$(shell date +%s))
test-long: $(VENV)/test
	$(BIN)/python -m pytest -n 3 --dist worksteal -m "long or hypothesis" --hypothesis-seed $(SEED)
	$(BIN)/python tests/properties/campaign.py $(INPUTS) --seed $(SEED)

# Longer campaigns; their figures go into the notes of a release.
bench: $(VENV)/test
	$(BIN)/python benchmarks/scan.py
	$(BIN)/python benchmarks/startup.py

docs: $(VENV)/core
	$(BIN)/python -m crashcart.report.pages docs/causes

$(VENV)/bin/pip:
	$(PYTHON) -m venv $(VENV)

$(VENV)/core: $(VENV)/bin/pip pyproject.toml
	$(BIN)/pip install --quiet --editable .
	$(BIN)/python -m compileall -q src
	@touch $@

$(VENV)/demo: $(VENV)/core
	$(BIN)/pip install --quiet torch==2.13.0 numpy
	@touch $@

# torch first and pinned, so that nothing pulls another build of it.
$(VENV)/test: $(VENV)/bin/pip pyproject.toml
	$(BIN)/pip install --quiet torch==2.13.0
	$(BIN)/pip install --quiet --editable '.[test]'
	$(BIN)/python -m compileall -q src
	@touch $@ $(VENV)/core $(VENV)/demo

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
