"""Skewed draws: the map against its own formulas and against quadrature, and what is left of its
errors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import special

import lgmdsl as lgm
from lgmdsl.accuracy.expansion import expansion
from lgmdsl.api.fit.fit import Fit
from lgmdsl.arrays import Array
from lgmdsl.assess.skewed import transport as identities
from lgmdsl.assess.skewed.transport import Judged, Transport, contracted, errors_left, formable
from lgmdsl.contract.engine import Rows
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.stacked import StackedPredictors

COUNTS = """lgm 1
index obs
data y[obs] : count
data x[obs] : real
latent a ~ normal(sd = 1)
latent b ~ normal(sd = 1)
let eta[obs] = a + b * x - 1
observe y ~ poisson(log_rate = eta)
"""
CLASSES = """lgm 1
index obs
index k
data y[obs] : k
data x[obs] : real
latent c[k] ~ normal(sd = 1.5)
let eta[obs, k] = c + 0 * x
observe y ~ categorical(softmax = eta)
"""


def plain(text: str, data: dict[str, object]) -> Fit:
    return lgm.fit(lgm.loads(text), data, options={"correction": "off"})


@pytest.fixture(scope="module")
def counts() -> Fit:
    return plain(COUNTS, {"y": [0, 1, 0, 0], "x": [-1.0, 0.3, 0.8, 2.0]})


def parts(fit: Fit) -> tuple[LinearGaussian, Rows]:
    q, sites = fit.posterior.conditioned, fit.canonical.sites(fit.theta)
    return fit.canonical.linear(fit.theta), expansion(sites, q.mean, q.variance).third


def cumulants(draws: Array) -> tuple[Array, Array, Array]:
    away = draws - draws.mean(axis=0)
    return draws.mean(axis=0), (away**2).mean(axis=0), (away**3).mean(axis=0)


@pytest.mark.parametrize("formed", [True, False])
def test_the_map_has_the_moments_of_second_order(counts: Fit, formed: bool) -> None:
    """Of a'z for several a, at third derivatives so small that higher orders vanish."""
    linear, third = parts(counts)
    third = tuple(0.3 * t for t in third)
    q = counts.posterior.conditioned
    b = StackedPredictors(linear).lifted(np.eye(2))
    crossed, k = q.solve(b.T), np.concatenate(third)
    squared = (b @ crossed) ** 2
    transport = Transport(linear, q, third, formed)
    assert (transport.weights is not None) == formed
    pieces = list(transport.draws(np.random.default_rng(0), 400_000))
    x, moved = (np.concatenate([getattr(p, n) for p in pieces]) for n in ("x", "moved"))
    for a in np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, -2.0]]):
        before, after = cumulants(x @ a), cumulants(moved @ a)
        unit = np.sqrt(before[1])
        assert abs(before[0]) < 1e-12 * unit and abs(after[0]) < 0.002 * unit
        c = a @ crossed
        more = 0.5 * (k * c) @ squared @ (k * c)
        assert after[1] - before[1] == pytest.approx(more, rel=0.08, abs=1e-4 * float(before[1]))
        exact = float(k @ c**3)
        assert after[2] == pytest.approx(exact, abs=0.01 * float(unit) ** 3)
        assert abs(exact) > 0.02 * unit**3


def test_vector_sites_have_tensors() -> None:
    fit = plain(CLASSES, {"k": ["r", "s", "t"], "y": ["r", "r", "s"], "x": np.zeros(3)})
    linear, third = parts(fit)
    assert not formable(linear)
    q = fit.posterior.conditioned
    b = StackedPredictors(linear).lifted(np.eye(3)).reshape(3, 3, 3)
    v = q.solve(np.eye(3))
    tensor = np.einsum("nijk,nia,njb,nkc->abc", third[0], b, b, b)
    exact = np.einsum("abc,ax,bx,cx->x", tensor, v, v, v)
    half = np.einsum("abc,ax,bd,ce->xde", tensor, v, v, v)
    added = 0.5 * np.einsum("xde,ade,ax->x", half, tensor, v)
    pieces = list(Transport(linear, q, third).draws(np.random.default_rng(1), 60_000))
    x, moved = (np.concatenate([getattr(p, n) for p in pieces]) for n in ("x", "moved"))
    mean, variance, cubes = cumulants(moved)
    unit = np.sqrt(q.latent_variance)
    assert np.abs(mean / unit).max() < 0.01
    np.testing.assert_allclose(cubes / unit**3, exact / unit**3, atol=0.04)
    more = variance - cumulants(x)[1]
    np.testing.assert_allclose(more / unit**2, added / unit**2, atol=0.004)
    assert (added / unit**2).max() > 0.02
    assert np.abs(exact / unit**3).max() > 0.05


