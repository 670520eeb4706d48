"""The real Lightning against loops written by hand: with nothing but the optimizer changed, and with the callback."""

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_
from torch.utils.data import DataLoader, TensorDataset

import vadam
from matrix import covers
from specs import SPECS, Spec, same, snapshot

lightning = pytest.importorskip("lightning", reason='Lightning is not installed: pip install "vadam[lightning]"')
from vadam.integrations.lightning import KEY, PosteriorCallback, posterior  # noqa: E402
from vadam.optim.sample import Owner  # noqa: E402

LOOPED = pytest.mark.parametrize("spec", [spec for spec in SPECS if "attach" in spec.ways], ids=str)
BY_CLOSURE = pytest.mark.parametrize("spec", [s for s in SPECS if "attach" in s.ways or not s.differentiable], ids=str)
SECOND_ORDER = pytest.mark.parametrize(
    "spec", [s for s in SPECS if "attach" not in s.ways and s.differentiable], ids=str
)
N = 32
X = torch.randn(N, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
Y = (X @ torch.tensor([[1.0], [-2.0], [0.5]], dtype=torch.float64)).sin()


class Regression(lightning.LightningModule):
    def __init__(self, spec: Spec, dtype: torch.dtype = torch.float64, **changes: Any) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).to(dtype)
        self.spec, self.changes = spec, {"num_data": N, **changes}
        self.evaluated: list[list[torch.Tensor]] = []
        self.trained: list[list[torch.Tensor]] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        self.trained.append(self.weights())
        return nn.functional.mse_loss(self.net(batch[0]), batch[1])

    def validation_step(self, batch: Any, index: int) -> None:
        self.evaluated.append(self.weights())

    def configure_optimizers(self) -> vadam.VariationalOptimizer:
        generator = torch.Generator().manual_seed(1)
        self.opt = self.spec.make_for(self.net, **{"generator": generator, **self.changes})
        return self.opt

    def weights(self) -> list[torch.Tensor]:
        return [p.detach().clone() for p in self.parameters()]

    def everything(self) -> list[torch.Tensor]:
        return self.weights() + snapshot(self.opt)


def loader(batch: int = 8, dtype: torch.dtype = torch.float64) -> DataLoader:
    return DataLoader(TensorDataset(X.to(dtype), Y.to(dtype)), batch_size=batch)


def fit(
    module: Regression, folder: Path, *, batch: int = 8, epochs: int = 2, ckpt: Path | None = None, **options: Any
) -> Any:
    validation = [loader(dtype=next(module.parameters()).dtype)] if options.pop("validate", False) else []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = lightning.Trainer(
            max_epochs=epochs, accelerator="cpu", enable_checkpointing=False, enable_progress_bar=False, num_sanity_val_steps=0,
            enable_model_summary=False, default_root_dir=folder, **{"logger": False, **options},
        )  # fmt: skip
        trainer.fit(module, loader(batch, next(module.parameters()).dtype), *validation, ckpt_path=ckpt)
    return trainer


def by_hand(module: Regression, step: Callable[..., None], *, batch: int = 8, epochs: int = 2) -> list[torch.Tensor]:
    opt = module.configure_optimizers()
    for _ in range(epochs):
        for x, y in loader(batch, next(module.parameters()).dtype):
            step(opt, lambda x=x, y=y: nn.functional.mse_loss(module.net(x), y))
    return module.everything()


def closure_step(opt: Any, loss: Callable[[], torch.Tensor], after: Callable[[], object] = lambda: None) -> None:
    def closure() -> torch.Tensor:
        opt.zero_grad()
        value = loss()
        if value.requires_grad:  # the score function needs values alone
            value.backward()
        after()
        return value

    opt.step(closure)


@covers("Lightning", "automatic optimisation, no callback")
@BY_CLOSURE
@pytest.mark.parametrize("samples", [1, 2])
def test_closures(spec: Spec, samples: int, tmp_path: Path) -> None:
    module = Regression(spec, samples=samples)
    fit(module, tmp_path)
    assert same(module.everything(), by_hand(Regression(spec, samples=samples), closure_step))


