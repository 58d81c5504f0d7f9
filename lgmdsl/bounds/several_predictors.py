"""The rule `quadrature` of sites with a predictor for each of a few parameters: products of
Gauss-Hermite rules over the predictors."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement, permutations
from typing import ClassVar, cast

import numpy as np

from lgmdsl.arrays import Array, BoolArray, IntArray
from lgmdsl.contract.bound import Bound, BoundSpec
from lgmdsl.contract.questions import (
    Expected,
    ExpectedAnswer,
    ExpectedSlopes,
    Pointwise,
    PointwiseAnswer,
    ThirdExpected,
)
from lgmdsl.contract.site import Property, Site
from lgmdsl.contract.status import Guarantee
from lgmdsl.numerics.expectations.normal_product import Values, averages
from lgmdsl.sites.combined.predictors import PredictorsSite
from lgmdsl.sites.combined.weighted import WeightedSite, times, weighted_expected
from lgmdsl.vocabulary.notes import Notes

MAX_PREDICTORS = 3  # predictors
ROUGH = 1e-3  # to what two rules agree on third derivatives: an estimate of accuracy is one
# To what two rules must agree, of which the longer one is taken: its error was 4e-9 or less over
# all families, at predictor sds to 2 (two predictors).
AGREEMENT = {1: 3e-7, 2: 3e-7, 3: 3e-6}


@dataclass(frozen=True)
class SeveralByQuadrature(Bound):
    """E[l], 2 or 3 predictors, to 1e-7 relative; NaN where no rule is long enough."""

    spec: ClassVar[BoundSpec] = BoundSpec(
        "quadrature",
        asks=Pointwise,
        gives=Expected,
        guarantee=Guarantee.NUMERICAL,
        error=1e-7,
        summary="expectations of sites with a predictor for the dispersion too, by quadrature",
        notes=Notes(
            formula="E[log t(s)] under N(m, V), by products of Gauss-Hermite rules over the "
            "predictors",
            support="smooth sites of two or three predictors",
            advice="taken by itself; no gap, to the error that is stated",
            example="lgm fit model.lgm data.npz --method natural-gradient --bound quadrature",
            see_also=("natural-gradient", "cholesky", "normal"),
        ),
    )

    def applies_to(self, site: type[Site]) -> str:
        name, count = site.spec.name, len(site.spec.predictors)
        if not count:
            return f"{name} has no predictors of other parameters"
        if count > MAX_PREDICTORS:
            return f"{name} has {count} predictors: this rule takes up to {MAX_PREDICTORS}"
        if not issubclass(site, Pointwise):
            return f"{name} gives no derivatives"
        if Property.KINKED in site.spec.properties:
            return f"{name} has a kink: it must answer in closed form"
        return site.never(Expected)

    def lift(self, site: Site) -> SeveralExpected:
        return SeveralExpected(site)


def _local(site: Site, s: Array) -> PointwiseAnswer:
    """l, l', l'' at s; third derivatives only where the site cannot do without."""
    if isinstance(site, PredictorsSite):
        return site.to_order(s, 2)
    return cast(Pointwise, site).pointwise(s)


def _averages(
    site: Site, values: Values, mean: Array, variance: Array, tolerance: float
) -> tuple[Array, BoolArray]:
    """`averages` of l or of any of its derivatives. Where a predictor stands apart,
    f(s) = g(t) + h(u), E f = E f(t, E u) + E f(E t, u) - f(E s): one dimension less."""
    plain = site.plain if isinstance(site, WeightedSite) else site
    apart = plain.apart if isinstance(plain, PredictorsSite) else None
    if apart is None or not apart[1].any():
        return averages(values, mean, variance, tolerance)
    alone, where = apart
    rest = np.flatnonzero(~where)
    whole, known = averages(
        lambda rows, s: values(rest[rows], s), mean[rest], variance[rest], tolerance
    )
    rows = np.flatnonzero(where)
    found, settled = np.empty((len(whole), len(mean))), np.empty(len(mean), dtype=np.bool_)
    found[:, rest], settled[rest], settled[rows] = whole, known, True
    found[:, rows] = -values(rows, mean[rows][:, None, :])[:, :, 0]
    for axes in (np.delete(np.arange(mean.shape[1]), alone), np.array([alone])):

        def along(some: IntArray, s: Array, axes: IntArray = axes) -> Array:
            full = np.repeat(mean[rows[some]][:, None, :], s.shape[1], axis=1)
            full[:, :, axes] = s
            return values(rows[some], full)

        part, known = averages(
            along, mean[np.ix_(rows, axes)], variance[np.ix_(rows, axes, axes)], tolerance
        )
        found[:, rows] += part
        settled[rows] &= known
    return found, settled


