"""Native loops made from the rules: sampling, products, updates and norms.

A kernel computes new values for every weight of many tensors. Its argument is a job, an array of words: number and address of the
tiles (tensor, offset, length), seed, stream of the first tensor, address of the results, of a factor for each tensor, of the numbers,
then for every array the address of a column with the address of each tensor. Each thread takes an equal share of the tiles.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable, Sequence
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

from llvmlite import ir

from vadam.backends import threads
from vadam.backends.llvm import DOUBLE, LONG, POINTER, REAL, Function, Library, NotArithmetic, Value
from vadam.backends.native_noise import emit_noise
from vadam.rules.binding import arg_names, precision_fields, scalar_fields, scope, state_of, vector_fields

TILE = 1 << 12  # weights of a tile, at most: their noise stays in the nearest cache

Values = dict[str, Value]
Args = tuple[str, ...]
"""Names of the arguments that are given per weight, as arrays."""
Compute = Callable[[Values, Sequence[Value]], Values]


class Tile(NamedTuple):
    """Part of one tensor, in the code of a kernel."""

    number: Value
    tensor: Value
    offset: Value
    length: Value


class Job(NamedTuple):
    """The words of a job, in the code of a kernel."""

    tile_count: Value
    tiles: Value
    seed: Value
    stream: Value
    results: Value
    factors: Value
    numbers: Value


SEED = Job._fields.index("seed")


class Kernel:
    """A compiled loop over the tiles of many tensors."""

    def __init__(self, library: Library, scalars: Sequence[str] = ()) -> None:
        self.run = threads.parallel(library)
        self._scalars = scalars
        if scalars:
            self._advance = library.function("advance", ctypes.c_void_p, ctypes.c_void_p)

    def advanced(self, numbers: Sequence[float]) -> dict[str, float]:
        """Return the scalars of the state after an update."""
        if not self._scalars:
            return {}
        given, new = array("d", numbers), array("d", bytes(8 * len(self._scalars)))
        self._advance(given.buffer_info()[0], new.buffer_info()[0])
        return dict(zip(self._scalars, new, strict=True))


@cache
def perturb(rule: ModuleType, args: Args, *, keep_mean: bool = False, from_mean: bool = False) -> Kernel:
    """Compile θ ← μ ± ε/√(precision + extra).

    It overwrites μ in the parameters, and ``keep_mean`` also stores μ; or it reads μ ``from_mean``, where it was stored before.
    """

    def compute(values: Values, numbers: Sequence[Value]) -> Values:
        precision, sign = _precision(rule, args, values, numbers)
        mu = values["mean" if from_mean else "theta"]
        theta = mu + sign * values["eps"] * precision.rsqrt()
        return {"theta": theta, "mean": mu} if keep_mean else {"theta": theta}

    return _noise_kernel(rule, args, ["theta", *(["mean"] if keep_mean or from_mean else [])], compute)


@cache
def products(rule: ModuleType, args: Args) -> Kernel:
    """Compile ĥ ← ĝ∘ε/σ, the reparameterised curvature of a sample."""

    def compute(values: Values, numbers: Sequence[Value]) -> Values:
        precision, sign = _precision(rule, args, values, numbers)
        return {"h": values["g"] * (sign * values["eps"]) * precision.sqrt()}

    return _noise_kernel(rule, args, ["g", "h"], compute)


@cache
def noise(rule: ModuleType, args: Args) -> Kernel:
    """Compile the loop that writes a sample's noise ε, with the sign of its antithetic half."""
    return _noise_kernel(rule, args, ["eps_out"], lambda values, numbers: {"eps_out": numbers[-1] * values["eps"]})


@cache
def update(rule: ModuleType, args: Args, *, has_curvature: bool, in_place: bool) -> Kernel:
    """Compile a rule's update of state and parameters.

    ``in_place`` reads μ from the parameters, otherwise from a vector of its own. ``has_curvature`` reads ĥ and multiplies
    it by a factor, otherwise ĥ = ĝ∘ĝ.
    """
    scalars, rule_args = scalar_fields(rule), arg_names(rule.update)

    def new_state(values: Values, numbers: Sequence[Value]) -> Any:
        g = values["g"]
        h = values["h"] * values["factor"] if has_curvature else g * g
        named = dict(zip([*scalars, *rule_args], numbers, strict=False)) | _per_weight(args, values)
        vectors = {name: values[name] for name in vector_fields(rule)}
        state = rule.State(
            mu=values["theta" if in_place else "mu"], **vectors, **{name: named[name] for name in scalars}
        )
        return rule.update(state, g, h, **{name: named[name] for name in rule_args})

    def compute(values: Values, numbers: Sequence[Value]) -> Values:
        new = new_state(values, numbers)
        return {"theta": new.mu, **{name: getattr(new, name) for name in vector_fields(rule)}}

    arrays = ["theta", *([] if in_place else ["mu"]), "g", *(["h"] if has_curvature else []), *vector_fields(rule)]
    arrays += map(_column, args)
    count = len(scalars) + len(rule_args)
    module = ir.Module(name="update")
    _emit_loop(module, arrays, count, compute)
    if scalars:
        _emit_scalars(
            module, [*arrays, "factor"], count, lambda v, n: [getattr(new_state(v, n), name) for name in scalars]
        )
    return Kernel(Library(module), scalars)