@covers("Lightning", "automatic optimisation, no callback", refuses=True)
@SECOND_ORDER
def test_closures_that_must_not_call_backward(spec: Spec, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"closure returns the loss as a tensor and does not call backward\(\)"):
        fit(Regression(spec), tmp_path)


@covers("Lightning", "gradient clipping")
@LOOPED
def test_clipping(spec: Spec, tmp_path: Path) -> None:
    module, other = Regression(spec), Regression(spec)
    fit(module, tmp_path, gradient_clip_val=0.1)
    clip = lambda opt, loss: closure_step(opt, loss, lambda: clip_grad_norm_(other.parameters(), 0.1))  # noqa: E731
    assert same(module.everything(), by_hand(other, clip))
    assert not same(module.everything(), by_hand(Regression(spec), closure_step))


@covers("Lightning", "bf16-mixed")
@LOOPED
def test_bf16(spec: Spec, tmp_path: Path) -> None:
    module = Regression(spec, torch.float32)
    fit(module, tmp_path, precision="bf16-mixed")

    def step(opt: Any, loss: Callable[[], torch.Tensor]) -> None:
        def cast() -> torch.Tensor:
            with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
                return loss()

        closure_step(opt, cast)

    assert same(module.everything(), by_hand(Regression(spec, torch.float32), step))


@covers("Lightning", "accumulate_grad_batches, with the callback")
@LOOPED
def test_accumulation_is_a_larger_minibatch(spec: Spec, tmp_path: Path) -> None:
    module = Regression(spec)
    fit(module, tmp_path, batch=8, accumulate_grad_batches=2, callbacks=[PosteriorCallback()])
    whole = by_hand(Regression(spec), closure_step, batch=16)
    for a, b in zip(module.everything(), whole, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)  # the same samples, sums in another order


@covers("Lightning", "16-mixed with GradScaler, clipping, accumulation and a skipped step, with the callback")
@LOOPED
def test_float16(spec: Spec, tmp_path: Path) -> None:
    def scaler() -> Any:
        return torch.amp.GradScaler("cpu", init_scale=2.0**30, growth_interval=1000, backoff_factor=2.0**-20)

    module, other = Regression(spec, torch.float32), Regression(spec, torch.float32)
    plugin = lightning.pytorch.plugins.MixedPrecision("16-mixed", "cpu", scaler())
    options = {"gradient_clip_val": 0.1, "accumulate_grad_batches": 2}
    fit(module, tmp_path, plugins=[plugin], callbacks=[PosteriorCallback()], **options)
    opt, ours = other.configure_optimizers(), scaler()
    opt.attach(other.net)
    for _ in range(2):
        batches = list(loader(8, torch.float32))
        for pair in (batches[:2], batches[2:]):
            opt.zero_grad()
            for x, y in pair:
                with torch.autocast("cpu", torch.float16, cache_enabled=False):
                    loss = nn.functional.mse_loss(other.net(x), y) / 2
                ours.scale(loss).backward()
            ours.unscale_(opt)
            clip_grad_norm_(other.parameters(), 0.1)
            ours.step(opt)
            ours.update()
    assert module.opt.skipped_steps == opt.skipped_steps == 1
    assert same(module.everything(), other.everything())


@covers("Lightning", "checkpoint: resume exactly, posterior inside, with the callback")
@LOOPED
def test_checkpoint(spec: Spec, tmp_path: Path) -> None:
    straight = Regression(spec)
    fit(straight, tmp_path, epochs=4, callbacks=[PosteriorCallback()])
    first = Regression(spec)
    fit(first, tmp_path, epochs=2, callbacks=[PosteriorCallback()]).save_checkpoint(tmp_path / "half.ckpt")
    resumed = Regression(spec)
    fit(resumed, tmp_path, epochs=4, ckpt=tmp_path / "half.ckpt", callbacks=[PosteriorCallback()])
    assert same(resumed.everything(), straight.everything())

    saved, post = posterior(tmp_path / "half.ckpt"), first.opt.posterior(first)
    assert list(saved.mean) == list(post.mean)
    assert all(torch.equal(saved.mean[name], post.mean[name]) for name in post.mean)
    assert all(torch.equal(saved.precision[name], post.precision[name]) for name in post.precision)
    assert saved.prior_precision == post.prior_precision
    a, b = (vadam.predict(first, p, X, 8, generator=torch.Generator().manual_seed(0)) for p in (saved, post))
    assert torch.equal(a.samples, b.samples)


