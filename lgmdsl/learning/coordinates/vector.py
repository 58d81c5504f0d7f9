"""The free hyperparameters of a model as one vector without bounds.

Maximising works on evidence + log prior on natural scales, as a function of these coordinates; only
integrating adds `log_jacobian`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property

import numpy as np

from lgmdsl.arrays import AnyArray, Array, BoolArray
from lgmdsl.canonical.expressions.coefficient import Gradient, Theta
from lgmdsl.canonical.lowering.hypers import HyperBlock, HyperSpace, fold
from lgmdsl.errors import DataError, Diagnostic
from lgmdsl.learning.coordinates.restricted import (
    ClosedSimplex,
    MapShare,
    SdsAndCorrelations,
    SparsePrecision,
)
from lgmdsl.learning.coordinates.transforms import (
    Above,
    Between,
    Correlation,
    Covariance,
    Identity,
    Ordered,
    ScaledCovariance,
    Simplex,
    Slopes,
    Transform,
)
from lgmdsl.priors.prior import InLogits

_OF_TYPE: dict[str, type[Transform]] = {
    "covariance": Covariance,
    "simplex": Simplex,
    "ordered": Ordered,
}


class Coordinates:
    """The hypers of `space` that have a prior and are not in `pinned`, in order of declaration.

    real: as it is; positive: log; unit: logit; correlation: atanh; covariance: log-Cholesky, or
    where `apart`, for integrals and profiles, `SdsAndCorrelations`, with the members of `leading`
    first (under a graphical lasso, the entries of the precision);
    simplex: log ratios to the last entry, or where `closed`, for maxima, which may have zeros,
    `ClosedSimplex`; ordered: the first entry and log steps. Where a prior leaves less than the type
    (uniform: a scaled logit; pc_df: log(df - 2)) its bounds are used, which may be earlier hypers.

    Raises what `HyperSpace.theta` raises for a wrong pinned value.
    """

    def __init__(
        self,
        space: HyperSpace,
        pinned: Mapping[str, object] | None = None,
        closed: bool = False,
        apart: bool = False,
        leading: Mapping[str, int] | None = None,
    ) -> None:
        self.space = space
        self.pinned = dict(pinned or {})
        self.closed, self.apart, self.leading = closed, apart, dict(leading or {})
        self._maps: dict[str, Transform] = {}  # of blocks whose prior has no hyper
        self._latest: tuple[bytes, dict[str, Array]] | None = None
        self.blocks = space.unpinned(self.pinned)
        self.size = 0
        self.slices: dict[str, slice] = {}  # of each block's coordinates
        for block in self.blocks:
            first, self.size = self.size, self.size + coordinate_count(block)
            self.slices[block.name] = slice(first, self.size)
        kinds = [self._logs(b) for b in self.blocks]
        self.logs = np.concatenate([np.zeros(0), *kinds])  # of a scale, in a unit of a coordinate
        self.scaled = self.logs > 0.0  # logs, logits, ...

    def type_of(self, j: int) -> str:
        """Type of the hyper to which a coordinate belongs."""
        own = self.slices
        return next(b.type for b in self.blocks if own[b.name].start <= j < own[b.name].stop)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """(d,) a label for each: of 10^5 hypers they take longer to write than a fit does."""
        labels = self.space.labels
        return tuple(n for b in self.blocks for n in coordinate_names(b, labels))

    def __getstate__(self) -> dict[str, object]:
        """All but what is made again when it is asked for."""
        return {**self.__dict__, "_maps": {}, "_latest": None}

    def _logs(self, block: HyperBlock) -> Array:
        """(m,) 0 for what has a unit or does not run away, as the entries of a covariance's factor
        below its diagonal; the log of 1 - rho has a slope of 2 in atanh rho."""
        count = self._count(block)
        edged = self.closed and block.type == "simplex"
        if block.type == "real" or sparse(block) or edged:
            return np.zeros(count)
        if block.type == "covariance":
            rows, columns = np.tril_indices(block.sizes[-1])
            below = 2.0 if self.apart else 0.0
            return np.tile(np.where(rows == columns, 1.0, below), count // len(rows))
        return np.full(count, 2.0 if block.type == "correlation" else 1.0)

    def _count(self, block: HyperBlock) -> int:
        entries = self.slices[block.name]
        return int(entries.stop - entries.start)

    def unpack(self, x: Array) -> dict[str, Array]:
        """Every hyper's value at x (d,): pinned ones, free ones, and those computed from them."""
        x = np.asarray(x, dtype=np.float64)
        place, latest = x.tobytes(), self._latest
        if latest is None or latest[0] != place:  # a fit asks for the same several times
            theta = self.space.filled(self.pinned, lambda b, theta: self._value(b, theta, x))
            latest = self._latest = place, theta
        return dict(latest[1])

    def unpacked(self, x: Array) -> tuple[dict[str, Array], ...]:
        """Hyperparameters by name at many places x, (m, d), one dict each."""
        x = np.asarray(x, dtype=np.float64)
        if len(x) and all(self._by_itself(b) for b in self.space.blocks):
            first = self.unpack(x[0])  # by which the maps are known
            columns = {
                b.name: self._maps[b.name].values(x[:, self.slices[b.name]]) for b in self.blocks
            }
            return tuple(
                {n: columns[n][k] if n in columns else v for n, v in first.items()}
                for k in range(len(x))
            )
        return tuple(self.unpack(one) for one in x)

    def column(self, name: str, x: Array) -> Array:
        """(m, ...) one hyper at many places, (m, d)."""
        if len(x) and name in self.slices and all(self._by_itself(b) for b in self.space.blocks):
            self.unpack(x[0])  # by which the map is known
            return self._maps[name].values(x[:, self.slices[name]])
        return np.array([theta[name] for theta in self.unpacked(x)])

    def _by_itself(self, block: HyperBlock) -> bool:
        """Whether no other hyperparameter says what a block's coordinates stand for."""
        free = block.prior is None or not block.prior.depends
        return block.name in self.pinned or (block.value is None and free)

    def pack(self, theta: Theta) -> Array:
        """(d,) the coordinates of a theta that holds every hyper, or all but the computed ones.

        Raises DataError E303 for a value on the edge of its range, or outside it.
        """
        free = {b.name: np.asarray(theta[b.name], dtype=np.float64) for b in self.blocks}
        whole = self.space.theta({**free, **self.pinned})
        x = np.empty(self.size)
        for block in self.blocks:
            coordinates = self.transform(block, whole).coordinates(whole[block.name])
            if not np.isfinite(coordinates).all():
                raise DataError(_on_the_edge(block))
            x[self.slices[block.name]] = coordinates
        return x

    def log_jacobian(self, x: Array) -> tuple[float, Array]:
        """log |d natural / dx| and its gradient (d,).

        Natural means the free entries: the lower triangle of a covariance, its sds and correlations
        under lkj_cov; all but the last of a simplex.
        """
        x = np.asarray(x, dtype=np.float64)
        theta = self.unpack(x)
        total, slopes, through = 0.0, np.zeros(self.size), Gradient()
        for block in self.blocks:
            entries = self.slices[block.name]
            value, pulled = self.transform(block, theta).log_jacobian(x[entries])
            total += value
            slopes[entries] = pulled.x
            _pull_bounds(block, pulled, theta, through)
        return total, slopes + self._pulled(through, theta, x)

    @cached_property
    def alone(self) -> BoolArray:
        """(d,) logs and logits of values by themselves, not of the entries of a matrix."""
        out = self.scaled.copy()
        for block in self.blocks:
            if block.type == "covariance":
                out[self.slices[block.name]] = False
        return out

    @cached_property
    def ending(self) -> BoolArray:
        """(d,) those that go to an end of their range by themselves: `alone`, and the log of the
        last pivot of a covariance LL', which has its square alone."""
        out = self.alone.copy()
        for block in self.blocks:
            if block.type == "covariance" and not (self.apart or sparse(block)):
                k = block.sizes[-1]
                count = k * (k + 1) // 2
                out[self.slices[block.name]] = np.arange(self._count(block)) % count == count - 1
        return out

    @cached_property
    def real(self) -> BoolArray:
        """(d,) values of type real themselves, which have a unit."""
        out = np.zeros(self.size, dtype=np.bool_)
        for block in self.blocks:
            out[self.slices[block.name]] = block.type == "real"
        return out

    @cached_property
    def squared(self) -> BoolArray:
        """(d,) the log sds of covariances, whose squares a fit reports."""
        out = np.zeros(self.size, dtype=bool)
        for block in self.blocks:
            if block.type == "covariance":
                entries = self.slices[block.name]
                out[entries] = self.logs[entries] == 1.0
        return out

    def natural(self, x: Array, theta: Theta) -> Array:
        """(m, d) what each coordinate of x (m, d) stands for by itself, but for its origin and
        unit: exp(x_j) of logs, sigma(x_j) of what has two ends, which may depend on `theta`."""
        out = np.empty(np.shape(x))
        for block in self.blocks:
            entries = self.slices[block.name]
            form = self.transform(block, theta)
            out[:, entries] = form.natural(x[:, entries], self.logs[entries])
        return out

    def units(self, x: Array) -> Array:
        """(d,) the coordinates' units at x: searches that take all coordinates alike divide by
        them, or entries of a small covariance would be all that they see."""
        out = np.ones(self.size)
        theta: Theta | None = None
        for block in self.blocks:
            if block.type == "covariance":
                theta = self.unpack(x) if theta is None else theta
                entries = self.slices[block.name]
                out[entries] = self.transform(block, theta).units(x[entries])
        return out

    def pull(self, gradient: Mapping[str, Array], x: Array) -> Array:
        """(d,) dF/dx from dF/d(free hypers) at x, on natural scales.

        A covariance's gradient G counts every entry: dF = sum_ij G_ij dS_ij. Hypers that `gradient`
        leaves out have slope 0; entries of pinned ones are not used.
        """
        x = np.asarray(x, dtype=np.float64)
        return self._pulled(dict(gradient), self.unpack(x), x)

    def _pulled(self, gradient: Gradient, theta: Theta, x: Array) -> Array:
        out = np.zeros(self.size)
        for block in reversed(self.space.blocks):
            if block.name in self.pinned or block.name not in gradient:
                continue
            if block.value is not None:
                fold(block, theta, gradient)
                continue
            entries = self.slices[block.name]
            adjoint = np.broadcast_to(gradient[block.name], block.sizes)
            pulled = self.transform(block, theta).pull(adjoint, x[entries])
            out[entries] = pulled.x
            _pull_bounds(block, pulled, theta, gradient)
        return out

    def transform(self, block: HyperBlock, theta: Theta) -> Transform:
        """The map of one of the blocks, given the earlier ones."""
        known = self._maps.get(block.name)
        if known is None:
            if self.closed and block.type == "simplex":
                known = ClosedSimplex(block.sizes)
            elif self.apart and block.type == "covariance" and not sparse(block):
                separated = block.prior is not None and block.prior.family.separated
                leading = self.leading.get(block.name, 0)
                known = SdsAndCorrelations(block.sizes, separated, leading)
            else:
                known = transform(block, theta)
            if block.prior is None or not block.prior.depends:
                self._maps[block.name] = known
        return known

    def _value(self, block: HyperBlock, theta: Theta, x: Array) -> Array:
        return self.transform(block, theta).value(x[self.slices[block.name]])


