"""Write docs/performance.md from the recorded results: ``python -m benchmarks.page``."""

import json
from pathlib import Path
from typing import Any

from benchmarks.estimators import BARS as TABLE_BARS
from benchmarks.start import BARS as START_BARS
from benchmarks.step import BARS

FAST = "Vadam"
VECTORS = {"Vadam": 2, "Vprop": 1, "VadaGrad": 1}
CALLS = 475  # of Python in a step of the MLP
RESULTS, PAGE = Path(__file__).parent / "results", Path(__file__).parents[1] / "docs" / "performance.md"
README = Path(__file__).parents[1] / "README.md"
SHOWN = {"mlp": "MLP 784-400-400-10", "cnn": "CNN", "transformer": "transformer", "lstm": "LSTM"}

HEAD = """# Performance

<!-- Written by `python -m benchmarks.page` from benchmarks/results/*.json: do not edit. -->

Costs are ratios to a named peer in one run. Times in milliseconds belong to the machine named below each table. `make bench` measures
everything again, on an otherwise idle machine.

By default float32 weights on the CPU are updated by native loops that llvmlite compiles from the rules at the first step, in a
fraction of a second: one call draws all weights, one updates them, on torch's own threads. Other weights are updated by torch's
operators. `backend="plain"` uses these for all weights, `backend="native"` requires the loops, and `backend="compiled"` uses
`torch.compile`, which needs a C++ compiler. The tests compare every path with the plain rule in lock step.
In the tables a name alone means default arguments.

Each process compiles the loops again, which takes about 0.1 s. So there is no cache on disk, which several processes, another processor or
a new version could spoil. llvmlite is a dependency of the package: the install line of README gives the loops. Where it cannot be
loaded, `backend="auto"` uses torch's operators.

```python
import torch, vadam

model = torch.nn.Linear(3, 1)
opt = vadam.Vadam(model.parameters(), num_data=100, backend="native")
```

On Linux, large tensors that are freed and allocated again in every step cost page faults, for any optimizer; the environment variable
`THP_MEM_ALLOC_ENABLE=1` makes torch use huge pages. `store_mean=False` avoids the copy of the mean: the noise is drawn
again from its seed and subtracted, which is exact up to rounding.
"""


LOOP = "authors' loop"
LOOP_VADAM = "authors' Vadam"


def row(*cells: object) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |\n"


def head(*cells: str) -> str:
    return "\n" + row(*cells) + row("---", *["---:"] * (len(cells) - 1))


def measured(name: str, record: dict[str, Any]) -> str:
    machine = record["machine"]
    threads = f", {record['threads']} threads" if "threads" in record else ""
    return (
        f"\n`python -m benchmarks.{name}` at {record.get('commit', 'an earlier commit')}: {machine['cpu']}, {machine['cores']} cores"
        f"{threads}, torch {machine['torch']}, load {machine['load']:.1f} at the end.\n"
    )


