"""Sites of the latents that rows share: all rows of a place are one vector site.

    L_g(z) = sum_i l_i(a_i'z + c_i)   over the rows i at place g, z the K latents that they touch

Its value, slope sum l' a and curvature sum l'' a a' are sums over rows, made batch by batch, so
that back ends which know sites by the sum of log t alone (`BackendSpec.additive`) need the latents
of the places and one batch, and give the answer that they give for the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self, cast

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract import rows as by_rows
from lgmdsl.contract.joint import SumsOfRows
from lgmdsl.contract.questions import (
    Expected,
    ExpectedAnswer,
    ExpectedSlopes,
    Pointwise,
    PointwiseAnswer,
)
from lgmdsl.contract.site import Property, Site, SiteSpec
from lgmdsl.inference.routes import answering
from lgmdsl.streams.rows import Answering, BoundRows, Chunk

# Of the rows' properties, those that their sums have.
KEPT = Property.LOG_CONCAVE | Property.GAUSSIAN | Property.BOUNDED


def spec_of(family: type[Site]) -> SiteSpec:
    """Of the sites of places whose rows are of a family."""
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


@dataclass(frozen=True, eq=False)
class Places(Site, SumsOfRows, Pointwise, Expected, ExpectedSlopes):
    """G sites, one of each place; predictors are (G, K). Rows answer through `answer`, and what
    that does not give as any site of theirs does."""

    spec: SiteSpec  # type: ignore[misc]
    rows: BoundRows
    answer: Answering

    def __len__(self) -> int:
        return self.rows.places

    @property
    def evaluations(self) -> int:
        return self.rows.count

    def by(self, answer: Answering) -> Self:
        return replace(self, answer=answer)

    def log_density(self, s: Array) -> Array:
        out, z = np.zeros(len(self)), self._inward(s)
        for chunk in self._chunks():
            chunk.add(chunk.site.log_density(chunk.lifted(z)), out)
        return out

    def along(self, s: Array, directions: Array, lengths: Array) -> Array:
        out, z = np.zeros(lengths.shape), self._inward(s)
        inward = [self._inward(d) for d in directions]
        for chunk in self._chunks():
            at = chunk.lifted(z)
            for d, direction in enumerate(inward):
                step = chunk.moved(direction)
                for t, length in enumerate(lengths[d]):
                    out[d, t] += float(np.sum(chunk.site.log_density(at + length * step)))
        return out

    def unit_weights(self) -> Array:
        size = self.rows.reduction.columns.shape[0]
        out = self._no_squares()
        form = self._form(np.broadcast_to(np.eye(size), (len(self), size, size)))
        for chunk in self._chunks():
            square = chunk.variances(form)
            root = np.exp2(-np.round(0.5 * np.log2(np.where(square > 0.0, square, 1.0))))
            chunk.add_squares(root * root, out)
        return self._squares(out)

    def working_sd(self, mean: Array, variance: Array, prior: Array | None = None) -> float:
        return sd_of(*self.working_sums(mean, variance, prior), centred=prior is not None)

    def working_sums(
        self, mean: Array, variance: Array, prior: Array | None
    ) -> tuple[float, float, float]:
        """Sums over the rows of the precision of what `working_sd` is the sd of, and of its
        first two powers times that."""
        total = first = second = 0.0
        z, form = self._inward(mean), self._form(variance)
        away = None if prior is None else self._inward(mean - prior)
        for chunk in self._chunks():
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
        if isinstance(answer, Pointwise):
            a = answer.pointwise(chunk.lifted(z))
            slope, weight = a.slope, -a.curvature
        else:
            b = cast(Expected, answer).expected(chunk.lifted(z), chunk.variances(form))
            slope, weight = b.d_mean, -2.0 * b.d_variance
        typical = float(np.mean(slope**2)) if slope.size else 0.0
        return slope, np.maximum(np.where(weight < 1e-3 * typical, typical, weight), 1e-300)

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        z = self._inward(s)
        return self._summed(chunk.site.parameter_slopes(chunk.lifted(z)) for chunk in self._some())

    def moved_slopes(self, s: Array, variance: Array, move: Array) -> dict[str, Array]:
        z, form, away = self._inward(s), self._form(variance), self._inward(move)

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
        return self._chunks() if self.rows.own else iter(())

    def _chunks(self) -> Iterator[Chunk]:
        return self.rows.chunks()

    def _inward(self, s: Array) -> Array:
        return self.rows.reduction.inward(s)

    def _form(self, variance: Array) -> Array:
        return self.rows.reduction.form(variance)

    def _outward(self, sums: Array) -> Array:
        return self.rows.reduction.outward(sums)

    def _squares(self, sums: Array) -> Array:
        return self.rows.reduction.squares(sums)

    def _no_rows(self) -> Array:
        return np.zeros((len(self), self.rows.reduction.columns.shape[1]))

    def _no_squares(self) -> Array:
        size = self.rows.reduction.columns.shape[1]
        return np.zeros((len(self), size, size))

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        """`third` is summed only where a variance is given; else it is NaN."""
        form = self._form(variance) if isinstance(variance, np.ndarray) else None
        value, slope, curvature = np.zeros(len(self)), self._no_rows(), self._no_squares()
        z, third = self._inward(s), self._no_rows()
        for chunk in self._chunks():
            v = 1.0 if form is None else chunk.variances(form)
            a = self._asked(chunk, Pointwise).pointwise(chunk.lifted(z), v)
            if form is not None:
                chunk.add_rows(a.third, third)
            chunk.add(a.value, value)
            chunk.add_rows(a.slope, slope)
            chunk.add_squares(a.curvature, curvature)
        slope = self._outward(slope)
        bend = np.full_like(slope, np.nan) if form is None else self._outward(third)
        return PointwiseAnswer(value, slope, self._squares(curvature), bend)

    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        """First derivatives alone: raises TypeError where second ones are wanted."""
        if second:
            raise TypeError("sites of places have no second derivatives of expectations")
        value, slope, half = np.zeros(len(self)), self._no_rows(), self._no_squares()
        bent: Array | None = None
        z, form = self._inward(mean), self._form(variance)
        for chunk in self._chunks():
            a = self._asked(chunk, Expected).expected(chunk.lifted(z), chunk.variances(form))
            chunk.add(a.value, value)
            chunk.add_rows(a.d_mean, slope)
            chunk.add_squares(a.d_variance, half)
            if a.d_mean2 is not None:
                bent = self._no_squares() if bent is None else bent
                chunk.add_squares(a.d_mean2, bent)
        d_mean2 = None if bent is None else self._squares(bent)
        return ExpectedAnswer(value, self._outward(slope), self._squares(half), d_mean2=d_mean2)

    def expected_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        z, form = self._inward(mean), self._form(variance)
        return self._summed(
            self._asked(chunk, ExpectedSlopes).expected_slopes(
                chunk.lifted(z), chunk.variances(form)
            )
            for chunk in self._some()
        )

    def _asked(self, chunk: Chunk, question: type) -> Any:
        """What answers a question for the rows of a chunk."""
        answer, site = self.answer(chunk.site), chunk.site
        if isinstance(answer, question):
            return answer
        if question is ExpectedSlopes and answer is not site:
            raise TypeError(f"{type(answer).__name__} needs a method `expected_slopes`")
        return answering(type(site), question)(site)
