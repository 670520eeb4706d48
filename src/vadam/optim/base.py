"""The base class of every optimizer: draw weights, take gradients there, restore the mean, update by a rule.

An optimizer names its rule; its estimate of the curvature ĥ is one method. Everything else, the three ways of use and the promises
that hold in each of them, is here. How a rule runs over the weights is the backend's business (``vadam.backends``).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from vadam.backends.bucket import Grads
from vadam.backends.noise import NoiseSource
from vadam.gaussian import MeanFieldGaussian, Summary
from vadam.optim import checks, prior
from vadam.optim.attach import AttachedUse
from vadam.optim.context import SampledParams
from vadam.optim.estimate import Estimate, gradients, mean_of_losses
from vadam.optim.interrupts import Uninterrupted
from vadam.optim.rule_optimizer import Group
from vadam.optim.sample import Owner, Sample, WeightState
from vadam.optim.snapshot import mean_field, names
from vadam.rules import arguments
from vadam.rules.binding import scope

Closure = Callable[[], Any]


class VariationalOptimizer(AttachedUse):
    """Base of the family: see ``vadam.Vadam`` for how an optimizer is used."""

    _holder: weakref.ref[Any] | None  # lives as long as the block or closure call that opened the sample
    _unpaired: NoiseSource | None  # of an antithetic pair's first half
    _base: Grads  # gradients that were there before a closure with several samples
    _from_loop: bool  # True if a loop opened a sample of this step

    def __init__(
        self,
        params: Iterable[Any],
        defaults: Group,
        *,
        samples: int = 1,
        antithetic: bool = False,
        generator: torch.Generator | None = None,
        nonfinite: str = "raise",
        backend: str = "auto",
        store_mean: bool = True,
        **unknown: Any,
    ) -> None:
        declared = arguments.defaults(self.rule.ARGUMENTS)
        if "prior" in declared:
            declared[prior.LEARN_EVERY.name] = prior.LEARN_EVERY.default
        given = {name: unknown.pop(name) for name in [*unknown] if name in declared}
        checks.common(type(self).__name__, samples, antithetic, generator, nonfinite, backend, store_mean, unknown)
        self.samples, self.antithetic, self.generator, self.nonfinite = samples, antithetic, generator, nonfinite
        self.backend, self.store_mean = backend, store_mean
        self._start_afresh()
        super().__init__(params, {"deterministic": False, **declared, **defaults, **given})

    def _start_afresh(self) -> None:
        """Set up what is neither an argument nor in the state: no sample, no attached model, no step under way."""
        self._skipped = 0
        self._pending = None
        self._attachment = None
        self._weights = WeightState()
        self._plans = []
        self._estimate = Estimate(self)
        self._holder, self._unpaired, self._base, self._from_loop = None, None, {}, False
        weakref.finalize(self, self._weights.release).atexit = False

    # What a subclass says ----------------------------------------------------------------------------------------------------

    def _curvatures(self, sample: Sample, grads: Grads) -> Grads:
        """Return ĥ of one sample, given the gradient there: ĝ∘ĝ unless a subclass knows better."""
        return {p: g.to(torch.promote_types(g.dtype, torch.float32)).square() for p, g in grads.items()}

    def _check_way(self, closure: Closure | None) -> None:
        """Raise if this optimizer cannot take a step this way."""

    def _evaluate(self, closure: Closure) -> Any:
        """Call the closure at the sampled weights; afterwards ``p.grad`` holds the gradient there."""
        return closure()

    def _captured(self, sample: Sample) -> Grads | None:
        """Return ĥ that was recorded during the backward pass of this sample, where it cannot be computed afterwards."""
        return None

    # The three ways of use ---------------------------------------------------------------------------------------------------

    @torch._disable_dynamo
    def step(self, closure: Closure | None = None) -> Any:
        """Update mean and precision.

        With a closure: draw ``samples`` weights, call the closure at each (it computes the loss, calls ``backward`` and returns
        the loss), and return the mean loss. Without one: use the gradients taken since the last step in ``sampled_params()`` or
        by an attached model.
        """
        self._heal()
        self._check_way(closure)
        owner = self._weights.owner
        if owner is Owner.CONTEXT:
            raise RuntimeError("step() inside sampled_params(): leave the block first")
        if owner is Owner.CLOSURE:
            raise RuntimeError("step() inside a closure: steps cannot be nested")
        if closure is not None:
            return self._step_with(closure)
        with Uninterrupted():
            return self._step_from_grads()

    def _step_from_grads(self) -> None:
        looped = self._weights.sample is not None or self._weights.paused is not None or self._from_loop
        try:
            if self._weights.sample is not None:
                self._close_sample(restore=False)  # the update may read the mean from where it is kept
            elif self._weights.paused is not None:
                self._count(self._weights.paused, Owner.LOOP, settled=True, last=True)
            overflow: Tensor | None = getattr(self, "found_inf", None)
            if overflow is not None and overflow.is_cpu and bool(overflow):
                return self._skip()
            self._unscale()
            grads = gradients(self._trained())
            if not grads:
                raise RuntimeError("step() without a gradient: call backward() first")
            if not self._estimate.count and self._is_checkpoint_probe(grads):
                return None
            if not self._estimate.count and self._sampled():
                raise RuntimeError(
                    "step() without a sample: the gradient was taken at the mean. Call step(closure), or take it inside "
                    "`with opt.sampled_params():`, or call opt.attach(model) once before training"
                )
            if looped and 0 < self._estimate.count < self.samples:
                raise RuntimeError(
                    f"samples={self.samples!r}, but {self._estimate.count} forward and backward passes were made since the last "
                    f"step: make {self.samples} before step(), one for each sample, or build the optimizer with samples=1"
                )
            self._update(grads, overflow)
        except BaseException:
            for left_by_scaler in ("found_inf", "grad_scale"):
                self.__dict__.pop(left_by_scaler, None)
            raise
        finally:
            self._reset_step()
        return None

    def _step_with(self, closure: Closure) -> Any:
        self.eval()
        paused = self._weights.paused
        if paused is None or not paused.has_new_gradient():
            self._reset_step()  # otherwise the closure is the last micro-batch of a sample that the loop has begun
        params = self._trained()
        if self.samples > 1:  # a closure may add to gradients of earlier micro-batches instead of clearing them
            self._base = {p: g.detach().clone() for p, g in gradients(params).items()}
        losses = []
        holder = ClosureCall()
        self._holder = weakref.ref(holder)
        try:
            for left in reversed(range(self.samples)):
                self._open_sample(Owner.CLOSURE)
                with nullcontext() if torch.is_grad_enabled() else torch.enable_grad():
                    losses.append(self._evaluate(closure))
                if left:
                    self._close_sample()
            with Uninterrupted():
                self._close_sample(restore=False)  # the update may read the mean from where it is kept
                mean_loss = mean_of_losses(losses)
                self._update_after_closure(gradients(params), mean_loss)
                self._reset_step()
        except BaseException:
            self._drop_step()
            raise
        return mean_loss

    def _update_after_closure(self, grads: Grads, mean_loss: Any) -> None:
        if not self._estimate.count and mean_loss is None:  # how a trainer says that it leaves this batch out
            self._skip()
        elif not grads or not self._estimate.count:
            raise RuntimeError("the closure left no gradient on this optimizer's parameters: it must call backward()")
        else:
            self._update(grads)

    def sampled_params(self) -> SampledParams:
        """Inside the block the parameters are one sample from q; outside they are the mean again, whatever happens inside.

        Take the gradient inside. Several blocks before one ``step()`` are several samples: ``p.grad`` is then the mean of their
        gradients. A block without a backward pass is a plain draw from the posterior and does not count.
        """
        return SampledParams(self)

    # Samples -----------------------------------------------------------------------------------------------------------------

    def _open_sample(self, owner: Owner) -> Sample:
        """Let the parameters hold the paused sample or a new one."""
        with Uninterrupted():
            sample = self._weights.paused or self._draw()
            self._weights.open(sample, owner)
        return sample

    def _draw(self) -> Sample:
        if not self.store_mean:
            self._settle()  # the same scalars now and when the noise is drawn again
        unpaired = self._unpaired
        if self.antithetic and unpaired is not None:
            noise, sign, self._unpaired = unpaired, -1.0, None
        else:
            replay = self.antithetic or not self.store_mean
            noise, sign = NoiseSource(self.generator, replay=replay), 1.0
            self._unpaired = noise
        trained = self._trained()
        self._estimate.stash_grads(trained, self._base)
        buckets = self._buckets(trained, sampled=True)
        draw = self._backend.draw(buckets, noise, sign, keep_mean=self.store_mean)
        return Sample(draw, noise, trained, unpaired=unpaired)

    def _close_sample(self, *, restore: bool = True) -> None:
        """End a sample: restore the mean unless the update follows at once, and count it if it has a gradient."""
        owner = self._weights.owner
        assert owner is not None
        keep_sample = self.curvature_degree == 1  # ĝ∘ε/σ may be asked for when the gradient has its last value
        with Uninterrupted():
            sample = self._weights.close(restore=restore, keep_sample=keep_sample)
            self._count(sample, owner, settled=owner is Owner.CLOSURE or not restore, last=not restore)

    def _count(self, sample: Sample, owner: Owner, *, settled: bool, last: bool) -> None:
        captured = self._over_ranks(self._captured(sample))
        counts = self._estimate.add(sample, self._trained(), captured, settled=settled, last=last)
        self._from_loop = self._from_loop or owner is Owner.LOOP
        if not counts and owner is Owner.CONTEXT:
            self._unpaired = sample.unpaired_before
        if not counts:
            sample.draw.restore()  # the update begins at the mean, whichever sample has the gradient

    def _drop_sample(self) -> None:
        """End a sample that failed: it leaves no trace."""
        with Uninterrupted():
            sample = self._weights.sample
            self._weights.reset()
            if sample is not None:
                self._captured(sample)
                self._unpaired = sample.unpaired_before
            self._estimate.unstash_grads()

    def _drop_step(self) -> None:
        """End a step that failed."""
        with Uninterrupted():
            self._drop_sample()
            self._reset_step()

    def _heal(self) -> None:
        """Drop the sample of a block or closure that was left while its clean-up was interrupted."""
        owner, holder = self._weights.owner, self._holder
        if owner in (Owner.CONTEXT, Owner.CLOSURE) and (holder is None or holder() is None):
            self._drop_sample() if owner is Owner.CONTEXT else self._drop_step()

    def _reset_step(self) -> None:
        """Start a step afresh: no sample, no estimate, the parameters hold the mean."""
        if self._is_between_steps():
            return
        with Uninterrupted():
            self._weights.reset()
            self._holder, self._unpaired, self._base, self._from_loop = None, None, {}, False
            self._estimate.reset()

    def _is_between_steps(self) -> bool:
        """Return True if there is nothing to reset."""
        left = self._holder, self._unpaired, self._base or None, self._from_loop or None, self._estimate.last
        return self._weights.is_idle and not self._estimate.has_marks and left == (None,) * 5

    # The update --------------------------------------------------------------------------------------------------------------

    def _update(self, g: Grads, overflow: Tensor | None = None) -> None:
        """Update by the estimates of this step."""
        implied = self.supports_deterministic and not self._estimate.has_curvatures  # ĥ = ĝ∘ĝ
        h = {} if implied or not self._estimate.count else self._estimate.curvatures(g)
        self._refuse_missing(g, h)
        self._update_by(g, h, overflow)

    def _update_by(self, g: Grads, h: Grads, overflow: Tensor | None = None) -> None:
        """Check ĝ and ĥ, then apply the rule. On an error nothing has changed."""
        kinds = {"gradient": g} if self.supports_deterministic else {"gradient": g, "curvature": h}
        verdict = self._judge(kinds, overflow, with_norms=self._estimate.needs_norms)
        if not verdict.refused:
            scale = None if verdict.norms is None else self._estimate.scale(verdict.norms)
            self._apply(g, h, scale, verdict.accept)

    def _apply(self, g: Grads, h: Grads, scale: Grads | None, accept: Tensor | None) -> None:
        """Apply the rule to all parameters that have a gradient."""
        last = self._estimate.last
        draw = None if last is None else last.draw
        self._backend.update(self._buckets(g), g, h, draw=draw, scale=scale, accept=accept)
        prior.learn(self)

    def _refuse_missing(self, g: Grads, h: Grads) -> None:
        if self.supports_deterministic or scope(self.rule) == "model":
            return
        for group, p in self._grouped():
            if p in g and p not in h and not group["deterministic"]:
                raise RuntimeError(
                    f"no curvature was recorded for {self._name(p)}, which has a gradient: it must be used by a layer of the "
                    f"attached model, or belong to a group with deterministic=True. If it was frozen when the model was attached, "
                    f"call opt.attach(model) again"
                )

    # What was learned --------------------------------------------------------------------------------------------------------

    def posterior(self, model: nn.Module | None = None) -> MeanFieldGaussian:
        """Return a snapshot of q = N(mean, 1/precision), one entry per parameter.

        The names are the model's: of ``model``, or of the attached one, or as given by ``named_parameters()`` to the
        constructor; otherwise "0", "1", ... in the order of the parameters ("0.0", ... where there are several groups).
        """
        return mean_field(self, model)

    def summary(self, model: nn.Module | None = None) -> Summary:
        """Return what the posterior is made of: shares of prior, start and data in the precision, σ against |μ|; print it."""
        return self.posterior(model).summary()

    def _name(self, p: Tensor) -> str:
        return f"parameter {names(self)[p]!r} of shape {tuple(p.shape)}"


class ClosureCall:
    """Lives as long as a call of ``step(closure)``."""
