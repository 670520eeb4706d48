"""Train by a rule whose draw and update are one compiled graph each.

Stochastic layers pass through torch.compile as a whole, with their draws. This does the same for weight-perturbation: the rule's equations
for all weights at once, without buckets, chunks and checks of the library's optimizers.
"""

from collections.abc import Callable
from types import ModuleType

import torch
from torch import Tensor, nn


def whole_step(
    rule: ModuleType,
    rates: dict[str, float],
    model: nn.Module,
    loss: Callable[[], Tensor],
    *,
    num_data: float,
    prior_precision: float,
) -> Callable[[], None]:
    """Return a training step: draw weights, differentiate the loss there, update the means; ``rates`` are the rule's own arguments."""
    weights = list(model.parameters())
    scale = {"N": num_data, "lam": prior_precision}
    starts = [rule.init(p.detach().clone(), init_precision=num_data, **scale) for p in weights]
    fields = [name for name, value in starts[0]._asdict().items() if isinstance(value, Tensor)]
    states = [{name: getattr(state, name) for name in fields} for state in starts]
    numbers = [name for name in rule.State._fields if name not in fields]
    scalars = torch.tensor([getattr(starts[0], name) for name in numbers], dtype=torch.float64)

    def draw(states: list[dict[str, Tensor]], scalars: Tensor, noise: list[Tensor]) -> list[Tensor]:
        known = dict(zip(numbers, scalars.unbind(), strict=True))
        full = [rule.State(**state, **known) for state in states]
        return [s.mu + eps * rule.precision(s, **scale).rsqrt() for s, eps in zip(full, noise, strict=True)]

    def update(states: list[dict[str, Tensor]], scalars: Tensor, grads: list[Tensor]) -> Tensor:
        known = dict(zip(numbers, scalars.unbind(), strict=True))
        for state, g in zip(states, grads, strict=True):
            new = rule.update(rule.State(**state, **known), g, g * g, **scale, **rates)
            for name in fields:
                state[name].copy_(getattr(new, name))
        return torch.stack([getattr(new, name) for name in numbers]) if numbers else scalars

    draw_weights, update_states, evaluate = torch.compile(draw), torch.compile(update), torch.compile(loss)

    def step() -> None:
        nonlocal scalars
        with torch.no_grad():
            drawn = draw_weights(states, scalars, [torch.randn_like(p) for p in weights])
            for p, theta in zip(weights, drawn, strict=True):
                p.data, p.grad = theta, None
        evaluate().backward()
        with torch.no_grad():
            scalars = update_states(states, scalars, [p.grad for p in weights if p.grad is not None])
            for p, state in zip(weights, states, strict=True):
                p.data = state["mu"]

    return step