@cache
def gaussian() -> Kernel:
    """Compile θ ← μ + ε/√precision, a draw from a diagonal Gaussian."""

    def compute(values: Values, _: Sequence[Value]) -> Values:
        return {"theta": values["mu"] + values["eps"] * values["precision"].rsqrt()}

    module = ir.Module(name="gaussian")
    _emit_loop(module, ["theta", "mu", "precision"], 0, compute, noise=emit_noise(module))
    return Kernel(Library(module))


@cache
def moments() -> Kernel:
    """Compile the running means of g and g∘g: each moves towards a new value by a given part of the way."""

    def compute(values: Values, numbers: Sequence[Value]) -> Values:
        (weight,), g = numbers, values["g"]
        return {name: values[name] + weight * (x - values[name]) for name, x in (("mean", g), ("square", g * g))}

    module = ir.Module(name="moments")
    _emit_loop(module, ["mean", "square", "g"], 1, compute)
    return Kernel(Library(module))


@cache
def squares() -> Kernel:
    """Compile the sum of squares of each tile: results[tile] ← Σ x²."""
    module = ir.Module(name="squares")
    _emit_sum(module)
    return Kernel(Library(module))


@cache
def is_arithmetic(rule: ModuleType) -> bool:
    """Return True if a rule can be compiled: it is elementwise and made of arithmetic."""
    if scope(rule) != "weight":
        return False
    function = Function(ir.Module(), "trial", [])
    weight, number = (Value(function.builder, ir.Constant(kind, 1.0)) for kind in (REAL, DOUBLE))
    state = rule.State(**{name: number if name in scalar_fields(rule) else weight for name in rule.State._fields})
    try:
        for f, operands in ((rule.precision, (state,)), (rule.update, (state, weight, weight))):
            f(*operands, **dict.fromkeys(arg_names(f), number))
    except (NotArithmetic, TypeError):  # a TypeError comes from abs(), comparisons and methods of Tensor
        return False
    return True


def _column(arg: str) -> str:
    """Return the name of the array that holds an argument per weight."""
    return f"argument {arg}"


def _per_weight(args: Args, values: Values) -> Values:
    """Return the arguments that are arrays."""
    return {name: values[_column(name)] for name in args}


def _precision(rule: ModuleType, args: Args, values: Values, numbers: Sequence[Value]) -> tuple[Value, Value]:
    """Return the precision of a sample and its sign; the last two numbers are the extra precision and the sign."""
    rule_args = arg_names(rule.precision)
    *named, extra, sign = numbers
    known = dict(zip([*scalar_fields(rule), *rule_args], named, strict=True))
    known |= {name: values[name] for name in precision_fields(rule)} | _per_weight(args, values)
    return rule.precision(state_of(rule, known, {}), **{name: known[name] for name in rule_args}) + extra, sign


def _noise_kernel(rule: ModuleType, args: Args, arrays: Sequence[str], compute: Compute) -> Kernel:
    module = ir.Module(name="noise")
    count = len(scalar_fields(rule)) + len(arg_names(rule.precision)) + 2
    arrays = [*arrays, *precision_fields(rule), *map(_column, args)]
    _emit_loop(module, arrays, count, compute, noise=emit_noise(module))
    return Kernel(Library(module))


