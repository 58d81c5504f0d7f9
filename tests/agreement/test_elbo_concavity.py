"""Theorem 3.4.1 of Khan 2012: the ELBO is strictly concave, jointly in (m, V), where every f is.

    L(m, V) = sum f(Bm + c, diag BVB') - KL(N(m, V) || N(mu, K))

and concave in each of mu, K^-1, a row of B and its offset. The theorem supposes that f is concave
in (m, v) and its local parameters. Means of e^s, fixed quadratics and the log bound are.
The thesis says the same of all its bounds of logistic sites (section 4.2): it holds for Jaakkola's
at fixed xi, and not at the best xi, nor for the piecewise bounds, nor for the expectation itself.
Of sites with concave log t expectations are concave in (m, R) with V = RR' (Challis and Barber
2013, section 3.2), and so then is L.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lgmdsl.arrays import Array
from lgmdsl.bounds.catalogue import bound
from lgmdsl.contract.engine import Failed
from lgmdsl.contract.objectives.elbo import ElboPoint, elbo_at
from lgmdsl.contract.questions import Expected
from lgmdsl.contract.site import Property, Site
from lgmdsl.contract.stacked import flatten
from lgmdsl.inference.routes import answering
from lgmdsl.sites.catalogue import find_site, sites
from lgmdsl.sites.observed import make_sites
from lgmdsl.sites.vector.softmax import MultinomialSoftmax
from lgmdsl.testing.engine_models import dense_rows
from lgmdsl.testing.models import random_models
from lgmdsl.testing.random.model import RandomModel
from tests.sites.examples import example

Moments = tuple[Array, Array]  # of the predictors of one block of sites
Expectation = Callable[[Moments], float]  # sum of f at (m, v), or at (m, V) of vector sites

seeds = st.integers(0, 2**20)
shares = st.floats(0.05, 0.95)

# Families whose f is concave in (m, v), and bounds that are, with a family they answer for.
MEANS_OF_POWERS = ("normal.mean", "lognormal.mean", "poisson.log_rate", "exponential.log_rate",
                   "gamma.log_mean", "weibull.log_scale", "normal.log_var")  # fmt: skip
BOUNDS = (
    *((f"{family}.logit", "bohning") for family in ("bernoulli", "binomial", "ordinal")),
    *(("multinomial.softmax", through) for through in ("log", "bohning")),
)
CONCAVE = (*((name, "") for name in MEANS_OF_POWERS), *BOUNDS)
# Scalar families with concave log t, whatever their f is in v.
LOG_CONCAVE = tuple(
    s.spec.name
    for s in sites()
    if (
        Property.LOG_CONCAVE in s.spec.properties
        and not s.spec.vector
        and issubclass(s, Expected)
        and not s.spec.name.endswith(".censored")
    )
    or s.spec.name in ("bernoulli.logit", "bernoulli.probit", "negbinomial.log_mean", "logistic")
)


def answers(site: Site, through: str) -> Expected:
    """What gives f: the site or its quadrature, or the bound of that name."""
    lift = bound(through, Expected, type(site)).lift if through else answering(type(site), Expected)
    return cast(Expected, lift(site))


def total(answer: Expected) -> Expectation:
    return lambda at: float(np.sum(answer.expected(*at).value))


def rows_of(name: str, count: int, seed: int) -> tuple[Site, int]:
    """Some sites of a family, and how many predictors each has (0 of scalar sites)."""
    if name != "multinomial.softmax":
        return example(name, count, seed), 0
    counts = np.random.default_rng(seed).multinomial(6, np.full(3, 1.0 / 3.0), count)
    return MultinomialSoftmax(counts.astype(np.float64), np.full(count, 6.0)), 2


def divergence(mean: Array, covariance: Array, mu: Array, precision: Array) -> float:
    """KL(N(mean, covariance) || N(mu, precision^-1))."""
    gap, product = mean - mu, covariance @ precision
    return float(
        0.5 * (np.trace(product) - np.linalg.slogdet(product)[1] + gap @ precision @ gap - len(gap))
    )


def seen(b: Array, c: Array, mean: Array, covariance: Array, event: int) -> Moments:
    """Means and variances of s = Bz + c."""
    s = b @ mean + c
    if not event:
        return s, np.einsum("ij,jk,ik->i", b, covariance, b)
    cubes = b.reshape(-1, event, b.shape[1])
    return s.reshape(-1, event), np.einsum("nij,jk,nlk->nil", cubes, covariance, cubes)


def random_root(rng: np.random.Generator, n: int) -> Array:
    """A Cholesky factor, of a size between 0.1 and 3."""
    factor = np.tril(rng.normal(size=(n, n)), -1) + np.diag(np.exp(0.5 * rng.normal(size=n)))
    return np.asarray(10.0 ** rng.uniform(-1.0, 0.5) * factor / np.sqrt(n))


class Drawn:
    """B, c, mu and K^-1 of a random model with rows for `count` sites."""

    def __init__(self, rng: np.random.Generator, count: int, event: int) -> None:
        self.n, self.event = int(rng.integers(1, 6)), event
        self.b = 0.7 * rng.normal(size=(count * max(event, 1), self.n))
        self.c = 0.5 * rng.normal(size=len(self.b))
        self.mu = rng.normal(size=self.n)
        root = random_root(rng, self.n) + 0.2 * np.eye(self.n)
        self.precision: Array = np.asarray(np.linalg.inv(root @ root.T))

    def seen(self, mean: Array, covariance: Array) -> Moments:
        return seen(self.b, self.c, mean, covariance, self.event)

    def divergence(self, mean: Array, covariance: Array) -> float:
        return divergence(mean, covariance, self.mu, self.precision)


def gap(at: Callable[[float], float], t: float) -> float:
    """How far a function on [0, 1] is above its chord at t, beyond the rounding of its values."""
    ends = (1.0 - t) * at(0.0) + t * at(1.0)
    middle = at(t)
    return middle - ends + 1e-9 * (1.0 + abs(at(0.0)) + abs(at(1.0)))


@pytest.mark.parametrize(("name", "through"), CONCAVE)
def test_the_elbo_is_strictly_concave_in_mean_and_covariance(
    name: str, through: str, record_property: Callable[[str, object], None]
) -> None:
    """By at least what -KL(q || p), which is strictly concave alone, lies above its chord."""
    ran: Counter[str] = Counter()

    @given(seeds, shares)
    def check(seed: int, t: float) -> None:
        rng = np.random.default_rng(seed)
        site, event = rows_of(name, 5, seed)
        f, model = total(answers(site, through)), Drawn(rng, 5, event)
        means, roots = rng.normal(size=(2, model.n)), [random_root(rng, model.n) for _ in "01"]
        covariances = [r @ r.T for r in roots]

        def there(x: float) -> tuple[Array, Array]:
            return (
                (1.0 - x) * means[0] + x * means[1],
                (1.0 - x) * covariances[0] + x * covariances[1],
            )

        above = gap(lambda x: -model.divergence(*there(x)), t)
        elbo = gap(lambda x: f(model.seen(*there(x))) - model.divergence(*there(x)), t)
        assert gap(lambda x: f(model.seen(*there(x))), t) >= 0.0
        assert above > 0.0 and elbo >= above - 1e-7 * (1.0 + above)
        ran["points"] += 1

    check()
    record_property("points", ran["points"])
    assert ran["points"] >= 10


@pytest.mark.parametrize(("name", "through"), CONCAVE)
def test_the_elbo_is_concave_in_each_parameter_of_the_model(
    name: str, through: str, record_property: Callable[[str, object], None]
) -> None:
    """The theorem's second part, at fixed q: mu and K^-1 (strictly), one row of B, one offset."""
    ran: Counter[str] = Counter()

    @given(seeds, shares)
    def check(seed: int, t: float) -> None:
        rng = np.random.default_rng(seed)
        site, event = rows_of(name, 4, seed)
        f, one, two = total(answers(site, through)), Drawn(rng, 4, event), Drawn(rng, 4, event)
        two.n, two.b = one.n, np.resize(two.b, one.b.shape)
        mean, root = rng.normal(size=one.n), random_root(rng, one.n)
        q = (mean, root @ root.T)
        mu = list(rng.normal(size=(2, one.n)))
        other = random_root(rng, one.n) + 0.2 * np.eye(one.n)
        precision = (one.precision, np.asarray(np.linalg.inv(other @ other.T)))
        row = int(rng.integers(len(one.b)))

        def between(x: float, ends: Sequence[Array]) -> Array:
            return np.asarray((1.0 - x) * ends[0] + x * ends[1])

        def of_row(x: float) -> float:
            b, c = one.b.copy(), one.c.copy()
            b[row] = between(x, (one.b[row], two.b[row]))
            return f(seen(b, c, *q, event))

        def of_offset(x: float) -> float:
            c = one.c.copy()
            c[row] = between(x, (one.c[row : row + 1], two.c[row : row + 1]))[0]
            return f(seen(one.b, c, *q, event))

        def of_mean(x: float) -> float:
            return -divergence(*q, between(x, mu), precision[0])

        def of_precision(x: float) -> float:
            return -divergence(*q, mu[0], between(x, precision))

        assert min(gap(of_mean, t), gap(of_precision, t)) > 0.0
        assert min(gap(of_row, t), gap(of_offset, t)) >= 0.0
        ran["points"] += 1

    check()
    record_property("points", ran["points"])
    assert ran["points"] >= 10


