"""Rows whose residuals are the entries of a latent: `observe y ~ normal(mean = eta, residual = e)`.

y = eta + c e without further noise, c a number of each row (or 1), so no latent is left to infer:
(y - eta) / c has the covariance K of its rows' entries of e, a product over groups of rows. In the
order of the rows of a group that is one normal site for each row, given the rows before it
(Pourahmadi 1999), for c = 1:

    y_t | y_1 .. y_{t-1} ~ N(eta_t + sum_s phi_ts (y_s - eta_s), d_t^2),
    phi_t = K_{<t,<t}^-1 K_{<t,t},   d_t^2 = K_tt - phi_t' K_{<t,t}.

The predictor of a site is affine in the latents, with coefficients phi of the hyperparameters, and
the product of the sites is the likelihood, exactly. Of a Markov chain one row before is enough.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.canonical.blocks.latents import FactorSpec, LatentBlock
from lgmdsl.canonical.expressions import affine as af
from lgmdsl.canonical.expressions import coefficient as co
from lgmdsl.canonical.expressions.affine import Affine
from lgmdsl.canonical.expressions.coefficient import Coefficient, Theta
from lgmdsl.canonical.expressions.named import (
    Axis,
    NamedArray,
    Pick,
    Slot,
    Through,
    expand,
    slot_indices,
)
from lgmdsl.canonical.lowering import bym2
from lgmdsl.canonical.lowering.positions import position_argument
from lgmdsl.contract.structure import Shape, Structure
from lgmdsl.errors import DataError, MethodError, Span
from lgmdsl.memory import check
from lgmdsl.numerics.cholesky import cholesky
from lgmdsl.state import FieldState
from lgmdsl.structures import catalogue
from lgmdsl.vocabulary.signature import Trait

ENTRIES = 6  # arrays of all rows by all rows of a group that are held at once
LAG, PART = "lag~", "regression~"  # no user's index can have such a name


@dataclass(frozen=True, eq=False)
class Residual(FieldState):
    """The entries of a latent's `block` that are, times `scale`, the residuals of rows over `dims`
    about a `mean`: `members` has for each factor its member at each row, (N,)."""

    block: LatentBlock
    mean: Affine
    scale: Coefficient
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    members: tuple[IntArray, ...]
    span: Span

    @cached_property
    def correlated(self) -> tuple[int, ...]:
        """The factors that are not the identity."""
        return tuple(
            k for k, f in enumerate(self.block.factors) if Trait.IDENTITY not in f.declared.traits
        )

    @cached_property
    def groups(self) -> IntArray:
        """(N,) the group of each row: rows of two groups are independent."""
        pairs = zip(self.block.factors, self.members, strict=True)
        apart = [m for f, m in pairs if Trait.INDEPENDENT in f.declared.traits]
        if not apart:
            return np.zeros(math.prod(self.shape), dtype=np.int64)
        _, group = np.unique(np.stack(apart), axis=1, return_inverse=True)
        return np.asarray(group, dtype=np.int64).reshape(-1)

    @property
    def chained(self) -> bool:
        """Whether a row depends on the one before it alone, in an order that is known."""
        specs = [self.block.factors[k] for k in self.correlated]
        known = all(s.places is not None or position_argument(s.factor) is None for s in specs)
        return known and len(specs) <= 1 and all(catalogue.chained(s.name) for s in specs)

    def regressions(self, observed: IntArray) -> Regressions:
        """Each observed row given those before it in its group; the others by themselves."""
        self._check(observed)
        return (Chain if self.chained else Whole).of(self, observed)

    def _check(self, observed: IntArray) -> None:
        """Raise DataError E303 where two rows have one entry."""
        entries = np.stack(self.members)[:, observed]
        _, first, count = np.unique(entries, axis=1, return_index=True, return_counts=True)
        if (count > 1).any():
            row = int(observed[first[np.argmax(count > 1)]])
            place = np.unravel_index(row, self.shape)
            shown = ", ".join(f"{d} {i}" for d, i in zip(self.dims, place, strict=True))
            raise DataError.of(
                "E303",
                f"two rows have one residual, an entry of `{bym2.owner(self.block.name)}`",
                self.span,
                f"first at {shown}",
                help="tell them apart by an index or a position, or give them independent noise: "
                "a latent of its own, and sd = s",
            )

    def drawn(self, thetas: Sequence[Theta], rng: np.random.Generator) -> Array:
        """(draws, N) residuals of all rows, drawn together, a draw at each of the `thetas`."""
        every, out = self.regressions(np.arange(math.prod(self.shape))), []
        for theta in thetas:
            sd = every.evaluate(theta).dense().reshape(len(every.lags), -1)[:, 0]
            noise = sd * rng.standard_normal(len(sd))
            out.append(self._scales(theta) * every.carried(noise, theta))
        return np.stack(out)

    def _scales(self, theta: Theta) -> Array:
        sizes = dict(zip(self.dims, self.shape, strict=True))
        return expand(self.scale.evaluate(theta), self.dims, sizes).reshape(-1)

    def replicated(self, draws: Array, y: Array, rows: IntArray, thetas: Sequence[Theta]) -> Array:
        """Draws (draws, N) of all observed rows together, from draws of each given what was
        observed before it, at the `thetas`."""
        node, out = self.regressions(rows), np.empty(draws.shape)
        for k, theta in enumerate(thetas):
            scale, away = self._scales(theta), np.zeros(math.prod(self.shape))
            away[rows] = (draws[k] - y) / scale[rows]
            out[k] = y + (scale * node.carried(away, theta))[rows]
        return out

    def apart(self, rows: IntArray) -> bool:
        """Whether no row has another one in its group."""
        return not self.regressions(rows).steps

    def check_apart(self, rows: IntArray, what: str) -> None:
        """Raise MethodError E501 where `what` takes rows one by one whose residuals are
        correlated."""
        if not self.apart(rows):
            raise MethodError.of(
                "E501",
                f"{what} takes responses one by one, and their residuals are correlated",
                self.span,
                f"y given the latents is no product over rows: `{bym2.owner(self.block.name)}`",
                help="take whole groups, between which residuals are independent: "
                "fit.loo(groups=...)",
            )

    def check_whole(self, left: IntArray, rows: IntArray) -> None:
        """Raise MethodError E501 where rows that are left out have others of their group among the
        rest of `rows`."""
        kept = np.setdiff1d(rows, left)
        if np.isin(self.groups[left], self.groups[kept]).any():
            raise MethodError.of(
                "E501",
                "rows are left out whose residuals are correlated with those that stay",
                self.span,
                "given the rest of its group a row says less than by itself",
                help="leave out whole groups, between which residuals are independent",
            )


@dataclass(frozen=True, eq=False)
class Regressions(Coefficient):
    """A node over the rows and `PART`: d of each row, then phi on the rows `lags` (N, m), itself
    where there are fewer. `steps`: the rows with lags, in turns that come after those of these."""

    residual: Residual
    lags: IntArray
    steps: tuple[IntArray, ...]

    @cached_property
    def arguments(self) -> tuple[tuple[FactorSpec, Mapping[str, Coefficient]], ...]:
        """The factors that are not the identity, with their arguments."""
        specs = [self.residual.block.factors[k] for k in self.residual.correlated]
        return tuple((s, s.coefficients()) for s in specs)

    @property
    def children(self) -> tuple[Coefficient, ...]:
        return tuple(node for _, nodes in self.arguments for node in nodes.values())

    def value(self, parts: Sequence[NamedArray], theta: Theta) -> NamedArray:
        out = np.zeros((math.prod(self.residual.shape), 1 + self.lags.shape[1]))
        self.fill(self.built(parts), out)
        return NamedArray(self.dims, out.reshape(*self.residual.shape, -1))

    def slopes(self, adjoint: Array, parts: Sequence[NamedArray]) -> Sequence[Array | None]:
        structures = self.built(parts)
        flat = adjoint.reshape(math.prod(self.residual.shape), -1)
        out: list[Array | None] = []
        for (spec, nodes), slopes in zip(
            self.arguments, self.pulled(structures, flat), strict=True
        ):
            for name, node in nodes.items():
                if node.depends and name not in slopes:
                    raise _without(spec, f"`{name}` depends on hyperparameters", "give it as data")
                out.append(spec.collapsed(node, slopes[name]) if node.depends else None)
        return out

    def carried(self, values: Array, theta: Theta) -> Array:
        """x_t = values_t + phi_t' x_{<t}, (N,): T^-1 values."""
        phi = self.evaluate(theta).dense().reshape(len(values), -1)[:, 1:]
        out = values.copy()
        for rows in self.steps:
            out[rows] += (phi[rows] * out[self.lags[rows]]).sum(axis=1)
        return out

    def built(self, parts: Sequence[NamedArray]) -> list[Structure]:
        """The factors that are not the identity. Raises MethodError E501 for one without a
        covariance."""
        out, start = [], 0
        for spec, nodes in self.arguments:
            values = dict(zip(nodes, parts[start : start + len(nodes)], strict=True))
            structure = spec.at(values)
            start += len(nodes)
            if structure.nullity or not structure.shape & (Shape.COVARIANCE | Shape.PRECISION):
                proper = "take a proper structure: ar1, ou, toeplitz, compound, dense, gp, normal"
                raise _without(spec, "it has no covariance", proper)
            mean = structure.mean()
            if mean is not None and np.any(mean):
                raise _without(spec, "it has a mean", "write it in the mean of the response")
            out.append(structure)
        return out

    def fill(self, structures: Sequence[Structure], out: Array) -> None:
        """Put d and phi of every row into `out`."""
        raise NotImplementedError

    def pulled(self, structures: Sequence[Structure], adjoint: Array) -> list[dict[str, Array]]:
        """dF/dargument of each structure from dF/dout, which is 0 for rows that are not
        observed."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Chain(Regressions):
    """Rows of a Markov chain, each given the observed one `before` it, -1 for none."""

    before: IntArray

    @classmethod
    def of(cls, residual: Residual, observed: IntArray) -> Chain:
        rank = np.zeros(len(residual.groups), dtype=np.int64)
        for k in residual.correlated:
            spec, rank = residual.block.factors[k], residual.members[k]
            if spec.places is not None and not spec.places.tied:
                rank = spec.places.of[rank]
        groups = residual.groups[observed]
        order = np.lexsort((rank[observed], groups))
        rows, groups = observed[order], groups[order]
        first = np.diff(groups, prepend=-1) != 0  # of its group
        before = np.full(len(residual.groups), -1)
        before[rows[1:]] = np.where(first[1:], -1, rows[:-1])
        lags = np.where(before < 0, np.arange(len(before)), before)[:, None]
        start = np.maximum.accumulate(np.where(first, np.arange(len(rows)), 0))
        dims = (*residual.dims, PART)
        return cls(dims, residual, lags, in_turn(rows, np.arange(len(rows)) - start), before)

    def _members(self) -> tuple[IntArray, IntArray]:
        """The members at rows and before them, -1 where there is none."""
        (k,) = self.residual.correlated
        members = self.residual.members[k]
        return members, np.where(self.before < 0, -1, members[self.before])

    def fill(self, structures: Sequence[Structure], out: Array) -> None:
        out[:, 0] = 1.0
        for structure in structures:
            found = structure.regression(*self._members())
            out[:, 0], out[:, 1] = np.sqrt(found.variance), found.slope

    def pulled(self, structures: Sequence[Structure], adjoint: Array) -> list[dict[str, Array]]:
        out = []
        for structure in structures:
            members, before = self._members()
            sd = np.sqrt(structure.regression(members, before).variance)
            variance = 0.5 * adjoint[:, 0] / sd
            out.append(structure.pullback_regression(members, before, adjoint[:, 1], variance))
        return out


@dataclass(frozen=True, eq=False)
class Pattern:
    """Groups that have the same members: `rows` (groups, G) in their order, `members` (factors,
    G)."""

    rows: IntArray
    members: IntArray


@dataclass(frozen=True, eq=False)
class Whole(Regressions):
    """Rows that depend on all observed ones before them in their group; each row that is not
    observed is a group."""

    patterns: tuple[Pattern, ...]

    @classmethod
    def of(cls, residual: Residual, observed: IntArray) -> Whole:
        count = len(residual.groups)
        members = np.stack([residual.members[k] for k in residual.correlated])
        groups = residual.groups[observed]
        order = np.lexsort((*members[::-1, observed], groups))
        cuts = np.flatnonzero(np.diff(groups[order])) + 1
        alone = np.setdiff1d(np.arange(count), observed)
        alike: dict[bytes, list[IntArray]] = {}
        for rows in (*np.split(observed[order], cuts), *alone[:, None]):
            if len(rows):
                alike.setdefault(members[:, rows].tobytes(), []).append(rows)
        patterns = [Pattern(np.stack(g), members[:, g[0]]) for g in alike.values()]
        most = max((p.rows.shape[1] for p in patterns), default=1) - 1
        check(
            f"the covariance of the residual `{bym2.owner(residual.block.name)}`",
            f"{count:,} rows, in groups of up to {most + 1:,}",
            8.0 * ENTRIES * count * max(most, 1),
            help="rows in smaller groups, or ar1 or ou, whose rows depend on one other",
        )
        lags = np.tile(np.arange(count)[:, None], most)
        turns = np.zeros(count, dtype=np.int64)
        for pattern in patterns:
            for t in range(1, pattern.rows.shape[1]):
                lags[pattern.rows[:, t], :t] = pattern.rows[:, :t]
                turns[pattern.rows[:, t]] = t
        dims, steps = (*residual.dims, PART), in_turn(np.arange(count), turns)
        return cls(dims, residual, lags, steps, tuple(patterns))

    def fill(self, structures: Sequence[Structure], out: Array) -> None:
        covariances = [covariance_of(s) for s in structures]
        for pattern in self.patterns:
            unit, sd = self.factored(covariances, pattern)
            out[pattern.rows, 0] = sd
            for t in range(1, len(sd)):
                out[pattern.rows[:, t], 1 : 1 + t] = -unit[t, :t]

    def factored(self, covariances: Sequence[Array], pattern: Pattern) -> tuple[Array, Array]:
        """T, unit lower triangular, and d with T K T' = diag(d^2), K over the pattern. Raises
        DataError E303 where K is not positive definite."""
        factor = cholesky(_product(covariances, pattern.members))
        if factor is None:
            raise DataError.of(
                "E303",
                f"the covariance of `{bym2.owner(self.residual.block.name)}`, a residual, is not "
                "positive definite",
                self.residual.span,
                help="two rows that are all but one, or correlations at the end of their range",
            )
        sd = factor.lower.diagonal().copy()
        return np.asarray(sd[:, None] * factor.inverse_lower()), sd

    def pulled(self, structures: Sequence[Structure], adjoint: Array) -> list[dict[str, Array]]:
        """dF/dK = T' diag(dF/dd^2) T + A T with A = T' diag(d^-2) U, U the upper triangle of T P',
        P = dF/dphi."""
        covariances = [covariance_of(s) for s in structures]
        totals = [np.zeros_like(k) for k in covariances]
        for pattern in self.patterns:
            unit, sd = self.factored(covariances, pattern)
            by_variance = 0.5 * adjoint[pattern.rows, 0].sum(axis=0) / sd
            by_slope = np.zeros((len(sd), len(sd)))
            for t in range(1, len(sd)):
                by_slope[t, :t] = adjoint[pattern.rows[:, t], 1 : 1 + t].sum(axis=0)
            left = unit.T @ (np.triu(unit @ by_slope.T, 1) / (sd * sd)[:, None])
            by_whole = (unit.T * by_variance + left) @ unit
            by_whole = 0.5 * (by_whole + by_whole.T)
            for j, (total, members) in enumerate(zip(totals, pattern.members, strict=True)):
                rest = [k for k in range(len(totals)) if k != j]
                other = _product([covariances[k] for k in rest], pattern.members[rest])
                np.add.at(total, np.ix_(members, members), by_whole * other)
        return [pulled_back(*pair) for pair in zip(structures, totals, strict=True)]


def _without(spec: FactorSpec, reason: str, help: str) -> MethodError:
    """E501 for a structure that cannot be a residual."""
    message = f"`{spec.name}` cannot be the structure of a residual"
    return MethodError.of("E501", message, spec.factor.span, reason, help=help)


def in_turn(rows: IntArray, turns: IntArray) -> tuple[IntArray, ...]:
    """The rows of each turn but the first."""
    order = np.argsort(turns, kind="stable")
    parts = np.split(rows[order], np.flatnonzero(np.diff(turns[order])) + 1)
    return tuple(parts[1:])


def _product(covariances: Sequence[Array], members: IntArray) -> Array:
    """The product of entries of covariances at the members, (factors, G), of each."""
    out = np.ones((members.shape[1], members.shape[1]))
    for k, at in zip(covariances, members, strict=True):
        out *= k[np.ix_(at, at)]
    return out


def covariance_of(structure: Structure) -> Array:
    """K, by inversion where the structure has a precision alone."""
    if Shape.COVARIANCE in structure.shape:
        return structure.covariance()
    q = structure.precision()
    return np.asarray(np.linalg.inv(q if isinstance(q, np.ndarray) else q.toarray()))


def pulled_back(structure: Structure, adjoint: Array) -> dict[str, Array]:
    """dF/dargument from dF/dK: dF/dQ = -K dF/dK K where there is a precision alone."""
    if Shape.COVARIANCE in structure.shape:
        return structure.pullback_covariance(adjoint)
    k = covariance_of(structure)
    return structure.pullback_precision(-k @ adjoint @ k)


def conditional(residual: Residual, rows: IntArray, y: Array | None) -> tuple[Affine, Coefficient]:
    """The predictor and the sd of each row given the observed rows before it; without responses, of
    a row by itself."""
    form = residual.mean
    node = residual.regressions(rows if y is not None else rows[:0])
    lags, dims = node.lags, residual.dims
    shape, most = residual.shape, node.lags.shape[1]
    sizes = {**form.sizes, **dict(zip(dims, shape, strict=True)), LAG: most, PART: 1 + most}
    own: tuple[Slot, ...] = tuple(Axis(d) for d in dims)
    scale = residual.scale
    size = co.Elementwise(scale.dims, "sqrt", co.multiply(scale, scale))  # |c|
    sd = co.multiply(size, co.gather(node, (*own, Pick(0)), sizes))
    if y is None or not node.steps:
        return form, sd
    data = np.zeros(math.prod(shape))
    data[rows] = y
    about = af.add(
        (
            af.scale(form, co.number(-1.0)),
            Affine((), co.Constant(dims, data.reshape(shape)), sizes),
        )
    )
    about = af.scale(about, co.Power(scale.dims, scale, co.number(-1.0)))
    # of one axis: numpy 2.4 loses the entries beyond 8192 of an array (n, 1)
    places = np.unravel_index(lags.reshape(-1), shape)
    slots: tuple[Slot, ...] = tuple(Through(p.reshape(*shape, most), (*dims, LAG)) for p in places)
    phi = co.gather(node, (*own, Through(np.arange(1, 1 + most), (LAG,))), sizes)
    lagged = af.scale(af.gather(replace(about, sizes=sizes), dims, slots), phi)
    return af.add((form, af.scale(af.total(lagged, LAG), scale))), sd


def members_at(
    block: LatentBlock, slots: Sequence[Slot], dims: tuple[str, ...], sizes: Mapping[str, int]
) -> Iterator[IntArray]:
    """The member of each factor of a block that the slots address, at each row."""
    shape = tuple(sizes[d] for d in dims)
    axes = [np.broadcast_to(i, shape).reshape(-1) for i in slot_indices(slots, dims, sizes)]
    if len(block.factors) == len(axes):
        yield from axes
    else:  # one structure of all axes
        yield np.ravel_multi_index(axes, block.sizes)