@pytest.mark.parametrize("name", ["Vadam", "EVON"])
def test_a_checkpoint_holds_the_mean_of_the_prior_and_the_temperature(name: str, tmp_path: Path) -> None:
    """Without them the KL to the prior, merged posteriors and the prior of the next task would be others."""
    spec = next(spec for spec in SPECS if spec.name == name)
    module = Regression(spec, prior="init", temperature=0.25)
    fit(module, tmp_path, epochs=1, callbacks=[PosteriorCallback()]).save_checkpoint(tmp_path / "cold.ckpt")
    saved, post = posterior(tmp_path / "cold.ckpt"), module.opt.posterior(module)
    assert torch.equal(saved.kl(), post.kl())
    assert saved.prior_mean.keys() == post.prior_mean.keys()
    assert saved.temperature == post.temperature == dict.fromkeys(post.prior_mean, 0.25)
    assert getattr(saved, "shares", None) == getattr(post, "shares", None)


@covers("Lightning", "evaluation in the middle of a step at the mean, with the callback")
@LOOPED
def test_evaluation_between_micro_batches(spec: Spec, tmp_path: Path) -> None:
    """Validation after every micro-batch sees the mean and disturbs nothing."""
    module, undisturbed = Regression(spec), Regression(spec)
    options: dict[str, Any] = {"accumulate_grad_batches": 2, "epochs": 1}
    fit(module, tmp_path, callbacks=[PosteriorCallback()], validate=True, val_check_interval=1, **options)
    fit(undisturbed, tmp_path, callbacks=[PosteriorCallback()], **options)
    assert same(module.everything(), undisturbed.everything())
    start = Regression(spec).weights()
    in_the_middle = module.evaluated[:4]  # four batches of data, after the first micro-batch
    assert all(same(seen, start) for seen in in_the_middle)
    assert same(module.evaluated[-1], module.weights())
    assert same(module.trained[0], module.trained[1])
    assert not same(module.trained[0], start)


VADAM = next(spec for spec in SPECS if spec.name == "Vadam")


class Logs(lightning.pytorch.loggers.logger.DummyLogger):
    def __init__(self) -> None:
        super().__init__()
        self.values: dict[str, list[float]] = {}

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        for name, value in metrics.items():
            self.values.setdefault(name, []).append(float(value))


def test_logs(tmp_path: Path) -> None:
    logs, losses = Logs(), []

    class Noting(Regression):
        def training_step(self, batch: Any, index: int) -> torch.Tensor:
            loss = super().training_step(batch, index)
            losses.append(float(loss))
            return loss

    module, noise = Noting(VADAM), vadam.Gaussian(noise_precision=2.0)
    callback = PosteriorCallback(noise, samples=8)
    fit(
        module,
        tmp_path,
        logger=logs,
        callbacks=[callback],
        validate=True,
        batch=12,
        accumulate_grad_batches=2,
        log_every_n_steps=1,
    )
    post = module.opt.posterior(module)
    kl, expected_nll = float(post.kl()), sum(a * b for a, b in zip(losses[-3:], (12, 12, 8), strict=True)) / N
    assert logs.values["kl"][-1] == pytest.approx(kl, rel=1e-6)
    assert logs.values["elbo"][-1] == pytest.approx(-N * expected_nll - kl, rel=1e-6)
    assert logs.values["nelbo_per_datum"][-1] == pytest.approx(expected_nll + kl / N, rel=1e-6)
    widths = torch.cat([value.rsqrt().flatten() for value in post.precision.values()])
    assert logs.values["posterior_std"][-1] == pytest.approx(float(widths.mean()), rel=1e-6)
    pred = vadam.predict(module, post, X, 8, likelihood=noise, generator=torch.Generator().manual_seed(0))
    assert logs.values["val_epistemic"][-1] == pytest.approx(float(pred.epistemic.mean()), rel=1e-6)
    assert logs.values["val_aleatoric"][-1] == pytest.approx(0.5**0.5, rel=1e-6)
    assert logs.values["val_log_likelihood"][-1] == pytest.approx(float(pred.log_prob(Y).mean()), rel=1e-6)