@pytest.mark.few(9)
@pytest.mark.parametrize("name", LOG_CONCAVE)
def test_log_concave_sites_are_concave_in_mean_and_root(
    name: str, record_property: Callable[[str, object], None]
) -> None:
    """f in (m, R) along lower triangular R with a positive diagonal, and with it the ELBO."""
    ran: Counter[str] = Counter()

    @given(seeds, shares)
    def check(seed: int, t: float) -> None:
        rng = np.random.default_rng(seed)
        f, model = total(answers(example(name, 5, seed), "")), Drawn(rng, 5, 0)
        means, roots = rng.normal(size=(2, model.n)), [random_root(rng, model.n) for _ in "01"]

        def there(x: float) -> tuple[Array, Array]:
            root = (1.0 - x) * roots[0] + x * roots[1]
            return (1.0 - x) * means[0] + x * means[1], root @ root.T

        above = gap(lambda x: -model.divergence(*there(x)), t)
        elbo = gap(lambda x: f(model.seen(*there(x))) - model.divergence(*there(x)), t)
        assert gap(lambda x: f(model.seen(*there(x))), t) >= 0.0
        assert above > 0.0 and elbo >= above - 1e-7 * (1.0 + above)
        ran["points"] += 1

    check()
    record_property("points", ran["points"])
    assert ran["points"] >= 10


