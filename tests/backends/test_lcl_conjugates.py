"""The scalar problems of decoupled inference: the box S of every family, and the closed forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lgmdsl.arrays import Array
from lgmdsl.contract.questions import Decoupled, Expected
from lgmdsl.contract.site import Property
from lgmdsl.inference.routes import answering
from lgmdsl.numerics.optimisation.newton import PairTerms
from lgmdsl.sites.catalogue import SITES, site
from lgmdsl.testing.sites.sampling_checks import ends
from lgmdsl_backends.lcl.conjugates import conjugates, slope_limits
from tests.sites.examples import example


def located(s: Any) -> tuple[Array, Array]:
    """u = s + noise known up to an interval: an end that is there pulls without limit as s leaves
    it behind, and at an open end the mass tends to 1."""
    low, high = ends(s)
    return np.where(np.isinf(high), 0.0, -np.inf), np.where(np.isinf(low), 0.0, np.inf)


def located_in_pieces(s: Any) -> tuple[Array, Array]:
    """As `located`, with noise whose tails are e^-|x / scale|."""
    low, high = ends(s)
    pull = 1.0 / s.scale
    return np.where(np.isinf(high), 0.0, -pull), np.where(np.isinf(low), 0.0, pull)


def lifetimes(s: Any) -> tuple[Array, Array]:
    """Of scale e^s, with P(Y < y) ~ (y / e^s)^shape as it goes to 0."""
    low, high = ends(s)
    return np.where(np.isinf(high), 0.0, -s.shape), np.where(np.isinf(low), 0.0, np.inf)


def lifetimes_of_rate(s: Any) -> tuple[Array, Array]:
    """Of scale e^-s and shape 1."""
    low, high = ends(s)
    return np.where(np.isinf(low), 0.0, -np.inf), np.where(np.isinf(high), 0.0, 1.0)


def scored(s: Any) -> Any:
    """The score of each y."""
    return np.take_along_axis(s.scores, s.y.astype(int)[:, None], axis=-1)[:, 0]


EDGES: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "normal.mean": lambda s: (-np.inf, np.inf),
    "normal": lambda s: (-np.inf, np.inf),
    "bernoulli.logit": lambda s: (s.y - 1.0, s.y),
    "binomial.logit": lambda s: (s.y - s.n, s.y),
    # log Phi falls like -s^2/2: each answer that occurs opens its side.
    "bernoulli.probit": lambda s: (np.where(s.y == 1, 0.0, -np.inf), np.where(s.y, np.inf, 0.0)),
    "binomial.probit": lambda s: (
        np.where(s.y < s.n, -np.inf, 0.0), np.where(s.y > 0, np.inf, 0.0)),
    "bernoulli.cloglog": lambda s: (np.where(s.y == 1, 0.0, -np.inf), s.y),
    "poisson.log_rate": lambda s: (-np.inf, s.y),
    "negbinomial.log_mean": lambda s: (-s.size, s.y),
    "gamma.log_mean": lambda s: (-s.shape, np.inf),
    "lognormal.mean": lambda s: (-np.inf, np.inf),
    "exponential.log_rate": lambda s: (-np.inf, s.event),
    "weibull.log_scale": lambda s: (-s.shape * s.event, np.inf),
    "normal.mean.censored": located,
    "lognormal.mean.censored": located,
    "gamma.log_mean.censored": lifetimes,
    "weibull.log_scale.censored": lifetimes,
    "exponential.log_rate.censored": lifetimes_of_rate,
    "normal.log_var": lambda s: (-0.5, np.inf),
    "laplace.mean": lambda s: (-1.0 / s.scale, 1.0 / s.scale),
    "laplace": lambda s: (-1.0 / s.scale, 1.0 / s.scale),
    "logistic": lambda s: (-1.0 / s.scale, 1.0 / s.scale),
    "ordinal.logit": lambda s: (-1.0 * (s.y < 3), 1.0 * (s.y > 0)),
    "ordinal.probit": lambda s: (
        np.where(s.y < 3, -np.inf, 0.0), np.where(s.y > 0, np.inf, 0.0)),
    "ordinal.logit.continuation": lambda s: (-1.0 * (s.y < 3), s.y),
    "ordinal.probit.continuation": lambda s: (
        np.where(s.y < 3, -np.inf, 0.0), np.where(s.y > 0, np.inf, 0.0)),
    "ordinal.logit.adjacent": lambda s: (s.y - 3.0, s.y),
    "ordinal.logit.stereotype": lambda s: (
        scored(s) - s.scores.max(axis=-1), scored(s) - s.scores.min(axis=-1)),
    **dict.fromkeys(("ordinal.probit.adjacent", "ordinal.probit.stereotype"), lambda s: (
        np.where(s.y < 3, -np.inf, 0.0), np.where(s.y > 0, np.inf, 0.0))),
    "sech2": lambda s: (-2.0 / s.scale, 2.0 / s.scale),
    "binomial.cloglog": lambda s: (np.where(s.y < s.n, -np.inf, 0.0), s.y),
    "tweedie.log_mean": lambda s: (-np.inf, np.where(s.y > 0.0, np.inf, 0.0)),
    "loglogistic.log_scale": lambda s: (-s.shape, s.shape),
    "gompertz.log_rate": lambda s: (-np.inf, getattr(s, "event", 1.0)),
    "generalized_gamma.location": lambda s: (
        np.where(s.shape > 0.0, -1.0 / (s.scale * s.shape), -np.inf),
        np.where(s.shape < 0.0, -1.0 / (s.scale * s.shape), np.inf)),
    "skew_normal.mean": lambda s: (-np.inf, np.inf),
    **dict.fromkeys(("asymmetric_laplace.quantile", "asymmetric_laplace"), lambda s: (
        (s.level - 1.0) / s.scale, s.level / s.scale)),
    "logistic.mean": lambda s: (-1.0 / s.scale, 1.0 / s.scale),
    "laplace.mean.censored": located_in_pieces,
}  # fmt: skip
SCALAR = [
    s.spec.name
    for s in SITES.shipped()
    if not (s.spec.vector or Property.LIMITED in s.spec.properties)
]


@pytest.mark.parametrize("name", SCALAR)
def test_the_box_is_the_range_of_slopes(name: str) -> None:
    sites: Any = example(name)
    answer: Any = answering(type(sites), Expected)(sites)
    low, high = slope_limits(sites, answer)
    if Property.LOG_CONCAVE not in sites.spec.properties:
        assert np.isneginf(low).all() and np.isposinf(high).all()
        return
    below, above = EDGES[name](sites)
    np.testing.assert_allclose(low, np.broadcast_to(below, low.shape), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(high, np.broadcast_to(above, high.shape), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("centre", [-3e6, 4e5])
def test_the_box_lies_about_far_observations(centre: float) -> None:
    laplace, normal = (site(n) for n in ("laplace.mean", "normal.mean"))
    y = np.array([centre])
    far: Any = laplace(y, np.full(1, 2.0))  # type: ignore[call-arg]
    np.testing.assert_allclose(slope_limits(far, far), [[-0.5], [0.5]])
    free: Any = normal(y, np.full(1, 50.0))  # type: ignore[call-arg]
    assert np.isinf(slope_limits(free, free)).all()


@pytest.mark.parametrize(
    "name", ["poisson.log_rate", "gamma.log_mean", "normal.log_var", "laplace.mean", "laplace"]
)
def test_closed_forms_are_what_newton_finds(name: str) -> None:
    sites: Any = example(name)
    n, rng = len(sites), np.random.default_rng(1)
    f = sites.expected(rng.uniform(-1.5, 1.5, n), rng.uniform(0.3, 2.0, n))
    pull, penalty, centre = rng.uniform(0.2, 2.0, (3, n))
    zero = np.zeros(n)
    terms = PairTerms(f.d_mean, pull, penalty, zero, zero, zero, centre)

    closed, found = (
        conjugates([answer], (zero,), terms, zero, np.ones(n)) for answer in (sites, _Plain(sites))
    )
    assert isinstance(sites, Decoupled)
    assert found.settled.all()
    for part in ("h", "sigma", "value", "hh", "hs", "ss"):
        np.testing.assert_allclose(
            getattr(closed, part),
            getattr(found, part),
            rtol=1e-4 if len(part) == 2 else 1e-7,
            atol=1e-7,
            err_msg=part,
        )


class _Plain(Expected):
    """Expected alone of a site that answers more."""

    def __init__(self, sites: Expected) -> None:
        self.sites = sites

    def expected(self, mean: Array, variance: Array, second: bool = False) -> Any:
        return self.sites.expected(mean, variance, second)