def test_classes_are_logged_too(tmp_path: Path) -> None:
    class Classification(Regression):
        def training_step(self, batch: Any, index: int) -> torch.Tensor:
            return nn.functional.cross_entropy(self.logits(batch[0]), batch[1])

        def logits(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cat([self.net(x), -self.net(x)], 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.logits(x)

    logs, module = Logs(), Classification(VADAM)
    data = DataLoader(TensorDataset(X, (Y[:, 0] > 0).long()), batch_size=8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lightning.Trainer(
            max_epochs=1, accelerator="cpu", logger=logs, callbacks=[PosteriorCallback(vadam.Categorical())], log_every_n_steps=1,
            enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, default_root_dir=tmp_path,
        ).fit(module, data, data)  # fmt: skip
    assert 0 < logs.values["val_epistemic"][-1] < logs.values["val_aleatoric"][-1] < 0.7


def test_an_optimizer_without_a_prior_has_no_elbo(tmp_path: Path) -> None:
    logs = Logs()
    spec = next(spec for spec in SPECS if spec.name == "VadaGrad")
    fit(Regression(spec), tmp_path, logger=logs, callbacks=[PosteriorCallback()], log_every_n_steps=1)
    assert "posterior_std" in logs.values
    assert "elbo" not in logs.values


def test_saving_in_the_middle_of_a_step_saves_the_mean(tmp_path: Path) -> None:
    class Saving(lightning.Callback):
        def on_after_backward(self, trainer: Any, pl_module: Any) -> None:
            if pl_module.opt._weights.owner is Owner.LOOP:
                trainer.save_checkpoint(tmp_path / "middle.ckpt")

    module = Regression(VADAM)
    fit(module, tmp_path, epochs=1, accumulate_grad_batches=4, callbacks=[PosteriorCallback(), Saving()])
    saved = torch.load(tmp_path / "middle.ckpt", weights_only=True)["state_dict"]
    assert same(list(saved.values()), Regression(VADAM).weights())


def mistakes() -> Iterator[Any]:
    class Adam(Regression):
        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters())

    yield pytest.param(Adam(VADAM), {}, "0: Adam", id="no-optimizer-of-ours")
    several = Regression(VADAM, samples=2)
    message = r"accumulate_grad_batches=2 with samples=2.*samples=1"
    yield pytest.param(several, {"accumulate_grad_batches": 2}, message, id="accumulation-of-several-samples")


@pytest.mark.parametrize(("module", "options", "message"), list(mistakes()))
def test_mistakes(module: Regression, options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        fit(module, tmp_path, callbacks=[PosteriorCallback()], **options)


def test_a_checkpoint_without_a_posterior_says_so(tmp_path: Path) -> None:
    fit(Regression(VADAM), tmp_path, epochs=1).save_checkpoint(tmp_path / "plain.ckpt")
    assert KEY not in torch.load(tmp_path / "plain.ckpt", weights_only=True)
    with pytest.raises(ValueError, match="contains no posterior"):
        posterior(tmp_path / "plain.ckpt")


def test_a_checkpoint_is_evaluated_with_its_own_precision(tmp_path: Path) -> None:
    """Lightning restores the weights of a checkpoint that is validated, and not the optimizer."""
    noise = vadam.Gaussian(2.0)
    module, callback = Regression(VADAM), PosteriorCallback(noise, samples=8)
    fit(module, tmp_path, epochs=1, callbacks=[callback]).save_checkpoint(tmp_path / "early.ckpt")
    trainer = fit(module, tmp_path, epochs=3, callbacks=[callback])
    first = posterior(tmp_path / "early.ckpt")
    last = module.opt.posterior(module)
    pred = vadam.predict(module, first, X, 8, likelihood=noise, generator=torch.Generator().manual_seed(0))
    fresh = lightning.Trainer(accelerator="cpu", logger=False, callbacks=[PosteriorCallback(noise, samples=8)])
    for one in (trainer, fresh):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = one.validate(module, loader(), ckpt_path=tmp_path / "early.ckpt", verbose=False)[0]
        assert found["val_log_likelihood"] == pytest.approx(float(pred.log_prob(Y).mean()), rel=1e-6)
    trainer.save_checkpoint(tmp_path / "again.ckpt")
    again = posterior(tmp_path / "again.ckpt")
    assert all(torch.equal(again.precision[name], first.precision[name]) for name in first.precision)
    assert all(not torch.equal(last.precision[name], first.precision[name]) for name in first.precision)


class ByHand(Regression):
    """Takes its steps itself, and returns no loss."""

    automatic_optimization = False

    def training_step(self, batch: Any, index: int) -> None:
        opt = self.optimizers().optimizer

        def closure() -> torch.Tensor:
            opt.zero_grad()
            loss = nn.functional.mse_loss(self(batch[0]), batch[1])
            if self.spec.backward:
                self.manual_backward(loss)
            return loss

        opt.step(closure)


@pytest.mark.parametrize("name", ["Vadam", "EVON", "FullVON"])
def test_manual_optimization_without_a_returned_loss(name: str, tmp_path: Path) -> None:
    spec = next(spec for spec in SPECS if spec.name == name)
    module = ByHand(spec, prior="init", temperature=0.25)
    trainer = fit(module, tmp_path, callbacks=[PosteriorCallback(vadam.Gaussian(2.0))], validate=True)
    assert "posterior_std" in trainer.callback_metrics
    assert "elbo" not in trainer.callback_metrics
    trainer.save_checkpoint(tmp_path / "manual.ckpt")
    saved, post = posterior(tmp_path / "manual.ckpt"), module.opt.posterior(module)
    assert type(saved) is type(post)
    assert saved.temperature == post.temperature == dict.fromkeys(post.prior_mean, 0.25)
    a, b = (p.sample(3, generator=torch.Generator().manual_seed(0)) for p in (saved, post))
    assert all(torch.equal(a[key], b[key]) for key in b)
    assert torch.equal(saved.kl(), post.kl())


class PlainSteps(Regression):
    """Takes its steps by ``step()`` without a closure, as Lightning's pages on manual optimization do."""

    automatic_optimization = False

    def training_step(self, batch: Any, index: int) -> None:
        opt = self.optimizers()
        opt.zero_grad()
        for _ in range(self.opt.samples):
            self.manual_backward(nn.functional.mse_loss(self.net(batch[0]), batch[1]))
        opt.step()


@LOOPED
@pytest.mark.parametrize("attached", [True, False])
def test_manual_steps_without_a_closure(spec: Spec, attached: bool, tmp_path: Path) -> None:
    """Lightning gives ``step`` a closure that does nothing: the gradient from before it counts."""

    class Attached(PlainSteps):
        def configure_optimizers(self) -> Any:
            return super().configure_optimizers().attach(self.net)

    module = Attached(spec) if attached else PlainSteps(spec)
    fit(module, tmp_path, callbacks=[] if attached else [PosteriorCallback()])

    def step(opt: Any, loss: Callable[[], torch.Tensor]) -> None:
        opt.attach(other.net)
        opt.zero_grad()
        loss().backward()
        opt.step()

    other = Regression(spec)
    assert same(module.everything(), by_hand(other, step))
    assert not same(module.weights(), Regression(spec).weights())
    assert module.opt.skipped_steps == 0


@pytest.mark.parametrize(("attached", "samples"), [(False, 1), (True, 2)])
def test_manual_steps_from_no_sample_are_refused(attached: bool, samples: int, tmp_path: Path) -> None:
    class Built(PlainSteps):
        def configure_optimizers(self) -> Any:
            opt = super().configure_optimizers()
            return opt.attach(self.net) if attached else opt

    with pytest.raises(RuntimeError, match=r"the closure took no gradient.*attach\(model\)"):
        fit(Built(VADAM, samples=samples), tmp_path)


class ZeroesInPlace(Regression):
    def optimizer_zero_grad(self, epoch: int, index: int, optimizer: Any) -> None:
        optimizer.zero_grad(set_to_none=False)


@pytest.mark.parametrize("attached", [False, True])
@pytest.mark.parametrize("kind", [Regression, ZeroesInPlace])
@pytest.mark.parametrize("steps", [1, 2])
def test_micro_batches_that_are_not_taken_at_the_sample_of_the_step_are_refused(
    attached: bool, kind: type[Regression], steps: int, tmp_path: Path
) -> None:
    """Without the callback, and unattached or with several samples: their gradients would be those at other weights."""
    module = kind(VADAM, samples=2 if attached else 1)
    if attached:
        configure = module.configure_optimizers
        module.configure_optimizers = lambda: configure().attach(module.net)  # type: ignore[method-assign]
    pieces = {0: 2} if steps == 1 else {0: 1, 1: 2}  # from the first epoch on, or after some steps
    scheduler = lightning.pytorch.callbacks.GradientAccumulationScheduler(pieces)
    with pytest.raises(RuntimeError, match=r"not taken at its sample.*attach\(model\).*samples=1"):
        fit(module, tmp_path, callbacks=[scheduler])


@LOOPED
def test_gradients_that_are_zeroed_in_place_are_no_others(spec: Spec, tmp_path: Path) -> None:
    module, other = ZeroesInPlace(spec), Regression(spec)
    fit(module, tmp_path)
    fit(other, tmp_path)
    assert same(module.everything(), other.everything())


class Normalised(Regression):
    def __init__(self, spec: Spec, **changes: Any) -> None:
        super().__init__(spec, **changes)
        self.net.insert(1, nn.BatchNorm1d(4, dtype=torch.float64))


@pytest.mark.parametrize("name", ["Vadam", "IVON"])
@pytest.mark.parametrize("samples", [1, 2])
@pytest.mark.parametrize("options", [{}, {"validate": True}, {"callback": True}], ids=str)
def test_the_pass_that_takes_no_gradient_after_averaging_weights(
    name: str, samples: int, options: dict[str, Any], tmp_path: Path
) -> None:
    """Lightning averages weights, and then passes the data through the network for BatchNorm's statistics alone."""
    spec = next(spec for spec in SPECS if spec.name == name)
    module = Normalised(spec, samples=samples)
    averaging = lightning.pytorch.callbacks.StochasticWeightAveraging(1e-3, swa_epoch_start=2)
    ours = [PosteriorCallback()] if options.get("callback") else []
    fit(module, tmp_path, epochs=4, validate=options.get("validate", False), callbacks=[averaging, *ours])
    averaged = list(averaging._average_model.parameters())
    assert same([p.detach() for p in averaged], module.weights())
    assert not module.opt.holds_sample
    assert module.opt.skipped_steps == 1


@pytest.mark.parametrize("way", ["closure", "context", "attach"])
@LOOPED
def test_fabric_takes_the_steps_of_a_loop(spec: Spec, way: str) -> None:
    """Fabric's wrapper passes for the optimizer, and everything that is called on it reaches the one inside."""
    fabric = lightning.Fabric(accelerator="cpu", devices=1)
    found = []
    for wrapped in (False, True):
        module = Regression(spec, dtype=torch.float32)
        net, opt = (
            module.net,
            spec.make(module.net.parameters(), generator=torch.Generator().manual_seed(1), num_data=N),
        )
        if wrapped:
            net, opt = fabric.setup(net, opt)
        if way == "attach" or spec.needs_attach:
            opt.attach(net)

        def gradient(net: nn.Module = net, opt: Any = opt, wrapped: bool = wrapped) -> torch.Tensor:
            opt.zero_grad()
            loss = nn.functional.mse_loss(net(X.float()), Y.float())
            fabric.backward(loss) if wrapped else loss.backward()
            return loss

        for _ in range(3):
            if way == "closure":
                opt.step(gradient)
                continue
            if way == "context":
                with opt.sampled_params():
                    gradient()
            else:
                gradient()
                module.net.eval()
                module.net(X.float())  # the module inside is evaluated at the mean
                assert not opt.holds_sample
                module.net.train()
            opt.step()
        post = opt.posterior(net)
        assert list(post.mean) == ["0.weight", "0.bias", "2.weight", "2.bias"]
        draws = torch.Generator().manual_seed(2)
        pred = vadam.predict(net, post, X.float(), 4, likelihood=None, generator=draws)
        found.append([*post.mean.values(), *post.precision.values(), pred.mean])
    assert same(*found)
