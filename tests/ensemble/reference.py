"""One network trained the obvious way: a module, autograd, the rule on one tensor at a time with plain numbers.

It shares with the engine the rules, the noise and the order of the minibatches, and nothing else.
"""

import copy
import math

import numpy as np
import torch

from vadam import rules
from vadam.ensemble import BBVI, IVON, MAP, VOGN, MCDropout, VadaGrad, Vadam, Vprop, noise
from vadam.ensemble.minibatches import Order

METHODS = [
    Vadam(lr=0.02, betas=(0.8, 0.95), samples=3),
    Vadam(lr=0.02, betas=(0.8, 0.95), samples=2, tau=0.7, init_precision=30.0),
    Vprop(lr=0.02, beta=0.95, samples=3),
    VOGN(lr=0.02, beta=0.95, samples=3, damping=0.01),
    VadaGrad(lr=0.02, beta=0.5, samples=2, init_precision=100.0),
    BBVI(lr=0.02, betas=(0.8, 0.95), samples=3, init_precision=10.0),
    IVON(lr=0.02, betas=(0.8, 0.95), samples=3, hess_init=0.5, clip_radius=1.0),
    MAP(lr=0.02, betas=(0.8, 0.95)),
    MCDropout(lr=0.02, betas=(0.8, 0.95), samples=2),
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
    N = member.num_data or len(x)
    lam, tau, S = member.prior_precision, member.noise_precision, method.samples
    steps = (member.epochs or epochs) * math.ceil(len(x) / batch_size)
    order, sizes = Order(len(x), batch_size, steps, member.seed).take(steps)
    rule = Rule(method, params, N, lam)
    stream = noise.Stream.DROPOUT if isinstance(method, MCDropout) else noise.Stream.WEIGHTS
    for t in range(steps):
        rows = order[t][: sizes[t]]
        key = noise.keys([member.seed], [t], stream)[0]
        alpha = (member.lr or method.lr) * (schedule(t, steps) if schedule else 1.0)
        flat = noise.normals(key, S * P, torch.float64)[0]
        mean = {name: p.detach().clone() for name, p in params.items()}
        sigma = rule.stddev()
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
            if isinstance(method, VOGN):
                singles = [torch.autograd.grad(loss, list(params.values()), retain_graph=True) for loss in losses]
                for j, name in enumerate(params):
                    h[name].append(sum(single[j] ** 2 for single in singles) / len(rows))
            for name in params:
                if isinstance(method, (BBVI, IVON)):
                    h[name].append(g[name][-1] * epsilon[name] / sigma[name])
                elif not isinstance(method, VOGN):
                    h[name].append(g[name][-1] ** 2)
        for name, mu in mean.items():
            params[name].data = mu
        rule.update({n: sum(v) / S for n, v in g.items()}, {n: sum(v) / S for n, v in h.items()}, alpha)
    return {name: p.detach() for name, p in params.items()}, rule.stddev()


class Rule:
    """The rule on each tensor, or torch's own Adam for the methods that are Adam."""

    def __init__(self, method, params, N, lam):
        self.method, self.params, self.N, self.lam = method, params, N, lam
        self.drops_out = isinstance(method, MCDropout)
        if isinstance(method, MAP):
            self.adam = torch.optim.Adam(
                params.values(), lr=1.0, betas=method.betas, eps=method.eps, weight_decay=lam / N
            )
            return
        self.module = getattr(rules, type(method).__name__.lower())
        self.scale = {"N": method.num_data} if isinstance(method, VadaGrad) else {"N": N, "lam": lam}
        start = method.hess_init * N + lam if isinstance(method, IVON) else method.init_precision
        start = lam if start is None else start
        self.states = {n: self.module.init(p.detach(), init_precision=start, **self.scale) for n, p in params.items()}

    def stddev(self):
        if isinstance(self.method, MAP):
            return None
        tau = {"tau": self.method.tau} if hasattr(self.method, "tau") else {}
        return {n: self.module.precision(s, **self.scale, **tau) ** -0.5 for n, s in self.states.items()}

    def update(self, g, h, alpha):
        m = self.method
        if isinstance(m, MAP):
            self.adam.param_groups[0]["lr"] = alpha
            for name, p in self.params.items():
                p.grad = g[name]
            self.adam.step()
            return
        rule_args = {
            Vadam: lambda: {"gamma1": m.betas[0], "gamma2": m.betas[1], "tau": m.tau},
            Vprop: lambda: {"beta": 1 - m.beta, "tau": m.tau},
            VOGN: lambda: {"beta": 1 - m.beta, "tau": m.tau, "damping": m.damping},
            VadaGrad: lambda: {"beta": m.beta},
            BBVI: lambda: {"gamma1": m.betas[0], "gamma2": m.betas[1], "eps": m.eps},
            IVON: lambda: {"beta1": m.betas[0], "beta2": m.betas[1], "xi": m.clip_radius},
        }[type(m)]()
        if isinstance(m, IVON):
            alpha = alpha * (m.hess_init + self.lam / self.N)
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
