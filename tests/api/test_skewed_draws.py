"""Fits whose Gaussian is too far off and whose exact draws are too expensive: skewed draws."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.api.fit import correction
from lgmdsl.api.fit.errors.estimated import Estimated
from lgmdsl.api.fit.fit import Fit
from lgmdsl.api.fit.skewed import NotSkewed, skewed
from lgmdsl.arrays import Array
from lgmdsl.inference.plan import plan

LEVELS = [0.05, 0.5, 0.95]
# Counts whose latents are independent: one integral each.
COUNTS = """lgm 1
index obs
data y[obs] : count
latent u[obs] ~ normal(sd = {sd})
let eta[obs] = u - 1
report rate[obs] = exp(eta)
observe y ~ poisson(log_rate = eta)
"""
Y = np.array([0, 0, 1, 0, 3, 0, 0, 12, 0, 2])
# A binary process, whose latents hang together.
PROCESS = """lgm 1
index t
data x[t] : real
data y[t] : binary
latent f[t] ~ gp(at = x, kernel = se(sd = 1.5, length = 0.3))
let eta[t] = 2 * f
observe y ~ bernoulli(logit = eta)
"""


def process() -> dict[str, Array]:
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0.0, 5.0, 40))
    return {"x": x, "y": (np.sin(3.0 * x) + 0.6 * rng.normal(size=40) > 0.0).astype(int)}


def gaussian(text: str, data: dict[str, Array]) -> Fit:
    return lgm.fit(lgm.loads(text), data, options={"correction": "off"})


@pytest.fixture
def no_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where they take more operations than there are."""
    monkeypatch.setattr("lgmdsl.assess.sampling.draws.mixture_draws", lambda *_: None)
    monkeypatch.setattr(correction, "_by_groups", lambda *_: None)


def exactly(y: int, sd: float) -> tuple[Array, Array]:
    """Nodes and weights of p(u | y)."""
    u = np.linspace(-12.0 * sd, 8.0, 60001)
    log_p = y * (u - 1.0) - np.exp(u - 1.0) - 0.5 * (u / sd) ** 2
    p = np.exp(log_p - log_p.max())
    return u, p / p.sum()


def test_against_quadrature() -> None:
    fit = gaussian(COUNTS.format(sd=2), {"y": Y})
    planned = plan(fit.canonical, fit.method, None, {})
    sample, left = skewed(fit, planned, _known(fit), 1e5, 1e5)
    z = sample.z(slice(None))
    assert len(z) == 4000 and left.accuracy.basis == "skewed to second order (4,000 draws)"
    before, after = [], []
    for i, y in enumerate(Y):
        u, p = exactly(int(y), 2.0)
        mean = p @ u
        sd = np.sqrt(p @ (u - mean) ** 2)
        points = np.interp([0.05, 0.95], np.cumsum(p), u)
        assert abs(z[:, i].mean() - mean) < 0.04 * sd
        assert z[:, i].std() == pytest.approx(sd, rel=0.07)
        after.append(np.abs(np.quantile(z[:, i], [0.05, 0.95]) - points).max() / sd)
        plain = fit.quantile("u", [0.05, 0.95]).values[:, i]
        before.append(np.abs(plain - points).max() / sd)
    assert max(before) > 0.25 and max(after) < 0.16 and np.mean(after) < 0.5 * np.mean(before)
    assert left.accuracy.within and left.accuracy.quantile > 0.5 * max(after)


def _known(fit: Fit) -> Estimated:
    return Estimated(fit.accuracy, fit.log_evidence_corrected)


def test_sums_of_latents_are_skewed_as_they_should_be() -> None:
    """A sum of independent skewed terms: cumulants add up."""
    fit = gaussian(COUNTS.format(sd=1), {"y": np.tile(Y, 4)})
    sample, _ = skewed(fit, plan(fit.canonical, fit.method, None, {}), _known(fit), 1e5, 1e5)
    total = sample.z(slice(None))[:, [0, 3]].sum(axis=1)
    u, p = exactly(0, 1.0)
    mean = p @ u
    second, third = p @ (u - mean) ** 2, p @ (u - mean) ** 3
    away = total - total.mean()
    assert (away**2).mean() == pytest.approx(2.0 * second, rel=0.06)
    exact = 2.0 * third / (2.0 * second) ** 1.5
    assert (away**3).mean() / (away**2).mean() ** 1.5 == pytest.approx(exact, abs=0.06)
    assert exact < -0.08


def test_far_from_any_gaussian_they_are_nearer_and_said_to_be_off() -> None:
    """Of a count of 0 under a prior of sd 10 the Gaussian's sd is 44 % too small."""
    fit = gaussian(COUNTS.format(sd=10), {"y": np.array([0, 2])})
    sample, left = skewed(fit, plan(fit.canonical, fit.method, None, {}), _known(fit), 1e5, 1e5)
    u, p = exactly(0, 10.0)
    sd = np.sqrt(p @ (u - p @ u) ** 2)
    assert float(fit.sd("u")[0]) < 0.6 * sd < 0.9 * sample.z(slice(None))[:, 0].std() < 1.2 * sd
    assert not left.accuracy.within and left.accuracy.sd > 0.2 and left.off[0][0] == "u[0]"


