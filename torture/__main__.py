"""Torture vadam: ``python -m torture [KIND ...]``; ``make torture`` runs all kinds, about ten minutes on two cores.

``--full`` asks for the counts of docs/reliability.md, ``--hours`` for as many as fit, ``--count KIND=NUMBER`` for one kind.
``--resume`` goes on with a record: kinds of other commits stay as they are until they are run again.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # a process that is forked must have no other threads
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

KINDS = ("answers", "signals", "bad_input", "cuts", "kills", "numbers", "distributed", "soak", "pages", "security")
MINUTES = 10


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m torture", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"one or more of {', '.join(KINDS)}; all by default")
    parser.add_argument("--full", action="store_true", help="the counts of docs/reliability.md, more than an hour")
    parser.add_argument("--hours", type=float, help="repeat with more random cases, as many as fit")
    parser.add_argument("--count", action="append", default=[], metavar="KIND=NUMBER", help="the count of a kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="number of processes")
    parser.add_argument("--out", type=Path, default=Path("torture.json"), help="file for the record of the run")
    parser.add_argument("--resume", action="store_true", help="go on with the run in --out")
    parser.add_argument("--part", action="append", default=[], help="only this part of a kind; can be repeated")
    parser.add_argument("--stop", action="store_true", help="stop a kind at its first failure")
    parser.add_argument("--case", type=int, help="only this case of --part, in this process")
    parser.add_argument(
        "--prove", action="store_true", help="break a copy of the code, once for each kind, and see it caught"
    )
    given = parser.parse_args(words)
    if unknown := set(given.kinds) - set(KINDS):
        parser.error(f"unknown kind {sorted(unknown)[0]!r}: choose from {', '.join(KINDS)}")
    given.kinds = given.kinds or list(KINDS)
    try:
        given.count = {kind: int(float(number)) for kind, number in (pair.split("=") for pair in given.count)}
    except ValueError:
        parser.error("--count takes KIND=NUMBER, e.g. --count signals=3000")
    if unknown := set(given.count) - set(KINDS):
        parser.error(f"--count names no kind: {sorted(unknown)[0]!r}")
    if given.case is not None and (len(given.kinds) != 1 or len(given.part) != 1):
        parser.error("--case needs one KIND and one --part")
    return given


def kind_named(name: str):
    return import_module(f"torture.{name}").KIND


def one_case(given: argparse.Namespace) -> int:
    """Run one case again in this process and print what it says."""
    from torture.runner import run_case

    kind = kind_named(given.kinds[0])
    kind.warm()
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        part = kind.parts[given.part[0]]
        amount = kind.targets(given.count.get(kind.name) or kind.count, given.part)[given.part[0]]
        failure, found = run_case(kind, given.part[0], part, given.case, given.seed, Path(folder), amount)
    print(failure or f"passed: {found.counts} {found.worst}")
    return failure is not None


def main(given: argparse.Namespace) -> int:
    import torch

    from torture.record import Record
    from torture.runner import Runner

    torch.set_num_threads(1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that running cases are ended, too
    if given.case is not None:
        return one_case(given)
    record = Record(given.out, given.seed)
    if given.resume:
        record.resume()
    factor = 1.0 if given.hours is None else max(1.0, given.hours * 60 / MINUTES)
    for name in given.kinds:
        kind = kind_named(name)
        usual = kind.full if given.full else kind.count
        count = given.count.get(name) or round(usual * (factor if kind.grows else 1.0))
        Runner(record, kind, given.jobs, stop=given.stop).run(kind.targets(count, given.part))
    failures = record.failures()
    print(f"{len(failures)} failures; the record is {given.out}")
    return bool(failures)


if __name__ == "__main__":
    chosen = arguments()
    if chosen.prove:
        from torture.prove import main as prove

        sys.exit(prove(chosen.kinds, chosen.out, chosen.seed))
    began = time.monotonic()
    code = main(chosen)
    print(f"{(time.monotonic() - began) / 60:.1f} minutes")
    sys.exit(code)
