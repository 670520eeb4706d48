"""All benchmarks, one after the other: ``python -m benchmarks`` or ``make bench``. Let nothing else run on the machine."""

import subprocess
import sys

PARTS = ["step", "start", "memory", "evon", "perexample", "ensemble", "predict", "estimators", "rl", "table1_cost"]


def main() -> None:
    for part in sys.argv[1:] or PARTS:
        print(f"\n== python -m benchmarks.{part}", flush=True)
        subprocess.run([sys.executable, "-W", "ignore", "-m", f"benchmarks.{part}"], check=True)


if __name__ == "__main__":
    main()
