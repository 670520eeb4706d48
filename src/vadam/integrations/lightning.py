"""Lightning callback for what a closure cannot do.

Training needs no callback: Lightning passes ``step`` a closure. :class:`PosteriorCallback` adds:

    micro-batches   one sample for all micro-batches of a step, so that ``accumulate_grad_batches`` is only a larger
                    minibatch; also with a GradScaler, which takes no closure
    evaluation      at the mean
    checkpoints     the weights are the mean; the precision is saved beside them; :func:`posterior` reads both
    logs            elbo, nelbo_per_datum, kl and the numbers of ``scalars`` after every epoch; with a likelihood also
                    val_log_likelihood, val_epistemic and val_aleatoric over the validation data
"""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from vadam.gaussian import FullGaussian, MeanFieldGaussian, RotatedGaussian, Shares
from vadam.integrations.scalars import scalars
from vadam.likelihoods import Likelihood
from vadam.optim import VariationalOptimizer
from vadam.optim.attach import Hook
from vadam.prediction import Classes, Prediction, Regression, predict

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
except ImportError as error:
    raise ImportError('vadam.integrations.lightning needs Lightning: pip install "vadam[lightning]"') from error

Posterior = MeanFieldGaussian | RotatedGaussian | FullGaussian
KEY = "vadam_posterior"
AXES = ("left", "right")


class PosteriorCallback(Callback):
    """Save, evaluate and log the posterior of the optimizer that ``configure_optimizers`` returns.

    ``likelihood``: if given, each validation batch (x, y) is predicted with ``samples`` draws of ``pl_module(x)``.
    ``optimizer``: the index of the optimizer to follow, if there are several.

    The training loss must be the mean negative log-likelihood, as for the optimizer itself. Its mean over the samples of an
    epoch estimates E_q[f], and ELBO = −N E_q[f] − KL(q‖p).
    """

    def __init__(
        self, likelihood: Likelihood | None = None, *, samples: int = 16, optimizer: int | None = None
    ) -> None:
        self.likelihood, self.samples, self.optimizer = likelihood, samples, optimizer
        self._losses: list[tuple[Tensor, int]] = []  # with the number of examples behind each
        self._snapshot: Posterior | None = None
        self._loaded: Posterior | None = None  # of a checkpoint whose weights the module holds, until training goes on
        self._saving: Any = None
        self._step_is_due = False

    # One sample for the micro-batches of a step ------------------------------------------------------------------------------

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        opt = self._optimizer(trainer)
        self._loaded = None
        if (opt._attachment is None or trainer.world_size > 1) and trainer.model is not None:
            opt.attach(trainer.model)  # the DistributedDataParallel wrapper, if there are several ranks
        # Lightning unscales the gradients itself, in order to clip them, and skips a step that overflows.
        opt.handles_overflow = _scaler(trainer) is None
        self._saving = pl_module.register_state_dict_pre_hook(Hook(opt, lambda opt, _: opt.eval()))

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        opt, pieces = self._optimizer(trainer), trainer.accumulate_grad_batches
        self._step_is_due = False
        if trainer.fit_loop._skip_backward:  # a pass for BatchNorm's statistics after weights were averaged
            return
        if pieces > 1 and opt.samples > 1:
            raise ValueError(
                f"accumulate_grad_batches={pieces} with samples={opt.samples}: the micro-batches of a step share one sample. "
                f"Build the optimizer with samples=1, or train on larger minibatches"
            )
        by_hand = not pl_module.automatic_optimization and opt.samples == 1  # training_step calls no forward with hooks
        if opt.has_loop and (pieces > 1 or by_hand or _scaler(trainer) is not None):
            opt.train()

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Any) -> None:
        self._step_is_due = True

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        opt = self._optimizer(trainer)
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs  # manual optimization may return none
        if loss is not None:
            self._losses.append((loss.detach() * trainer.accumulate_grad_batches, _examples(batch)))
        overflow_skips = _scaler(trainer) is not None
        if overflow_skips and self._step_is_due and opt.holds_sample:  # the step was skipped
            opt.eval()
            opt.zero_grad()
            opt.skipped_steps += 1

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if self._saving is not None:
            self._optimizer(trainer).eval()
            self._saving.remove()
            self._saving = None

    # Evaluation at the mean --------------------------------------------------------------------------

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._to_mean(trainer)
        if self.likelihood is not None and (trainer.optimizers or self._loaded is not None):
            self._snapshot = self._posterior(trainer, pl_module)

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._to_mean(trainer)

    def on_predict_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._to_mean(trainer)

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        if self.likelihood is None or self._snapshot is None:
            return
        x, y = batch
        same_draws = torch.Generator(pl_module.device).manual_seed(0)
        pred = predict(pl_module, self._snapshot, x, self.samples, likelihood=self.likelihood, generator=same_draws)
        values = {"log_likelihood": pred.log_prob(y), **_uncertainties(pred)}
        means = {f"val_{name}": value.mean() for name, value in values.items()}
        pl_module.log_dict(means, on_epoch=True, on_step=False, batch_size=len(y), sync_dist=True)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._snapshot = None

    # Logging ----------------------------------------------------------------------------------------------------------

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        opt, losses = self._optimizer(trainer), self._losses
        self._losses = []
        post = opt.posterior(pl_module)
        values: dict[str, Any] = dict(scalars(opt, pl_module))
        sizes = {group["num_data"] * group["data_weight"] for group in opt.param_groups if not group["deterministic"]}
        if post.prior_precision is not None and losses and len(sizes) == 1:
            kl, N = post.kl(), sizes.pop()
            expected_nll = torch.stack([loss * n for loss, n in losses]).sum() / sum(n for _, n in losses)
            values |= {"kl": kl, "elbo": -N * expected_nll - kl, "nelbo_per_datum": expected_nll + kl / N}
        pl_module.log_dict(values, sync_dist=True)

    # Checkpoints ----------------------------------------------------------------------------------------------------------------

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        post = self._posterior(trainer, pl_module)
        checkpoint[KEY] = {
            "precision": post.precision,
            "prior_precision": None if post.prior_precision is None else dict(post.prior_precision),
            "prior_mean": None if post.prior_mean is None else dict(post.prior_mean),
            "point": list(post.point),
            "temperature": dict(post.temperature),
            "axes": {side: getattr(post, side) for side in AXES} if isinstance(post, RotatedGaussian) else None,
        }
        if isinstance(post, FullGaussian):
            checkpoint[KEY]["shapes"] = {name: list(shape) for name, shape in post.shapes.items()}
        else:
            checkpoint[KEY]["shares"] = {name: list(part) for name, part in post.shares.items()}

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        self._loaded = posterior(checkpoint).to(pl_module.device) if KEY in checkpoint else None

    def _posterior(self, trainer: Trainer, pl_module: LightningModule) -> Posterior:
        """Return the posterior whose mean the module holds: an evaluation of a checkpoint restores no optimizer."""
        return self._optimizer(trainer).posterior(pl_module) if self._loaded is None else self._loaded

    def _to_mean(self, trainer: Trainer) -> None:
        if trainer.optimizers:
            self._optimizer(trainer).eval()

    def _optimizer(self, trainer: Trainer) -> VariationalOptimizer:
        ours = {i: opt for i, opt in enumerate(trainer.optimizers) if isinstance(opt, VariationalOptimizer)}
        if self.optimizer is not None and self.optimizer in ours:
            return ours[self.optimizer]
        if self.optimizer is None and len(ours) == 1:
            return next(iter(ours.values()))
        found = ", ".join(f"{i}: {type(opt).__name__}" for i, opt in enumerate(trainer.optimizers)) or "none"
        raise ValueError(
            f"PosteriorCallback(optimizer={self.optimizer!r}) follows one optimizer of vadam, but configure_optimizers returned "
            f"{found}. Pass the index of the one to follow"
        )


