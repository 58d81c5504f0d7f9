"""Sites of the latents that rows share: all rows of a place are one vector site.

    L_g(z) = sum_i l_i(a_i'z + c_i)   over the rows i at place g, z the K latents that they touch

Its value, slope sum l' a and curvature sum l'' a a' are sums over rows, made batch by batch, so
that back ends which know sites by the sum of log t alone (`BackendSpec.additive`) need the latents
of the places and one batch, and give the answer that they give for the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract import rows as by_rows
from lgmdsl.contract.joint import HoldsRowSites, SumsOfRows
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
from lgmdsl.contract.site import Property, Site, SiteSpec
from lgmdsl.inference.routes import answering
from lgmdsl.streams.row_sites import GaussianRows
from lgmdsl.streams.rows import Answering, BoundRows, Chunk

# Of the rows' properties, those that their sums have.
KEPT = Property.LOG_CONCAVE | Property.GAUSSIAN | Property.BOUNDED | Property.LIMITED


def spec_of(family: type[Site]) -> SiteSpec:
    """Specification of the sites of places whose rows are of `family`."""
    known = family.spec
    return SiteSpec(
        f"{known.name} by places",
        properties=known.properties & KEPT,
        observed=known.observed,
        vector=True,
        shared=tuple(known.parameters),
        summary=known.summary,
    )


def sd_of(total: float, first: float, second: float, centred: bool) -> float:
    """The sd of numbers whose weights, and weighted powers, have these sums; 0 where there are
    none."""
    if not total > 0.0 or not np.isfinite(second):
        return 0.0
    centre = first / total if centred else 0.0
    return float(np.sqrt(max(second / total - centre * centre, 0.0)))


def _own_squares(chunk: Chunk) -> Array:
    """The squared distances of the rows' landmarks, 1 where they declare none."""
    landmark, count = chunk.site.landmark(), len(chunk.place)
    return np.ones(count) if landmark is None else landmark[1] ** 2 + np.zeros(count)


