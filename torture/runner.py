"""Run cases in processes of their own, several at a time: a crash or a hang is a failure of the case that was under way."""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import sys
import tempfile
import time
import traceback
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from torture.case import Case, Failed, Kind, Outcome, Part
from torture.processes import tail
from torture.record import Progress, Record

MOST_FAILURES = 20
"""A part with this many failures has shown what it can; it stops."""


@dataclass
class Worker:
    """A process that runs cases; it says when one begins and how it ended."""

    pid: int
    pipe: int
    part: str
    cases: list[int]
    log: Path
    seconds: float
    text: bytes = b""
    current: int | None = None
    since: float = 0.0
    ended: int = 0


class Runner:
    """Runs the cases of one kind until every part has reached its target, or with ``stop`` until one has failed."""

    def __init__(self, record: Record, kind: Kind, jobs: int, *, stop: bool = False) -> None:
        self.record, self.kind, self.jobs, self.stop = record, kind, jobs, stop
        self.folder = Path(tempfile.mkdtemp(prefix=f"torture-{kind.name}-"))
        self.workers: list[Worker] = []
        self.given: dict[str, int] = {}
        self.shown = 0.0

    def run(self, targets: dict[str, int]) -> None:
        began = time.monotonic()
        self.kind.warm()
        self.given = {part: self.record.part(self.kind.name, part).next for part in targets}
        self.targets = targets
        try:
            while self._fill() or self.workers:
                self._listen()
                self._show(began)
        finally:
            for worker in self.workers:
                self._end(worker)
            shutil.rmtree(self.folder, ignore_errors=True)
            self.record.write()
        self._show(began, last=True)

    def _fill(self) -> bool:
        """Start workers while there are cases to run and cores to run them on."""
        while len(self.workers) < self.jobs:
            open_parts = [part for part in self.targets if self._wants_more(part)]
            if not open_parts or (self.stop and self.record.failures()):
                return False
            part = min(open_parts, key=lambda name: self._share_done(name) + self._running(name))
            self._start(part)
        return True

    def _wants_more(self, name: str) -> bool:
        progress = self.record.part(self.kind.name, name)
        if len(progress.failures) >= MOST_FAILURES:
            return False
        if self.kind.parts[name].one_case and (progress.failures or self._running(name)):
            return False
        return self._share_done(name) + self._running(name) < 1.0

    def _share_done(self, name: str) -> float:
        return self._units(name) / self.targets[name]

    def _units(self, name: str) -> int:
        progress = self.record.part(self.kind.name, name)
        return progress.found.counts.get(self.kind.unit, 0) + len(progress.failures)

    def _running(self, name: str) -> float:
        """Return the share of the target that running workers will add, by what cases have added so far."""
        waiting = sum(len(w.cases) - w.ended for w in self.workers if w.part == name)
        if self.kind.parts[name].one_case:
            return float(waiting)
        done = self.record.part(self.kind.name, name).next
        return waiting * (self._units(name) / done if done else 1.0) / self.targets[name]

    def _start(self, name: str) -> None:
        part, first = self.kind.parts[name], self.given[name]
        self.given[name] = first + part.cases_per_process
        numbers = [*range(first, self.given[name])]
        log = self.folder / f"{name}-{first}.log"
        reader, writer = os.pipe()
        sys.stdout.flush()
        amount = max(1, self.targets[name] - self._units(name))
        pid = os.fork()
        if not pid:
            os.close(reader)
            _work(self.kind, name, part, numbers, self.record.seed, self.folder, log, writer, amount)
        os.close(writer)
        os.set_blocking(reader, False)
        limit = part.time_limit(amount)
        self.workers.append(Worker(pid, reader, name, numbers, log, limit, since=time.monotonic()))

    def _listen(self) -> None:
        with selectors.DefaultSelector() as ready:
            for worker in self.workers:
                ready.register(worker.pipe, selectors.EVENT_READ, worker)
            for key, _ in ready.select(timeout=1.0):
                self._read(key.data)
        for worker in [*self.workers]:
            if time.monotonic() - worker.since > worker.seconds:
                self._end(worker, f"hung: no end after {worker.seconds:g} s")

    def _read(self, worker: Worker) -> None:
        try:
            received = os.read(worker.pipe, 1 << 16)
        except BlockingIOError:
            return
        if not received:
            crashed = None if worker.current is None else "crashed"
            self._end(worker, crashed)
            return
        *lines, worker.text = (worker.text + received).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if message["says"] == "begins":
                worker.current = message["case"]
            else:
                progress = self.record.part(self.kind.name, worker.part)
                progress.seconds += time.monotonic() - worker.since
                worker.ended += 1
                self._ended(progress, worker.part, message["case"], message["failure"], Outcome(**message["found"]))
                worker.current = None
            worker.since = time.monotonic()

    def _ended(self, progress: Progress, part: str, case: int, failure: str | None, found: Outcome) -> None:
        progress.next = max(progress.next, case + 1)
        progress.found.merge(found)
        if failure is not None:
            command = f"python -m torture {self.kind.name} --part {part} --seed {self.record.seed} --case {case}"
            progress.failures.append({"part": part, "case": case, "what": failure, "command": command})
            print(f"\nFAILED {command}\n{failure}\n", flush=True)
        self.record.write()

    def _end(self, worker: Worker, failure: str | None = None) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(worker.pid, signal.SIGKILL)
        _, status = os.waitpid(worker.pid, 0)
        os.close(worker.pipe)
        self.workers.remove(worker)
        if failure is not None:
            case = worker.current if worker.current is not None else worker.cases[0]
            code = os.waitstatus_to_exitcode(status)
            what = f"{failure} (exit code {code}): {tail(worker.log)}"
            self._ended(self.record.part(self.kind.name, worker.part), worker.part, case, what, Outcome())

    def _show(self, began: float, last: bool = False) -> None:
        every = 1.0 if sys.stdout.isatty() else 15.0
        if not last and time.monotonic() - self.shown < every:
            return
        self.shown = time.monotonic()
        done, whole = sum(map(self._units, self.targets)), sum(self.targets.values())
        failures = sum(len(self.record.part(self.kind.name, part).failures) for part in self.targets)
        line = f"{self.kind.name:12} {done:>9,} of {whole:,} {self.kind.unit}, {failures} failures, {self.shown - began:.0f} s"
        end = "\n" if last or not sys.stdout.isatty() else "\r"
        print(f"{line:100}", end=end, flush=True)


