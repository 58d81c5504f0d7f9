"""What a fit says of its own errors: `fit.accuracy`, W609, the page, JSON and files."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from scipy import special, stats

import lgmdsl as lgm
from lgmdsl.accuracy.errors import Errors, mixed
from lgmdsl.arrays import Array
from tests.accuracy.models import ZERO

GROUPS = """lgm 1
index obs
index who
data y[obs] : binary
data w[obs] : who
hyper s : positive ~ half_normal(sd = 3)
latent b ~ normal(sd = 5)
latent u[who] ~ normal(sd = s)
let eta[obs] = b + u[w]
observe y ~ bernoulli(logit = eta)
"""


def zero(method: str) -> lgm.Fit:
    return lgm.fit(lgm.loads(ZERO), {"y": [0], "n": [47]}, method=method)


def said(fit: lgm.Fit) -> list[str]:
    return [w.message for w in fit.warnings if w.code == "W609"]


def test_a_named_method_stays_and_is_warned_of() -> None:
    fit = zero(method="laplace")
    assert fit.accuracy.worst == "a"
    assert fit.accuracy.mean > 0.5 and fit.accuracy.sd > 0.3
    assert said(fit) and "`a`" in said(fit)[0]
    assert fit.log_evidence_corrected - fit.log_evidence == pytest.approx(0.19, abs=0.02)


def test_rich_data_are_not_warned_of() -> None:
    fit = lgm.fit(lgm.loads(ZERO), {"y": [200], "n": [470]})
    assert fit.accuracy.within and not said(fit)
    assert fit.accuracy.worst == ""
    assert fit.accuracy.sd < 0.02 and abs(fit.accuracy.evidence) < 0.01


def test_page_json_and_file_say_the_same(tmp_path: Path) -> None:
    fit = zero(method="natural-gradient")
    assert "accuracy" in fit.summary() and "W609" in fit.summary()
    fit.save(tmp_path / "f.nc")
    again = lgm.load_fit(tmp_path / "f.nc")
    assert again.accuracy == fit.accuracy
    assert again.log_evidence_corrected == fit.log_evidence_corrected
    assert json.loads(json.dumps(dataclasses.asdict(fit.accuracy)))["worst"] == "a"


def grouped(true: float, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(120), 5)
    eta = 0.5 + true * rng.standard_normal(120)[who]
    return {"y": (rng.random(len(who)) < 1.0 / (1.0 + np.exp(-eta))).astype(float), "w": who}


def exact(data: dict[str, np.ndarray]) -> tuple[float, float]:
    """Mean and sd of s by a grid over (b, log s) and 60 Gauss-Hermite nodes for each group."""
    totals = np.bincount(data["w"].astype(int), data["y"])
    counts, many = np.unique(totals, return_counts=True)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    log_weights = np.log(weights / weights.sum())
    b, t = np.meshgrid(np.linspace(-2.0, 3.0, 81), np.linspace(-0.5, 2.2, 90), indexing="ij")
    s = np.exp(t)
    eta = b[..., None] + s[..., None] * nodes
    total = -0.5 * (b / 5.0) ** 2 - 0.5 * (s / 3.0) ** 2 + t
    for k, times in zip(counts, many, strict=True):
        terms = k * eta - 5.0 * np.logaddexp(0.0, eta) + log_weights
        top = terms.max(axis=-1)
        total = total + times * (top + np.log(np.exp(terms - top[..., None]).sum(axis=-1)))
    weight = np.exp(total - total.max())
    weight /= weight.sum()
    mean = float((weight * s).sum())
    return mean, float(np.sqrt((weight * (s - mean) ** 2).sum()))


@pytest.mark.thorough
@pytest.mark.parametrize("way", ["integrate", "map"])
def test_repeated_binary_answers_move_the_sd_of_the_groups(way: str) -> None:
    """By five answers of each of 120 persons: a variational Gaussian's s is low; the default's is
    the corrected evidence's, and says so."""
    data = grouped(2.5, 1)
    mean, sd = exact(data)
    named = lgm.fit(lgm.loads(GROUPS), data, method="natural-gradient", hyper=way)
    default = lgm.fit(lgm.loads(GROUPS), data, hyper=way)
    assert float(named.mean("s")) < mean - 0.3 * sd
    assert named.accuracy.worst == "s" and "`s`" in said(named)[0]
    room = 0.15 if way == "integrate" else 0.35  # a mode is not a mean
    assert float(default.mean("s")) == pytest.approx(mean, abs=room * sd)
    assert float(default.sd("s")) == pytest.approx(sd, rel=0.15)
    assert "corrected evidence" in default.provenance["notes"]


TREATMENTS = """lgm 1
index obs
index who
index kind = {"a", "b", "c"}
data y[obs] : count
data w[obs] : who
data k[obs] : kind
hyper s : positive ~ pc_sd(u = 1, alpha = 0.05)
latent b ~ normal(sd = 5)
latent e[kind] ~ normal(sd = 2)
latent u[who] ~ normal(sd = s)
constrain e["b"] = 0
let eta[obs] = b + e[k] + u[w]
report base = b + e["b"] - b
observe y ~ poisson(log_rate = eta)
"""


