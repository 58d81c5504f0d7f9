"""Audits of fits that report exact draws: by other draws, enough to decide, and never blind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.api.assess import audit as module
from lgmdsl.api.assess.audit_functionals import AuditedFit
from lgmdsl.api.fit.fit import Fit
from lgmdsl.assess.importance.audit import audit_mixture
from lgmdsl.assess.importance.verdict import Outcome
from tests.api.test_calibrate_claims import COUNT
from tests.api.test_drawn_assessments import zeros


@pytest.fixture(scope="module")
def fit() -> Fit:
    return zeros()


@pytest.mark.thorough
def test_the_audit_takes_other_draws_than_the_fit_of_the_same_seed(
    fit: Fit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "VALUES", 0)  # as many draws as the fit has
    assert fit.drawn is not None and fit.seed == 0
    audit = fit.audit(n=len(fit.drawn), seed=0, sampler=True)
    assert audit.draws == len(fit.drawn) and abs(audit.corrected["a"].shift[0]) > 1e-4
    own = float(fit.quantile("a", [0.05]).item())
    assert abs(float(audit.quantile("a", [0.05]).item()) - own) > 1e-3


@pytest.mark.thorough
def test_it_decides_with_as_many_draws_as_that_takes(fit: Fit) -> None:
    audit = fit.audit()
    assert audit.outcome is Outcome.trust and audit.draws > 4000
    assert audit.proposal.startswith("exact sampler")
    assert "no 90 % interval by 0.15 sd" in audit.verdict
    assert float(np.max(audit.corrected["a"].quantile_error)) < 0.075
    assert audit.draws == fit.audit().draws


def test_draws_that_are_off_are_found_out(fit: Fit) -> None:
    assert fit.drawn is not None
    narrow = replace(fit.drawn, away=(0.8 * fit.drawn.away).astype(np.float32))
    shifted = replace(fit.drawn, centre=fit.drawn.centre + 0.3 * fit.drawn.away.std(axis=0))
    for sample in (narrow, shifted):
        audit = replace(fit, drawn=sample).audit()
        assert audit.outcome is Outcome.shifted, audit.verdict
        assert "try method" not in audit.verdict and "use the corrected values" in audit.verdict


def test_draws_at_several_modes_are_not_held_against_chains_around_one(fit: Fit) -> None:
    assert fit.drawn is not None and fit.drawn.of_chains
    audit = replace(fit, drawn=replace(fit.drawn, chains=1)).audit()
    assert "exact sampler" not in audit.proposal and audit.outcome is Outcome.undecided


def test_a_large_model_is_left_undecided(fit: Fit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "VALUES", 1000)
    audit = fit.audit()
    assert audit.outcome is Outcome.undecided and audit.draws == 4000


def test_named_methods_are_audited_by_weights_alone() -> None:
    audit = zeros(method="laplace").audit()
    assert "exact sampler" not in audit.proposal
    assert audit.draws == 4000


def test_predictors_of_a_mixture_are_compared_with_its_own_points() -> None:
    """Not with a normal's of its moments: under a wide sd the 95 % points are 0.1 sd apart, and
    an audit by exact draws called fits shifted that had nothing wrong."""
    fit = lgm.fit(lgm.loads(COUNT), {"y": [3, 4, 4, 5, 7, 3]}, options={"correction": "off"})
    audited = AuditedFit(fit, fit.canonical, 400, 0)
    functionals = tuple(audited.functionals())
    findings = audit_mixture(audited.parts, functionals, 400, 0)
    (predictors,) = [f for f in findings.functionals if f.name == "predictors 0"]
    wanted = fit.quantile("eta", [0.05, 0.95]).values
    assert predictors.quantiles == pytest.approx(wanted, abs=1e-6)
    normal = predictors.mean + np.array([[-1.6448536], [1.6448536]]) * predictors.sd
    assert np.abs((wanted - normal) / predictors.sd).max() > 0.05


def test_points_without_draws_say_nothing_of_the_evidence() -> None:
    """Their evidence is unknown, not 0: next to others of -8,000 nats all shares were NaN, and the
    effective size infinite."""
    text = """lgm 1
index obs
index g
data y[obs] : real
data who[obs] : g
hyper s : positive ~ half_normal(sd = 2)
latent u[g] ~ normal(sd = s)
observe y ~ normal(mean = u[who], sd = 0.05)
"""
    rng = np.random.default_rng(0)
    data = {"y": rng.normal(size=24), "who": np.arange(24) % 4}
    fit = lgm.fit(lgm.loads(text), data, "laplace", "integrate")
    assert fit.log_evidence < -800.0 and min(p.share for p in fit.points) < 0.004
    audit = fit.audit(100, sampler=True)
    assert audit.ess <= audit.draws and np.isfinite(audit.log_evidence_se)
