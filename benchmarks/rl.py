"""A time step of ParameterNoiseDDPG beside one of Stable-Baselines3's own DDPG with Adam, in one run.

    python -m benchmarks.rl [--environment HalfCheetah-v5] [--steps 1000] [--rounds 5] [--out benchmarks/results/rl.json]

The same networks (400-300), minibatches of 64, one update for each step of the environment, one thread. The models take turns, so
that a busy machine slows all of them; reported is the median over rounds of the processor's time for a step, of its update alone
(minibatch, critic, actor, targets) and the ratio to DDPG's in the same round. SB3's DDPG is as it comes, and once more with fused
Adam; the critic of ParameterNoiseDDPG has fused Adam, and Vadam's arithmetic runs in native loops unless said otherwise.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from stable_baselines3 import DDPG

import vadam
from benchmarks.timing import write
from vadam.integrations.sb3 import ParameterNoiseDDPG

BAR = 1.15
WARM_UP = 200


def models(environment: str) -> dict[str, Any]:
    layers, fused = {"net_arch": [400, 300]}, {"optimizer_kwargs": {"fused": True}}
    common = {"buffer_size": 100_000, "seed": 0, "device": "cpu", "batch_size": 64, "tau": 1e-3, "learning_starts": 64}

    def ours(optimizer: type, arguments: dict[str, Any] | None, **others: Any) -> ParameterNoiseDDPG:
        return ParameterNoiseDDPG("MlpPolicy", environment, optimizer, arguments, **others, **common)

    return {
        "SB3's DDPG, Adam": DDPG("MlpPolicy", environment, policy_kwargs=layers, **common),
        "SB3's DDPG, fused Adam": DDPG("MlpPolicy", environment, policy_kwargs={**layers, **fused}, **common),
        "Vadam": ours(vadam.Vadam, None),
        "Vadam, not compiled": ours(vadam.Vadam, {"backend": "plain"}),
        "Vadam, one sample an episode": ours(vadam.Vadam, None, sample_every="episode"),
        "VadaGrad": ours(vadam.VadaGrad, {"lr": 1e-2, "beta": 0.01, "init_precision": 1e4}),
        "Adam": ours(torch.optim.Adam, {"lr": 1e-4, "fused": True}),
    }


def milliseconds(work: Callable[[], Any], repeats: int) -> float:
    start = time.process_time()
    work()
    return 1e3 * (time.process_time() - start) / repeats


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environment", default="HalfCheetah-v5")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "rl.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    running = models(options.environment)
    for model in running.values():
        model.learn(WARM_UP)
    steps: dict[str, list[float]] = {name: [] for name in running}
    updates: dict[str, list[float]] = {name: [] for name in running}
    for _ in range(options.rounds):
        for name, model in running.items():
            steps[name].append(
                milliseconds(lambda m=model: m.learn(options.steps, reset_num_timesteps=False), options.steps)
            )
            updates[name].append(milliseconds(lambda m=model: m.train(options.steps // 2, 64), options.steps // 2))
    reference = next(iter(running))
    rows = {}
    print(f"{options.environment}, {options.rounds} rounds of {options.steps} steps, one thread, processor time")
    print(f"{'':32}{'ms a step':>10}{'ms an update':>14}{'steps a second':>16}{'× DDPG':>9}")
    for name in running:
        ratio = statistics.median(a / b for a, b in zip(steps[name], steps[reference], strict=True))
        step, update = statistics.median(steps[name]), statistics.median(updates[name])
        rows[name] = {"ms_step": step, "ms_update": update, "steps_per_second": 1e3 / step, "ratio": ratio}
        print(f"{name:32}{step:>10.2f}{update:>14.2f}{1e3 / step:>16.0f}{ratio:>9.2f}")
    met = rows["Vadam"]["ratio"] <= BAR
    print(f"Vadam against DDPG: {rows['Vadam']['ratio']:.2f}, the bar is {BAR}: {'met' if met else 'not met'}")
    write(
        options.out,
        rows,
        bar=BAR,
        environment=options.environment,
        steps=options.steps,
        rounds=options.rounds,
        threads=1,
    )


if __name__ == "__main__":
    main()
