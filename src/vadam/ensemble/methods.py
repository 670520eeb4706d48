"""How a stack is trained: the rules of ``vadam.rules`` with their settings, one class per method.

Learning rate, prior precision and number of data differ from member to member and arrive as tensors that broadcast against
the stack; what is set here is common to all members. The arguments are those of the optimizers of the same name.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, NamedTuple, Protocol

from torch import Tensor

from vadam import rules
from vadam.ensemble import adam


class Curvature(Enum):
    """What ĥ is: the mean over the samples of …"""

    SQUARED_GRADIENT = "the squared minibatch gradient"
    PER_EXAMPLE_SQUARES = "the mean of squared per-example gradients"
    REPARAMETERISED = "ĝ∘ε/σ"
    NONE = "not used"


class Hyper(NamedTuple):
    """A member's learning rate α, prior precision λ and number of data N."""

    alpha: Tensor
    lam: Tensor
    N: Tensor


class Method(Protocol):
    curvature: ClassVar[Curvature]
    drops_out: ClassVar[bool] = False
    has_prior: ClassVar[bool] = True
    starts_above_prior: ClassVar[bool] = False  # s₀ = (init_precision − λ)/N is an average of squares

    @property
    def lr(self) -> float: ...

    @property
    def samples(self) -> int: ...

    def init(self, mu: Tensor, hyper: Hyper) -> Any: ...

    def precision(self, state: Any, hyper: Hyper) -> Tensor | None:
        """That of the posterior; None if the weights are not sampled."""

    def update(self, state: Any, g: Tensor, h: Tensor, hyper: Hyper) -> Any: ...

    def __hash__(self) -> int: ...


@dataclass(frozen=True)
class Vadam:
    """Variational Adam, ``vadam.rules.vadam``."""

    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    samples: int = 1
    init_precision: float | None = None
    tau: float = 1.0
    curvature: ClassVar = Curvature.SQUARED_GRADIENT
    drops_out: ClassVar = False
    has_prior: ClassVar = True
    starts_above_prior: ClassVar = True

    def init(self, mu: Tensor, hyper: Hyper) -> Any:
        return rules.vadam.init(mu, init_precision=_start(self.init_precision, hyper), N=hyper.N, lam=hyper.lam)

    def precision(self, state: Any, hyper: Hyper) -> Tensor:
        return rules.vadam.precision(state, N=hyper.N, lam=hyper.lam, tau=self.tau)

    def update(self, state: Any, g: Tensor, h: Tensor, hyper: Hyper) -> Any:
        gamma1, gamma2 = self.betas
        return rules.vadam.update(state, g, h, **hyper._asdict(), gamma1=gamma1, gamma2=gamma2, tau=self.tau)


@dataclass(frozen=True)
class Vprop:
    """Variational RMSprop, ``vadam.rules.vprop``; ``beta`` is the weight of the old."""

    lr: float = 1e-3
    beta: float = 0.999
    samples: int = 1
    init_precision: float | None = None
    tau: float = 1.0
    curvature: ClassVar = Curvature.SQUARED_GRADIENT
    drops_out: ClassVar = False
    has_prior: ClassVar = True
    starts_above_prior: ClassVar = True

    def init(self, mu: Tensor, hyper: Hyper) -> Any:
        return rules.vprop.init(mu, init_precision=_start(self.init_precision, hyper), N=hyper.N, lam=hyper.lam)

    def precision(self, state: Any, hyper: Hyper) -> Tensor:
        return rules.vprop.precision(state, N=hyper.N, lam=hyper.lam, tau=self.tau)

    def update(self, state: Any, g: Tensor, h: Tensor, hyper: Hyper) -> Any:
        return rules.vprop.update(state, g, h, **hyper._asdict(), beta=1 - self.beta, tau=self.tau)


@dataclass(frozen=True)
class VOGN:
    """Variational online Gauss–Newton, ``vadam.rules.vogn``; ``beta`` is the weight of the old."""

    lr: float = 1e-3
    beta: float = 0.999
    samples: int = 1
    init_precision: float | None = None
    tau: float = 1.0
    damping: float = 0.0
    curvature: ClassVar = Curvature.PER_EXAMPLE_SQUARES
    drops_out: ClassVar = False
    has_prior: ClassVar = True
    starts_above_prior: ClassVar = True

    def init(self, mu: Tensor, hyper: Hyper) -> Any:
        return rules.vogn.init(mu, init_precision=_start(self.init_precision, hyper), N=hyper.N, lam=hyper.lam)

    def precision(self, state: Any, hyper: Hyper) -> Tensor:
        return rules.vogn.precision(state, N=hyper.N, lam=hyper.lam, tau=self.tau)

    def update(self, state: Any, g: Tensor, h: Tensor, hyper: Hyper) -> Any:
        damping = self.damping
        return rules.vogn.update(state, g, h, **hyper._asdict(), beta=1 - self.beta, tau=self.tau, damping=damping)


