"""Measure a prediction with 64 weight samples against a Python loop over them and one forward pass, in one run.

python -m benchmarks.predict [--repeats 5] [--threads 2] [--out benchmarks/results/predict.json]
"""

import argparse
import os
import statistics
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.func import functional_call

import vadam
from benchmarks.networks import MODELS
from benchmarks.timing import ratio, seconds, write

SAMPLES, INPUTS = 64, (1, 16, 128)


@torch.no_grad()
def forward(model: nn.Module, x: Tensor) -> Tensor:
    return model(x)


@torch.no_grad()
def loop(model: nn.Module, post: vadam.MeanFieldGaussian, x: Tensor) -> Tensor:
    return torch.stack([functional_call(model, post.sample(), (x,)) for _ in range(SAMPLES)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--only", nargs="+", default=["mlp", "cnn", "transformer"])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/predict.json"))
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    results: dict[str, dict[str, float]] = {}
    head = ["forward ms", "loop ms", "ours ms", "reused ms", "loop/ours", "ours/64 fwd", "reused/64 fwd"]
    print(f"  {SAMPLES} draws" + " " * 10 + "".join(f"{title:>14}" for title in head))
    for name in arguments.only:
        torch.manual_seed(0)
        model, inputs = MODELS[name]()
        model.eval()
        post = vadam.Vadam(model.parameters(), num_data=1000, prior_precision=100.0).posterior(model)
        for count in INPUTS:
            x = inputs[:count]

            steps = {
                "forward": partial(forward, model, x),
                "loop": partial(loop, model, post, x),
                "ours": partial(vadam.predict, model, post, x, samples=SAMPLES, likelihood=None),
                "reused": partial(vadam.predict, model, vadam.Draws(post, SAMPLES), x, likelihood=None),
            }
            seconds(steps, 1)
            times = seconds(steps, arguments.repeats)
            row = {f"{method} ms": round(1000 * statistics.median(t), 3) for method, t in times.items()}
            row["loop over ours"] = round(ratio(times["loop"], times["ours"]), 2)
            row["ours over 64 forwards"] = round(ratio(times["ours"], times["forward"]) / SAMPLES, 2)
            row["reused over 64 forwards"] = round(ratio(times["reused"], times["forward"]) / SAMPLES, 2)
            results[f"{name}, {count} inputs"] = row
            print(f"  {name:12} {count:5}  " + "".join(f"{value:>14.2f}" for value in row.values()), flush=True)
    write(arguments.out, results, threads=arguments.threads, repeats=arguments.repeats)


if __name__ == "__main__":
    main()
