"""The base class of every optimizer: draw weights, take gradients there, restore the mean, update by a rule.

An optimizer names its rule; its estimate of the curvature ĥ is one method. Everything else, the three ways of use and the promises
that hold in each of them, is here. How a rule runs over the weights is the backend's business (``vadam.backends``).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch._C import TensorBase

from vadam.backends.bucket import HALF, Bucket, Grads, storage_dtype
from vadam.backends.noise import NoiseSource, Seeds, several_ranks
from vadam.backends.shards import is_sharded, local
from vadam.fabric import delegate
from vadam.interrupts import Uninterrupted
from vadam.optim import checks, prior
from vadam.optim.averages import copies, mean_of_losses
from vadam.optim.context import sampled_params
from vadam.optim.estimate import Estimate, gradients
from vadam.optim.gradient_marks import GradientMarks
from vadam.optim.recovery import ClosureCall, Recovery
from vadam.optim.rule_optimizer import Group
from vadam.optim.sample import Owner, Sample, WeightState
from vadam.rules import arguments

_dtype = TensorBase.dtype.__get__  # type: ignore[attr-defined]

Closure = Callable[[], Any]


class VariationalOptimizer(Recovery):
    """Base of the family: see ``vadam.Vadam`` for how an optimizer is used."""

    _used: GradientMarks | None  # the gradients that the last step with a closure left

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        delegate(cls)

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
        everything = {"deterministic": False, **declared, **defaults, **given}
        super().__init__(params, everything)
        prior.check_order(self, everything.get("prior"))

    def _start_afresh(self) -> None:
        """Set up what is neither an argument nor in the state: no sample, no attached model, no step under way."""
        self._skipped = 0
        self._pending = None
        self._attachment = None
        self._weights = WeightState()
        self._caches = []
        self._estimate = Estimate(self)
        self._holder, self._unpaired, self._seeds, self._base, self._from_loop = None, None, None, {}, False
        self._used, self._was_cleared = None, False
        weakref.finalize(self, self._weights.release).atexit = False

    # What a subclass says ----------------------------------------------------------------------------------------------------

    def _curvatures(self, sample: Sample, grads: Grads) -> Grads:
        """Return ĥ of one sample, given the gradient there: ĝ∘ĝ unless a subclass knows better."""
        wide = [*grads.values()]
        if not {*map(_dtype, wide)}.isdisjoint(HALF):
            wide = [g.to(storage_dtype(g)) for g in wide]
        return dict(zip(grads, torch._foreach_mul(wide, wide), strict=True)) if wide else {}

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
        owner = self._weights.owner
        if owner is Owner.CONTEXT:
            raise RuntimeError("step() inside sampled_params(): leave the block first")
        if owner is Owner.CLOSURE:
            raise RuntimeError(
                "step() inside a closure: steps cannot be nested. Call it after the closure has returned"
            )
        if closure is not None:
            return self._step_with(closure)
        with Uninterrupted():
            return self._step_from_grads()

    def _step_with(self, closure: Closure) -> Any:
        """Take a step with a closure: S samples, a gradient at each, one update."""
        self.eval()  # pauses the sample of an attached model
        paused = self._weights.paused
        # The closure may be the last micro-batch of a sample that a loop has begun.
        goes_on = paused is not None and paused.has_new_gradient()
        if not goes_on:
            self._reset_step()
        params = self._trained()
        taken_before = not goes_on and self._holds_another_gradient(params)
        before = gradients(params) if self.samples > 1 or taken_before else {}
        base = dict(zip(before, copies(before.values()), strict=True))
        pairs = 2 if self.antithetic else 1
        self._seeds = Seeds(self.generator, -(-self.samples // pairs))
        losses: list[Any] = []
        holder = ClosureCall()
        self._holder = weakref.ref(holder)
        try:
            for _ in range(self.samples):
                with Uninterrupted():
                    if losses:
                        self._close_sample(restore=self.curvature_degree == 1, last=False)
                    self._open_sample(Owner.CLOSURE)
                self._was_cleared = False
                with nullcontext() if torch.is_grad_enabled() else torch.enable_grad():
                    losses.append(self._evaluate(closure))
                # The closure may add to gradients of earlier micro-batches instead of clearing them.
                if len(losses) == 1:
                    self._base = {p: base[p] for p, g in before.items() if p.grad is g}
                    adds_to = self._base.values() if taken_before and not self._was_cleared else ()
                    if _any_is_not_zero(adds_to) and self._weights.sample.has_new_gradient():  # type: ignore[union-attr]
                        raise RuntimeError(
                            "step(closure): the closure adds to a gradient that was not taken at its sample. For several "
                            "micro-batches in a step, call opt.attach(model) once and build the optimizer with samples=1; otherwise "
                            "clear the gradient in the closure by opt.zero_grad()"
                        )
            with Uninterrupted():
                self._close_sample(restore=False)  # the update may read the mean from where it is kept
                mean_loss = mean_of_losses(losses)
                self._update_after_closure(gradients(params), mean_loss)
                self._used = GradientMarks(params)
                self._reset_step()
        except BaseException:
            self._drop_step()
            raise
        return mean_loss

    def _holds_another_gradient(self, params: list[Tensor]) -> bool:
        """Return True if there is a gradient that the last step with a closure did not leave."""
        return any(p.grad is not None for p in params) if self._used is None else self._used.any_is_new()

    def _update_after_closure(self, grads: Grads, mean_loss: Any) -> None:
        did_nothing = not self._estimate.count
        # Lightning's manual optimization takes the gradient before, and gives a closure that does nothing.
        if did_nothing and not self._was_cleared and self._holds_another_gradient([*grads]):
            raise RuntimeError(
                "step(closure): the closure took no gradient, and the one that is there was not taken at a sample of this step. Call "
                "opt.attach(model) once with the module that the loop calls, and build the optimizer with samples=1, or pass a closure "
                "that computes the loss and calls backward()"
            )
        # A trainer returns None to leave a batch out, or takes no gradient any more, as Lightning where BatchNorm follows averaged weights.
        if did_nothing and (mean_loss is None or self._used is not None):
            self._skip()
        elif did_nothing or not grads:
            raise RuntimeError("the closure left no gradient on this optimizer's parameters: it must call backward()")
        else:
            self._update(grads)

    @torch._disable_dynamo
    def sampled_params(self) -> AbstractContextManager[None]:
        """Inside the block the parameters are one sample from q; outside they are the mean again, whatever happens inside.

        Take the gradient inside. Several blocks before one ``step()`` are several samples: ``p.grad`` is then the mean of their
        gradients. A block without a backward pass is a plain draw from the posterior and does not count.
        """
        return sampled_params(self)

    # Samples -----------------------------------------------------------------------------------------------------------------

    def _open_sample(self, owner: Owner) -> Sample:
        """Let the parameters hold the paused sample or a new one. To be called where signals wait."""
        sample = self._weights.paused or self._draw()
        self._weights.open(sample, owner)
        return sample

    def _draw(self) -> Sample:
        """Perturb the parameters by new noise, or by the negative of the last one if samples come in pairs."""
        if self._attachment is None and any(map(is_sharded, self._sampled())):
            raise RuntimeError(
                "FSDP2 may keep the weights that it has gathered, and the model would not see this sample: call opt.attach(model) once "
                "with the sharded model"
            )
        if not self.store_mean:
            self._refuse_rounding_of_ranks()
            self._settle()  # the same scalars now and when the noise is drawn again
        unpaired = self._unpaired
        if self.antithetic and unpaired is not None:
            noise, sign, self._unpaired = unpaired, -1.0, None
        else:
            replay = self.antithetic or not self.store_mean
            noise, sign = NoiseSource(self.generator, replay=replay, seeds=self._seeds), 1.0
            self._unpaired = noise
        trained = self._trained()
        self._estimate.stash_grads(trained, self._base)
        draw = self._weights.draw_again(noise, sign, trained)
        if draw is None:
            buckets = self._buckets(trained, sampled=True)
            draw = self._backend.draw(buckets, noise, sign, keep_mean=self.store_mean)
        return Sample(draw, noise, trained, unpaired=unpaired)

    def _refuse_rounding_of_ranks(self) -> None:
        """Raise if replicas would take away their own noise each, and round differently."""
        if several_ranks() and not all(map(is_sharded, self._sampled())):
            raise RuntimeError(
                "store_mean=False takes a rank's own noise away from the weights, which rounds differently on each rank, so that their "
                "means would drift apart: leave it out under DistributedDataParallel"
            )

    def _close_sample(self, *, restore: bool = True, last: bool = True) -> None:
        """End a sample, and count it if it has a gradient. To be called where signals wait.

        Without ``restore`` the update follows at once or, if it is not the ``last`` sample, the next one.
        """
        owner = self._weights.owner
        assert owner is not None
        keep_sample = self.curvature_degree == 1  # ĝ∘ε/σ may be asked for when the gradient has its last value
        sample = self._weights.close(restore=restore, keep_sample=keep_sample)
        self._count(sample, owner, settled=owner is Owner.CLOSURE or not restore, last=last and not restore)

    def _count(self, sample: Sample, owner: Owner, *, settled: bool, last: bool) -> None:
        """Add a closed sample to the estimate; one without a gradient does not count."""
        captured = self._over_ranks(self._captured(sample))
        if sample.strays is not None:
            sample.strays.refuse()
        counts = self._estimate.add(sample, sample.watched, captured, settled=settled, last=last)
        self._from_loop = self._from_loop or owner is Owner.LOOP
        if not counts and owner is Owner.CONTEXT:
            self._unpaired = sample.unpaired_before
        if not counts:
            sample.draw.restore()  # the update begins at the mean, whichever sample has the gradient

    # The update --------------------------------------------------------------------------------------------------------------

    def _update(self, g: Grads, overflow: Tensor | None = None) -> None:
        """Update by the estimates of this step."""
        implied = self.supports_deterministic and not self._estimate.has_curvatures  # ĥ = ĝ∘ĝ
        h = {} if implied or not self._estimate.count else self._estimate.curvatures(g)
        self._refuse_missing(g, h)
        self._update_by(g, h, overflow)

    def _update_by(self, g: Grads, h: Grads, overflow: Tensor | None = None) -> None:
        """Check ĝ and ĥ, then apply the rule. On an error nothing has changed."""
        kinds = {"gradient": g}
        if not self.supports_deterministic:
            kinds["curvature"] = h
        elif h:  # gradients of several samples may cancel where their squares overflow
            kinds["root mean square gradient"] = dict(zip(h, torch._foreach_sqrt([*h.values()]), strict=True))
        verdict = self._judge(kinds, overflow, with_norms=self._estimate.needs_norms)
        if not verdict.refused:
            scale = None if verdict.norms is None else self._estimate.scale(verdict.norms)
            self._apply(g, h, scale, verdict.accept)

    def _apply(self, g: Grads, h: Grads, scale: Grads | None, accept: Tensor | None) -> None:
        """Apply the rule to all parameters that have a gradient."""
        last = self._estimate.last
        draw = None if last is None else last.draw
        buckets = self._buckets_to_update(g, h, scale)
        self._backend.update(buckets, g, h, draw=draw, scale=scale, accept=accept)
        prior.learn(self)

    def _buckets_to_update(self, g: Grads, h: Grads, scale: Grads | None) -> list[Bucket]:
        """Return the parameters that have a gradient, with the arguments of this update."""
        return self._buckets(g)


def _any_is_not_zero(tensors: Iterable[Tensor]) -> bool:
    """Return True if an element of the tensors is not zero, by one read from the device."""
    flags = [local(x).any() for x in tensors]
    return bool(flags) and bool(torch.stack([flag.to(flags[0].device) for flag in flags]).any())
