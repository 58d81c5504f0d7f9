"""Exact draws and evidences by groups, against quadrature over everything."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

import lgmdsl as lgm
from lgmdsl.api.fit.fit import Fit
from lgmdsl.arrays import AnyArray, Array
from lgmdsl.assess.grouped import border as grouped_border
from lgmdsl.assess.grouped.draws import GroupedDraws, grouped_draws, grouped_evidence
from lgmdsl.assess.grouped.groups import Groups, groups_of
from lgmdsl.assess.grouped.split import NoGroups
from lgmdsl.assess.sampling.draws import MixturePoint

SITES = {"binary": "bernoulli(logit = eta)", "count": "poisson(log_rate = eta)"}
INTERCEPTS = """lgm 1
index obs
index g
index more
data y[obs] : {kind}
data x[obs] : real
data who[obs] : g
data z[more] : real
latent b0 ~ normal(sd = 5)
latent b1 ~ flat()
latent u[g] ~ normal(sd = {sd})
let eta[obs] = b0 + b1 * x + u[who]
let level[more] = b0
observe y ~ {site}
observe z ~ student_t(mean = level, scale = 0.5, df = 4)
"""
SLOPES = """lgm 1
index obs
index g
data y[obs] : count
data x[obs] : real
data who[obs] : g
latent b ~ normal(sd = 3)
latent u[g] ~ normal(sd = 1)
latent v[g] ~ normal(sd = 0.7)
let eta[obs] = b + u[who] + v[who] * x
observe y ~ poisson(log_rate = eta)
"""


def log_density(kind: str, y: Array, eta: Array) -> Array:
    if kind == "binary":
        return np.asarray(y * eta - np.logaddexp(0.0, eta))
    return np.asarray(y * eta - np.exp(eta) - special.gammaln(y + 1.0))


def fitted(text: str, data: dict[str, AnyArray], **options: Any) -> Fit:
    return lgm.fit(lgm.loads(text), data, options={"correction": "off"}, **options)


def point(fit: Fit) -> MixturePoint:
    linear = fit.canonical.linear(fit.theta)
    return MixturePoint(1.0, fit.canonical.sites(fit.theta), linear, fit.posterior.conditioned)


def grouped(fit: Fit, **change: Any) -> tuple[MixturePoint, Groups, GroupedDraws]:
    at = point(fit)
    groups = groups_of(at.linear)
    assert groups is not None
    out = grouped_draws([at], **change)
    assert out is not None
    return at, groups, out


def intercepts(kind: str, count: int, each: int, sd: float, seed: int = 0) -> dict[str, AnyArray]:
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(count), each)
    x = rng.normal(size=len(who))
    eta = -1.0 + 0.5 * x + sd * rng.normal(size=count)[who]
    binary = (rng.random(len(eta)) < special.expit(eta)).astype(int)
    y = binary if kind == "binary" else rng.poisson(np.exp(eta))
    return {"y": y, "x": x, "who": who, "z": np.array([-1.2, -0.4, 0.3])}


class Truth:
    """Moments and log evidence by sums over (b0, b1) and, in each group, u."""

    def __init__(self, kind: str, data: dict[str, AnyArray], sd: float, at: MixturePoint) -> None:
        y, x, who, z = (np.asarray(data[n], dtype=float) for n in ("y", "x", "who", "z"))
        groups = who.astype(int)
        first = [at.linear.slices[n].start for n in ("b0", "b1")]
        unit = np.zeros((at.linear.size, 2))
        unit[first, [0, 1]] = 1.0
        root = np.linalg.cholesky(at.q.solve(unit)[first])
        t = np.linspace(-6.0, 6.0, 27)
        places = np.stack(np.meshgrid(t, t, indexing="ij"), axis=-1).reshape(-1, 2)
        b = at.q.latent_mean[first] + places @ root.T
        u = np.linspace(-9.0 * sd, 9.0 * sd, 241)
        prior = -0.5 * (u / sd) ** 2 - np.log(sd * np.sqrt(2 * np.pi)) + np.log(u[1] - u[0])
        count = groups.max() + 1
        levels, means, squares = [], [], []
        for b0, b1 in b:
            inner = np.tile(prior, (count, 1))
            eta = (b0 + b1 * x)[:, None] + u
            np.add.at(inner, groups, log_density(kind, y[:, None], eta))
            top = inner.max(axis=1, keepdims=True)
            w = np.exp(inner - top)
            mass = w.sum(axis=1)
            away = (z - b0) / 0.5
            student = -2.5 * np.log1p(away**2 / 4.0) - np.log(0.5 * special.beta(0.5, 2.0) * 2.0)
            normal = -0.5 * (b0 / 5.0) ** 2 - np.log(5.0 * np.sqrt(2.0 * np.pi))
            levels.append((top[:, 0] + np.log(mass)).sum() + student.sum() + normal)
            means.append(w @ u / mass)
            squares.append(w @ u**2 / mass)
        level = np.array(levels) + np.log(np.linalg.det(root) * (t[1] - t[0]) ** 2)
        self.log_evidence = float(special.logsumexp(level))
        w = np.exp(level - self.log_evidence)
        values, second = np.column_stack([b, means]), np.column_stack([b**2, squares])
        self.mean = w @ values
        self.sd = np.sqrt(w @ second - self.mean**2)
        u_slice = at.linear.slices["u"]
        self.where = np.r_[first, u_slice.start : u_slice.stop]

    def close(self, z: Array, mean: float = 0.04, sd: float = 0.04) -> None:
        z = z[:, self.where]
        assert np.abs((z.mean(axis=0) - self.mean) / self.sd).max() < mean
        assert np.abs(z.std(axis=0) / self.sd - 1.0).max() < sd


@pytest.mark.few(1)
@pytest.mark.parametrize(("kind", "sd"), [("binary", 3.0), ("count", 1.0)])
def test_random_intercepts(kind: str, sd: float) -> None:
    """Two shared latents, one of them flat, sites that see them alone, and 20 groups."""
    data = intercepts(kind, 20, 4, sd)
    fit = fitted(INTERCEPTS.format(kind=kind, site=SITES[kind], sd=sd), data)
    at, groups, out = grouped(fit, draws=4000)
    assert len(groups.border) == 2 and groups.members.shape == (20, 1)
    truth = Truth(kind, data, sd, at)
    truth.close(out.z)
    assert out.ess > 1500 and out.r_hat < 1.02
    assert out.log_evidences[0] == pytest.approx(truth.log_evidence, abs=2e-3)
    assert abs(fit.log_evidence - truth.log_evidence) > 0.1
    evidence, _ = grouped_evidence(at, groups, seed=0)
    assert abs(evidence.log - truth.log_evidence) < 4.0 * evidence.error + 2e-3 < 0.08


def test_intercepts_and_slopes() -> None:
    """One shared latent and groups of two."""
    rng = np.random.default_rng(3)
    who = np.repeat(np.arange(9), 5)
    x = rng.normal(size=len(who))
    y = rng.poisson(np.exp(-0.5 + rng.normal(size=9)[who] + 0.7 * rng.normal(size=9)[who] * x))
    at, groups, out = grouped(fitted(SLOPES, {"y": y, "x": x, "who": who}))
    assert len(groups.border) == 1 and groups.members.shape == (9, 2)
    b = at.q.latent_mean[0] + np.sqrt(at.q.latent_variance[0]) * np.linspace(-6.0, 6.0, 41)
    u, v = np.linspace(-7.0, 7.0, 141)[:, None], np.linspace(-5.0, 5.0, 141)
    cell = (u[1, 0] - u[0, 0]) * (v[1] - v[0])
    prior = -0.5 * u**2 - 0.5 * (v / 0.7) ** 2 + np.log(cell / (2.0 * np.pi * 0.7))
    level = -0.5 * (b / 3.0) ** 2 - np.log(3.0 * np.sqrt(2.0 * np.pi)) + np.log(b[1] - b[0])
    means = np.zeros((2, 9, len(b)))
    squares = np.zeros((2, 9, len(b)))
    cross = np.zeros((9, len(b)))
    for g in range(9):
        for k, shared in enumerate(b):
            inner = prior.copy()
            for i in np.flatnonzero(who == g):
                inner = inner + log_density("count", y[i], shared + u + v * x[i])
            log_mass = special.logsumexp(inner)
            w = np.exp(inner - log_mass)
            level[k] += log_mass
            means[:, g, k] = (w * u).sum(), (w * v).sum()
            squares[:, g, k] = (w * u**2).sum(), (w * v**2).sum()
            cross[g, k] = (w * u * v).sum()
    log_evidence = float(special.logsumexp(level))
    w = np.exp(level - log_evidence)
    mean = np.r_[w @ b, (means @ w).reshape(-1)]
    sd = np.sqrt(np.r_[w @ b**2, (squares @ w).reshape(-1)] - mean**2)
    assert out.log_evidences[0] == pytest.approx(log_evidence, abs=5e-3)
    assert np.abs((out.z.mean(axis=0) - mean) / sd).max() < 0.05
    assert np.abs(out.z.std(axis=0) / sd - 1.0).max() < 0.05
    away = out.z - out.z.mean(axis=0)
    pairs = np.einsum("mg,mg->g", away[:, 1:10], away[:, 10:]) / len(away)
    exact = cross @ w - mean[1:10] * mean[10:]
    assert np.abs((pairs - exact) / (sd[1:10] * sd[10:])).max() < 0.05


@pytest.mark.thorough
def test_a_vector_site_of_three_latents_is_one_group() -> None:
    text = """lgm 1