def bars(records: dict[str, Any]) -> str:
    """Return the targets beside the measured values."""
    rows: list[tuple[str, float, str, bool]] = []

    def at_most(what: str, value: float, bar: float, slack: float = 0.0) -> None:
        rows.append((what, value, f"≤ {bar:g}", value <= bar + slack))

    def at_least(what: str, value: float, bar: float) -> None:
        rows.append((what, value, f"≥ {bar:g}", value >= bar))

    step, work = (records.get("step", {}).get("results", {}).get(part, {}) for part in ("networks", "work"))
    for name, found in step.items():
        at_most(f"training step of Vadam, {name}, × fused Adam", found[FAST]["ratio"], BARS[name])
    if work:
        at_most("the optimizer's own work, 11.7 million weights, × fused Adam", work[FAST]["ratio"], 4)
    if "ivon-opt" in work:
        at_least("the optimizer's own work, times faster than ivon-opt", work["ivon-opt"]["ms"] / work[FAST]["ms"], 25)
    plain = records.get("step", {}).get("results", {}).get("plain")
    if plain:
        naive = plain["Vadam, plain"]["ms"] / plain[LOOP_VADAM]["ms"]
        at_most("the same without native loops, in new processes, × a naive loop over the tensors", naive, 1)
    calls = records.get("step", {}).get("results", {}).get("profile", {}).get("mlp")
    if calls:
        at_most("calls of Python functions in a training step of Vadam, mlp", calls[FAST]["calls"], CALLS)
    squares = records.get("perexample", {}).get("results", {})
    for name, bar in (("mlp", 1.8), ("cnn", 1.35)) if squares else ():
        at_most(f"training step of VOGN, {name}, × Adam", squares[name]["VOGN step"]["ratio"], bar)
    if "lstm" in step:
        at_most("training step of VOGN, lstm, × fused Adam", step["lstm"]["VOGN"]["ratio"], 2.2)
    for name, found in records.get("start", {}).get("results", {}).items():
        at_most(f"{name}, seconds", found, START_BARS[name])
    memory = records.get("memory", {}).get("results", {})
    for method, vectors in VECTORS.items() if memory else ():
        at_most(f"{method}: vectors per weight between steps", memory[method]["kept"], vectors)
        at_most(f"{method}: at the peak of a step", memory[method]["peak"], vectors + 1, slack=0.02)
        at_most(f"{method}, plain: at the peak of a step", memory[f"{method}, plain"]["peak"], vectors + 1.5)
    if "predict" in records:
        single = records["predict"]["results"]["mlp, 1 inputs"]
        at_most("64 draws for one input on the MLP, × 64 forward passes", single["ours over 64 forwards"], 10)
        if "reused over 64 forwards" in single:
            at_most("the same with draws that are reused", single["reused over 64 forwards"], 1.2)
    if "ensemble" in records:
        small = records["ensemble"]["against_loops"]["13-50-1, M=32, S=10"]
        best = max(found["times_faster"] for found in small.values())
        at_least("a training 13-50-1, M = 32, S = 10 in a sweep, times faster than the authors' loop", best, 60)
        front_end = next(found for name, found in small.items() if name.startswith("vadam.Vadam"))
        ratio = small[LOOP]["us_per_network_step"] / front_end["us_per_network_step"]
        at_least("the same by the front-end alone", ratio, 1)
    if "rl" in records:
        rl = records["rl"]
        at_most("a time step of DDPG with Vadam, × Stable-Baselines3", rl["results"]["Vadam"]["ratio"], rl["bar"])
    text = "\n## Targets\n\nTargets that were set before the implementation, beside the figures of the tables below.\n"
    text += head("", "measured", "target", "")
    return text + "".join(row(what, f"{x:.2f}", bar, "met" if met else "**missed**") for what, x, bar, met in rows)


def step_tables(record: dict[str, Any]) -> str:
    results, text = record["results"], ""
    if "networks" in results:
        names = list(dict.fromkeys(method for rows in results["networks"].values() for method in rows))
        text += "\n## A training step\n\nForward, backward and optimizer, as a multiple of a step with fused Adam; the median of three "
        text += "processes.\n"
        text += head("", *results["networks"])
        for method in names:
            found = [rows.get(method) for rows in results["networks"].values()]
            text += row(method, *("–" if cell is None else f"{cell['ratio']:.2f}" for cell in found))
        text += row("*target for Vadam*", *(BARS[name] for name in results["networks"]))
    if "work" in results:
        text += "\n## The optimizer's own work\n\n11.7 million weights in 62 tensors: draw, restore, update.\n"
        text += head("", "ms", "× fused Adam")
        for method, found in results["work"].items():
            text += row(method, f"{found['ms']:.1f}", f"{found['ratio']:.2f}")
    if "plain" in results:
        text += "\nThe same in new processes with these methods alone. What fresh memory costs all but Adam differs between processes:\n"
        text += head("", "ms, median of the processes", "least", "most")
        for method, found in results["plain"].items():
            text += row(method, *(f"{x:.1f}" for x in (found["ms"], min(found["all"]), max(found["all"]))))
    if "growth" in results:
        for axis in ("weights", "tensors", "samples"):
            methods = results["growth"][axis]
            points = list(next(iter(methods.values()))["ms"])
            text += f"\nMilliseconds by number of {axis}, and the exponent of the line through the logarithms:\n"
            text += head("", *points, "exponent")
            for method, found in methods.items():
                times = [found["ms"].get(point) for point in points]
                text += row(method, *("–" if t is None else f"{t:.2f}" for t in times), found["exponent"])
        threads = results["growth"]["threads"]
        text += "\nMilliseconds by number of threads, 11.7 million weights:\n" + head("", *threads)
        for method in next(iter(threads.values())):
            text += row(method, *(f"{found[method]:.1f}" for found in threads.values()))
    if "profile" in results:
        text += (
            "\nThe parts of a step on one thread, in milliseconds by Python's profiler, which overestimates Python. On small networks the "
            "difference from Adam is Python: many calls for each tensor, whatever its size.\n"
        )
        text += head("", *next(iter(next(iter(results["profile"].values())).values())))
        for network, methods in results["profile"].items():
            for method, found in methods.items():
                text += row(f"{network}: {method}", *(f"{x:.2f}" if x < 1000 else f"{x:.0f}" for x in found.values()))
    return text + measured("step", record)