def test_contracted_in_columns() -> None:
    fit = plain(CLASSES, {"k": ["r", "s", "t"], "y": ["r", "r", "s"], "x": np.zeros(3)})
    linear, (t,) = parts(fit)
    a, b = np.random.default_rng(2).normal(size=(2, 9, 4))
    got = contracted(linear, (t,), a, b)
    for n in range(3):
        for i in range(3):
            rows = slice(3 * n, 3 * n + 3)
            exact = np.einsum("jk,jm,km->m", t[n, i], a[rows], b[rows])
            np.testing.assert_allclose(got[3 * n + i], exact, rtol=1e-12)


# ---- identities ------------------------------------------------------------------------------


def tilted(size: int = 2000) -> tuple[Array, Array, Array]:
    """Pairs x, exact draws of N(x; 0, 4) exp(-2 exp(x)) in the same order, and its mean."""
    grid = np.linspace(-14.0, 8.0, 200_001)
    p = np.exp(-(grid**2) / 8.0 - 2.0 * np.exp(grid))
    distribution = np.cumsum(p) / p.sum()
    uniform = np.random.default_rng(3).random(size)
    level = np.concatenate([uniform, 1.0 - uniform])
    return level, np.interp(level, distribution, grid), np.array([p @ grid / p.sum()])


def judged(moved: Array, level: Array, mean: float, variance: float) -> Judged:
    """Against a Gaussian of the posterior's mean and another variance."""
    x = np.sqrt(variance) * special.ndtri(level)
    z = moved
    slope = -z / 4.0 - 2.0 * np.exp(z) + (z - mean) / variance
    columns = [v[:, None] for v in (x, z - mean, variance * slope)]
    return Judged(0, np.array([mean]), *columns)


def test_exact_draws_satisfy_the_identities(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identities, "LEFT", 0.0)
    monkeypatch.setattr(identities, "LEFT_OF_QUANTILES", 0.0)
    level, z, (mean,) = tilted()
    own = float(z.var())
    good = errors_left([judged(z, level, mean, 0.8 * own)], {"a": slice(0, 1)})
    assert abs(good.mean[0]) < 0.03 and abs(good.sd[0]) < 0.03 and good.quantile[0] < 0.08
    for off in (0.5, -0.5):  # a Gaussian that is elsewhere
        away = errors_left([judged(z, level, mean + off, 0.8 * own)], {"a": slice(0, 1)})
        assert abs(away.mean[0]) < 0.05 and abs(away.sd[0]) < 0.05 and away.quantile[0] < 0.13
    for wrong, part, sign in (
        (mean + 1.2 * (z - mean), "sd", 1.0),
        (mean + 0.8 * (z - mean), "sd", -1.0),
        (z + 0.2 * np.sqrt(own), "mean", 1.0),
        (z - 0.2 * np.sqrt(own), "mean", -1.0),
    ):
        bad = errors_left([judged(wrong, level, mean, 0.8 * own)], {"a": slice(0, 1)})
        assert sign * getattr(bad, part)[0] > 0.1, part
        assert bad.quantile[0] > 0.15


def test_normal_draws_of_a_skewed_posterior_are_not_its_own() -> None:
    level, z, (mean,) = tilted()
    normal = mean + z.std() * special.ndtri(level)
    bad = errors_left([judged(normal, level, mean, z.var())], {"a": slice(0, 1)})
    assert bad.quantile[0] > 0.15


def test_points_count_by_their_draws() -> None:
    """Two points at different means: what is between them is no error."""
    level, z, (mean,) = tilted()
    one = judged(z, level, mean, 0.8 * float(z.var()))
    far = replace(one, point=1, mean=one.mean + 30.0)
    both = errors_left([one, far], {"a": slice(0, 1)})
    assert abs(both.sd[0]) < 0.01 and abs(both.mean[0]) < 0.01 and both.quantile[0] < 0.03


def test_infinite_slopes_are_infinite_errors() -> None:
    level, z, (mean,) = tilted()
    one = judged(z, level, mean, float(z.var()))
    bad = errors_left([replace(one, pull=one.pull * np.inf)], {"a": slice(0, 1)})
    assert not np.isfinite([bad.mean[0], bad.sd[0]]).all()