def _work(
    kind: Kind,
    name: str,
    part: Part,
    cases: list[int],
    seed: int,
    folder: Path,
    log: Path,
    pipe: int,
    amount: int,
) -> None:
    """Run cases in a forked process and report each through the pipe."""
    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with log.open("ab") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        for number in cases:
            os.write(pipe, json.dumps({"says": "begins", "case": number}).encode() + b"\n")
            failure, found = run_case(kind, name, part, number, seed, folder, amount)
            answer = {"says": "ended", "case": number, "failure": failure, "found": asdict(found)}
            os.write(pipe, json.dumps(answer).encode() + b"\n")
        code = 0
    finally:
        os._exit(code)


def run_case(
    kind: Kind, name: str, part: Part, number: int, seed: int, folder: Path, amount: int
) -> tuple[str | None, Outcome]:
    """Return the failure of a case, None if there is none, and what it found."""
    place = folder / f"{name}-{number}".replace(" ", "-")
    place.mkdir()
    try:
        found = part.run(Case(kind.name, name, number, seed, place, amount))
    except Failed as error:
        return str(error)[-3000:], Outcome()
    except BaseException:
        return traceback.format_exc()[-3000:], Outcome()
    finally:
        shutil.rmtree(place, ignore_errors=True)
    if not found.counts.get(kind.unit):
        return f"the case counted no {kind.unit}", Outcome()
    return None, found
