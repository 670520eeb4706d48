"""Per-example gradients of one parameter, and the fastest way from them to the sum of their squares.

The backward pass of a minibatch loss adds up one contribution cᵢ per example: ∇loss = Σᵢ cᵢ. A ``Gradients`` represents
the contributions of one use of one parameter: ``of(examples)`` computes some of them, ``total()`` is Σᵢ cᵢ and
``sum_of_squares()`` is Σᵢ cᵢ². The last calls ``of`` in chunks that fit the cache, unless the structure of the
gradients allows a shortcut.

Letters in the shapes: B examples, T positions in an example (time, space, repeated use), O outputs, I inputs.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import combinations_with_replacement

import torch
import torch.nn.functional as F
from torch import Size, Tensor

CHUNK = 2**18  # elements worked on at once: a megabyte of float32, which stays in a core's cache
SHARED_CHUNK = 2**20  # chunk size where all cores share the work on a chunk
ACCELERATOR_CHUNK = 2**25  # enough to keep a GPU busy
LONG = 2**15  # above this size a core adds the squares faster example by example than by a reduction over examples
FEW_POSITIONS = 3  # up to this T, T(T+1)/2 products of whole batches are faster than B products of single examples


class Gradients:
    """The gradients of ``examples`` examples; ``of`` touches ``cost`` elements for each of them."""

    _squares: Tensor | None = None

    def __init__(self, examples: int, cost: int, device: torch.device):
        self.examples, self.cost, self.device = examples, cost, device

    def of(self, examples: slice) -> Tensor:
        """Return cᵢ for some examples: [b, *shape of the parameter]."""
        raise NotImplementedError

    def total(self) -> Tensor:
        """Return Σᵢ cᵢ."""
        chunks = self._chunks()
        total = next(chunks).sum(0)
        for chunk in chunks:
            total += chunk.sum(0)
        return total

    def total_through_examples(self) -> Tensor:
        """Return Σᵢ cᵢ, and cache Σᵢ cᵢ² from the same chunks for ``sum_of_squares``."""
        chunks = self._chunks(SHARED_CHUNK)
        chunk = next(chunks)
        total, squares = chunk.sum(0), chunk.square_().sum(0)
        for chunk in chunks:
            total += chunk.sum(0)
            squares += chunk.square_().sum(0)
        self._squares = squares
        return total

    def sum_of_squares(self) -> Tensor:
        """Return Σᵢ cᵢ² in a new tensor, which the caller may change."""
        if self._squares is not None:
            squares, self._squares = self._squares, None
            return squares
        chunks = self._chunks()
        squares = next(chunks).square().sum(0)
        one_at_a_time = squares.numel() > LONG and self.device.type == "cpu"
        for chunk in chunks:
            if one_at_a_time:
                for c in chunk:
                    squares.addcmul_(c, c)
            else:
                squares += chunk.square().sum(0)
        return squares

    def _chunks(self, elements_on_cpu: int | None = None) -> Iterator[Tensor]:
        elements = (elements_on_cpu or CHUNK) if self.device.type == "cpu" else ACCELERATOR_CHUNK
        size = max(1, elements // max(1, self.cost))
        return (self.of(slice(start, start + size)) for start in range(0, max(1, self.examples), size))


class Added(Gradients):
    """Gradients of a tensor added at T positions of every example, as biases are: cᵢ = Σₜ z_it.

    z [B, T, *shape] are the gradients at these positions.
    """

    def __init__(self, z: Tensor):
        super().__init__(len(z), z.shape[1:].numel(), z.device)
        self.z = z

    @cached_property
    def c(self) -> Tensor:
        return self.z.sum(1) if self.z.shape[1] > 1 else self.z.squeeze(1)

    def of(self, examples: slice) -> Tensor:
        return self.c[examples]

    def total(self) -> Tensor:
        return self.c.sum(0)

    def sum_of_squares(self) -> Tensor:
        return (self.c * self.c).sum(0)


class Outer(Gradients):
    """Gradients of a matrix applied to T inputs a of every example: cᵢ = Σₜ z_it a_itᵀ.

    z [B, T, O] are the gradients at its outputs and a [B, T, I] its inputs. The squares are a sum over pairs of
    positions, Σᵢ cᵢ² = Σ_{t,u} (z_t∘z_u)ᵀ(a_t∘a_u), which is faster while T is small.
    """

    def __init__(self, z: Tensor, a: Tensor, shape: Size | None = None):
        self.z, self.a = z, a
        self.shape = shape or Size((z.shape[2], a.shape[2]))
        super().__init__(len(z), self.shape.numel(), z.device)

    def of(self, examples: slice) -> Tensor:
        return torch.bmm(self.z[examples].transpose(1, 2), self.a[examples]).view(-1, *self.shape)

    def total(self) -> Tensor:
        return (self.z.flatten(0, 1).T @ self.a.flatten(0, 1)).view(self.shape)

    def sum_of_squares(self) -> Tensor:
        positions = self.z.shape[1]
        if positions > FEW_POSITIONS:
            return super().sum_of_squares()
        z, a = self.z.unbind(1), self.a.unbind(1)
        squares = self.z.new_zeros(self.z.shape[2], self.a.shape[2])
        for t, u in combinations_with_replacement(range(positions), 2):
            squares.addmm_((z[t] * z[u]).T, a[t] * a[u], alpha=1 if t == u else 2)
        return squares.view(self.shape)


class OnePosition:
    """The gradients z [B, O] at the outputs of a layer with one input per example, and their cached squares."""

    def __init__(self, z: Tensor):
        self.z = z

    @cached_property
    def squares(self) -> Tensor:
        return self.z.square()


class AddedOnce(Added):
    """``Added`` for T = 1; it shares the squares of z with the weight of the same layer."""

    def __init__(self, at: OnePosition):
        Gradients.__init__(self, len(at.z), at.z.shape[1], at.z.device)
        self.at = at

    @cached_property
    def z(self) -> Tensor:  # type: ignore[override]
        return self.at.z.unsqueeze(1)

    def sum_of_squares(self) -> Tensor:
        return self.at.squares.sum(0)


class OuterOnce(Outer):
    """``Outer`` for T = 1, where the squares separate: Σᵢ cᵢ² = (z²)ᵀ(a²)."""

    def __init__(self, at: OnePosition, a: Tensor):
        self.at, self.input = at, a
        self.shape = Size((at.z.shape[1], a.shape[1]))
        Gradients.__init__(self, len(a), self.shape.numel(), a.device)

    @cached_property
    def z(self) -> Tensor:  # type: ignore[override]
        return self.at.z.unsqueeze(1)

    @cached_property
    def a(self) -> Tensor:  # type: ignore[override]
        return self.input.unsqueeze(1)

    def sum_of_squares(self) -> Tensor:
        return self.at.squares.T @ self.input.square()


class Rows(Gradients):
    """Gradients of a table looked up at T indices per example: cᵢ[r] = Σ_{t: index_it = r} z_it.

    index [B, T], and z [B, T, O] the gradients at the rows read. Rows that one example reads more than once are added
    up before the square.
    """

    def __init__(self, index: Tensor, z: Tensor, rows: int):
        super().__init__(len(z), rows * z.shape[2], z.device)
        self.index, self.z, self.rows = index, z, rows

    def of(self, examples: slice) -> Tensor:
        index, z = self.index[examples], self.z[examples]
        c = z.new_zeros(len(z), self.rows, z.shape[2])
        c.flatten(0, 1).index_add_(0, self._keys(index), z.flatten(0, 1))
        return c

    def total(self) -> Tensor:
        return self.z.new_zeros(self.rows, self.z.shape[2]).index_add_(0, self.index.flatten(), self.z.flatten(0, 1))

    def sum_of_squares(self) -> Tensor:
        squares = self.z.new_zeros(self.rows, self.z.shape[2])
        if not self.index.numel():
            return squares
        if self.index.shape[1] == 1:
            return squares.index_add_(0, self.index.flatten(), self.z.squeeze(1).square())
        # Sorting puts equal keys side by side. Tensor.unique would read their number from the device.
        keys, order = self._keys(self.index).sort()
        group = F.pad((keys[1:] != keys[:-1]).cumsum(0), (1, 0))
        c = torch.zeros_like(self.z).flatten(0, 1).index_add_(0, group, self.z.flatten(0, 1)[order])
        row = torch.zeros_like(group).scatter_(0, group, keys % self.rows)
        return squares.index_add_(0, row, c.square_())

    def _keys(self, index: Tensor) -> Tensor:
        """Return one number for each pair of example and row."""
        return (index + self.rows * torch.arange(len(index), device=index.device).unsqueeze(1)).flatten()


class Stacked(Gradients):
    """Gradients of a parameter made of blocks of rows, such as the joint projection of queries, keys and values."""

    def __init__(self, blocks: Sequence[Gradients]):
        super().__init__(blocks[0].examples, sum(block.cost for block in blocks), blocks[0].device)
        self.blocks = blocks

    def of(self, examples: slice) -> Tensor:
        return torch.cat([block.of(examples) for block in self.blocks], dim=1)

    def total(self) -> Tensor:
        return torch.cat([block.total() for block in self.blocks])

    def sum_of_squares(self) -> Tensor:
        return torch.cat([block.sum_of_squares() for block in self.blocks])


class Summed(Gradients):
    """Gradients of several uses of one parameter: contributions of an example are added before they are squared."""

    def __init__(self, uses: Sequence[Gradients]):
        super().__init__(uses[0].examples, max(use.cost for use in uses), uses[0].device)
        self.uses = uses

    def of(self, examples: slice) -> Tensor:
        c = self.uses[0].of(examples)
        for use in self.uses[1:]:
            c = c + use.of(examples)
        return c

    def total(self) -> Tensor:
        return torch.stack([use.total() for use in self.uses]).sum(0)


def summed(uses: Sequence[Gradients]) -> Gradients:
    """Return the per-example gradients of a weight that a forward pass uses several times: the sum over its uses.

    Uses of one kind are joined into one use at more positions.
    """
    if len(uses) == 1:
        return uses[0]
    outer = [use for use in uses if isinstance(use, Outer)]
    added = [use for use in uses if isinstance(use, Added)]
    joined = [use for use in uses if not isinstance(use, Outer | Added)]
    if outer:
        joined.append(Outer(torch.cat([u.z for u in outer], 1), torch.cat([u.a for u in outer], 1), outer[0].shape))
    if added:
        joined.append(Added(torch.cat([u.z for u in added], 1)))
    return joined[0] if len(joined) == 1 else Summed(joined)
