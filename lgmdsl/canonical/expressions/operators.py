"""Calls of the language's operators (diff, cumsum, conv2, wavelet, fft) on named axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.canonical.expressions.coefficient import Coefficient, Theta
from lgmdsl.canonical.expressions.named import NamedArray, collapse, expand
from lgmdsl.errors import DataError, MethodError
from lgmdsl.language.tree import ast
from lgmdsl.operators.base import Operator
from lgmdsl.operators.convolution import Convolution
from lgmdsl.operators.differences import CumulativeSum, DifferenceOperator
from lgmdsl.operators.fourier import Fourier
from lgmdsl.operators.wavelet import Wavelet
from lgmdsl.vocabulary.lookup import lookup

TRANSFORMS = ("diff", "cumsum", "conv2", "wavelet", "fft")


def arguments(call: ast.Call) -> dict[str, ast.Value]:
    """The arguments of a checked call by name."""
    signature = lookup("operator", call.function.id)
    assert signature is not None, "the checker lets no other call through"
    names = [p.name for p in signature.parameters]
    by_name: dict[str, ast.Value] = dict(zip(names, call.positional, strict=False))
    by_name.update({a.name: a.value for a in call.named})
    return by_name


def transform(
    call: ast.Call, dims: tuple[str, ...], sizes: Mapping[str, int], psf: Array | None
) -> Transform:
    """The operator of a call on a value over `dims` (in the order in which the text gives them).

    Raises DataError E301 for axes that are too short or cannot be halved, MethodError E501 where
    PyWavelets is wanted and absent.
    """
    by_name = arguments(call)
    grid = tuple(sizes[d] for d in dims)
    name = call.function.id
    after, result, words = dims, grid, [name, "(."]
    if name in ("diff", "cumsum"):
        axis = _axis(by_name.get("index"), dims)
        words.append(f", {dims[axis].partition('~')[0]}")
        if name == "cumsum":
            operator: Operator = CumulativeSum(grid, axis)
        else:
            order = _count(by_name.get("order"), 1)
            boundary = _text(by_name.get("boundary"), "none")
            operator = _built(
                call, lambda: DifferenceOperator(grid, axis, order, boundary), _short(dims[axis])
            )
            assert isinstance(operator, DifferenceOperator)
            result = operator.result
            if boundary == "none":
                after = tuple(_shortened(d, order) if i == axis else d for i, d in enumerate(dims))
            else:
                words.append(f', boundary = "{boundary}"')
    elif name == "conv2":
        assert psf is not None
        boundary = _text(by_name["boundary"], "")
        words.append(f', psf, boundary = "{boundary}"')
        operator = _built(
            call,
            lambda: Convolution((grid[0], grid[1]), psf, boundary),
            "give a kernel no larger than the image",
        )
    elif name == "wavelet":
        levels = _count(by_name["levels"]) if "levels" in by_name else None
        words.append(f', filter = "{_text(by_name["filter"])}"')
        operator = _built(
            call,
            lambda: Wavelet(grid, _text(by_name["filter"]), levels),
            "crop or pad the axes to multiples of 2^levels, or ask for fewer levels",
        )
    else:
        operator = Fourier(grid)
    return Transform("".join([*words, ")"]), dims, grid, after, result, operator)


def _axis(index: ast.Value | None, dims: tuple[str, ...]) -> int:
    """Which axis the index argument names (it may have been shortened already)."""
    if not isinstance(index, ast.Name):
        return 0
    return next(k for k, d in enumerate(dims) if d.partition("~")[0] == index.id)


def _shortened(dim: str, order: int) -> str:
    """`row~less1`: the index without its last cells; no user's index can have this name."""
    base, _, before = dim.partition("~less")
    return f"{base}~less{order + (int(before) if before else 0)}"


def _short(dim: str) -> str:
    return f"index `{dim.partition('~')[0]}` needs more labels than the order of the difference"


def _count(value: ast.Value | None, default: int = 0) -> int:
    return int(value.value) if isinstance(value, ast.Number) else default


def _text(value: ast.Value | None, default: str = "") -> str:
    return value.value if isinstance(value, ast.String) else default


def _built(call: ast.Call, make: Callable[[], Operator], remedy: str) -> Operator:
    name = call.function.id
    try:
        return make()
    except ValueError as error:
        raise DataError.of(
            "E301", f"`{name}` does not fit the axes: {error}", call.span, help=remedy
        ) from None
    except ImportError:
        raise MethodError.of(
            "E501",
            f"`{name}` needs PyWavelets, which is not installed",
            call.span,
            help='pip install "lgmdsl[wavelet]"',
        ) from None


def kernel(values: Array, dims: tuple[str, ...], order: tuple[str, ...]) -> Array:
    """A kernel's values with their axes in the order of the text."""
    return np.ascontiguousarray(values.transpose([dims.index(d) for d in order]))


# ---- transform ---------------------------------------------------------------------------------
# Operators of the language on named axes, and latent-free values transformed by one.


@dataclass(frozen=True, eq=False)
class Transform:
    """`operator` takes values over `before`, sizes `grid`, flattened row-major, to values over
    `after`, sizes `result`. `written` is what the text calls it: `diff(., row)`, the dot being the
    operand."""

    written: str
    before: tuple[str, ...]
    grid: tuple[int, ...]
    after: tuple[str, ...]
    result: tuple[int, ...]
    operator: Operator


@dataclass(frozen=True, eq=False)
class Transformed(Coefficient):
    """transform(operand)."""

    transform: Transform
    operand: Coefficient

    @property
    def children(self) -> tuple[Coefficient, ...]:
        return (self.operand,)

    def value(self, parts: Sequence[NamedArray], theta: Theta) -> NamedArray:
        t = self.transform
        sizes = dict(zip(t.before, t.grid, strict=True))
        flat = expand(parts[0], t.before, sizes).reshape(-1)
        return NamedArray(t.after, t.operator.matvec(np.array(flat)).reshape(t.result))

    def slopes(self, adjoint: Array, parts: Sequence[NamedArray]) -> Sequence[Array | None]:
        t = self.transform
        below = t.operator.rmatvec(np.ascontiguousarray(adjoint).reshape(-1)).reshape(t.grid)
        return (collapse(below, t.before, self.operand.dims),)
