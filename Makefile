PYTHON ?= python3
BIN := .venv/bin
# CPU builds of torch are pinned and come first: an unpinned torch can pull gigabytes of GPU packages.
TORCH := torch==2.13.0
OLDEST := torch==2.6.0

.PHONY: help demo test test-oldest lint generated docs bench torture coverage release clean
help:
	@echo "make demo   install into .venv, train the family on small data, write report/index.html"
	@echo "make test   install into .venv, run the whole test suite"
	@echo "make test-oldest  install the oldest torch into .venv-oldest, run the tests of the optimizers"
	@echo "make lint   ruff and mypy"
	@echo "make generated  exports, lists and tables that follow from the optimizers; pages that follow from recorded results"
	@echo "make docs   build the documentation into docs/_build/html"
	@echo "make notebooks  the first pages as executed notebooks in examples/"
	@echo "make bench  speed and memory, as ratios against named peers"
	@echo "make torture  other words, kills, cuts, signals, bad input and more, about ten minutes"
	@echo "make coverage  the library's tests, with the lines that they do not reach"
	@echo "make release   build both wheels into dist/ and try them in a clean environment"

.venv/.installed: pyproject.toml paper/pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("vadam needs Python 3.11 or newer, this is %s: call make PYTHON=python3.11" % sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --disable-pip-version-check -q $(TORCH)
	$(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt -e ".[dev]" -e "./paper[sweep,rl]"
	touch $@

demo: .venv/.installed
	$(BIN)/vadam demo --out report

test: .venv/.installed
	$(BIN)/python -m pytest -n 2 --dist loadgroup

test-oldest:
	$(PYTHON) -m venv .venv-oldest
	grep -v -e "^torch==" -e "^sympy==" constraints.txt > .venv-oldest/constraints.txt  # each torch pins its own sympy
	echo "$(OLDEST)" >> .venv-oldest/constraints.txt
	.venv-oldest/bin/python -m pip install --disable-pip-version-check -q $(OLDEST)
	.venv-oldest/bin/python -m pip install --disable-pip-version-check -q -c .venv-oldest/constraints.txt \
		-e ".[all]" pytest pytest-timeout pytest-xdist hypothesis ivon-opt mpmath
	.venv-oldest/bin/python -m pytest -n 2 --dist loadgroup tests/contract tests/relations tests/backends tests/test_gaussian.py

lint: .venv/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

generated: .venv/.installed
	$(BIN)/python tests/generated.py
	$(BIN)/python paper/tests/recorded_pages.py

docs: .venv/.installed
	$(BIN)/python -m sphinx -W -b html docs docs/_build/html

notebooks: .venv/.installed
	$(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt -e ".[notebooks]"
	$(BIN)/python docs/notebooks.py

bench: .venv/.installed
	$(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt -e ".[bench]"
	$(BIN)/python -m benchmarks

torture: .venv/.installed
	$(BIN)/python -m torture

coverage: .venv/.installed
	$(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt -e ".[coverage]"
	$(BIN)/python -m coverage erase
	$(BIN)/python -m coverage run -m pytest -n 2 --dist loadgroup tests
	$(BIN)/python -m coverage combine -q
	$(BIN)/python -m coverage report
	$(BIN)/python -m coverage xml -q

release: .venv/.installed
	$(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt -e ".[release]"
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m build --outdir dist paper
	$(PYTHON) .ci/check_release.py dist $(TORCH)

clean:
	rm -rf .venv .venv-oldest dist report docs/_build .pytest_cache .mypy_cache .ruff_cache
