"""One sample of the weights, and which of mean and sample the parameters hold."""

from __future__ import annotations

from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from vadam.backends import Draw
from vadam.backends.bucket import are_same
from vadam.backends.noise import NoiseSource
from vadam.interrupts import Uninterrupted
from vadam.optim.gradient_marks import GradientMarks
from vadam.optim.strays import Strays

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
        self.strays: Strays | None = None  # gradients that arrived while the sample was paused

    @cached_property
    def params(self) -> list[Tensor]:
        """Return the parameters that hold this sample."""
        return [p for bucket in self.draw.buckets for p in bucket.params]

    def has_new_gradient(self) -> bool:
        """Return True if a gradient was taken since the sample was drawn."""
        return self._before.any_is_new()


_held: set[WeightState] = set()  # the states of all optimizers whose parameters hold a sample


def mean_of(p: Tensor) -> Tensor:
    """Return the mean of a parameter, also while a sample of any optimizer is in it."""
    held = [state.mean_of(p) for state in [*_held] if state.sample is not None and p in {*state.sample.params}]
    return next((mean for mean in held if mean is not None), p.detach())


class WeightState:
    """The state of the parameters: they hold the mean, or a sample and its owner, or the mean while a sample is paused.

    There is no reference to the optimizer: if it is dropped in the middle of a step, ``release`` restores the mean.
    """

    def __init__(self) -> None:
        self.sample: Sample | None = None
        self.owner: Owner | None = None
        self.paused: Sample | None = None
        self.version = 0  # changes whenever the parameters are written
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
        self.version += 1
        self._end_pause()
        try:
            sample.draw.perturb()
            self._overdue = None
            torch.clear_autocast_cache()  # half-precision copies of the weights, which autocast does not renew by itself
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
            torch.clear_autocast_cache()
        self.sample, self.owner, self._overdue = None, None, None if restore else sample
        self.version += 1
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
            self.paused.strays = self.paused.strays or Strays(self.paused.params)
            self.paused.strays.watch()

    def release(self) -> None:
        """Let the parameters hold the mean, whatever was going on."""
        with Uninterrupted():
            self.reset()

    def reset(self) -> None:
        """Let the parameters hold the mean and drop a paused sample. To be called where signals wait."""
        if not self.is_idle:
            self._restore()
            self._end_pause()

    def _end_pause(self) -> None:
        if self.paused is not None and self.paused.strays is not None:
            self.paused.strays.stop()
        self.paused = None

    def _restore(self) -> None:
        for held in (self.sample, self._overdue):
            if held is not None:
                held.draw.restore()
        torch.clear_autocast_cache()
        self.sample, self.owner, self._overdue = None, None, None
        self.version += 1
        _held.discard(self)

    def _refuse_second_sample(self, sample: Sample) -> None:
        """Raise if another optimizer's sample is in the parameters: its mean and this one's would overwrite each other."""
        for state in [*_held]:
            if state is not self and state.sample is not None and not {*state.sample.params}.isdisjoint(sample.params):
                raise RuntimeError(
                    f"the parameters hold a sample of another optimizer, opened by {state.owner and state.owner.value}: end it "
                    f"first, by its step() or eval(), or take that optimizer off the model by its detach()"
                )