index obs
index class = {"a", "b", "c"}
data y[obs] : class
latent w[class] ~ normal(sd = 3)
let eta[obs, class] = w
observe y ~ categorical(softmax = eta)
"""
    _, groups, out = grouped(fitted(text, {"y": np.repeat(["a", "c"], [6, 1])}))
    assert not len(groups.border) and groups.members.shape == (1, 3)
    axes = [np.linspace(*ends, 121) for ends in ((-13, 16), (-18, 14), (-15, 15))]
    z = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    level = z @ np.array([6, 0, 1]) - 7.0 * special.logsumexp(z, axis=1) - (z**2).sum(axis=1) / 18
    level += np.log(np.prod([a[1] - a[0] for a in axes])) - 3 * np.log(3 * np.sqrt(2 * np.pi))
    log_evidence = special.logsumexp(level)
    w = np.exp(level - log_evidence)
    mean = w @ z
    sd = np.sqrt(w @ (z - mean) ** 2)
    assert out.log_evidences[0] == pytest.approx(log_evidence, abs=5e-3)
    assert np.abs((out.z.mean(axis=0) - mean) / sd).max() < 0.02
    assert np.abs(out.z.std(axis=0) / sd - 1.0).max() < 0.02
    covariance = (w[:, None] * (z - mean)).T @ (z - mean)
    np.testing.assert_allclose(np.cov(out.z.T), covariance, atol=0.05 * sd.max() ** 2)


def test_what_has_no_groups() -> None:
    """Crossed effects, a sum to zero over all groups, and a process that joins everything."""
    rng = np.random.default_rng(1)
    text = """lgm 1
