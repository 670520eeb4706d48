"""One sample of the weights, and which of mean and sample the parameters hold."""

from __future__ import annotations

import weakref
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.utils.weak import TensorWeakRef

from vadam.backends import Draw
from vadam.backends.bucket import are_same
from vadam.backends.noise import NoiseSource
from vadam.optim.gradient_marks import GradientMarks
from vadam.optim.interrupts import Uninterrupted

if TYPE_CHECKING:
    from vadam.optim.rescaling import Norms


class Owner(Enum):
    """The way of use that opened a sample."""

    CLOSURE = "step(closure)"
    CONTEXT = "sampled_params()"
    LOOP = "a training-mode forward or train()"


class Sample:
    """One draw of the weights, the noise behind it, and whether a gradient was taken there."""

    def __init__(self, draw: Draw, noise: NoiseSource, watched: list[Tensor], *, unpaired: NoiseSource | None) -> None:
        self.draw, self.noise = draw, noise
        self.unpaired_before = unpaired  # the first half of an antithetic pair that waited for this sample
        self.norms: Norms | None = None  # of the gradients when the backward pass ended, where that is known
        self.watched = watched
        self._before = GradientMarks(watched)
        self.strays: list[TensorWeakRef] = []  # gradients that arrived while the sample was paused

    @cached_property
    def params(self) -> list[Tensor]:
        """Return the parameters that hold this sample."""
        return [p for bucket in self.draw.buckets for p in bucket.params]

    def has_new_gradient(self) -> bool:
        """Return True if a gradient was taken since the sample was drawn."""
        return self._before.any_is_new()

    def watch_while_paused(self) -> list[Any]:
        """Remember gradients that arrive from now on; return the handles of the hooks that do so."""
        known = weakref.ref(self)

        def remember(p: Tensor) -> None:
            sample = known()
            if sample is not None and p.grad is not None:
                sample.strays.append(TensorWeakRef(p.grad))

        return [p.register_post_accumulate_grad_hook(remember) for p in self.params if p.requires_grad and p.is_leaf]

    def refuse_strays(self) -> None:
        """Raise if a gradient that arrived while the sample was paused has not been cleared since."""
        strays = {id(g) for stray in self.strays if (g := stray()) is not None}
        if any(p.grad is not None and id(p.grad) in strays for p in self.params):
            raise RuntimeError(
                "a backward pass ran while the parameters held the mean, between eval() or an eval-mode forward pass and the next "
                "training-mode forward pass: a gradient belongs to the sample. Call backward() before evaluating, and "
                "opt.zero_grad() to give this step up"
            )


_held: set[WeightState] = set()  # the states of all optimizers whose parameters hold a sample


class WeightState:
    """The state of the parameters: they hold the mean, or a sample and its owner, or the mean while a sample is paused.

    There is no reference to the optimizer: if it is dropped in the middle of a step, ``release`` restores the mean.
    """

    def __init__(self) -> None:
        self.sample: Sample | None = None
        self.owner: Owner | None = None
        self.paused: Sample | None = None
        self._watching: list[Any] = []  # handles of hooks on the parameters of the paused sample
        self._overdue: Sample | None = None  # closed, but held until an update or the next sample overwrites it

    @property
    def is_idle(self) -> bool:
        """True if the parameters hold the mean and no sample is paused."""
        return self.sample is None and self.paused is None and self._overdue is None

    def mean_of(self, p: Tensor) -> Tensor | None:
        """Return the mean of a parameter that holds a sample, None if it holds its mean."""
        held = self.sample or self._overdue
        return None if held is None else held.draw.mean_of(p)

    def open(self, sample: Sample, owner: Owner) -> None:
        """Let the parameters hold a sample; on an error they hold the mean. To be called where signals wait."""
        self._refuse_second_sample(sample)
        _held.add(self)
        self.sample, self.owner = sample, owner
        if self.paused is not None:
            self._end_pause()
        try:
            sample.draw.perturb()
            self._overdue = None
        except BaseException:
            self._restore()
            raise

    def close(self, *, restore: bool = True, keep_sample: bool = False) -> Sample:
        """End the sample and return it; without ``restore`` the parameters hold it until an update or a sample overwrites it.

        To be called where signals wait.
        """
        sample = self.sample
        assert sample is not None
        if restore:
            sample.draw.restore(keep_sample=keep_sample)
        self.sample, self.owner, self._overdue = None, None, None if restore else sample
        _held.discard(self)
        return sample

    def draw_again(self, noise: NoiseSource, sign: float, trained: list[Tensor]) -> Draw | None:
        """Return a draw in place of the sample that the parameters still hold; None if they hold the mean, as afterwards."""
        held = self._overdue
        if held is None:
            return None
        if are_same(held.watched, trained) and held.draw.redraw(noise, sign):  # none was frozen since
            return held.draw
        held.draw.restore()
        self._overdue = None
        return None

    def pause(self) -> None:
        """Put the sample of a loop aside: the parameters hold the mean until it is resumed."""
        with Uninterrupted():
            self.paused = self.close(keep_sample=True)
            self._watching = self.paused.watch_while_paused()

    def release(self) -> None:
        """Let the parameters hold the mean, whatever was going on."""
        with Uninterrupted():
            self.reset()

    def reset(self) -> None:
        """Let the parameters hold the mean and drop a paused sample. To be called where signals wait."""
        if not self.is_idle:
            self._restore()
            if self.paused is not None:
                self._end_pause()

    def _end_pause(self) -> None:
        for handle in self._watching:
            handle.remove()
        self.paused, self._watching = None, []

    def _restore(self) -> None:
        for held in (self.sample, self._overdue):
            if held is not None:
                held.draw.restore()
        self.sample, self.owner, self._overdue = None, None, None
        _held.discard(self)

    def _refuse_second_sample(self, sample: Sample) -> None:
        """Raise if another optimizer's sample is in the parameters: its mean and this one's would overwrite each other."""
        for state in [*_held]:
            if state is not self and state.sample is not None and not {*state.sample.params}.isdisjoint(sample.params):
                raise RuntimeError(
                    f"the parameters hold a sample of another optimizer, opened by {state.owner and state.owner.value}: end it "
                    f"first, by its step() or eval(), or by dropping that optimizer"
                )