@pytest.mark.usefixtures("no_exact")
def test_where_second_order_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lgmdsl.api.fit.skewed.LARGEST_SD", 0.3)
    data, model = {"y": np.array([0, 2])}, lgm.loads(COUNTS.format(sd=10))
    fit = lgm.fit(model, data)
    assert fit.drawn is None and "W609" in [w.code for w in fit.warnings]
    assert fit.provenance["marginals"].endswith("; second order is not enough")


def test_the_allowance() -> None:
    fit = gaussian(COUNTS.format(sd=2), {"y": Y})
    planned = plan(fit.canonical, fit.method, None, {})
    with pytest.raises(NotSkewed, match="nor draws to second order"):
        skewed(fit, planned, _known(fit), 600.0, 1e5)
    some, few = skewed(fit, planned, _known(fit), 2000.0, 1e5)
    assert 500 <= len(some) < 2500
    assert few.accuracy.quantile > 0.0 and str(f"{len(some):,}") in few.accuracy.basis


@pytest.mark.usefixtures("no_exact")
def test_everything_reported_is_of_the_draws(tmp_path: Path) -> None:
    data = process()
    model = lgm.loads(PROCESS)
    fit = lgm.fit(model, data)
    assert fit.drawn is not None and fit.accuracy.within
    assert fit.accuracy.basis.startswith("skewed to second order")
    assert "W609" not in [w.code for w in fit.warnings]
    assert "skewness" in fit.provenance["marginals"] and "skewness" in fit.summary()
    draws = fit.sample(len(fit.drawn))["f"].values
    np.testing.assert_allclose(draws.mean(axis=0), fit.mean("f"), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(draws.std(axis=0, ddof=1), fit.sd("f"), rtol=1e-9)
    np.testing.assert_allclose(
        np.quantile(draws, LEVELS, axis=0), fit.quantile("f", LEVELS), rtol=1e-9
    )
    # means are those of the Gaussian, whose pairs of draws cancel
    plain = gaussian(PROCESS, data)
    assert np.abs(fit.mean("f") - plain.mean("f")).max() < 0.03 * float(plain.sd("f").max())
    new = {"x": np.array([0.5, 2.2])}
    there = fit.predict(new)
    assert there.marginals.of_draws and np.isfinite(there.mean("f")).all()
    fit.save(tmp_path / "f.nc")
    again = lgm.load_fit(tmp_path / "f.nc")
    assert again.accuracy == fit.accuracy and again.summary() == fit.summary()
    assert again.quantile("f", LEVELS).equals(fit.quantile("f", LEVELS))
    assert again.predict(new).mean("f").equals(there.mean("f"))
    assert lgm.fit(model, data).sample(5).equals(fit.sample(5))
    assert not lgm.fit(model, data, seed=1).sample(5).equals(fit.sample(5))


@pytest.mark.usefixtures("no_exact")
def test_options() -> None:
    data, model = process(), lgm.loads(PROCESS)
    for options in ({"effort": "low"}, {"marginals": "gaussian"}, {"correction": "off"}):
        assert lgm.fit(model, data, options=options).drawn is None
    named = lgm.fit(model, data, method="natural-gradient")
    assert named.drawn is None and "W609" in [w.code for w in named.warnings]
    on = lgm.fit(model, data, method="laplace", options={"correction": "on"})
    ours = lgm.fit(model, data)
    assert on.drawn is not None and ours.drawn is not None
    away = (on.mean("f") - ours.mean("f")) / ours.sd("f")  # about the same Gaussian
    assert np.abs(away).max() < 0.05
    assert np.abs(on.sd("f") / ours.sd("f") - 1.0).max() < 0.04


def test_nearer_to_long_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    data, model = process(), lgm.loads(PROCESS)
    long = lgm.fit(model, data, options={"effort": "high"})
    assert long.accuracy.basis.startswith("exact sampler")
    monkeypatch.setattr("lgmdsl.assess.sampling.draws.mixture_draws", lambda *_: None)
    monkeypatch.setattr(correction, "_by_groups", lambda *_: None)
    fit, plain = lgm.fit(model, data), gaussian(PROCESS, data)
    sd = long.sd("f").values

    def away(other: Fit) -> tuple[float, float]:
        ratio = np.abs(other.sd("f").values / sd - 1.0).max()
        points = other.quantile("f", [0.05, 0.95]).values - long.quantile("f", [0.05, 0.95]).values
        return float(ratio), float(np.median(np.abs(points).max(axis=0) / sd))

    assert away(fit)[1] < 0.5 * away(plain)[1] and away(plain)[1] > 0.12
    assert away(fit)[0] < 0.08


@pytest.mark.thorough
@pytest.mark.usefixtures("no_exact")
def test_hyperparameters_are_mixed() -> None:
    text = COUNTS.format(sd="s").replace(
        "latent", "hyper s : positive ~ half_normal(sd = 2)\nlatent", 1
    )
    fit = lgm.fit(lgm.loads(text), {"y": Y})
    assert fit.hyper == "integrate" and fit.drawn is not None
    shares = np.array([p.share for p in fit.points])
    counts = np.bincount(fit.drawn.point, minlength=len(shares))
    assert np.abs(counts / counts.sum() - shares).max() < 2.5 / counts.sum()
    assert (np.diff(fit.drawn.point) >= 0).all() and len(np.unique(fit.drawn.point)) > 3
    plain = lgm.fit(lgm.loads(text), {"y": Y}, options={"marginals": "gaussian"})
    assert float(fit.sd("u")[0]) > 1.01 * float(plain.sd("u")[0])