index obs
index a
index b
data y[obs] : binary
data i[obs] : a
data j[obs] : b
latent u[a] ~ normal(sd = 1)
latent v[b] ~ normal(sd = 1)
let eta[obs] = u[i] + v[j]
observe y ~ bernoulli(logit = eta)
"""
    i, j = (k.reshape(-1) for k in np.meshgrid(np.arange(30), np.arange(30)))
    fit = fitted(text, {"y": rng.integers(0, 2, 900), "i": i, "j": j})
    assert groups_of(point(fit).linear) is None
    data = intercepts("binary", 30, 3, 1.0)
    text = INTERCEPTS.format(kind="binary", site=SITES["binary"], sd=1.0)
    assert groups_of(point(fitted(text, data)).linear) is not None
    tied = fitted(text + "constrain sum(u, g) = 0\n", data)
    assert groups_of(point(tied).linear) is None
    process = text.replace("u[g] ~ normal(sd = 1.0)", "u[g] ~ rw1(sd = 1)")
    assert groups_of(point(fitted(process, data)).linear) is None


def test_same_digits_and_budgets() -> None:
    fit = fitted(INTERCEPTS.format(kind="count", site=SITES["count"], sd=1.0),
                 intercepts("count", 20, 4, 1.0))  # fmt: skip
    at, _, first = grouped(fit, draws=500, seed=3)
    np.testing.assert_array_equal(first.z, grouped(fit, draws=500, seed=3)[2].z)
    assert np.abs(first.z - grouped(fit, draws=500, seed=4)[2].z).max() > 0.1
    assert grouped_draws([at], 500, budget=1e6) is None
    some = grouped(fit, draws=500, budget=6e7)[2]
    assert some.operations < 8e7 < first.operations


def test_weights_that_are_too_uneven_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A border drawn from a normal that is far too narrow."""
    fit = fitted(INTERCEPTS.format(kind="count", site=SITES["count"], sd=1.0),
                 intercepts("count", 20, 4, 1.0))  # fmt: skip
    plain = grouped_border.GroupedPoint._weighted

    def narrow(self: Any, eta: Array, scale: Array, mean: Array, root: Array) -> Any:
        return plain(self, eta, scale, mean, 0.05 * np.eye(len(mean)))

    monkeypatch.setattr(grouped_border.GroupedPoint, "_weighted", narrow)
    with pytest.raises(NoGroups, match="too uneven"):
        grouped(fit)


