"""VOGN: variational online Gauss-Newton, from per-example gradients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack, cast

from torch import Tensor, nn

from vadam import curvature, rules
from vadam.backends.shards import is_sharded
from vadam.optim.base import VariationalOptimizer
from vadam.optim.common import Common
from vadam.optim.distributed import unwrapped
from vadam.optim.sample import Grads, Owner, Sample
from vadam.optim.signature import group_arguments


class VOGN(VariationalOptimizer):
    r"""Variational Online Gauss-Newton (paper §3.2), with natural momentum (§4) if asked for.

    Input: α (``lr``), 1 − β (``beta``, the weight of the old), γ̄ (``momentum``), N (``num_data`` × ``data_weight``),
    λ (``prior_precision``), τ (``tau``)

    .. code-block:: text

        θ ← μ + σ∘ε,  σ = 1/√(N s + τλ)
        ĝ ← mean over the minibatch of ∇f_i(θ),  ĥ ← mean of (∇f_i(θ))²
        s₊ ← (1 − τβ) s + β ĥ
        μ ← μ − α (ĝ + τλ/N μ)/(s₊ + τλ/N) + γ̄ (s + τλ/N)/(s₊ + τλ/N) ∘ (μ − μ₋)

    Call ``opt.attach(model)`` once: its hooks record the squares during an ordinary backward pass of an ordinary mean loss. Then
    all three ways of use work as for :class:`vadam.Vadam`, whose arguments not listed here are also these. ``damping`` is added to
    the denominator of the step. ``exact_momentum`` carries the changes of mean and precision over without the paper's
    approximation Σₜ₋₁ ≈ Σₜ (App. E.3), for one more vector. With data augmentation the examples are worth more than their number:
    ``data_weight`` ρ makes the effective number of data ρN. Several backward passes in one sample count as micro-batches, their
    losses divided by their number.
    """

    rule = rules.vogn
    records_curvature = True
    _squares: curvature.PerExampleSquares | None = None

    @group_arguments
    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        beta: float = 0.999,
        *,
        num_data: float,
        prior_precision: float = 1.0,
        init_precision: float | None = None,
        momentum: float = 0.0,
        exact_momentum: bool = False,
        damping: float = 0.0,
        tau: float = 1.0,
        **common: Unpack[Common],
    ) -> None: ...

    def attach(self, model: nn.Module, *, sequence_first: bool | None = None) -> VOGN:
        """Attach the model, and put hooks on its layers that record per-example squares.

        ``sequence_first``: True if layers see [T, B, ...] rather than [B, T, ...]; torch's own recurrent layers and transformers
        say it themselves.
        """
        if isinstance(model, nn.Module) and any(is_sharded(p) for p in model.parameters()):
            raise ValueError(
                "attach(): VOGN's per-example squares need the layers whole, and FSDP2 shards them: use DistributedDataParallel, or "
                "Vadam, which is sharded"
            )
        super().attach(model)
        sampled: list[Any] = self._sampled()
        points: list[Any] = self._points()
        try:
            self._squares = curvature.PerExampleSquares(
                unwrapped(model), params=sampled, exclude=points, sequence_first=sequence_first
            )
        except BaseException:
            self.detach()
            raise
        return self

    def detach(self) -> None:
        """Undo ``attach``."""
        super().detach()
        if self._squares is not None:
            self._squares.remove()
        self._squares = None

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients and the squares that belong to them."""
        super().zero_grad(set_to_none)
        if self._squares is not None:
            self._squares.discard()

    def _open_sample(self, owner: Owner) -> Sample:
        if self._squares is None:
            raise RuntimeError(
                "VOGN needs the layers to see per-example gradients: call opt.attach(model) once before training"
            )
        sample = super()._open_sample(owner)
        self._squares.recording = True
        return sample

    def _curvatures(self, sample: Sample, grads: Grads) -> Grads:
        return super()._curvatures(sample, {p: grads[p] for p in self._points() if p in grads})

    def _captured(self, sample: Sample) -> Grads | None:
        if self._squares is None:
            return None
        self._squares.recording = False
        return cast(Grads, self._squares.take())

    def _points(self) -> list[Tensor]:
        return [p for group in self.param_groups if group["deterministic"] for p in group["params"]]
