"""A two-dimensional posterior on a grid, for contours: any log-density, normalised by summing over the cells."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class GridPosterior:
    """A density on a grid: ``density[i, j]`` at (x[i], y[j]) integrates to 1.

    ``log_normaliser`` is the logarithm of the integral of the density that was given.
    Matplotlib needs the transpose: ``plt.contour(grid.x, grid.y, grid.density.T, levels=grid.levels())``.
    """

    x: Tensor
    y: Tensor
    density: Tensor
    log_normaliser: float

    @property
    def cell_area(self) -> float:
        return ((self.x[1] - self.x[0]) * (self.y[1] - self.y[0])).item()

    @property
    def mean(self) -> Tensor:
        return torch.stack([self._expected(self.x[:, None]), self._expected(self.y[None, :])])

    @property
    def covariance(self) -> Tensor:
        mean_x, mean_y = self.mean
        dx, dy = self.x[:, None] - mean_x, self.y[None, :] - mean_y
        xx, xy, yy = self._expected(dx * dx), self._expected(dx * dy), self._expected(dy * dy)
        return torch.stack([torch.stack([xx, xy]), torch.stack([xy, yy])])

    @property
    def mode(self) -> Tensor:
        i, j = divmod(int(self.density.argmax()), len(self.y))
        return torch.stack([self.x[i], self.y[j]])

    def levels(self, masses: Sequence[float] = (0.9, 0.5, 0.1)) -> list[float]:
        """Return the densities whose contours enclose the given probabilities, in ascending order."""
        if not all(0 < mass < 1 for mass in masses):
            raise ValueError(f"masses must be probabilities between 0 and 1, got {list(masses)}")
        descending = self.density.flatten().sort(descending=True).values
        enclosed = descending.cumsum(0) * self.cell_area
        return sorted(descending[(enclosed < mass).sum().clamp(max=len(descending) - 1)].item() for mass in masses)

    def _expected(self, values: Tensor) -> Tensor:
        return (values * self.density).sum() * self.cell_area


def grid_posterior(
    log_density: Callable[[Tensor], Tensor],
    x_range: tuple[float, float],
    y_range: tuple[float, float],
    *,
    points: int = 200,
    chunk: int = 65536,
) -> GridPosterior:
    """Evaluate an unnormalised ``log_density``, which takes points [P, 2] and returns [P], on a square grid."""
    if points < 2 or not (x_range[0] < x_range[1] and y_range[0] < y_range[1]):
        raise ValueError(f"the grid needs points >= 2 and ascending ranges, got points={points}, {x_range}, {y_range}")
    x, y = torch.linspace(*x_range, points, dtype=torch.float64), torch.linspace(*y_range, points, dtype=torch.float64)
    with torch.no_grad():
        log_p = torch.cat(
            [torch.as_tensor(log_density(part)).double() for part in torch.cartesian_prod(x, y).split(chunk)]
        )
    if log_p.shape != (points**2,) or bool(log_p.isnan().any()):
        raise ValueError(
            f"log_density must return one number, not NaN, for each of {points**2} points, but gave {list(log_p.shape)}"
        )
    cell_area = ((x[1] - x[0]) * (y[1] - y[0])).log()
    log_normaliser = log_p.logsumexp(0) + cell_area
    return GridPosterior(x, y, (log_p - log_normaliser).exp().reshape(points, points), log_normaliser.item())