@pytest.mark.few(1)
@pytest.mark.parametrize("engine", ["auto", "sparse"])
def test_what_a_constraint_holds_fixed_has_no_error(engine: str) -> None:
    """Its sd is nothing but rounding, and was judged: the rows' order decided on draws."""
    rng = np.random.default_rng(7)
    w, k = rng.integers(0, 24, 300), rng.integers(0, 3, 300)
    y = rng.poisson(np.exp(0.4 + 0.6 * rng.normal(size=24)[w] + np.array([0.5, 0.0, -0.3])[k]))
    seen = []
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(300)
        data = {"y": y[order], "w": w[order], "k": np.array(list("abc"))[k[order]]}
        fit = lgm.fit(lgm.loads(TREATMENTS), data, options={"engine": engine})
        seen.append((fit.accuracy.sd, fit.mean("e").values, fit.mean("u").sortby("who").values))
        assert fit.accuracy.worst == ""
        assert fit.posterior.conditioned.latent_variance.min() == 0.0
        assert float(fit.sd("e").sel(kind="b")) < 1e-15 and float(fit.sd("base")) < 1e-15
    for accuracy, e, u in seen[1:]:
        np.testing.assert_allclose(accuracy, seen[0][0], atol=1e-9)
        np.testing.assert_allclose(e, seen[0][1], atol=1e-9)
        np.testing.assert_allclose(u, seen[0][2], atol=1e-9)


META = """lgm 1
index study
data y[study] : real
data se[study] : positive
latent d ~ normal(sd = 2)
latent a[study] ~ flat()
hyper tau : positive ~ half_normal(sd = 1)
potential a - d ~ student_t(scale = tau, df = 4)
observe y ~ normal(mean = a, sd = se)
"""


def test_heavy_tails_of_effects_count_to_all_orders() -> None:
    """A meta-analysis with Student-t effects: the second order of a tail is half of it, and its
    share grows as the scale of the effects falls."""
    rng = np.random.default_rng(4)
    y, se = 0.1 * rng.standard_t(4, size=30), rng.uniform(0.1, 0.4, 30)
    d, tau = np.linspace(-0.4, 0.4, 33), np.exp(np.linspace(np.log(2e-3), np.log(0.8), 40))
    x = np.linspace(-6.0, 6.0, 241)
    u = np.sinh(x)  # of the effects, in units of tau: the rule follows their tails
    tail = stats.t.logpdf(u, 4) + np.log(np.cosh(x) * (x[1] - x[0]))
    logs = np.empty((len(d), len(tau)))
    for k, t in enumerate(tau):
        for i, centre in enumerate(d):
            each = stats.norm.logpdf(y[:, None], centre + t * u, se[:, None]) + tail
            logs[i, k] = special.logsumexp(each, axis=1).sum()
    logs += (stats.norm.logpdf(d, 0.0, 2.0))[:, None]
    logs += np.log(2.0) + stats.norm.logpdf(tau) + np.log(tau)
    step = (d[1] - d[0]) * np.log(tau[1] / tau[0])
    share = np.exp(logs - special.logsumexp(logs)).sum(axis=0)
    levels = np.cumsum(share) - 0.5 * share
    ends = np.interp([0.05, 0.5, 0.95], levels, tau)
    fit = lgm.fit(lgm.loads(META), {"y": y, "se": se}, options={"effort": "low"})
    evidence = special.logsumexp(logs) + np.log(step)
    assert fit.method == "natural-gradient" and fit.converged
    assert fit.log_evidence_corrected == pytest.approx(evidence, abs=0.05)
    off = (fit.quantile("tau", [0.05, 0.5, 0.95]).values - ends) / float(fit.sd("tau"))
    assert np.abs(off).max() < 0.1


def test_errors_of_a_mixture_are_those_of_its_moments() -> None:
    """Two parts of one latent, from what each reports and the moments that it should have."""
    shares, means, sds = np.array([3.0, 1.0]), np.array([0.0, 2.0]), np.array([1.0, 0.5])
    right, wide = np.array([0.1, 2.6]), np.array([1.1, 0.6])
    errors = [
        Errors(np.array([(m - r) / w]), np.array([s / w - 1.0]), np.array([0.2]))
        for m, s, r, w in zip(means, sds, right, wide, strict=True)
    ]
    reported = [(np.array([m]), np.array([s * s])) for m, s in zip(means, sds, strict=True)]
    found = mixed(shares, reported, errors)

    def moments(mean: Array, sd: Array) -> tuple[float, float]:
        w = shares / 4.0
        centre = float(w @ mean)
        return centre, float(np.sqrt(w @ (sd**2 + mean**2) - centre**2))

    (centre, sd), (middle, width) = moments(means, sds), moments(right, wide)
    assert found.mean[0] == pytest.approx((centre - middle) / width)
    assert found.sd[0] == pytest.approx(sd / width - 1.0)
    assert found.quantile[0] > 0.2