def _emit_loop(
    module: ir.Module, arrays: Sequence[str], count: int, compute: Compute, noise: ir.Function | None = None
) -> None:
    """Add a kernel that computes new values of some arrays from others, ``count`` numbers and, if there is any, the noise.

    The value "factor" is that of the tensor.
    """
    names = [*arrays, *(["eps"] if noise is not None else [])]
    body = Function(module, "body", [*[POINTER] * (len(names) + 2), LONG])
    *pointers, numbers, factor, _ = body.ir.args
    n = body.argument(len(names) + 2)
    given = [body.load(numbers, DOUBLE, k) for k in range(count)]
    with body.loop(n.constant(0), n) as i:
        values = _Loaded(body, dict(zip(names, pointers, strict=True)), i, factor)
        for name, value in compute(values, given).items():
            body.store(value, pointers[names.index(name)], i)
    body.end()

    def run_tile(work: Function, job: Job, tile: Tile, pointers: list[ir.Value], scratch: ir.Value) -> None:
        if noise is not None:
            half = (tile.length + 1) >> 1
            second = work.builder.gep(scratch, [half.ir], source_etype=REAL)
            stream = job.stream + tile.tensor
            work.builder.call(noise, [scratch, second, half.ir, job.seed.ir, stream.ir, (tile.offset >> 1).ir])
            pointers = [*pointers, scratch]
        numbers, factor = work.offset(job.numbers, DOUBLE, 0), work.offset(job.factors, DOUBLE, tile.tensor)
        work.builder.call(body.ir, [*pointers, numbers, factor, tile.length.ir])

    _emit_work(module, len(arrays), run_tile)


def _emit_sum(module: ir.Module) -> None:
    """Add a kernel that writes the sum of squares of every tile to the results."""
    total = Function(module, "total", [POINTER, LONG, POINTER])
    n, builder = total.argument(1), total.builder
    cell = builder.alloca(REAL)
    builder.store(ir.Constant(REAL, 0.0), cell)
    with total.loop(n.constant(0), n) as i:
        x = total.load(total.ir.args[0], REAL, i).ir
        square = builder.fmul(x, x, flags=("reassoc", "contract", "nsz"))
        builder.store(builder.fadd(builder.load(cell, typ=REAL), square, flags=("reassoc", "contract", "nsz")), cell)
    total.store(Value(builder, builder.fpext(builder.load(cell, typ=REAL), DOUBLE)), total.ir.args[2], 0)
    total.end()

    def run_tile(work: Function, job: Job, tile: Tile, pointers: list[ir.Value], _: ir.Value) -> None:
        result = work.offset(job.results, DOUBLE, tile.number)
        work.builder.call(total.ir, [pointers[0], tile.length.ir, result])

    _emit_work(module, 1, run_tile)


def _emit_work(module: ir.Module, arrays: int, run_tile: Callable[..., None]) -> None:
    """Add ``work(job, thread, threads)``: this thread's share of the tiles."""
    work = Function(module, "work", [POINTER, LONG, LONG])
    scratch = work.builder.alloca(REAL, size=ir.Constant(LONG, TILE))
    address, thread, threads_ = work.ir.args[0], work.argument(1), work.argument(2)
    words = [work.load(address, LONG, k) for k in range(len(Job._fields) + arrays)]
    job, columns = Job(*words[: len(Job._fields)]), words[len(Job._fields) :]
    first, last = (
        Value(work.builder, work.builder.sdiv((job.tile_count * t).ir, threads_.ir)) for t in (thread, thread + 1)
    )
    with work.loop(first, last) as index:
        row = work.offset(job.tiles, LONG, index * 3)
        tile = Tile(index, *(work.load(row, LONG, k) for k in range(3)))
        of_tensor = [work.load(work.offset(column, LONG, tile.tensor), LONG) for column in columns]
        run_tile(work, job, tile, [work.offset(start, REAL, tile.offset) for start in of_tensor], scratch)
    work.end()
    threads.emit_region(module, work.ir)


def _emit_scalars(module: ir.Module, arrays: Sequence[str], count: int, compute: Callable[..., list[Value]]) -> None:
    """Add ``advance(numbers, new)``: the scalars of the state after an update, which no weight enters."""
    function = Function(module, "advance", [POINTER, POINTER])
    numbers = [function.load(function.ir.args[0], DOUBLE, k) for k in range(count)]
    unknown = Value(function.builder, ir.Constant(REAL, ir.Undefined))
    for k, value in enumerate(compute(dict.fromkeys(arrays, unknown), numbers)):
        function.store(value, function.ir.args[1], k)
    function.end()


class _Loaded(dict[str, Value]):
    """Values of arrays at a position, loaded when they are used: an array that is only written is not read."""

    def __init__(self, function: Function, pointers: dict[str, ir.Value], i: Value, factor: ir.Value) -> None:
        self._function, self._pointers, self._i, self._factor = function, pointers, i, factor

    def __missing__(self, name: str) -> Value:
        if name == "factor":
            self[name] = self._function.load(self._factor, DOUBLE)
        else:
            self[name] = self._function.load(self._pointers[name], REAL, self._i)
        return self[name]
