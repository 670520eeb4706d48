"""One network trained the obvious way: a module, autograd, the rule on one tensor at a time with plain numbers.

It shares with the engine the rules, the noise and the order of the minibatches, and nothing else.
"""

import copy
import math

import numpy as np
import torch

from vadam import rules
from vadam.ensemble import Method, noise
from vadam.ensemble.minibatches import Order
from vadam.rules.binding import rule_for

METHODS = [
    Method("vadam", lr=0.02, betas=(0.8, 0.95), samples=3),
    Method("vadam", lr=0.02, betas=(0.8, 0.95), samples=2, tau=0.7, init_precision=30.0),
    Method("vprop", lr=0.02, beta=0.95, samples=3, init_precision="prior"),
    Method("vogn", lr=0.02, beta=0.95, samples=3, damping=0.01),
    Method("vogn", lr=0.02, beta=0.95, samples=2, momentum=0.5, data_weight=2.0),
    Method("vadam", lr=0.02, betas=(0.8, 0.95), samples=2, sampling_precision=7.0),
    Method("vadagrad", lr=0.02, beta=0.5, samples=2, init_precision=100.0),
    Method("bbvi", lr=0.02, betas=(0.8, 0.95), samples=3, init_precision=10.0),
    Method("ivon", lr=0.02, betas=(0.8, 0.95), samples=3, hess_init=0.5, clip_radius=1.0),
    Method("adam", lr=0.02, betas=(0.8, 0.95)),
    Method("adam", lr=0.02, betas=(0.8, 0.95), samples=2, drops_out=True),
]


def log_prob(likelihood, output, y, tau):
    if likelihood == "gaussian":
        return torch.distributions.Normal(output.squeeze(-1), tau**-0.5).log_prob(y)
    if likelihood == "bernoulli":
        return torch.distributions.Bernoulli(logits=output.squeeze(-1)).log_prob(y)
    return torch.distributions.Categorical(logits=output).log_prob(y)


def train_alone(member, network, method, *, likelihood, epochs, batch_size, schedule=None):
    """Mean and standard deviation of every weight after training; data are taken as they are."""
    net = copy.deepcopy(network).float()
    torch.manual_seed(member.seed)
    for module in net.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    net = net.double()
    params = dict(net.named_parameters())
    P = sum(p.numel() for p in params.values())
    x, y = (torch.as_tensor(np.asarray(v)[member.train]).double() for v in (member.x, member.y))
    N = member.num_data or method.settings.get("num_data", len(x))
    lam, tau, S = member.prior_precision, member.noise_precision, method.samples
    steps = (member.epochs or epochs) * math.ceil(len(x) / batch_size)
    order, sizes = Order(len(x), batch_size, steps, member.seed).take(steps)
    rule = Rule(method, params, N, lam)
    stream = noise.Stream.DROPOUT if method.drops_out else noise.Stream.WEIGHTS
    for t in range(steps):
        rows = order[t][: sizes[t]]
        key = noise.keys([member.seed], [t], stream)[0]
        alpha = (member.lr or method.settings["lr"]) * (schedule(t, steps) if schedule else 1.0)
        flat = noise.normals(key, S * P, torch.float64)[0]
        mean = {name: p.detach().clone() for name, p in params.items()}
        sigma = rule.stddev(extra=method.settings.get("sampling_precision", 0.0))
        g = {name: [] for name in params}
        h = {name: [] for name in params}
        for s in range(S):
            offset = 0
            epsilon = {}
            for name, mu in mean.items():
                block = flat[S * offset : S * (offset + mu.numel())].view(S, *mu.shape)
                epsilon[name] = block[s]
                offset += mu.numel()
                params[name].data = mu + sigma[name] * epsilon[name] if sigma else mu.clone()
            masks = dropout_masks(key, member.dropout, net, batch_size, S, s) if rule.drops_out else None

            def each(i, masks=masks, rows=rows):
                inputs = x[rows[i : i + 1]]
                output = masked(net, inputs, [m[i : i + 1] for m in masks]) if masks else net(inputs)
                return -log_prob(likelihood, output, y[rows[i : i + 1]], tau)[0]

            losses = [each(i) for i in range(len(rows))]
            grads = torch.autograd.grad(sum(losses) / len(rows), list(params.values()), retain_graph=True)
            for name, grad in zip(params, grads, strict=True):
                g[name].append(grad)
            if method.name == "vogn":
                singles = [torch.autograd.grad(loss, list(params.values()), retain_graph=True) for loss in losses]
                for j, name in enumerate(params):
                    h[name].append(sum(single[j] ** 2 for single in singles) / len(rows))
            for name in params:
                if method.name in ("bbvi", "ivon"):
                    h[name].append(g[name][-1] * epsilon[name] / sigma[name])
                elif method.name != "vogn":
                    h[name].append(g[name][-1] ** 2)
        for name, mu in mean.items():
            params[name].data = mu
        rule.update({n: sum(v) / S for n, v in g.items()}, {n: sum(v) / S for n, v in h.items()}, alpha)
    return {name: p.detach() for name, p in params.items()}, rule.stddev()