@dataclass(frozen=True, eq=False)
class SeveralExpected(Expected, ExpectedSlopes, ThirdExpected):
    """E[l], with E[l'] and E[l''] / 2, its derivatives in the means and variances."""

    site: Site

    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        if isinstance(self.site, WeightedSite):
            plain = SeveralExpected(self.site.plain).expected(mean, variance)
            return weighted_expected(self.site.weight, plain)
        k = mean.shape[1]
        upper = np.triu_indices(k)

        def local(rows: IntArray, s: Array) -> Array:
            many = self.site.take(np.repeat(rows, s.shape[1]))
            a = _local(many, s.reshape(-1, k))
            parts = [a.value, *a.slope.T, *a.curvature[:, *upper].T]
            return np.stack([p.reshape(s.shape[:2]) for p in parts])

        found, settled = _averages(self.site, local, mean, variance, AGREEMENT[k])
        found[0, ~settled] = np.nan  # refuses the point; its slopes may still point the way
        d_variance = np.empty((len(mean), k, k))
        d_variance[:, *upper] = 0.5 * found[1 + k :].T
        d_variance[:, *upper[::-1]] = 0.5 * found[1 + k :].T
        return ExpectedAnswer(found[0], found[1 : 1 + k].T.copy(), d_variance)

    def third_expected(self, mean: Array, variance: Array) -> Array | None:
        (n, k), site = mean.shape, self.site
        if isinstance(site, WeightedSite):
            whole = SeveralExpected(site.plain).third_expected(mean, variance)
            return None if whole is None else times(site.weight, whole)
        if not isinstance(site, PredictorsSite):
            return None
        orders = tuple(combinations_with_replacement(range(k), 3))

        def third(rows: IntArray, s: Array) -> Array:
            l = site.take(np.repeat(rows, s.shape[1])).expand(s.reshape(-1, k), 3)
            return np.stack([l.derivative(*order).reshape(s.shape[:2]) for order in orders])

        found, settled = _averages(self.site, third, mean, variance, ROUGH)
        found[:, ~settled] = np.nan
        out = np.empty((n, k, k, k))
        for order, values in zip(orders, found, strict=True):
            for i, j, m in permutations(order):
                out[:, i, j, m] = values
        return out

    def expected_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        if isinstance(self.site, WeightedSite):
            plain = SeveralExpected(self.site.plain).expected_slopes(mean, variance)
            return {name: times(self.site.weight, slope) for name, slope in plain.items()}
        k, names = mean.shape[1], tuple(self.site.parameter_slopes(mean))
        if not names:
            return {}

        def slopes(rows: IntArray, s: Array) -> Array:
            many = self.site.take(np.repeat(rows, s.shape[1]))
            known = many.parameter_slopes(s.reshape(-1, k))
            return np.stack([known[name].reshape(s.shape[:2]) for name in names])

        found, settled = _averages(self.site, slopes, mean, variance, AGREEMENT[k])
        found[:, ~settled] = np.nan
        return dict(zip(names, found, strict=True))

    def take(self, rows: IntArray) -> SeveralExpected:
        """The answer of some rows."""
        return SeveralExpected(self.site.take(rows))