def transform(block: HyperBlock, theta: Theta) -> Transform:
    """The map of a free hyper, given the earlier ones."""
    if sparse(block):
        return SparsePrecision(block.sizes)
    if block.prior is not None and block.prior.family.separated:
        return ScaledCovariance(block.sizes)
    if block.type in _OF_TYPE:
        return _OF_TYPE[block.type](block.sizes)
    assert block.prior is not None, "a free hyper has a prior"
    prior = block.prior.at(theta)
    if isinstance(prior, InLogits) and not block.prior.depends:
        return MapShare(block.sizes, prior)
    lower, upper = prior.bounds
    if np.isinf(lower).all():
        return Identity(block.sizes)
    if np.isinf(upper).all():
        return Above(block.sizes, lower)
    if block.type == "correlation" and (lower == -1.0).all() and (upper == 1.0).all():
        return Correlation(block.sizes)
    return Between(block.sizes, lower, upper)


def sparse(block: HyperBlock) -> bool:
    """Whether the prior makes entries of the inverse exactly 0."""
    return block.prior is not None and block.prior.family.sparse


def _pull_bounds(block: HyperBlock, slopes: Slopes, theta: Theta, out: Gradient) -> None:
    """What flows to the hypers in the bounds of a prior."""
    if block.prior is not None and block.prior.depends and block.type not in _OF_TYPE:
        prior = block.prior.at(theta)
        block.prior.pull(prior.pull_bounds(slopes.lower, slopes.upper), theta, out)


