"""Fits of models with groups under `auto`: exact draws, evidences and hyperparameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

import lgmdsl as lgm
from lgmdsl.api.fit import correction, grouped
from lgmdsl.api.fit.fit import Fit
from lgmdsl.arrays import Array, IntArray
from lgmdsl.assess.grouped.split import NoGroups

MODEL = """lgm 1
index g
data n[g] : count
data y[g] : count
hyper s : positive ~ pc_sd(u = 3, alpha = 0.05)
latent b ~ normal(sd = 5)
latent u[g] ~ normal(sd = s)
let eta[g] = b + u
observe y ~ binomial(n = n, logit = eta)
"""
GROUPS, TRIALS = 60, 4
LEVELS = [0.05, 0.95]


def answers() -> IntArray:
    rng = np.random.default_rng(2)
    p = special.expit(-1.5 + 2.5 * rng.normal(size=GROUPS))
    return np.asarray(rng.binomial(TRIALS, p), dtype=np.int64)


def fitted(**change: Any) -> Fit:
    data = {"n": np.full(GROUPS, TRIALS), "y": answers()}
    return lgm.fit(lgm.loads(MODEL), data, **change)


class Truth:
    """Sums over s, b and u; groups of the same answer are alike."""

    def __init__(self, s: Array) -> None:
        self.s = s
        y, times = np.unique(answers(), return_counts=True)
        b, x = np.linspace(-7.0, 4.0, 111), np.linspace(-8.0, 8.0, 201)
        normal = np.exp(-0.5 * x**2) / np.exp(-0.5 * x**2).sum()
        choose = np.log(special.comb(TRIALS, y))
        level = np.zeros((len(s), len(b)))
        moments = np.zeros((2, len(y), len(s), len(b)))
        for k, sd in enumerate(s):
            eta = b[:, None] + sd * x
            for j, (value, count) in enumerate(zip(y, times, strict=True)):
                inner = np.exp(value * eta - TRIALS * np.logaddexp(0.0, eta)) * normal
                mass = inner.sum(axis=1)
                level[k] += count * (np.log(mass) + choose[j])
                moments[0, j, k] = inner @ (sd * x) / mass
                moments[1, j, k] = inner @ (sd * x) ** 2 / mass
        level += -0.5 * (b / 5.0) ** 2 - np.log(5.0 * np.sqrt(2.0 * np.pi)) + np.log(b[1] - b[0])
        self.given_s = special.logsumexp(level, axis=1)
        rate = -np.log(0.05) / 3.0
        whole = level
        if len(s) > 1:
            whole = level + (np.log(rate) - rate * s + np.log(s[1] - s[0]))[:, None]
        self.log_evidence = float(special.logsumexp(whole))
        w = np.exp(whole - self.log_evidence)
        self.of_s = w.sum(axis=1)
        first, second = (w * b).sum(), (w * b**2).sum()
        self.b = first, np.sqrt(second - first**2)
        means, squares = (moments * w).sum(axis=(2, 3))
        of = np.searchsorted(y, answers())
        self.u = means[of], np.sqrt(squares - means**2)[of]


def codes(fit: Fit) -> list[str]:
    return [w.code for w in fit.warnings]


def close(fit: Fit, truth: Truth) -> None:
    for name, (mean, sd) in (("b", truth.b), ("u", truth.u)):
        assert np.abs((fit.mean(name).values - mean) / sd).max() < 0.06
        assert np.abs(fit.sd(name).values / sd - 1.0).max() < 0.06


def test_given_hyperparameters() -> None:
    fit, truth = fitted(fixed={"s": 3.0}), Truth(np.array([3.0]))
    close(fit, truth)
    basis = "exact by quadrature of 60 groups given 1 shared latent (4,000 draws)"
    assert fit.accuracy.basis == basis and fit.accuracy.within and "W609" not in codes(fit)
    assert fit.log_evidence_corrected == pytest.approx(truth.log_evidence, abs=0.02)
    assert fit.accuracy.evidence == pytest.approx(truth.log_evidence - fit.log_evidence, abs=0.02)
    assert fit.accuracy.evidence > 0.3
    assert "exact draws (quadrature of 60 groups" in fit.summary()


@pytest.mark.thorough
def test_learned_hyperparameters() -> None:
    """The sd between groups has the posterior of the exact evidence."""
    s = np.linspace(0.2, 9.0, 89)
    truth = Truth(s)
    mean = truth.of_s @ s
    sd = np.sqrt(truth.of_s @ (s - mean) ** 2)
    fit, plain = fitted(hyper="integrate"), fitted(hyper="integrate", method="natural-gradient")
    assert abs(float(plain.mean("s")) - mean) > 0.3 * sd
    assert abs(float(fit.mean("s")) - mean) < 0.04 * sd
    assert float(fit.sd("s")) == pytest.approx(sd, rel=0.05)
    exact = np.interp(LEVELS, np.cumsum(truth.of_s), s + 0.05)
    assert np.abs(fit.quantile("s", LEVELS).values - exact).max() < 0.1 * sd
    close(fit, truth)
    assert "W609" not in codes(fit) and fit.accuracy.within
    assert fit.log_evidence_corrected == pytest.approx(truth.log_evidence, abs=0.03)


@pytest.mark.thorough
def test_the_mode_of_the_exact_evidence() -> None:
    s = np.linspace(0.5, 9.0, 171)
    density = Truth(s).given_s + np.log(0.05) / 3.0 * s
    top = s[density.argmax()]
    fit, plain = fitted(hyper="map"), fitted(hyper="map", method="natural-gradient")
    away, before = (abs(float(f.theta["s"]) - top) for f in (fit, plain))
    assert before > 0.15 and away < 0.25 * before


def test_where_operations_do_not_allow_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done without groups is done, and said."""
    monkeypatch.setattr(correction, "OPERATIONS", 1e5)
    monkeypatch.setattr(grouped, "OPERATIONS", 1e5)
    monkeypatch.setattr(correction, "FITS", 0.0)
    fit = fitted(fixed={"s": 3.0})
    assert fit.drawn is None and "W609" in codes(fit)
    assert fit.accuracy.basis.startswith("second-order")
    assert fit.provenance["marginals"].startswith("Gaussian, though off")


def test_groups_that_cannot_be_integrated_over_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise NoGroups("no")

    monkeypatch.setattr("lgmdsl.assess.grouped.draws.grouped_draws", refused)
    monkeypatch.setattr(correction, "OPERATIONS", 1e11)
    fit, truth = fitted(fixed={"s": 3.0}), Truth(np.array([3.0]))
    assert fit.accuracy.basis.startswith("exact sampler")
    for name, (mean, sd) in (("b", truth.b), ("u", truth.u)):
        assert np.abs((fit.mean(name).values - mean) / sd).max() < 0.15
