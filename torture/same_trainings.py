"""The same training in other words: another way to write the loop, looks in between, a copy, groups, scaled losses."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

import vadam
from specs import SPECS, Problem, Spec, same, snapshot
from torture.case import Case, Failed, Outcome

STEPS = 4
Rows = slice


class Training:
    """One optimizer on one small network, built from a plan, and how its loop is written."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.spec: Spec = plan["spec"]
        self.way: str = plan["way"]
        self.problem = Problem(plan["dtype"], seed=plan["seed"])
        generator = torch.Generator().manual_seed(plan["seed"] + 1)
        self.opt = self.spec.make(self.params(plan), generator=generator, **plan["options"])
        if self.spec.needs_attach or self.way == "attach":
            self.opt.attach(self.problem.model)

    def params(self, plan: dict[str, Any]) -> Any:
        first, last = self.problem.model[0], self.problem.model[2]
        if plan["deterministic"]:
            return [{"params": first.parameters()}, {"params": last.parameters(), "deterministic": True}]
        return self.problem.model.parameters()

    def step(self, rows: Rows) -> None:
        self.problem.step(self.opt, self.spec, self.way, rows)

    def train(self) -> Training:
        for k in range(STEPS):
            self.step(slice(10 * k, 10 * k + 10))
        return self

    def everything(self) -> list[Tensor]:
        return [*self.problem.weights(), *snapshot(self.opt)]


class OtherWay(Training):
    """Writes the loop in another of the three ways."""

    def __init__(self, plan: dict[str, Any]) -> None:
        others = [way for way in plan["spec"].ways if way != plan["way"]]
        super().__init__({**plan, "way": others[plan["seed"] % len(others)]})


class Named(Training):
    """Gives the optimizer names with the parameters."""

    def params(self, plan: dict[str, Any]) -> Any:
        if plan["deterministic"]:
            first, last = self.problem.model[0], self.problem.model[2]
            return [
                {"params": first.named_parameters(prefix="0")},
                {"params": last.named_parameters(prefix="2"), "deterministic": True},
            ]
        return self.problem.model.named_parameters()


class LookedAt(Training):
    """Asks for everything that can be asked for between two steps."""

    def step(self, rows: Rows) -> None:
        super().step(rows)
        opt, model = self.opt, self.problem.model
        post = opt.posterior(model)
        opt.state_dict(), model.state_dict(), opt.summary(), copy.deepcopy(opt), pickle.dumps(model)
        other = torch.Generator().manual_seed(0)
        vadam.predict(model, post, self.problem.x, samples=2, likelihood=vadam.Gaussian(1.0), generator=other)
        model.eval()
        with torch.no_grad():
            model(self.problem.x)
        model.train()


class Reloaded(Training):
    """Saves after every step, and goes on with a new optimizer and a new network that load what was saved."""

    def __init__(self, plan: dict[str, Any]) -> None:
        super().__init__(plan)
        self.plan = plan

    def step(self, rows: Rows) -> None:
        super().step(rows)
        file = io.BytesIO()
        torch.save((self.problem.model.state_dict(), self.opt.state_dict()), file)
        file.seek(0)
        model, opt = torch.load(file, weights_only=True)
        Training.__init__(self, self.plan)
        self.problem.model.load_state_dict(model)
        self.opt.load_state_dict(opt)


class Copied(Training):
    """Goes on with a deep copy of network and optimizer, which is attached anew."""

    def step(self, rows: Rows) -> None:
        super().step(rows)
        self.problem, self.opt = copy.deepcopy((self.problem, self.opt))
        if self.spec.needs_attach or self.way == "attach":
            self.opt.attach(self.problem.model)


class Scaled(Training):
    """Scales the loss by a power of two and the gradients back, as mixed precision does."""

    def step(self, rows: Rows) -> None:
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8, growth_interval=10**9)
        self.opt.zero_grad()
        for _ in range(self.opt.samples):
            with self.opt.sampled_params() if self.way == "context" else nullcontext():
                scaler.scale(self.problem.loss(rows)).backward()
        scaler.unscale_(self.opt)
        scaler.step(self.opt)
        scaler.update()


class Accumulated(Training):
    """Takes the gradient of a minibatch in two halves within a sample."""

    def step(self, rows: Rows) -> None:
        middle = (rows.start + rows.stop) // 2
        self.opt.zero_grad()
        for _ in range(self.opt.samples):
            with self.opt.sampled_params():
                for half in (slice(rows.start, middle), slice(middle, rows.stop)):
                    (self.problem.loss(half) / 2).backward()
        self.opt.step()