def _on_the_edge(block: HyperBlock) -> Diagnostic:
    return Diagnostic(
        "E303",
        f"the value of hyper `{block.name}` is on the edge of its range, or outside it",
        block.span,
        f"declared {block.type}",
        help="start from a value inside the range that its type and its prior leave",
    )


# ---- names -------------------------------------------------------------------------------------
# A label for each coordinate: `s`, `L[item 3, factor 1]`, `S[1,2]`.


def coordinate_count(block: HyperBlock) -> int:
    """How many `coordinate_names` there are."""
    sizes = block.sizes
    if block.type == "covariance":
        return math.prod(sizes[:-2]) * sizes[-1] * (sizes[-1] + 1) // 2
    return math.prod(sizes[:-1]) * (sizes[-1] - 1) if block.type == "simplex" else math.prod(sizes)


def coordinate_names(block: HyperBlock, labels: Mapping[str, AnyArray]) -> tuple[str, ...]:
    """One for each coordinate of the block, in order: a simplex's last entry has none, and of a
    covariance the lower triangle has, row by row."""
    sizes = block.sizes[:-1] if block.type == "covariance" else block.sizes
    if block.type == "simplex":
        sizes = (*sizes[:-1], sizes[-1] - 1)
    if block.type != "covariance":
        return tuple(_bracketed(block, labels, place) for place in np.ndindex(*sizes))
    k, last = block.sizes[-1], block.dims[-1]
    return tuple(
        _bracketed(block, labels, place, (f"{_label(labels, last, j)},{_label(labels, last, i)}",))
        for place in np.ndindex(*sizes[:-1])
        for i in range(k)
        for j in range(i + 1)
    )


def _bracketed(
    block: HyperBlock,
    labels: Mapping[str, AnyArray],
    place: tuple[int, ...],
    more: tuple[str, ...] = (),
) -> str:
    parts = (f"{d} {_label(labels, d, i)}" for d, i in zip(block.dims, place, strict=False))
    inside = ", ".join((*parts, *more))
    return f"{block.name}[{inside}]" if inside else block.name


def _label(labels: Mapping[str, AnyArray], dim: str, position: int) -> str:
    return str(labels[dim][position]) if dim in labels else str(position + 1)