class Rule:
    """The rule on each tensor, or torch's own Adam for the methods that are Adam."""

    def __init__(self, method, params, N, lam):
        self.name, self.params, self.N, self.lam = method.name, params, N, lam
        self.settings = v = method.settings
        self.drops_out = method.drops_out
        if self.name == "adam":
            self.adam = torch.optim.Adam(params.values(), lr=1.0, betas=v["betas"], eps=v["eps"], weight_decay=lam / N)
            return
        self.module = rule_for(getattr(rules, self.name), v)
        N = N * v.get("data_weight", 1.0)
        self.scale = {"N": N} if self.name == "vadagrad" else {"N": N, "lam": lam}
        start = v["hess_init"] * N + lam if self.name == "ivon" else v["init_precision"]
        usual = max(lam, N if self.name == "vogn" else 10 * N)
        start = {None: usual, "prior": lam}.get(start, start)
        self.states = {n: self.module.init(p.detach(), init_precision=start, **self.scale) for n, p in params.items()}

    def stddev(self, extra=0.0):
        """Return the standard deviations, with ``extra`` added to the precision."""
        if self.name == "adam":
            return None
        tau = {"tau": self.settings["tau"]} if "tau" in self.settings else {}
        return {n: (self.module.precision(s, **self.scale, **tau) + extra) ** -0.5 for n, s in self.states.items()}

    def update(self, g, h, alpha):
        v = self.settings
        if self.name == "adam":
            self.adam.param_groups[0]["lr"] = alpha
            for name, p in self.params.items():
                p.grad = g[name]
            self.adam.step()
            return
        momentum = {"gamma": v["momentum"]} if v.get("momentum") else {}
        rule_args = {
            "vadam": lambda: {
                "gamma1": v["betas"][0],
                "gamma2": v["betas"][1],
                "tau": v["tau"],
                "kappa": v["start_in_step"],
            },
            "vprop": lambda: {"beta": 1 - v["beta"], "tau": v["tau"], "kappa": v["start_in_step"], **momentum},
            "vogn": lambda: {"beta": 1 - v["beta"], "tau": v["tau"], "damping": v["damping"], **momentum},
            "vadagrad": lambda: {"beta": v["beta"]},
            "bbvi": lambda: {"gamma1": v["betas"][0], "gamma2": v["betas"][1], "eps": v["eps"]},
            "ivon": lambda: {"beta1": v["betas"][0], "beta2": v["betas"][1], "xi": v["clip_radius"]},
        }[self.name]()
        if self.name == "ivon":
            alpha = alpha * (v["hess_init"] + self.lam / self.N)
        for name, p in self.params.items():
            state = self.module.update(self.states[name], g[name], h[name], alpha=alpha, **self.scale, **rule_args)
            self.states[name] = state
            p.data = state.mu


def masked(net, x, masks):
    masks = iter(masks)
    for layer in net:
        x = layer(x * next(masks)) if isinstance(layer, torch.nn.Linear) else layer(x)
    return x


def dropout_masks(key, rate, net, M, S, s):
    sizes = [layer.in_features for layer in net if isinstance(layer, torch.nn.Linear)]
    uniform = noise.uniforms(key, M * S * sum(sizes), torch.float64).view(M, S, sum(sizes))[:, s]
    return [(u > rate).double() / (1 - rate) for u in uniform.split(sizes, dim=1)]
