"""Run an experiment in a child process that is killed at random moments, repeatedly, until it is complete.

Called as a program: ``killed.py OUT KILLS SEED``. The child is forked from a process that has imported everything, so a new
attempt costs nothing, and kills fall into the work, the checkpoints and the writing of rows alike. The moments are drawn
from the time that an undisturbed run takes on this machine, so that the kills spread over the whole of it.
"""

import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

from vadam_paper.experiments import context, find
from vadam_paper.experiments.runner import run

context.SECONDS_BETWEEN_CHECKPOINTS = 0.0  # many checkpoints, so that many are hit
EXPERIMENT = find("logreg-breast-cancer")
CONFIG = EXPERIMENT.config("smoke", "authors")


def main(out: Path, kills: int, seed: int) -> None:
    moments = random.Random(seed)
    longest = 1.2 * seconds_undisturbed(out / "undisturbed") / kills
    while not killed(out, [moments.uniform(0.0, longest) for _ in range(kills)]):
        shutil.rmtree(out)  # the run was through before it was killed often enough
        longest /= 2
    run(EXPERIMENT, CONFIG, out)


def seconds_undisturbed(out: Path) -> float:
    start = time.monotonic()
    run(EXPERIMENT, CONFIG, out)
    seconds = time.monotonic() - start
    shutil.rmtree(out)
    return seconds


def killed(out: Path, moments: list[float]) -> bool:
    """Return True if every kill hit a run that was still in progress."""
    for moment in moments:
        child = os.fork()
        if child == 0:
            run(EXPERIMENT, CONFIG, out)
            os._exit(0)
        time.sleep(moment)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            return False
    return True


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