@dataclass(frozen=True, eq=False)
class Places(
    Site, SumsOfRows, HoldsRowSites, Pointwise, Expected, ExpectedSlopes, FourthExpected, Bounded
):
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

    def log_density(self, s: Array) -> Array:
        out, z = np.zeros(len(self)), self.inward(s)
        for chunk in self.chunks():
            chunk.add(chunk.site.log_density(chunk.lifted(z)), out)
        return out

    def along(self, s: Array, directions: Array, lengths: Array) -> Array:
        out, z = np.zeros(lengths.shape), self.inward(s)
        inward = [self.inward(d) for d in directions]
        for chunk in self.chunks():
            at = chunk.lifted(z)
            for d, direction in enumerate(inward):
                step = chunk.moved(direction)
                for t, length in enumerate(lengths[d]):
                    out[d, t] += float(np.sum(chunk.site.log_density(at + length * step)))
        return out

    def unit_weights(self) -> Array:
        size = self.rows.reduction.columns.shape[0]
        out = self.no_squares()
        form = self.form(np.broadcast_to(np.eye(size), (len(self), size, size)))
        for chunk in self.chunks():
            square = chunk.variances(form)
            root = np.exp2(-np.round(0.5 * np.log2(np.where(square > 0.0, square, 1.0))))
            chunk.add_squares(root * root, out)
        return self.squares(out)

    def working_sd(self, mean: Array, variance: Array, prior: Array | None = None) -> float:
        return sd_of(*self.working_sums(mean, variance, prior), centred=prior is not None)

    def working_sums(
        self, mean: Array, variance: Array, prior: Array | None
    ) -> tuple[float, float, float]:
        """Sums over the rows of the precision of what `working_sd` is the sd of, and of its
        first two powers times that."""
        total = first = second = 0.0
        z, form = self.inward(mean), self.form(variance)
        away = None if prior is None else self.inward(mean - prior)
        for chunk in self.chunks():
            slope, precision = self._working(chunk, z, form)
            value = slope / precision
            if away is not None:
                value = value + chunk.moved(away)
            total += float(np.sum(precision))
            first += float(np.sum(precision * value))
            second += float(np.sum(precision * value**2))
        return total, first, second

    def _working(self, chunk: Chunk, z: Array, form: Array) -> tuple[Array, Array]:
        """Slopes and precisions of the rows' Gaussian stand-ins."""
        answer = self.answer(chunk.site)
        if isinstance(answer, Expected) and not isinstance(answer, Pointwise):
            b = answer.expected(chunk.lifted(z), chunk.variances(form))
            slope, weight = b.d_mean, -2.0 * b.d_variance
        else:
            a = self.asked(chunk, Pointwise).pointwise(chunk.lifted(z))
            slope, weight = a.slope, -a.curvature
        typical = float(np.mean(slope**2)) if slope.size else 0.0
        return slope, np.maximum(np.where(weight < 1e-3 * typical, typical, weight), 1e-300)

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        z = self.inward(s)
        return self._summed(chunk.site.parameter_slopes(chunk.lifted(z)) for chunk in self._some())

    def moved_slopes(self, s: Array, variance: Array, move: Array) -> dict[str, Array]:
        z, form, away = self.inward(s), self.form(variance), self.inward(move)

        def of(chunk: Chunk) -> dict[str, Array]:
            v, du = chunk.variances(form), chunk.moved(away)
            curves = chunk.site.parameter_curves(chunk.lifted(z))
            return {
                name: c.value + 0.5 * by_rows.trace(c.curvature, v) + by_rows.inner(c.slope, du)
                for name, c in curves.items()
            }

        return self._summed(of(chunk) for chunk in self._some())

    def _summed(self, slopes: Iterator[Mapping[str, Array]]) -> dict[str, Array]:
        out: dict[str, Array] = {}
        for part in slopes:
            for name, x in part.items():
                out[name] = out.get(name, np.zeros(())) + np.sum(x)
        return out

    def _some(self) -> Iterator[Chunk]:
        """The chunks where a field depends on a hyperparameter, so that slopes are wanted."""
        return self.chunks() if self.rows.own else iter(())

    def chunks(self) -> Iterator[Chunk]:
        return self.rows.chunks()

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

    def outward(self, sums: Array) -> Array:
        return self.multiplied(self.rows.reduction.outward(sums))

    def squares(self, sums: Array) -> Array:
        return self.multiplied_squares(self.rows.reduction.squares(sums))

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

    def no_rows(self) -> Array:
        return np.zeros((len(self), self.rows.reduction.columns.shape[1]))

    def no_squares(self) -> Array:
        size = self.rows.reduction.columns.shape[1]
        return np.zeros((len(self), size, size))

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        """`third` is summed only where a variance is given; else it is NaN."""
        form = self.form(variance) if isinstance(variance, np.ndarray) else None
        value, slope, curvature = np.zeros(len(self)), self.no_rows(), self.no_squares()
        z, third = self.inward(s), self.no_rows()
        for chunk in self.chunks():
            v = 1.0 if form is None else chunk.variances(form)
            a = self.asked(chunk, Pointwise).pointwise(chunk.lifted(z), v)
            if form is not None:
                chunk.add_rows(a.third, third)
            chunk.add(a.value, value)
            chunk.add_rows(a.slope, slope)
            chunk.add_squares(a.curvature, curvature)
        slope = self.outward(slope)
        bend = np.full_like(slope, np.nan) if form is None else self.outward(third)
        return PointwiseAnswer(value, slope, self.squares(curvature), bend)

    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        """First derivatives alone: raises TypeError where second ones are wanted."""
        if second:
            raise TypeError("sites of places have no second derivatives of expectations")
        value, slope, half = np.zeros(len(self)), self.no_rows(), self.no_squares()
        bent: Array | None = None
        z, form = self.inward(mean), self.form(variance)
        for chunk in self.chunks():
            a = self.asked(chunk, Expected).expected(chunk.lifted(z), chunk.variances(form))
            chunk.add(a.value, value)
            chunk.add_rows(a.d_mean, slope)
            chunk.add_squares(a.d_variance, half)
            if a.d_mean2 is not None:
                bent = self.no_squares() if bent is None else bent
                chunk.add_squares(a.d_mean2, bent)
        d_mean2 = None if bent is None else self.squares(bent)
        return ExpectedAnswer(value, self.outward(slope), self.squares(half), d_mean2=d_mean2)

    def higher_expected(self, mean: Array, variance: Array) -> tuple[Array, Array] | None:
        """None where the rows' expectations give no second derivatives."""
        z, form = self.inward(mean), self.form(variance)
        own = self.rows.reduction.columns.shape[1]
        cubes, fourths = (np.zeros((len(self), *(own,) * order)) for order in (3, 4))
        for chunk in self.chunks():
            answer = self.asked(chunk, Expected)
            a = answer.expected(chunk.lifted(z), chunk.variances(form), second=True)
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

    def expected_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        z, form = self.inward(mean), self.form(variance)
        return self._summed(
            self.asked(chunk, ExpectedSlopes).expected_slopes(
                chunk.lifted(z), chunk.variances(form)
            )
            for chunk in self._some()
        )

    def bounded(self, s: Array, z: Array) -> BoundedAnswer:
        form = self.form(z)
        return self._bounded(s, lambda chunk: chunk.variances(form))

    def at_scale(self, s: Array) -> BoundedAnswer:
        return self._bounded(s, _own_squares)

    def _bounded(self, s: Array, variances: Callable[[Chunk], Array]) -> BoundedAnswer:
        """Sums of the rows' bounds, as bounds of z: those of a row's predictor a'z + c have the
        weights w aa' and the slopes (b - w s) a at z."""
        penalty, level, slope = np.zeros(len(self)), np.zeros(len(self)), self.no_rows()
        bend, weight = self.no_squares(), self.no_squares()
        inward = self.inward(s)
        for chunk in self.chunks():
            v = variances(chunk)
            a = self.asked(chunk, Bounded).bounded(chunk.lifted(inward), v)
            chunk.add(a.penalty, penalty)
            chunk.add(a.penalty - 0.5 * a.weight * v, level)
            chunk.add_rows(a.slope, slope)
            chunk.add_squares(a.curvature, bend)
            chunk.add_squares(a.weight, weight)
        slope, weight = self.outward(slope), self.squares(weight)
        pull = by_rows.times(weight, s)
        h = 2.0 * level + by_rows.inner(pull - 2.0 * slope, s)
        return BoundedAnswer(penalty, slope, self.squares(bend), weight, pull - slope, h)

    def width_slopes(self, s: Array, z: Array) -> dict[str, Array]:
        inward, form = self.inward(s), self.form(z)
        return self._summed(
            self.asked(chunk, Bounded).width_slopes(chunk.lifted(inward), chunk.variances(form))
            for chunk in self._some()
        )

    def means(self, mean: Array) -> Array:
        """(n,) means of the rows' predictors, as packed, from those of z."""
        z = self.inward(mean)
        return np.concatenate([chunk.lifted(z) for chunk in self.chunks()])

    def variances(self, variance: Array) -> Array:
        """(n,) variances of the rows' predictors, as packed, from those of z."""
        form = self.form(variance)
        return np.concatenate([chunk.variances(form) for chunk in self.chunks()])

    def rows_at(self, question: type, mean: Array, variance: Array) -> tuple[Array, Array]:
        """(n,) weights and shifts of the Gaussian sites that a method which asks `question` has at
        means and variances of z, of each row as packed."""
        z, form, parts = self.inward(mean), self.form(variance), []
        for chunk in self.chunks():
            m = chunk.lifted(z)
            if question is Pointwise:
                a = self.asked(chunk, Pointwise).pointwise(m)
                parts.append((-a.curvature, a.slope - a.curvature * m))
            elif question is Expected:
                e = self.asked(chunk, Expected).expected(m, chunk.variances(form))
                parts.append((-2.0 * e.d_variance, e.d_mean - 2.0 * e.d_variance * m))
            else:
                b = self.asked(chunk, Bounded).bounded(m, chunk.variances(form))
                parts.append((b.weight, b.shift))
        weight, shift = (np.concatenate(x) for x in zip(*parts, strict=True))
        return weight, shift

    def sums(self, weight: Array, shift: Array) -> tuple[Array, Array]:
        """(G, K, K) weights and (G, K) shifts of the latents, from those of the rows, as packed."""
        squares, first, done = self.no_squares(), self.no_rows(), 0
        for chunk in self.chunks():
            rows = slice(done, done + len(chunk.place))
            chunk.add_rows(shift[rows] - weight[rows] * chunk.offset, first)
            chunk.add_squares(weight[rows], squares)
            done = rows.stop
        return self.squares(squares), self.outward(first)

    def row_sites(self) -> GaussianRows:
        return GaussianRows(
            self, self.squares(self.no_squares()), self.outward(self.no_rows()), None, None, 1.0
        )

    def asked(self, chunk: Chunk, question: type) -> Any:
        """What answers a question for the rows of a chunk."""
        answer, site = self.answer(chunk.site), chunk.site
        if isinstance(answer, question):
            return answer
        if question is ExpectedSlopes and answer is not site:
            raise TypeError(f"{type(answer).__name__} needs a method `expected_slopes`")
        return answering(type(site), question)(site)
