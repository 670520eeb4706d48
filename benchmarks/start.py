"""Measure what a user waits for at the start: the import of vadam, the first step, ``vadam --help``.

python -m benchmarks.start [--repeats 5] [--out benchmarks/results/start.json]

Each time is that of a new process. An import is the difference from ``import torch`` alone. The first step of the MLP 784-400-400-10
includes compiling its native loops, which are not kept on disk: no cache can be cold.
"""

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.timing import write

BARS = {"import vadam, beyond torch": 0.3, "first step": 0.7, "vadam --help": 0.5}
FIRST_STEP = """
import time, torch, vadam
from benchmarks.networks import mlp
model, x = mlp()
model(x).sum().backward()
opt = vadam.Vadam(model.parameters(), num_data=1000).attach(model)
opt.zero_grad()
start = time.perf_counter()
model(x).sum().backward()
opt.step()
print(time.perf_counter() - start)
"""


def process(*arguments: str) -> tuple[float, str]:
    """Run a new Python process; return its seconds and what it printed."""
    start = time.perf_counter()
    found = subprocess.run([sys.executable, *arguments], check=True, capture_output=True, text=True)
    return time.perf_counter() - start, found.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/start.json"))
    arguments = parser.parse_args()
    times: dict[str, list[float]] = {name: [] for name in BARS}
    for _ in range(arguments.repeats):
        torch_alone, both = (process("-c", f"import {modules}")[0] for modules in ("torch", "torch, vadam"))
        times["import vadam, beyond torch"].append(both - torch_alone)
        times["first step"].append(float(process("-c", FIRST_STEP)[1]))
        times["vadam --help"].append(process("-c", "from vadam.cli import main; main()", "--help")[0])
    results = {name: round(statistics.median(found), 3) for name, found in times.items()}
    for name, found in results.items():
        print(f"  {name:28} {found:6.2f} s (bar {BARS[name]})")
    write(arguments.out, results, repeats=arguments.repeats)


if __name__ == "__main__":
    main()