@dataclass(frozen=True)
class VadaGrad:
    """Variational AdaGrad, ``vadam.rules.vadagrad``: no prior, N is ``num_data``, ``beta`` is the weight of the new."""

    lr: float = 1e-2
    beta: float = 1.0
    samples: int = 1
    init_precision: float = 1e4
    num_data: float = 1.0
    curvature: ClassVar = Curvature.SQUARED_GRADIENT
    drops_out: ClassVar = False
    has_prior: ClassVar = False
    starts_above_prior: ClassVar = False

    def init(self, mu: Tensor, hyper: Hyper) -> Any:
        return rules.vadagrad.init(mu, init_precision=self.init_precision, N=self.num_data)

    def precision(self, state: Any, hyper: Hyper) -> Tensor:
        return rules.vadagrad.precision(state, N=self.num_data)

    def update(self, state: Any, g: Tensor, h: Tensor, hyper: Hyper) -> Any:
        return rules.vadagrad.update(state, g, h, alpha=hyper.alpha, beta=self.beta, N=self.num_data)


@dataclass(frozen=True)
class BBVI:
    """Black-box variational inference, ``vadam.rules.bbvi``."""

    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    samples: int = 1
    init_precision: float | None = None
    eps: float = 1e-8
    curvature: ClassVar = Curvature.REPARAMETERISED
    drops_out: ClassVar = False
    has_prior: ClassVar = True
    starts_above_prior: ClassVar = False

    def init(self, mu: Tensor, hyper: Hyper) -> Any:
        return rules.bbvi.init(mu, init_precision=_start(self.init_precision, hyper), N=hyper.N, lam=hyper.lam)

    def precision(self, state: Any, hyper: Hyper) -> Tensor:
        return rules.bbvi.precision(state, N=hyper.N, lam=hyper.lam)

    def update(self, state: Any, g: Tensor, h: Tensor, hyper: Hyper) -> Any:
        gamma1, gamma2 = self.betas
        return rules.bbvi.update(state, g, h, **hyper._asdict(), gamma1=gamma1, gamma2=gamma2, eps=self.eps)


@dataclass(frozen=True)
class IVON:
    """Improved variational online Newton, ``vadam.rules.ivon``; ``rescale_lr`` makes the rate α (``hess_init`` + λ/N)."""

    lr: float = 0.1
    betas: tuple[float, float] = (0.9, 0.99999)
    samples: int = 1
    hess_init: float = 1.0
    clip_radius: float = float("inf")
    rescale_lr: bool = True
    curvature: ClassVar = Curvature.REPARAMETERISED
    drops_out: ClassVar = False
    has_prior: ClassVar = True
    starts_above_prior: ClassVar = False

    def init(self, mu: Tensor, hyper: Hyper) -> Any:
        init_precision = hyper.N * self.hess_init + hyper.lam
        return rules.ivon.init(mu, init_precision=init_precision, N=hyper.N, lam=hyper.lam)

    def precision(self, state: Any, hyper: Hyper) -> Tensor:
        return rules.ivon.precision(state, N=hyper.N, lam=hyper.lam)

    def update(self, state: Any, g: Tensor, h: Tensor, hyper: Hyper) -> Any:
        alpha, lam, N = hyper
        alpha = alpha * (self.hess_init + lam / N) if self.rescale_lr else alpha
        beta1, beta2 = self.betas
        return rules.ivon.update(state, g, h, alpha=alpha, beta1=beta1, beta2=beta2, N=N, lam=lam, xi=self.clip_radius)


@dataclass(frozen=True)
class MAP:
    """Adam on the posterior mode, ``vadam.ensemble.adam``: the weights are not sampled."""

    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    samples: int = 1
    eps: float = 1e-8
    curvature: ClassVar = Curvature.NONE
    drops_out: ClassVar = False
    has_prior: ClassVar = True
    starts_above_prior: ClassVar = False

    def init(self, mu: Tensor, hyper: Hyper) -> Any:
        return adam.init(mu)

    def precision(self, state: Any, hyper: Hyper) -> None:
        return None

    def update(self, state: Any, g: Tensor, h: Tensor, hyper: Hyper) -> Any:
        gamma1, gamma2 = self.betas
        return adam.update(state, g, **hyper._asdict(), gamma1=gamma1, gamma2=gamma2, eps=self.eps)


@dataclass(frozen=True)
class MCDropout(MAP):
    """MC-Dropout (Gal and Ghahramani 2016): inputs of every linear layer are dropped at the member's rate p.

    Masks differ between examples, and stay on for predictions. That paper's weight decay for E = ½ (y − f)²,
    (1 − p) l²/(2Nτ) with the prior's length scale l, is the ``prior_precision`` (1 − p) l² of a member.
    """

    drops_out: ClassVar = True


def _start(init_precision: float | None, hyper: Hyper) -> Tensor | float:
    return hyper.lam if init_precision is None else init_precision
