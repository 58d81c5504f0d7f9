"""Sites of the latents that rows share: all rows of a place are one vector site.

    L_g(z) = sum_i l_i(a_i'z + c_i)   over the rows i at place g, z the K latents that they touch

Its value, slope sum l' a and curvature sum l'' a a' are sums over rows, made chunk by chunk, so
that back ends which know sites by the sum of log t alone (`BackendSpec.additive`) need the latents
of the places and one chunk, and give the answer that they give for the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract import rows as by_rows
from lgmdsl.contract.joint import SumsOfRows
from lgmdsl.contract.questions import (
    Bounded,
    BoundedAnswer,
    Expected,
    ExpectedAnswer,
    ExpectedSlopes,
    FourthExpected,
    Pointwise,
    PointwiseAnswer,
)
from lgmdsl.contract.site import SiteSpec
from lgmdsl.inference.routes import answering
from lgmdsl.streams.row_sites import GaussianRows
from lgmdsl.streams.rows import Answering, BoundRows, Chunk

# What is made of a chunk of rows, at means and variances (None: not asked for) of their predictors:
# numbers for each row, of each sum; None where there are none.
Ask = Callable[[Chunk, Array, Any], Sequence[Array | None]]


@dataclass(frozen=True, eq=False)
class Places(SumsOfRows, FourthExpected):
    """G sites, one of each place; predictors are (G, K). Rows answer through `answer`, and what
    that does not give as any site of theirs does. `multipliers`, (G, K): f, where the coefficients
    of rows on z_k are x_ik f_gk (`streams/multipliers.py`); None: 1."""

    spec: SiteSpec  # type: ignore[misc]
    rows: BoundRows
    answer: Answering
    multipliers: Array | None = None

    def __len__(self) -> int:
        return self.rows.places

    @property
    def evaluations(self) -> int:
        return self.rows.count

    def by(self, answer: Answering) -> Self:
        return replace(self, answer=answer)

    def at(self, mean: Array, variance: Array | None = None) -> Iterator[tuple[Chunk, Array, Any]]:
        """The chunks in the order of the rows, with the means (n,) and variances of their
        predictors, None where none of z is given."""
        z, form = self.inward(mean), None if variance is None else self.form(variance)
        for chunk in self.rows.chunks():
            yield chunk, chunk.lifted(z), None if form is None else chunk.variances(form)

    def fold(
        self, orders: Sequence[int], ask: Ask, mean: Array, variance: Array | None = None
    ) -> list[Any]:
        """Sums over the rows of each place, at means and variances of z: of the numbers x that
        `ask` gives, x (G,) in order 0, x a (G, K) in order 1, x a a' (G, K, K) in order 2."""
        out: list[Array | None] = [self.zeros(order) for order in orders]
        for chunk, m, v in self.at(mean, variance):
            for k, x in enumerate(ask(chunk, m, v)):
                known = out[k] if x is not None else None
                out[k] = known
                if x is not None and known is not None:
                    chunk.add(x, known)
        return [None if x is None else self.outward(x) for x in out]

    def zeros(self, order: int) -> Array:
        """Sums to begin with, in the coordinates of the `Reduction`."""
        return np.zeros((len(self), *(self.rows.reduction.columns.shape[1],) * order))

    def outward(self, sums: Array) -> Array:
        """Sums over rows in coordinates of z."""
        if sums.ndim == 1:
            return sums
        if sums.ndim == 2:
            return self.multiplied(self.rows.reduction.outward(sums))
        return self.multiplied_squares(self.rows.reduction.squares(sums))

    def slopes(
        self,
        ask: Callable[[Chunk, Array, Any], Mapping[str, Array]],
        mean: Array,
        variance: Array | None = None,
    ) -> dict[str, Array]:
        """Sums of slopes over all rows, by parameter; none where no field of theirs depends on a
        hyperparameter, so that none are wanted."""
        chunks = self.at(mean, variance) if self.rows.own else ()
        parts = (ask(*at) for at in chunks)
        return by_rows.added({n: np.asarray(np.sum(x)) for n, x in p.items()} for p in parts)

    def log_density(self, s: Array) -> Array:
        (out,) = self.fold((0,), lambda chunk, m, _: (chunk.site.log_density(m),), s)
        return np.asarray(out)

    def along(self, s: Array, directions: Array, lengths: Array) -> Array:
        out = np.zeros(lengths.shape)
        inward = [self.inward(d) for d in directions]
        for chunk, at, _ in self.at(s):
            for d, direction in enumerate(inward):
                step = chunk.moved(direction)
                for t, length in enumerate(lengths[d]):
                    out[d, t] += float(np.sum(chunk.site.log_density(at + length * step)))
        return out

    def unit_weights(self) -> Array:
        def of(chunk: Chunk, _: Array, square: Array) -> tuple[Array]:
            root = np.exp2(-np.round(0.5 * np.log2(np.where(square > 0.0, square, 1.0))))
            return (root * root,)

        size = self.rows.reduction.columns.shape[0]
        unit = np.broadcast_to(np.eye(size), (len(self), size, size))
        none = np.zeros((len(self), size))
        (out,) = self.fold((2,), of, none, unit)
        return np.asarray(out)

    def working_sums(
        self, mean: Array, variance: Array, prior: Array | None
    ) -> tuple[float, float, float]:
        total = first = second = 0.0
        away = None if prior is None else self.inward(mean - prior)
        for chunk, m, v in self.at(mean, variance):
            slope, precision = self._working(chunk, m, v)
            value = slope / precision
            if away is not None:
                value = value + chunk.moved(away)
            total += float(np.sum(precision))
            first += float(np.sum(precision * value))
            second += float(np.sum(precision * value**2))
        return total, first, second

    def _working(self, chunk: Chunk, m: Array, v: Array) -> tuple[Array, Array]:
        """Slopes and precisions of the rows' Gaussian stand-ins."""
        answer = self.answer(chunk.site)
        if isinstance(answer, Expected) and not isinstance(answer, Pointwise):
            b = answer.expected(m, v)
            slope, weight = b.d_mean, -2.0 * b.d_variance
        else:
            a = self.asked(chunk, Pointwise).pointwise(m)
            slope, weight = a.slope, -a.curvature
        typical = float(np.mean(slope**2)) if slope.size else 0.0
        return slope, np.maximum(np.where(weight < 1e-3 * typical, typical, weight), 1e-300)

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        return self.slopes(lambda chunk, m, _: chunk.site.parameter_slopes(m), s)

    def moved_slopes(self, s: Array, variance: Array, move: Array) -> dict[str, Array]:
        away = self.inward(move)

        def of(chunk: Chunk, m: Array, v: Array) -> dict[str, Array]:
            du = chunk.moved(away)
            return {
                name: c.value + 0.5 * by_rows.trace(c.curvature, v) + by_rows.inner(c.slope, du)
                for name, c in chunk.site.parameter_curves(m).items()
            }

        return self.slopes(of, s, variance)

    @property
    def plain(self) -> Self:
        """The sites as functions of f z, without `multipliers`."""
        return replace(self, multipliers=None)

    def multiplied(self, x: Array) -> Array:
        """f x, of x (G, K)."""
        return x if self.multipliers is None else self.multipliers * x

    def multiplied_squares(self, x: Array) -> Array:
        """(ff') x entry by entry, of x (G, K, K)."""
        f = self.multipliers
        return x if f is None else f[:, :, None] * x * f[:, None, :]

    def inward(self, s: Array) -> Array:
        return self.rows.reduction.inward(self.multiplied(s))

    def form(self, variance: Array) -> Array:
        return self.rows.reduction.form(self.multiplied_squares(variance))

    def multiplier_slopes(
        self, s: Array, variance: Array, move: Array, answer: PointwiseAnswer
    ) -> Array:
        """(G, K) d(L + 1/2 tr V L'' + m'L')/df at s, V = `variance` and m = `move`: with a_ik =
        x_ik f_gk, v_i = a_i'Va_i and t_i the third derivative of l_i,

            sum_i x_ik (l'(s_k + m_k) + l''((Va_i)_k + a_i'm s_k) + 1/2 t_i v_i s_k)

        `answer`: of `plain` at f s and ff' V, with its third derivatives."""
        bend = by_rows.times(answer.curvature, self.multiplied(move)) + 0.5 * answer.third
        f = np.ones_like(s) if self.multipliers is None else self.multipliers
        across = np.einsum("gkj,gj,gkj->gk", variance, f, answer.curvature)
        return np.asarray(answer.slope * (s + move) + across + bend * s)

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        """`third` is summed only where a variance is given; else it is NaN."""

        def of(chunk: Chunk, m: Array, v: Array | None) -> tuple[Array | None, ...]:
            a = self.asked(chunk, Pointwise).pointwise(m, 1.0 if v is None else v)
            return a.value, a.slope, a.curvature, None if v is None else a.third

        given = variance if isinstance(variance, np.ndarray) else None
        value, slope, curvature, third = self.fold((0, 1, 2, 1), of, s, given)
        third = np.full_like(slope, np.nan) if third is None else third
        return PointwiseAnswer(value, slope, curvature, third)

    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        self.check_first(second)

        def of(chunk: Chunk, m: Array, v: Array) -> tuple[Array | None, ...]:
            a = self.asked(chunk, Expected).expected(m, v)
            return a.value, a.d_mean, a.d_variance, a.d_mean2

        value, slope, half, bent = self.fold((0, 1, 2, 2), of, mean, variance)
        return ExpectedAnswer(value, slope, half, d_mean2=bent)

    def higher_expected(self, mean: Array, variance: Array) -> tuple[Array, Array] | None:
        """None where the rows' expectations give no second derivatives."""
        cubes, fourths = self.zeros(3), self.zeros(4)
        for chunk, m, v in self.at(mean, variance):
            a = self.asked(chunk, Expected).expected(m, v, second=True)
            if a.d_mean_variance is None or a.d_mean2 is not None:
                return None
            bend = np.zeros(len(chunk.place)) if a.d_variance2 is None else 4.0 * a.d_variance2
            chunk.add_powers(2.0 * a.d_mean_variance, bend, cubes, fourths)
        return self._powers(cubes), self._powers(fourths)

    def _powers(self, sums: Array) -> Array:
        """Sums of higher powers of rows as derivatives in z."""
        out, f = self.rows.reduction.powers(sums), self.multipliers
        for axis in range(1, 1 if f is None else out.ndim):
            assert f is not None
            shape = [len(f), *(f.shape[1] if a == axis else 1 for a in range(1, out.ndim))]
            out = out * f.reshape(shape)
        return out

    def averaged_slopes(self, question: type, mean: Array, variance: Array) -> dict[str, Array]:
        def of(chunk: Chunk, m: Array, v: Array) -> Mapping[str, Array]:
            if question is Expected:
                known: Mapping[str, Array] = self.asked(chunk, ExpectedSlopes).expected_slopes(m, v)
                return known
            widths: Mapping[str, Array] = self.asked(chunk, Bounded).width_slopes(m, v)
            return widths

        return self.slopes(of, mean, variance)

    def bounded(self, s: Array, z: Array) -> BoundedAnswer:
        return self._bounded(s, z)

    def at_scale(self, s: Array) -> BoundedAnswer:
        return self._bounded(s, None)

    def _bounded(self, s: Array, z: Array | None) -> BoundedAnswer:
        """Sums of the rows' bounds, as bounds of z: those of a row's predictor a'z + c have the
        weights w aa' and the slopes (b - w s) a at z. None: at the scales that rows declare."""

        def of(chunk: Chunk, m: Array, v: Array | None) -> tuple[Array, ...]:
            v = _own_squares(chunk) if v is None else v
            a = self.asked(chunk, Bounded).bounded(m, v)
            level = a.penalty - 0.5 * a.weight * v
            return a.penalty, level, a.slope, a.curvature, a.weight

        return self.bound_of(s, *self.fold((0, 0, 1, 2, 2), of, s, z))

    def means(self, mean: Array) -> Array:
        """(n,) means of the rows' predictors, as packed, from those of z."""
        return np.concatenate([m for _, m, _ in self.at(mean)])

    def variances(self, variance: Array) -> Array:
        """(n,) variances of the rows' predictors, as packed, from those of z."""
        form = self.form(variance)
        return np.concatenate([chunk.variances(form) for chunk in self.rows.chunks()])

    def rows_at(self, question: type, mean: Array, variance: Array) -> tuple[Array, Array]:
        """(n,) weights and shifts of the Gaussian sites that a method which asks `question` has at
        means and variances of z, of each row as packed."""
        parts = []
        for chunk, m, v in self.at(mean, None if question is Pointwise else variance):
            if question is Pointwise:
                a = self.asked(chunk, Pointwise).pointwise(m)
                parts.append((-a.curvature, a.slope - a.curvature * m))
            elif question is Expected:
                e = self.asked(chunk, Expected).expected(m, v)
                parts.append((-2.0 * e.d_variance, e.d_mean - 2.0 * e.d_variance * m))
            else:
                b = self.asked(chunk, Bounded).bounded(m, v)
                parts.append((b.weight, b.shift))
        weight, shift = (np.concatenate(x) for x in zip(*parts, strict=True))
        return weight, shift

    def sums(self, weight: Array, shift: Array) -> tuple[Array, Array]:
        """(G, K, K) weights and (G, K) shifts of the latents, from those of the rows, as packed."""
        squares, first = self.zeros(2), self.zeros(1)
        for chunk in self.rows.chunks():
            chunk.add(weight[chunk.rows], squares)
            chunk.add(shift[chunk.rows] - weight[chunk.rows] * chunk.offset, first)
        return self.outward(squares), self.outward(first)

    def row_sites(self) -> GaussianRows:
        return GaussianRows(
            self, self.outward(self.zeros(2)), self.outward(self.zeros(1)), None, None, 1.0
        )

    def asked(self, chunk: Chunk, question: type) -> Any:
        """What answers a question for the rows of a chunk."""
        answer, site = self.answer(chunk.site), chunk.site
        if isinstance(answer, question):
            return answer
        if question is ExpectedSlopes and answer is not site:
            raise TypeError(f"{type(answer).__name__} needs a method `expected_slopes`")
        return answering(type(site), question)(site)


def _own_squares(chunk: Chunk) -> Array:
    """The squared distances of the rows' landmarks, 1 where they declare none."""
    landmark, count = chunk.site.landmark(), len(chunk.place)
    return np.ones(count) if landmark is None else landmark[1] ** 2 + np.zeros(count)