def test_other_densities_of_the_border_give_the_same_evidence() -> None:
    """What q's draws would be replaced by, where their weights are uneven."""
    data = intercepts("count", 20, 4, 1.0)
    fit = fitted(INTERCEPTS.format(kind="count", site=SITES["count"], sd=1.0), data)
    at = point(fit)
    groups = groups_of(at.linear)
    assert groups is not None
    of = grouped_border.GroupedPoint(at, groups)
    of.fit()
    plain = of.border(1024, seed=0)
    eta = np.random.default_rng(5).standard_normal((4000, 2))
    other = of._weighted(
        eta, np.ones(len(eta)), np.array([0.2, -0.1]), np.array([[1.3, 0.0], [0.4, 1.2]])
    )
    assert other.log_evidence == pytest.approx(plain.log_evidence, abs=0.05)
    mean = plain.weights @ plain.draws
    np.testing.assert_allclose(other.weights @ other.draws, mean, atol=0.08)


@pytest.mark.thorough
def test_tails_far_longer_than_those_of_q_are_not_missed() -> None:
    """All of many answers are yes: the shared latent has sd 3.10 and q 1.9; draws of q alone gave
    2.73, claimed to 1.6 %. Its density by the product of quadratures over the groups."""
    rng = np.random.default_rng(3)
    who = np.concatenate([np.arange(3), rng.integers(0, 3, 17)])
    n = rng.choice([1.0, 7.0, 47.0], 20)
    text = """lgm 1
    index obs = 20
    index g = 3
    data who[obs] : g
    data n[obs] : count
    data y[obs] : count
    latent a ~ normal(mean = 1.65, sd = 5.44)
    latent u[g] ~ normal(sd = 2.09)
    let eta[obs] = a + u[who]
    observe y ~ binomial(probit = eta, n = n)
    """
    fit = lgm.fit(lgm.loads(text), {"who": who, "n": n, "y": n})
    a, u = np.linspace(-10.0, 30.0, 801), np.linspace(-14.0, 14.0, 701)
    log_a = -0.5 * ((a - 1.65) / 5.44) ** 2
    for k in range(3):
        trials = n[who == k].sum()
        inner = trials * special.log_ndtr(a[:, None] + u) - 0.5 * (u / 2.09) ** 2
        log_a = log_a + np.logaddexp.reduce(inner, axis=1)
    p = np.exp(log_a - log_a.max())
    p /= p.sum()
    sd = float(np.sqrt(p @ a**2 - (p @ a) ** 2))
    assert float(fit.mean("a")) == pytest.approx(p @ a, abs=0.1 * sd)
    assert float(fit.sd("a")) == pytest.approx(sd, rel=0.06)
    high = float(np.interp(0.95, np.cumsum(p), a))
    assert float(fit.quantile("a", [0.95]).item()) == pytest.approx(high, abs=0.15 * sd)