def posterior(checkpoint: str | os.PathLike[str] | dict[str, Any], *, device: str = "cpu") -> Posterior:
    """Return the posterior in a checkpoint written with a :class:`PosteriorCallback`; reading it never unpickles."""
    content = (
        checkpoint if isinstance(checkpoint, dict) else torch.load(checkpoint, map_location=device, weights_only=True)
    )
    if KEY not in content:
        raise ValueError("this checkpoint contains no posterior: train with Trainer(callbacks=[PosteriorCallback()])")
    weights, saved = content["state_dict"], content[KEY]
    of_all: dict[str, Any] = {
        "point": {name: weights[name] for name in saved["point"]},
        "prior_precision": saved["prior_precision"],
        "temperature": saved.get("temperature", {}),
        "prior_mean": saved.get("prior_mean"),  # older checkpoints have neither this nor shares and temperature
    }
    if "shapes" in saved:
        flat = torch.cat([weights[name].flatten() for name in saved["shapes"]])
        return FullGaussian(flat, saved["precision"], saved["shapes"], **of_all)
    mean = {name: weights[name] for name in saved["precision"]}
    of_both: dict[str, Any] = {
        **of_all,
        "shares": {name: Shares(*part) for name, part in saved.get("shares", {}).items()},
    }
    if saved["axes"] is not None:
        return RotatedGaussian(mean, saved["precision"], **saved["axes"], **of_both)
    return MeanFieldGaussian(mean, saved["precision"], **of_both)


def _uncertainties(pred: Prediction) -> dict[str, Tensor]:
    if isinstance(pred, Regression):
        return {"epistemic": pred.epistemic, "aleatoric": pred.aleatoric}
    if isinstance(pred, Classes):
        return {"epistemic": pred.mutual_information, "aleatoric": pred.expected_entropy}
    return {}


def _examples(batch: Any) -> int:
    """Return the number of examples in a batch: the length of its first tensor."""
    return next((len(x) for x in tree_leaves(batch) if isinstance(x, Tensor) and x.dim()), 1)


def _scaler(trainer: Trainer) -> Any:
    return getattr(trainer.precision_plugin, "scaler", None)