LOGIT = find_site("bernoulli.logit")
assert LOGIT is not None
logit = make_sites(LOGIT, np.ones(1), {})


def along_variance(f: Expectation, mean: float) -> Callable[[float], float]:
    """f at v from 0.2 to 4."""
    return lambda x: f((np.array([mean]), np.array([0.2 + 3.8 * x])))


@pytest.mark.parametrize(
    "through", ["", "jaakkola", "piecewise-linear-10", "piecewise-quadratic-10"]
)
def test_the_theorem_does_not_apply_to_these(through: str) -> None:
    """At the logistic's steepest these lie below their chord in v, by more than any rounding."""
    f = total(answers(logit, through))
    assert gap(along_variance(f, 0.0), 0.5) < -1e-3


@given(seeds, shares)
def test_jaakkola_is_concave_at_fixed_xi(seed: int, t: float) -> None:
    """f(m, v; xi) = (y - 1/2) m - lambda (m^2 + v - xi^2) - log 2cosh(xi/2), the tangent that
    `jaakkola` takes at xi^2 = m^2 + v."""
    rng = np.random.default_rng(seed)
    ends = rng.normal(size=2), np.exp(rng.normal(size=2))
    xi = float(np.exp(rng.normal()))

    def fixed(m: float, v: float, xi: float) -> float:
        slope = np.tanh(xi / 2.0) / (4.0 * xi)
        return float(0.5 * m - slope * (m * m + v - xi * xi) - np.log(2.0 * np.cosh(xi / 2.0)))

    m, v = ends[0][0], ends[1][0]
    best = total(answers(logit, "jaakkola"))((np.array([m]), np.array([v])))
    assert best == pytest.approx(fixed(m, v, float(np.sqrt(m * m + v))), abs=1e-12)
    assert fixed(m, v, xi) <= best + 1e-12

    def along(x: float) -> float:
        m, v = ((1.0 - x) * end[0] + x * end[1] for end in ends)
        return fixed(m, v, xi)

    assert gap(along, t) >= 0.0


@pytest.mark.thorough
@given(
    random_models(
        families=("poisson.log_rate", "bernoulli.logit"), rows=(1, 8), latents=(1, 8), wild=False
    ),
    seeds,
)
def test_the_formula_is_the_elbo_of_the_library(case: RandomModel, seed: int) -> None:
    """L(m, V), as the tests above have it, is what back ends climb."""
    problem, rng = case.problem(), np.random.default_rng(seed)
    linear, prior = problem.engine.linear, problem.engine.prior_mean
    nothing = tuple(np.zeros_like(m) for m in prior)
    alone = problem.engine.condition(nothing, nothing)
    point = elbo_at(
        problem,
        tuple(np.asarray(np.exp(rng.normal(size=m.shape))) for m in prior),
        tuple(np.asarray(rng.normal(size=m.shape)) for m in prior),
    )
    assert isinstance(point, ElboPoint)
    assert not isinstance(alone, Failed)
    eye = np.eye(linear.size)
    k, v = alone.solve(eye), point.conditioned.solve(eye)
    assume(linear.constraints is None and np.linalg.cond(k) < 1e8)
    b, c = dense_rows(linear)
    s, spread = seen(b, c, point.conditioned.latent_mean, v, 0)
    np.testing.assert_allclose(s, flatten(point.mean), atol=1e-8)
    f = sum(float(np.sum(a.value)) for a in point.answers)
    kl = divergence(
        point.conditioned.latent_mean, v, alone.latent_mean, np.asarray(np.linalg.inv(k))
    )
    assert spread == pytest.approx(flatten(point.variance), rel=1e-7)
    assert f - kl == pytest.approx(point.elbo, abs=1e-6 * (1.0 + abs(point.elbo)))