def start_table(record: dict[str, Any]) -> str:
    text = "\n## The start\n\nSeconds in a new process; the first step includes compiling the native loops.\n"
    text += head("", "seconds", "target")
    for name, found in record["results"].items():
        text += row(name, f"{found:.2f}", START_BARS[name])
    return text + measured("start", record)


def memory_table(record: dict[str, Any]) -> str:
    text = "\n## Memory\n\nVectors per weight: kept between steps, and at the peak of a step besides weights and gradients.\n"
    text += head("", "kept", "peak")
    for method, found in record["results"].items():
        text += row(method, f"{found['kept']:.2f}", f"{found['peak']:.2f}")
    return text + measured("memory", record)


def evon_table(record: dict[str, Any]) -> str:
    results = record["results"]
    text = (
        "\n## EVON\n\nA training step as a multiple of one with fused Adam, updates of the basis included, and the state in vectors per "
        "weight. SOAP (`benchmarks/soap.py`, from the equations of its paper) has the same matrices and the same updates, every ten "
        "steps; *without updates* never updates the basis.\n"
    )
    text += head("", *(f"{name}, {what}" for name in results for what in ("×", "vectors")))
    for method in next(iter(results.values())):
        text += row(
            method, *(f"{rows[method][what]:.2f}" for rows in results.values() for what in ("ratio", "vectors"))
        )
    return text + measured("evon", record)


def perexample_table(record: dict[str, Any]) -> str:
    text = "\n## Per-example squares\n\nA backward pass that also gives mean (∇fᵢ)², as a multiple of a plain one; VOGN against Adam.\n"
    results = record["results"]
    text += head("", *results)
    for method in dict.fromkeys(name for rows in results.values() for name in rows):
        found = [rows.get(method) for rows in results.values()]
        text += row(method, *("–" if cell is None else f"{cell['ratio']:.2f}" for cell in found))
    return text + measured("perexample", record)


def ensemble_table(record: dict[str, Any]) -> str:
    text = "\n## Many small networks at once\n\nMicroseconds per step and network, one thread, against the authors' loop.\n"
    for name, rows in record["against_loops"].items():
        text += f"\n{name}:\n" + head("", *next(iter(rows.values())))
        for method, found in rows.items():
            text += row(method, *(f"{value:g}" for value in found.values()))
    return text + measured("ensemble", record)


