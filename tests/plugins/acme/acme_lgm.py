"""A part of each kind from outside; nothing of lgmdsl is imported but `lgmdsl.extend`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy import special

from lgmdsl.extend import (
    Array,
    Backend,
    BackendSpec,
    Bound,
    Bounds,
    BoundSpec,
    Elementwise,
    Expected,
    ExpectedAnswer,
    ExpectedSlopes,
    Failed,
    GaussianPosterior,
    Guarantee,
    Kernel,
    Parameter,
    Pointwise,
    PointwiseAnswer,
    Problem,
    Property,
    Rows,
    Shape,
    Signature,
    Site,
    SiteSpec,
    Status,
    Structure,
    SuperGaussianSite,
    Terms,
    natural_bounds,
    rows,
)

if TYPE_CHECKING:
    from numpy.random import Generator


# The Cauchy density: log t(s) = g(s^2).
cauchy = SuperGaussianSite(
    "cauchy",
    lambda x: -np.log1p(x) - math.log(math.pi),
    lambda x: -1.0 / (1.0 + x),
    lambda x: (1.0 + x) ** -2.0,
    summary="the Cauchy density",
    formula="1 / (pi (1 + s^2))",
    source="Cauchy 1853",
)


@dataclass(frozen=True, eq=False)
class Geometric(Site, Pointwise):
    """l(s) = s - (1 + y) log(1 + e^s): failures before a success of probability sigma(s)."""

    y: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "geometric.logit",
        properties=Property.LOG_CONCAVE | Property.BOUNDED,
        link="logit",
        signature=Signature(
            "geometric",
            "family",
            (Parameter("logit", "latent"),),
            observed=("count",),
            summary="failures before the first success",
        ),
    )

    def log_density(self, s: Array) -> Array:
        return np.asarray(s - (1.0 + self.y) * np.logaddexp(0.0, s))

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        p, q, n = special.expit(s), special.expit(-s), 1.0 + self.y
        third = -n * p * q * (q - p)
        return PointwiseAnswer(self.log_density(s), 1.0 - n * p, -n * p * q, third * variance)

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        return {}

    def conditional_mean(self, s: Array) -> Array:
        return np.exp(-s)

    def conditional_variance(self, s: Array) -> Array:
        return np.exp(-s) + np.exp(-2.0 * s)

    def sample(self, s: Array, rng: Generator) -> Array:
        return np.asarray(rng.geometric(special.expit(s)) - 1.0)


@dataclass(frozen=True, eq=False)
class GeometricCurved(Expected, ExpectedSlopes):
    """E[l] >= m - (1 + y)(log(1 + e^m) + v / 8)."""

    site: Geometric

    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        n, p = 1.0 + self.site.y, special.expit(mean)
        zero = np.zeros_like(p) if second else None
        return ExpectedAnswer(
            self.site.log_density(mean) - n * variance / 8.0,
            1.0 - n * p,
            -n / 8.0,
            zero,
            zero,
            -n * p * (1.0 - p),
        )

    def expected_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        return {}


@dataclass(frozen=True)
class Curvature(Bound):
    """The quadratic of the largest curvature."""

    spec: ClassVar[BoundSpec] = BoundSpec(
        "geometric-curvature", asks=Site, gives=Expected, guarantee=Guarantee.LOWER, error=math.inf
    )

    def applies_to(self, site: type[Site]) -> str:
        return "" if issubclass(site, Geometric) else f"it is for {Geometric.spec.name}"

    def lift(self, site: Site) -> object:
        assert isinstance(site, Geometric)
        return GeometricCurved(site)


curvature = Curvature()


@dataclass(frozen=True, eq=False)
class Exchangeable(Structure):
    """K = sd^2 ((1 - share) I + share 11')."""

    order: int
    sd: Array
    share: Array
    signature: ClassVar[Signature] = Signature(
        "exchangeable",
        "structure",
        (
            Parameter("sd", "positive", over="none"),
            Parameter("share", "unit", required=False, default=0.5, over="none"),
        ),
        carries_scale=("sd",),
        summary="all pairs are equally correlated",
    )

    @property
    def size(self) -> int:
        return self.order

    @property
    def shape(self) -> Shape:
        return Shape.COVARIANCE

    def covariance(self) -> Array:
        n, share = self.order, float(self.share)
        return float(self.sd) ** 2 * ((1.0 - share) * np.eye(n) + share * np.ones((n, n)))

    def pullback_covariance(self, adjoint: Array) -> dict[str, Array]:
        apart = np.ones((self.order, self.order)) - np.eye(self.order)
        return {
            "sd": np.asarray(2.0 / self.sd * np.sum(adjoint * self.covariance())),
            "share": np.asarray(self.sd**2 * np.sum(adjoint * apart)),
        }


@dataclass(frozen=True, eq=False)
class Lomax(Elementwise):
    """(shape / scale) (1 + x / scale)^(-shape - 1) on x > 0."""

    shape: Array
    scale: Array
    signature: ClassVar[Signature] = Signature(
        "lomax",
        "prior",
        (
            Parameter("shape", "positive"),
            Parameter("scale", "positive", required=False, default=1.0),
        ),
        observed=("positive",),
        summary="Pareto of the second kind",
    )

    @property
    def bounds(self) -> Bounds:
        return natural_bounds("positive")

    def terms(self, value: Array) -> Terms:
        log_ratio = np.log1p(value / self.scale)
        log = np.log(self.shape / self.scale) - (self.shape + 1.0) * log_ratio
        slope = -(self.shape + 1.0) / (self.scale + value)
        by_scale = (self.shape * value / self.scale - 1.0) / (self.scale + value)
        return Terms(log, slope, {"shape": 1.0 / self.shape - log_ratio, "scale": by_scale})

    def quantile(self, p: Array) -> Array:
        return np.asarray(self.scale * np.expm1(-np.log1p(-p) / self.shape))


@dataclass(frozen=True, eq=False)
class Cosine(Kernel):
    """sd^2 prod_d cos(frequency (x_d - x'_d))."""

    sd: Array
    frequency: Array
    signature: ClassVar[Signature] = Signature(
        "cosine",
        "kernel",
        (
            Parameter("sd", "positive", over="none"),
            Parameter("frequency", "positive", required=False, default=1.0, over="none"),
        ),
        carries_scale=("sd",),
        summary="sd^2 cos(frequency r)",
    )

    def smooth(self, x1: Array, x2: Array) -> Array:
        gap = self.frequency * (x1[:, None, :] - x2[None, :, :])
        return np.asarray(self.sd**2 * np.cos(gap).prod(axis=2))

    def diagonal(self, x: Array) -> Array:
        return np.full(len(x), float(self.sd) ** 2)

    def smooth_slopes(self, x1: Array, x2: Array, adjoint: Array) -> dict[str, Array]:
        gap = x1[:, None, :] - x2[None, :, :]
        waves, turns = np.cos(self.frequency * gap), -gap * np.sin(self.frequency * gap)
        total = np.zeros(gap.shape[:2])
        for d in range(gap.shape[2]):
            total += turns[:, :, d] * np.delete(waves, d, axis=2).prod(axis=2)
        return {
            "sd": np.asarray(2.0 * self.sd * np.sum(adjoint * waves.prod(axis=2))),
            "frequency": np.asarray(self.sd**2 * np.sum(adjoint * total)),
        }

    def diagonal_slopes(self, x: Array, adjoint: Array) -> dict[str, Array]:
        return {"sd": np.asarray(2.0 * self.sd * adjoint.sum()), "frequency": np.zeros(())}


@dataclass(frozen=True)
class Point:
    """Where the iteration is: predictors, the Gaussian of the curvature there, its evidence."""

    s: Rows
    q: Any  # Conditioned, or None in a failed state
    objective: float = -math.inf
    failed: Status | None = None


@dataclass(frozen=True)
class FixedPoint(Backend[Point]):
    """s <- (1 - damping) s + damping E_q[s]: Laplace without a line search."""

    damping: float = 1.0
    spec: ClassVar[BackendSpec] = BackendSpec(name="fixed-point", needs=Pointwise)

    def start(self, problem: Problem, warm: GaussianPosterior | None = None) -> Point:
        s = problem.engine.prior_mean if warm is None else warm.conditioned.mean
        return self._at(problem, s)

    def step(self, problem: Problem, state: Point) -> Point:
        return self._at(problem, rows.interpolate(state.s, state.q.mean, self.damping))

    def residual(self, problem: Problem, state: Point) -> float:
        q = state.q
        pairs = zip(q.mean, state.s, q.variance, strict=True)
        return max(float(np.max(abs(m - s) / v**0.5)) for m, s, v in pairs)

    def posterior(self, problem: Problem, state: Point) -> GaussianPosterior:
        q = state.q
        return GaussianPosterior(q.weight, q.shift, q, state.objective, Guarantee.APPROXIMATE)

    def _at(self, problem: Problem, s: Rows) -> Point:
        a = problem.pointwise(s)
        b = tuple(k.slope - k.curvature * x for k, x in zip(a, s, strict=True))
        q = problem.engine.condition(tuple(-k.curvature for k in a), b)
        if isinstance(q, Failed):
            return Point(s, None, failed=Status.numerical_error)
        c = [k.value - 0.5 * k.curvature * x * x - d * x for k, d, x in zip(a, b, s, strict=True)]
        return Point(s, q, q.log_normaliser + rows.total(tuple(c)))
