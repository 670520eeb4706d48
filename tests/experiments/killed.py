"""Run an experiment in a child process that is killed at random moments, again and again, until it is through.

Called as a program: ``killed.py OUT KILLS SEED``. The child is forked from a process that has imported everything, so a new
attempt costs nothing, and kills fall into the work, the checkpoints and the writing of rows alike.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

from vadam.experiments import find, work
from vadam.experiments.runner import run

work.SECONDS_BETWEEN_CHECKPOINTS = 0.0  # many checkpoints, so that many are hit


def main(out: Path, kills: int, seed: int) -> None:
    experiment = find("logreg-breast-cancer")
    config = experiment.config("smoke", "authors")
    longest = 0.02
    moments = random.Random(seed)
    for _ in range(kills):
        child = os.fork()
        if child == 0:
            run(experiment, config, out)
            os._exit(0)
        time.sleep(moments.uniform(0.0, longest))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            sys.exit("the run was through before it was killed often enough")
        longest = min(0.5, longest * 1.25)
    run(experiment, config, out)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