def table1_table(record: dict[str, Any]) -> str:
    cells = record["results"]
    whole, loop = (sum(cell["hours"][part] for cell in cells.values()) for part in ("whole", LOOP))
    parts = [part for part in next(iter(cells.values()))["hours"] if part not in ("whole", LOOP)]
    text = (
        "\n## Table 1\n\nA step of a network in its stack beside one of the authors' loop (of Vadam, for BBVI with BBVI's samples), in "
        "microseconds of one thread; the processor hours of the 30 points, 5 folds and 20 splits of a set; and their parts in percent.\n"
    )
    text += head("", "step", "loop", "times faster", "hours", "loop, hours", *parts)
    for name, cell in cells.items():
        hours = cell["hours"]
        shares = (f"{100 * hours[part] / hours['whole']:.0f}" for part in parts)
        times = (f"{cell[key]:.0f}" for key in ("us_per_network_step", "us_per_looped_step", "times_faster"))
        text += row(name, *times, f"{hours['whole']:.2f}", f"{hours[LOOP]:.1f}", *shares)
    text += f"\nIn total {whole:.1f} hours; the loop takes {loop:.0f} (without search and scores), {loop / whole:.0f} times as long.\n"
    return text + measured("table1_cost", record)


def predict_table(record: dict[str, Any]) -> str:
    text = "\n## Prediction\n\n64 draws of the weights.\n"
    text += head("", *next(iter(record["results"].values())))
    for name, found in record["results"].items():
        text += row(name, *(f"{value:.2f}" for value in found.values()))
    return text + measured("predict", record)


def rl_table(record: dict[str, Any]) -> str:
    text = (
        f"\n## Reinforcement learning\n\nA time step on {record['environment']}, update included, against Stable-Baselines3's own DDPG; "
        f"processor time, {record['rounds']} rounds of {record['steps']} steps. Target for Vadam: {record['bar']}.\n"
    )
    text += head("", "ms per step", "ms per update", "× DDPG")
    for name, found in record["results"].items():
        text += row(name, f"{found['ms_step']:.2f}", f"{found['ms_update']:.2f}", f"{found['ratio']:.2f}")
    return text + measured("rl", record)


def estimators_table(record: dict[str, Any]) -> str:
    text = (
        "\n## Estimators\n\nSeconds of a fit with default arguments, tuning included, on generated tables. "
        "[Tables](tables.md) compares the estimators with others on 18 data sets.\n"
    )
    text += head("", "cores", "seconds", "target", "log-likelihood", "coverage of 90 % intervals")
    for name, found in record["results"].items():
        target = f"{TABLE_BARS[name]:g}" if name in TABLE_BARS else ""
        coverage = f"{found['coverage']:.3f}" if "coverage" in found else ""
        text += row(name, found["cores"], f"{found['seconds']:.1f}", target, f"{found['log_likelihood']:.3f}", coverage)
    return text + measured("estimators", record)


TABLES = {
    "step": step_tables,
    "start": start_table,
    "memory": memory_table,
    "evon": evon_table,
    "perexample": perexample_table,
    "ensemble": ensemble_table,
    "table1_cost": table1_table,
    "predict": predict_table,
    "estimators": estimators_table,
    "rl": rl_table,
}


def page() -> str:
    paths = {name: RESULTS / f"{name}.json" for name in TABLES}
    records = {name: json.loads(path.read_text()) for name, path in paths.items() if path.exists()}
    return HEAD + bars(records) + "".join(TABLES[name](record) for name, record in records.items())


def readme() -> str:
    """Return the README with its table of prices."""
    record = json.loads((RESULTS / "step.json").read_text())
    found = {name: record["results"]["networks"][name] for name in SHOWN}
    table = head("a training step, × fused Adam", *SHOWN.values())
    for optimizer in ("Vadam", "VOGN", "IVON", "ivon-opt"):
        table += row(optimizer, *(f"{rows[optimizer]['ratio']:.2f}" for rows in found.values()))
    threads = f"{record['threads']} threads, default arguments"
    note = f"\n`python -m benchmarks.step` at {record['commit']}: {record['machine']['cpu']}, {threads}.\n"
    before, _, rest = README.read_text().partition("<!-- price -->")
    return f"{before}<!-- price -->{table}{note}<!-- end price -->{rest.partition('<!-- end price -->')[2]}"


if __name__ == "__main__":
    PAGE.write_text(page())
    README.write_text(readme())
    print(f"wrote {PAGE.name} and the table of prices in {README.name}")