class Idle(Training):
    """Has a frozen weight and one that the loss never uses beside the others."""

    def params(self, plan: dict[str, Any]) -> Any:
        model, like = self.problem.model, {"dtype": plan["dtype"]}
        self.used = [*model.parameters()]
        model.frozen = nn.Parameter(torch.ones(3, **like), requires_grad=False)
        model.unused = nn.Parameter(torch.ones(2, **like))
        idle = [model.frozen, model.unused]
        return [*super().params(plan), {"params": idle}] if plan["deterministic"] else [*self.used, *idle]

    def everything(self) -> list[Tensor]:
        for p in (self.problem.model.frozen, self.problem.model.unused):
            if not torch.allclose(p, torch.ones_like(p)):
                raise Failed(f"a weight without a gradient was moved to {p.tolist()}")
        state = self.opt.state
        values = [torch.as_tensor(state[p][k]) for p in self.used if p in state for k in sorted(state[p])]
        return [*(p.detach() for p in self.used), *values]


def always(plan: dict[str, Any]) -> bool:
    return True


def loops(plan: dict[str, Any]) -> bool:
    return plan["way"] != "closure"


def may_have_idle_weights(plan: dict[str, Any]) -> bool:
    """Return True where weights at the end change neither the noise of others nor the state that all weights share."""
    spec: Spec = plan["spec"]
    native = plan["options"]["backend"] == "native" and plan["dtype"] is torch.float32
    return native and spec.elementwise and spec.mean_field and spec.differentiable and not shared(plan)


def shared(plan: dict[str, Any]) -> bool:
    """Return True where what all weights share follows from the idle ones, too: VON's bound and the prior that is learned."""
    return plan["spec"].name.startswith("VON") or "learn_prior_every" in plan["options"]


OTHERS: dict[str, tuple[type[Training], Callable[[dict[str, Any]], bool], bool]] = {
    # name: class, whether it can be tried, whether the same bits are promised
    "another way to write the loop": (OtherWay, lambda plan: len(plan["spec"].ways) > 1, False),
    "names": (Named, always, True),
    "looks between steps": (LookedAt, always, True),
    "saved and loaded": (Reloaded, always, True),
    "copied": (Copied, always, True),
    "a scaled loss": (Scaled, loops, False),
    "two halves of a batch": (
        Accumulated,
        lambda plan: plan["way"] == "context" and not plan["spec"].needs_attach,
        False,
    ),
    "weights that do nothing": (Idle, may_have_idle_weights, True),
}


def plan(case: Case) -> dict[str, Any]:
    random = case.random
    spec: Spec = random.choice(SPECS)
    options: dict[str, Any] = {"samples": random.choice((1, 1, 2, 4)), "backend": random.choice(("plain", "native"))}
    options["antithetic"] = options["samples"] > 1 and random.random() < 0.5
    options["store_mean"] = random.random() < 0.8
    if spec.has_prior and random.random() < 0.5:
        options |= {"temperature": 0.5, "prior": random.choice(("init", 0.5))}
    if spec.has_prior and spec.mean_field and random.random() < 0.2:
        options |= {"learn_prior_every": 2}
    if spec.name in ("Vadam", "Vprop", "VadamGGN") and random.random() < 0.5:
        options |= {"batch_size": 10}
    return {
        "spec": spec,
        "way": random.choice(spec.ways),
        "options": options,
        "dtype": random.choice((torch.float32, torch.float64)),
        "deterministic": spec.backward and spec.has_prior and random.random() < 0.3,
        "seed": random.randrange(2**20),
    }


def trainings(case: Case) -> Outcome:
    """Train once as planned and once in each of the other words; compare weights and state."""
    found, given = Outcome(), plan(case)
    expected = Training(given).train().everything()
    for name, (other, fits, exactly) in OTHERS.items():
        if not fits(given):
            continue
        result = other(given).train().everything()
        if exactly and not same(result, expected):
            raise Failed(
                f"{name}: other bits than the training without, {told(given)}: {largest(result, expected):.3g}"
            )
        if not exactly and (off := largest(result, expected)) > tolerance(given):
            raise Failed(f"{name}: off by {off:.3g} from the training without, {told(given)}")
        found.add("answers")
        found.add(name)
    return found


def tolerance(plan: dict[str, Any]) -> float:
    return 1e-9 if plan["dtype"] is torch.float64 else 2e-3


def largest(result: list[Tensor], expected: list[Tensor]) -> float:
    """Return the largest relative difference."""
    if len(result) != len(expected):
        return float("inf")
    scale = [b.double().abs().max().clamp_min(1e-3) if b.numel() else torch.ones(()) for b in expected]
    off = [
        (a.double() - b.double()).abs().max() / s for a, b, s in zip(result, expected, scale, strict=True) if b.numel()
    ]
    return float(max(off))


def told(plan: dict[str, Any]) -> str:
    return ", ".join(f"{name}: {value}" for name, value in plan.items())
