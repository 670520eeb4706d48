"""The same prediction in other words: other batches, order, containers, modes, files; and what scipy says of its numbers."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy import stats
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import vadam
from torture.case import Case, Failed, Outcome
from vadam.likelihoods import Likelihood

ROWS = 7


class Direct(nn.Module):
    """Uses a parameter of its own, and one layer twice."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))
        self.inner = nn.Linear(4, 4)
        self.last = nn.Linear(4, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.inner(torch.tanh(self.inner(self.scale * x))))  # type: ignore[no-any-return]


class LastStep(nn.Module):
    """Predicts from the last step of a sequence."""

    def __init__(self, outputs: int, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.words = nn.Embedding(9, 4)
        self.recurrent = kind(4, 5, batch_first=True)
        self.last = nn.Linear(5, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.recurrent(self.words(x))[0][:, -1])  # type: ignore[no-any-return]


def perceptron(outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, outputs))


def normalized(outputs: int) -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.LayerNorm(6), nn.Linear(6, outputs))
    model(3 + torch.randn(20, 4))  # running statistics of its own
    return model


def convolution(outputs: int) -> nn.Module:
    layers = nn.Conv2d(1, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()
    return nn.Sequential(nn.Unflatten(1, (1, 4, 4)), *layers, nn.Linear(12, outputs))


def transformer(outputs: int) -> nn.Module:
    block = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    return nn.Sequential(nn.Unflatten(1, (4, 4)), block, nn.Flatten(), nn.Linear(16, outputs))


MODELS: dict[str, tuple[Callable[[int], nn.Module], Callable[[], Tensor]]] = {
    "perceptron": (perceptron, lambda: torch.randn(ROWS, 4)),
    "normalized": (normalized, lambda: torch.randn(ROWS, 4)),
    "direct": (Direct, lambda: torch.randn(ROWS, 4)),
    "convolution": (convolution, lambda: torch.randn(ROWS, 16)),
    "transformer": (transformer, lambda: torch.randn(ROWS, 16)),
    "LSTM": (lambda outputs: LastStep(outputs, nn.LSTM), lambda: torch.randint(9, (ROWS, 5))),
    "GRU": (lambda outputs: LastStep(outputs, nn.GRU), lambda: torch.randint(9, (ROWS, 5))),
}


def gaussian(random: random.Random, model: nn.Module) -> Any:
    """Return a posterior of the network: of all weights or some, of one Gaussian or two, with pruned weights or without."""
    weights = {name: p.detach() for name, p in model.named_parameters()}
    if random.random() < 0.3:
        weights.pop(random.choice([*weights]))
    precision = {name: torch.rand_like(value) * 50 + 10 for name, value in weights.items()}
    post: Any = vadam.MeanFieldGaussian(weights, precision, prior_precision=dict.fromkeys(weights, 1.0))
    kind = random.choice(("one", "one", "pruned", "two", "full"))
    if kind == "pruned":
        _, post = post.prune(0.3)
    if kind == "two":
        moved = {name: value + 0.1 for name, value in weights.items()}
        post = vadam.Mixture([post, vadam.MeanFieldGaussian(moved, precision)])
    if kind == "full" and post.num_weights < 200:
        post = vadam.FullGaussian.of(post)
    return post


class Question:
    """One prediction: network, posterior and inputs; ``ask`` puts it in other words."""

    def __init__(self, case: Case) -> None:
        random = case.random
        torch.manual_seed(random.randrange(2**31))
        self.name = random.choice([*MODELS])
        self.likelihood, outputs = likelihood(random)
        build, inputs = MODELS[self.name]
        self.model, self.x = build(outputs), inputs()
        self.post, self.samples = gaussian(random, self.model), random.choice((1, 3, 8, 20))
        self.seed, self.random, self.folder = random.randrange(2**31), random, case.folder

    def ask(self, **changes: Any) -> Any:
        words = {"model": self.model, "post": self.post, "x": self.x, "samples": self.samples, **changes}
        generator = torch.Generator().manual_seed(self.seed)
        return vadam.predict(**{"likelihood": self.likelihood, "generator": generator, **words})

    def __str__(self) -> str:
        return f"{self.name}, {self.likelihood}, {self.post!r}, {self.samples} samples, seed {self.seed}"


def other_batches(asked: Question) -> Tensor:
    return asked.ask(batch_size=asked.random.randrange(1, ROWS + 2)).samples


def other_order(asked: Question) -> Tensor:
    order = torch.randperm(ROWS)
    return asked.ask(x=asked.x[order]).samples[:, order.argsort()]


def rows_alone(asked: Question) -> Tensor:
    return torch.cat([asked.ask(x=asked.x[k : k + 1]).samples for k in range(ROWS)], dim=1)


def a_loader(asked: Question) -> Tensor:
    return asked.ask(x=DataLoader(TensorDataset(asked.x, torch.zeros(ROWS)), batch_size=3)).samples


def a_list_of_batches(asked: Question) -> Tensor:
    return asked.ask(x=[*asked.x.split(2)]).samples


def arguments_in_a_tuple(asked: Question) -> Tensor:
    return asked.ask(x=(asked.x,)).samples


def memory_in_another_order(asked: Question) -> Tensor:
    return asked.ask(x=asked.x.t().contiguous().t()).samples


def training_mode(asked: Question) -> Tensor:
    found = asked.ask(model=asked.model.train()).samples
    if not asked.model.training:
        raise Failed("predict left the network in evaluation mode")
    return found


def drawn_before(asked: Question) -> Tensor:
    draws = vadam.Draws(asked.post, asked.samples, generator=torch.Generator().manual_seed(asked.seed))
    asked.ask(post=draws, x=asked.x[:2])
    return asked.ask(post=draws).samples


def one_draw_at_a_time(asked: Question) -> Tensor:
    return asked.ask(vmap=False).samples


def saved_and_loaded(asked: Question) -> Tensor:
    path = asked.folder / "posterior.safetensors"
    vadam.save(path, asked.post)
    return asked.ask(post=vadam.load(path).posterior).samples


def another_model_of_its_class(asked: Question) -> Tensor:
    model = copy.deepcopy(asked.model)
    if isinstance(asked.post, vadam.MeanFieldGaussian) and not asked.post.pruned:
        with torch.no_grad():
            for name, p in model.named_parameters():
                p.mul_(2 if name in asked.post.mean else 1)  # weights that the posterior names do not count
    return asked.ask(model=model).samples


def wrapped(asked: Question) -> Tensor:
    return asked.ask(model=nn.DataParallel(asked.model)).samples


def a_loop_over_draws(asked: Question) -> Tensor:
    """Compute the outputs as torch alone does: the weights of a draw, one after the other."""
    draws = vadam.Draws(asked.post, asked.samples, generator=torch.Generator().manual_seed(asked.seed)).weights
    model, found = copy.deepcopy(asked.model).eval(), []
    with torch.no_grad():
        for s in range(asked.samples):
            for name, p in model.named_parameters():
                p.copy_(draws[name][s] if name in draws else p)
            found.append(model(asked.x))
    return torch.stack(found)


OTHERS = (
    *(other_batches, other_order, rows_alone, a_loader, a_list_of_batches, arguments_in_a_tuple),
    *(memory_in_another_order, training_mode, drawn_before, one_draw_at_a_time, saved_and_loaded),
    *(another_model_of_its_class, wrapped, a_loop_over_draws),
)


def predictions(case: Case) -> Outcome:
    """Predict once, ask in all other words, and compare what the result says with scipy."""
    found, asked = Outcome(), Question(case)
    before = {name: value.clone() for name, value in asked.model.state_dict().items()}
    expected = asked.ask()
    for other in OTHERS:
        name = other.__name__.replace("_", " ")
        equal(f"{name}: {asked}", other(asked), expected.samples, 1e-4)
        found.add("answers")
        found.add(name)
    if any(not torch.equal(value, before[name]) for name, value in asked.model.state_dict().items()):
        raise Failed(f"predict changed the network: {asked}")
    check_numbers(expected, str(asked))
    found.add("answers")
    found.add("numbers by scipy")
    return found


def equal(said: str, a: Any, b: Any, tolerance: float) -> None:
    """Raise unless two arrays are equal, up to ``tolerance`` times the larger of 1 and the largest number."""
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if a.shape != b.shape:
        raise Failed(f"{said}: shape {a.shape} instead of {b.shape}")
    if not a.size:
        return
    bound = tolerance * max(1.0, float(np.abs(b[np.isfinite(b)]).max(initial=0)))
    with np.errstate(invalid="ignore"):
        wrong = ~((np.abs(a - b) <= bound) | (a == b) | (np.isnan(a) & np.isnan(b)))
    if wrong.any():
        where = tuple(int(k) for k in np.argwhere(wrong)[0])
        raise Failed(f"{said}: {a[where]:.7g} instead of {b[where]:.7g} at {where}")


# The numbers of a prediction, by scipy --------------------------------------------------------------------------------------


def likelihood(random: random.Random) -> tuple[Likelihood | None, int]:
    """Return a likelihood and how many outputs a network for it has."""
    tau, dof, count = random.choice((0.1, 1.0, 400.0)), random.choice((2.5, 4.0, 30.0)), random.choice((0.3, 1.0, 50.0))
    targets = random.choice((1, 1, 2))
    return random.choice(
        (
            (None, targets),
            (vadam.Gaussian(tau), targets),
            (vadam.StudentT(tau, dof), targets),
            (vadam.InputNoiseGaussian(), 2 * targets),
            (vadam.InputNoiseStudentT(dof), 2 * targets),
            (vadam.Poisson(), targets),
            (vadam.NegativeBinomial(count), targets),
            (vadam.Categorical(), 3),
            (vadam.Bernoulli(), 1),
        )
    )


def distribution(likelihood: Any, outputs: np.ndarray) -> Any:
    """Return scipy's distribution of the targets, given the outputs of a network."""
    half = outputs.shape[-1] // 2
    match likelihood:
        case vadam.Gaussian():
            return stats.norm(outputs, likelihood.noise_precision**-0.5)
        case vadam.StudentT():
            return stats.t(likelihood.dof, outputs, likelihood.noise_precision**-0.5)
        case vadam.InputNoiseGaussian():
            return stats.norm(outputs[..., :half], np.exp(outputs[..., half:]))
        case vadam.InputNoiseStudentT():
            return stats.t(likelihood.dof, outputs[..., :half], np.exp(outputs[..., half:]))
        case vadam.Poisson():
            return stats.poisson(np.exp(outputs))
        case vadam.NegativeBinomial():
            r = likelihood.total_count
            return stats.nbinom(r, r / (r + np.exp(outputs)))
    raise NotImplementedError(likelihood)


def check_numbers(pred: Any, said: str) -> None:
    """Compare all that a prediction says with what scipy says of the same outputs."""
    outputs = pred.samples.double().numpy()
    if isinstance(pred.likelihood, vadam.Categorical | vadam.Bernoulli):
        check_classes(pred, outputs, said)
    elif pred.likelihood is None:
        equal(f"mean: {said}", pred.mean, outputs.mean(0), 1e-5)
        equal(f"std: {said}", pred.std, outputs.std(0), 1e-4)
        equal(f"quantile: {said}", pred.quantile(0.3), np.quantile(outputs, 0.3, axis=0), 1e-5)
    else:
        check_distribution(pred, outputs, said)


def check_distribution(pred: Any, outputs: np.ndarray, said: str) -> None:
    known = distribution(pred.likelihood, outputs)
    means, stds = known.mean(), known.std()
    equal(f"mean: {said}", pred.mean, means.mean(0), 1e-4)
    equal(f"epistemic: {said}", pred.epistemic, means.std(0), 1e-3)
    equal(f"aleatoric: {said}", pred.aleatoric, np.sqrt((np.broadcast_to(stds, means.shape) ** 2).mean(0)), 1e-3)
    y = torch.as_tensor(known.rvs(size=means.shape, random_state=0)[0])
    target, discrete = y.double().numpy(), isinstance(pred.likelihood, vadam.Poisson | vadam.NegativeBinomial)
    log_p = (known.logpmf if discrete else known.logpdf)(target).sum(-1)
    equal(f"log_prob: {said}", pred.log_prob(y.float()), np.logaddexp.reduce(log_p, 0) - np.log(len(log_p)), 1e-4)
    equal(f"cdf: {said}", pred.cdf(y.float()), known.cdf(target).mean(0), 1e-4)
    for q in (0.05, 0.5, 0.9):
        place = pred.quantile(q).double().numpy()
        if not discrete:
            equal(f"quantile({q}): {said}", known.cdf(place).mean(0), np.full(place.shape, q), 1e-3)
        elif (known.cdf(place).mean(0) < q - 1e-4).any() or (known.cdf(place - 1).mean(0) > q + 1e-4).any():
            raise Failed(f"quantile({q}) is {place}, whose cdf is {known.cdf(place).mean(0)}: {said}")
    low, high = pred.interval(0.9)
    equal(f"interval: {said}", torch.stack([low, high]), pred.quantile(torch.tensor([0.05, 0.95])), 1e-5)


def check_classes(pred: Any, outputs: np.ndarray, said: str) -> None:
    logits = outputs if isinstance(pred.likelihood, vadam.Categorical) else np.concatenate([0 * outputs, outputs], -1)
    each = np.exp(logits - np.logaddexp.reduce(logits, -1, keepdims=True))
    probs = each.mean(0)
    equal(f"probs: {said}", pred.probs, probs if isinstance(pred.likelihood, vadam.Categorical) else probs[:, 1:], 1e-5)
    shape = pred.entropy.shape  # of Bernoulli that of the outputs
    entropies = stats.entropy(probs, axis=-1).reshape(shape), stats.entropy(each, axis=-1).mean(0).reshape(shape)
    equal(f"entropy: {said}", pred.entropy, entropies[0], 1e-5)
    equal(f"expected_entropy: {said}", pred.expected_entropy, entropies[1], 1e-5)
    equal(f"mutual_information: {said}", pred.mutual_information, entropies[0] - entropies[1], 1e-5)
    equal(f"confidence: {said}", pred.confidence.reshape(-1), probs.max(-1), 1e-5)
    labels = pred.label.reshape(-1)
    equal(f"label: {said}", probs[np.arange(ROWS), labels], probs.max(-1), 1e-6)
    y = torch.randint(logits.shape[-1], (ROWS,))
    equal(f"log_prob: {said}", pred.log_prob(y), np.log(probs[np.arange(ROWS), y]), 1e-4)
