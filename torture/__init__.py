"""Torture: other words, kills, cuts, signals, bad input, extreme numbers, lost ranks, hostile pages, long runs. See docs/reliability.md.

It is not part of the package. It shares the problems and the rows of optimizers with the tests.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

for folder in ("tests", "tests/distributed", "paper/tests/experiments"):
    if str(ROOT / folder) not in sys.path:
        sys.path.append(str(ROOT / folder))
