"""What every optimizer of the family shares: drawing weights, taking gradients there, restoring the mean, updating by a rule.

An optimizer names its rule (``vadam.rules``) and maps its arguments to the rule's letters; its estimate of the curvature ĥ is one
method. Everything else, the three ways of use and the promises that hold in each of them, is here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from vadam import curvature
from vadam.gaussian import MeanFieldGaussian
from vadam.optim import checks
from vadam.optim.attach import Attachment, in_backward
from vadam.optim.distributed import inside_replica, mean_over, replicas_of, seed_of_this_rank
from vadam.optim.estimate import Estimate, Grads, gradients, mean_of_losses, not_finite
from vadam.optim.noise import draw_seed
from vadam.optim.ruled import Ruled
from vadam.optim.sample import Sample, storage_dtype
from vadam.optim.snapshot import mean_field, names

Closure = Callable[[], Any]
Group = dict[str, Any]


class VariationalOptimizer(Ruled):
    """Base of the family: see ``vadam.Vadam`` for how an optimizer is used."""

    #: ĥ is multiplied by c to this power when the gradient is multiplied by c, as by loss scaling or clipping
    curvature_degree: ClassVar[int] = 2
    #: whether ĥ is recorded during the backward pass, before the gradient is scaled or clipped
    records_curvature: ClassVar[bool] = False
    #: whether the ordinary loop is possible, or the optimizer must evaluate the loss itself
    has_loop: bool = True
    #: whether GradScaler may leave unscaling and the decision about an overflow to ``step``
    handles_overflow: bool = True

    _attachment: Attachment | None
    _held: str | None  # who opened the sample that the parameters hold: "closure", "context", "loop"
    _sample: Sample | None  # the sample that the parameters hold
    _interrupted: Sample | None  # a sample of the loop that eval() has put aside
    _unpaired_seed: int | None  # of an antithetic pair's first half
    _from_loop: bool  # whether an attached model's forward opened a sample of this step
    _base: Grads  # gradients that were there before a closure with several samples
    _estimate: Estimate

    def __init__(
        self,
        params: Iterable[Any],
        defaults: Group,
        *,
        samples: int = 1,
        antithetic: bool = False,
        generator: torch.Generator | None = None,
        nonfinite: str = "raise",
        compile: bool = False,
        store_mean: bool = True,
        **unknown: Any,
    ) -> None:
        if unknown:
            raise TypeError(checks.unknown(type(self).__name__, next(iter(unknown))))
        checks.whole("samples", samples, low=1, fix="the number of Monte-Carlo samples a step is a whole number from 1")
        checks.one_of("nonfinite", nonfinite, ("raise", "skip"))
        checks.generator(generator)
        if antithetic and samples % 2:
            raise ValueError(f"antithetic=True draws pairs, but samples={samples!r} is odd: choose an even number")
        self.samples, self.antithetic, self.generator, self.nonfinite = samples, antithetic, generator, nonfinite
        self.compile, self.store_mean = compile, store_mean
        self.skipped_steps = 0
        self._attachment = None
        self._sample = None
        self._forget()
        super().__init__(params, {"deterministic": False, **defaults})

    # What a subclass says ----------------------------------------------------------------------------------------------------

    def _check(self, group: Group) -> None:
        """Refuse a parameter group with wrong arguments; fill in those that default to others."""
        raise NotImplementedError

    def _curvatures(self, sample: Sample, grads: Grads) -> Grads:
        """ĥ of one sample, given the gradient there: ĝ∘ĝ, also for weights that are not sampled, unless a subclass knows better."""
        return {p: curvature.magnitude(g.to(storage_dtype(p))) for p, g in grads.items()}

    def _evaluate(self, closure: Closure) -> Any:
        """Call the closure at the sampled weights; afterwards ``p.grad`` holds the gradient there."""
        return closure()

    def _captured(self, sample: Sample) -> Grads | None:
        """ĥ that was recorded during the backward pass of this sample, where it cannot be computed afterwards."""
        return None

    # The three ways of use ---------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def step(self, closure: Closure | None = None) -> Any:
        """Update mean and precision.

        With a closure: draw ``samples`` weights, call the closure at each (it computes the loss, calls ``backward`` and returns
        the loss), and return the mean loss. Without one: use the gradients taken since the last step in ``sampled_params()`` or
        by an attached model.
        """
        if self._held in ("context", "closure"):
            what = (
                "sampled_params(): leave the block first"
                if self._held == "context"
                else "a closure: steps cannot be nested"
            )
            raise RuntimeError(f"step() inside {what}")
        if closure is not None:
            return self._step_with(closure)
        if self._interrupted is not None:
            self._sample, self._interrupted = self._interrupted, None
        looped, sample = self._sample is not None or self._from_loop, self._sample
        try:
            if sample is not None:
                self._close_sample(restore=False)  # the update may read the mean from where it is kept
            if self._amp_found_overflow():
                return self._skip()
            grads = gradients(self._trained())
            if not grads:
                raise RuntimeError("step() without a gradient: call backward() first")
            if not self._estimate.count and self._is_asked_for_its_state(grads):
                return None
            if not self._estimate.count and any(True for _ in self._sampled()):
                raise RuntimeError(
                    "step() without a sample: the gradient was taken at the mean. Call step(closure), or take it inside "
                    "`with opt.sampled_params():`, or call opt.attach(model) once before training"
                )
            if looped and 0 < self._estimate.count < self.samples:
                raise RuntimeError(
                    f"samples={self.samples!r}, but {self._estimate.count} forward and backward passes were made since the last "
                    f"step: make {self.samples} before step(), one for each sample, or build the optimizer with samples=1"
                )
            self._update(grads, self._curvatures_of_step(grads))
        except BaseException:
            for left_by_scaler in ("found_inf", "grad_scale"):
                self.__dict__.pop(left_by_scaler, None)
            raise
        finally:
            if sample is not None:
                sample.restore()
            self._forget()
        return None

    def _is_asked_for_its_state(self, grads: Grads) -> bool:
        """torch.distributed.checkpoint steps a new optimizer with lr = 0 and zero gradients, to see what there is to load."""
        asked = not self.state and all(group["lr"] == 0 for group in self.param_groups)
        if asked and not any(bool(g.any()) for g in grads.values()):
            for group, p in self._grouped():
                if p.requires_grad:
                    self._state(group, p, p.detach().to(storage_dtype(p)))
            return True
        return False

    def _step_with(self, closure: Closure) -> Any:
        self.eval()
        if self._interrupted is None or not self._interrupted.has_new_gradient():
            self._forget()  # otherwise the closure is the last micro-batch of a sample that the loop has begun
        params = self._trained()
        if self.samples > 1:  # a closure may add to gradients of earlier micro-batches instead of clearing them
            self._base = {p: g.clone() for p, g in gradients(params).items()}
        losses = []
        sample: Sample | None = None
        try:
            for left in reversed(range(self.samples)):
                with self._sampling("closure", restore=left > 0) as sample, torch.enable_grad():
                    losses.append(self._evaluate(closure))
            mean_loss = mean_of_losses(losses)
            if not self._estimate.count and mean_loss is None:  # how a trainer says that it leaves this batch out
                return self._skip()
            grads = gradients(params)
            if not grads or not self._estimate.count:
                raise RuntimeError(
                    "the closure left no gradient on this optimizer's parameters: it must call backward()"
                )
            self._update(grads, self._curvatures_of_step(grads))
        finally:
            if sample is not None:
                sample.restore()
            self._forget()
        return mean_loss

    @contextmanager
    def sampled_params(self) -> Iterator[None]:
        """Inside, the parameters are one sample from q; outside they are the mean again, whatever happens inside.

        Take the gradient inside. Several blocks before one ``step()`` are several samples: ``p.grad`` is then the mean of their
        gradients. A block without a backward pass is a plain draw from the posterior and does not count.
        """
        if self._held is not None:
            opened = {
                "context": "sampled_params()",
                "closure": "step(closure)",
                "loop": "a training-mode forward or train()",
            }
            way_out = "call opt.step() or opt.eval() first" if self._held == "loop" else "samples cannot be nested"
            raise RuntimeError(f"the parameters already hold a sample, opened by {opened[self._held]}: {way_out}")
        with self._sampling("context"):
            yield

    def attach(self, model: nn.Module) -> VariationalOptimizer:
        """From now on a training-mode forward of ``model`` samples, ``step()`` returns to the mean, an eval-mode forward sees it.

        The sample lasts from the forward to ``step()``, over several micro-batches if there are some; with ``samples`` S > 1
        each backward pass ends one, and S forward and backward passes make a step. Saving the model saves the mean. It also gives
        the parameters their names, in posteriors and error messages. Returns the optimizer.
        """
        if not isinstance(model, nn.Module):
            raise TypeError(f"attach() takes the nn.Module that is trained, not {type(model).__name__}")
        owned = {id(p) for p in model.parameters()}
        if not owned & {id(p) for p in self._all()}:
            raise ValueError("attach(): none of the model's parameters belongs to this optimizer")
        if any(id(p) not in owned for _, p in self._sampled()):
            raise ValueError(
                "attach(): the optimizer also samples parameters that are not the model's, and its forward would say nothing of "
                "them. Attach the module that owns them all (for several, an nn.ModuleList in a module), or use step(closure)"
            )
        if replicas_of(model) is not None and not self.has_loop:
            raise ValueError(
                f"attach(): {type(self).__name__} evaluates the loss itself and averages nothing over ranks: train in one process, "
                f"or use one of Vadam, Vprop, VOGN, VadaGrad, BBVI, IVON, or VON with curvature='reparam'"
            )
        self.detach()
        self._attachment = Attachment(self, model)
        return self

    def detach(self) -> None:
        """Undo ``attach``."""
        self.eval()
        if self._attachment is not None:
            self._attachment.remove()
        self._attachment = None

    def train(self) -> None:
        """Let the parameters hold a sample until ``step()`` or ``eval()``: the one that is open, or a new one."""
        if self._held is None and any(True for _ in self._sampled()):
            self._open_sample("loop")

    def eval(self) -> None:
        """Let the parameters hold the mean. The sample of an unfinished step comes back with the next ``train()``."""
        if self._held == "loop" and self._sample is not None:
            self._sample.restore()
            self._held, self._sample, self._interrupted = None, None, self._sample

    def _before_forward(self, training: bool) -> None:
        averages = self.records_curvature or self.curvature_degree == 1
        if averages and self._attachment is not None and self._attachment.replicas is None and inside_replica():
            raise RuntimeError(
                f"{type(self).__name__} averages its curvature over the ranks, but was attached to the module inside "
                f"DistributedDataParallel: call opt.attach(model) with the DistributedDataParallel module itself"
            )
        if self._held in ("context", "closure"):
            return
        if in_backward():  # a checkpointed forward pass runs again, and must see the weights that it saw
            if training and self._held is None and torch.is_grad_enabled() and self.has_loop:
                raise RuntimeError(
                    "activation checkpointing of the whole attached model with use_reentrant=True runs its first pass without "
                    "gradients, at the mean, and its second at a sample: pass use_reentrant=False, or checkpoint its layers"
                )
            return
        if not training:
            self.eval()
        elif torch.is_grad_enabled() and self.has_loop:
            for unfinished in (self._sample, self._interrupted):
                frozen_since = unfinished is not None and set(unfinished.params) != {p for _, p in self._sampled()}
                if frozen_since and not unfinished.has_new_gradient():  # type: ignore[union-attr]
                    self._forget()
            self.train()

    def _after_backward(self) -> None:
        """What an attached model calls when a backward pass has ended: with several samples, the sample has too."""
        if self._sample is None:
            return
        if self.records_curvature:
            (self._sample.norms,) = self._norms(gradients(self._trained()))
        if self._held == "loop" and self.samples > 1:
            self._close_sample()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients. Outside a sample this also drops the samples of a step that was never taken."""
        if self._held is None:
            self._forget()
        super().zero_grad(set_to_none)

    # Samples -----------------------------------------------------------------------------------------------------------------

    @contextmanager
    def _sampling(self, how: str, *, restore: bool = True) -> Iterator[Sample]:
        try:
            self._open_sample(how)
            assert self._sample is not None
            yield self._sample
            self._close_sample(restore=restore)
        except BaseException:
            self._drop_sample()
            raise

    @torch.no_grad()
    def _open_sample(self, how: str) -> None:
        sample, self._interrupted = self._interrupted or self._draw(), None
        self._held, self._sample = how, sample
        try:
            self._perturb(sample)
        except BaseException:
            self._drop_sample()
            raise

    def _draw(self) -> Sample:
        unpaired = self._unpaired_seed
        if self.antithetic and unpaired is not None:
            seed, sign, self._unpaired_seed = unpaired, -1.0, None
        else:
            seed, sign = seed_of_this_rank(draw_seed(self.generator)), 1.0
            self._unpaired_seed = seed
        trained = self._trained()
        self._estimate.make_room(trained, self._base)
        return Sample(seed, sign, self._pieces(self._sampled()), trained, unpaired)

    @torch.no_grad()
    def _close_sample(self, *, restore: bool = True) -> None:
        sample, how = self._sample, self._held
        assert sample is not None
        if restore:
            sample.restore()
        self._held, self._sample = None, None
        captured = self._over_ranks(self._captured(sample))
        settled = how == "closure" or not restore
        counts = self._estimate.add(sample, self._trained(), captured, settled=settled, last=not restore)
        self._from_loop = self._from_loop or how == "loop"
        if not counts and how == "context":
            self._unpaired_seed = sample.unpaired_before
        if not counts:
            sample.restore()  # the update begins at the mean, whichever sample has the gradient

    def _over_ranks(self, captured: Grads | None) -> Grads | None:
        """The mean of what each rank has recorded, where the attached model is replicated."""
        if captured is None or self._attachment is None or self._attachment.replicas is None:
            return captured
        return dict(zip(captured, mean_over(self._attachment.replicas, list(captured.values())), strict=True))

    def _drop_sample(self) -> None:
        if self._sample is not None:
            self._sample.restore()
            self._captured(self._sample)
            self._unpaired_seed = self._sample.unpaired_before
        self._held, self._sample = None, None
        self._estimate.put_back()

    def _forget(self) -> None:
        """Start afresh: no sample, no estimate, the parameters hold the mean."""
        if self._sample is not None:
            self._sample.restore()
        self._held = None
        self._sample = None
        self._interrupted = None
        self._unpaired_seed = None
        self._base = {}
        self._from_loop = False
        self._estimate = Estimate(self.curvature_degree, self._curvatures, self._norms)

    # The update --------------------------------------------------------------------------------------------------------------

    def _update(self, g: Grads, h: Grads) -> None:
        """Check the estimates, then apply the rule. On an error nothing has changed."""
        for group, p in self._grouped() if not self.trains_points else ():
            if p in g and p not in h and not group["deterministic"]:
                raise RuntimeError(
                    f"no curvature was recorded for {self._name(p)}, which has a gradient: it must be used by a layer of the "
                    f"attached model, or belong to a group with deterministic=True. If it was frozen when the model was attached, call "
                    f"opt.attach(model) again"
                )
        bad, what = not_finite(self._estimate.norms(g)), "gradient"
        if (
            bad is None and not self.trains_points
        ):  # otherwise ĥ = ĝ∘ĝ, and the norm has said that its squares are finite
            bad, what = not_finite(self._estimate.norms_of_curvatures(h)), "curvature"
        if bad is None:
            self._apply(g, h, self._estimate.last)
        elif self.nonfinite == "skip":
            self._skip()
        else:
            raise FloatingPointError(
                f"the {what} of {self._name(bad)} is not finite. The step was refused, nothing has changed: lower lr, clip the "
                f"gradients, or pass nonfinite='skip' to skip such steps and count them in opt.skipped_steps"
            )

    def _curvatures_of_step(self, grads: Grads) -> Grads:
        """ĥ; without those that are ĝ∘ĝ, if they have not been computed yet."""
        implied = self.trains_points and not self._estimate.has_curvatures
        return {} if implied or not self._estimate.count else self._estimate.curvatures(grads)

    def _skip(self) -> None:
        self.skipped_steps += 1

    @property
    def _step_supports_amp_scaling(self) -> bool:
        """Whether GradScaler leaves an overflow to ``step``: while there is a sample to be dropped."""
        return self.handles_overflow and (self._held == "loop" or self._estimate.count > 0)

    def _amp_found_overflow(self) -> bool:
        """Undo the loss scaling that GradScaler has left to us; True if it found an overflow."""
        found, scale = getattr(self, "found_inf", None), getattr(self, "grad_scale", None)
        if found is not None and bool(found):
            return True
        if scale is not None:
            self._estimate.expect_changes(self._trained())
            for p in gradients(self._trained()):
                p.grad.div_(scale)  # type: ignore[union-attr]
        return False

    # What was learned --------------------------------------------------------------------------------------------------------

    def posterior(self, model: nn.Module | None = None) -> MeanFieldGaussian:
        """A snapshot of q = N(mean, 1/precision), one entry per parameter.

        The names are the model's: of ``model``, or of the attached one, or as given by ``named_parameters()`` to the
        constructor; otherwise "0", "1", ... in the order of the parameters ("0.0", ... where there are several groups).
        """
        return mean_field(self, model)

    def _name(self, p: Tensor) -> str:
        return f"parameter {names(self)[id(p)]!r} of shape {tuple(p.shape)}"
