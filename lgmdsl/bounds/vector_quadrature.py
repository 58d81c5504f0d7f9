"""The rule `quadrature` of vector sites that are no softmax: points over the contrasts.

One and two contrasts take the trapezoidal rule on a product grid, more take quasi-Monte Carlo; all
sites and steps share the points, so that the objective is smooth.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import ClassVar, cast

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.bound import Bound, BoundSpec
from lgmdsl.contract.questions import Expected, ExpectedAnswer, ExpectedSlopes, Sloped
from lgmdsl.contract.site import Site
from lgmdsl.contract.status import Guarantee
from lgmdsl.numerics.log_sum_exp import contrasts_of, normal_points

REACH = 8.5
NODES = {1: 201, 2: 31}  # on each axis
PAIRS = 512  # of quasi-Monte Carlo points, beyond two contrasts
CHUNK = 1 << 20
# Added to the variances of the contrasts: the slope in a variance of 0 is then a difference too.
LEAST = 1e-8


@dataclass(frozen=True)
class VectorByQuadrature(Bound):
    """E[l] by points: 1e-6 relative up to two contrasts at predictor sds to 3, with more 5e-3.
    `seed` scrambles the points beyond two contrasts."""

    seed: int = 0

    spec: ClassVar[BoundSpec] = BoundSpec(
        "quadrature", asks=Sloped, gives=Expected, guarantee=Guarantee.NUMERICAL, error=5e-3,
        summary="expectations of other vector sites by points over the contrasts, to 5e-3",
    )  # fmt: skip

    def applies_to(self, site: type[Site]) -> str:
        if issubclass(site, Sloped):
            return ""
        return f"{site.spec.name} does not give its slopes at many points (Sloped)"

    def lift(self, site: Site) -> VectorExpected:
        if not isinstance(site, Sloped):
            raise TypeError(self.applies_to(type(site)))
        return VectorExpected(site, self.seed)


@dataclass(frozen=True, eq=False)
class VectorExpected(Expected, ExpectedSlopes):
    """E[l] with the derivatives of that very sum in the means and the variances."""

    site: Site
    seed: int = 0

    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        """s = m + C S t with C the contrasts and S the symmetric root of their variance; with
        G = sum w sym(l' t') the derivative X in that variance solves X S + S X = G."""
        n, k = mean.shape
        value, d_mean, d_variance = np.empty(n), np.empty((n, k)), np.empty((n, k, k))
        contrasts, (t, w) = contrasts_of(k), _rule(k - 1, self.seed)
        spread = contrasts.T @ variance @ contrasts + LEAST * np.eye(k - 1)
        squares, turn = np.linalg.eigh(spread)
        root = np.sqrt(np.maximum(squares, LEAST))
        for few in np.array_split(np.arange(n), max(1, n * len(t) * k // CHUNK)):
            u, r = turn[few], root[few]
            moved = contrasts @ ((u * r[:, None, :]) @ u.transpose(0, 2, 1)) @ t.T  # (n, K, P)
            s = mean[few] + moved.transpose(2, 0, 1)
            level, slope = cast(Sloped, self.site.take(few)).sloped(s)
            value[few], d_mean[few] = w @ level, np.einsum("p,pnk->nk", w, slope)
            g = contrasts.T @ np.einsum("pnk,pd->nkd", slope, w[:, None] * t)
            g = 0.5 * (g + g.transpose(0, 2, 1))
            x = u @ ((u.transpose(0, 2, 1) @ g @ u) / (r[:, :, None] + r[:, None, :]))
            d_variance[few] = contrasts @ (x @ u.transpose(0, 2, 1)) @ contrasts.T
        return ExpectedAnswer(value, d_mean, d_variance)

    def expected_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        """Averages of the site's slopes in its parameters, those that all rows share."""
        k = mean.shape[1]
        if not self.site.parameter_slopes(mean):
            return {}
        contrasts, (t, w) = contrasts_of(k), _rule(k - 1, self.seed)
        values, turn = np.linalg.eigh(contrasts.T @ variance @ contrasts + LEAST * np.eye(k - 1))
        root = (turn * np.sqrt(np.maximum(values, LEAST))[:, None, :]) @ turn.transpose(0, 2, 1)
        moved = contrasts @ root
        out: dict[str, Array] = {}
        for point, weight in zip(t, w, strict=True):
            for name, slope in self.site.parameter_slopes(mean + moved @ point).items():
                out[name] = out.get(name, 0.0) + weight * slope
        return out

    def take(self, rows: IntArray) -> VectorExpected:
        """The answer of some rows."""
        return VectorExpected(self.site.take(rows), self.seed)


@cache
def _rule(dimension: int, seed: int = 0) -> tuple[Array, Array]:
    """Points, (P, dimension), and weights, (P,), of averages over standard normals."""
    if dimension not in NODES:
        points = normal_points(dimension, PAIRS, seed) if dimension else np.zeros((1, 0))
        return points, np.full(len(points), 1.0 / len(points))
    line = np.linspace(-REACH, REACH, NODES[dimension])
    mass = np.exp(-0.5 * line * line)
    mass /= mass.sum()
    axes = np.meshgrid(*[line] * dimension, indexing="ij")
    weights = np.meshgrid(*[mass] * dimension, indexing="ij")
    points = np.stack(axes, axis=-1).reshape(-1, dimension)
    weight = np.prod(np.stack(weights, axis=-1), axis=-1).ravel()
    kept = weight > 1e-14
    return points[kept], weight[kept] / weight[kept].sum()
