"""EP where its start matters: wide priors, sites that contradict each other, separated data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

import lgmdsl as lgm
from lgmdsl.contract.status import Status
from tests.backends.test_ep import MODES, ep


def laplace_sites(sd: float) -> tuple[str, dict[str, Any]]:
    """Two of them, 40 scales apart."""
    text = (
        f"lgm 1\nindex obs\ndata y[obs] : real\nlatent b ~ normal(sd = {sd})\nlet s[obs] = b\n"
        "observe y ~ laplace(mean = s, scale = 0.5)\n"
    )
    return text, {"y": [-10.0, 10.0]}


@pytest.mark.parametrize(
    ("sd", "stage"), [(100.0, "parallel"), (1e3, "sequential"), (1e4, "double loop")]
)
def test_contradicting_sites_under_a_wide_prior_settle(sd: float, stage: str) -> None:
    """Two Laplace sites 40 scales apart: under a wider prior both vanish in parallel and settle in
    turn, under one wider still in the double loop."""
    fit = ep(*laplace_sites(sd))
    assert fit.converged and fit.trace[-1].stage == stage
    # Flat between them: a uniform of half-width 10 with exponential ends.
    x = np.linspace(-60.0, 60.0, 120_001)
    level = -np.abs(x[:, None] - [-10.0, 10.0]).sum(axis=1) / 0.5 - 0.5 * (x / sd) ** 2
    weight = np.exp(level - level.max())
    truth = np.sqrt((weight * x * x).sum() / weight.sum())
    mass = np.log(weight.sum() * (x[1] - x[0])) + level.max() - np.log(sd * np.sqrt(2.0 * np.pi))
    assert fit.log_evidence == pytest.approx(mass, abs=0.1)
    assert float(fit.sd("b")) == pytest.approx(truth, rel=0.2)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("y", [[-10.0, 10.0], [-5.0, -5.0, 5.0, 5.0]])
def test_contradicting_heavy_tails_are_no_fixed_point_at_the_prior(mode: str, y: Any) -> None:
    """Student-t sites pull with forces that cancel: q does not move, but no moment matches."""
    text = (
        "lgm 1\nindex obs\ndata y[obs] : real\nlatent b ~ normal(sd = 1e4)\nlet s[obs] = b\n"
        "observe y ~ student_t(mean = s, scale = 0.5, df = 3)\n"
    )
    fit = ep(text, {"y": y}, mode=mode)
    assert fit.converged
    x = np.linspace(-1e3, 1e3, 400_001)
    density = special.gammaln(2.0) - special.gammaln(1.5) - 0.5 * np.log(0.75 * np.pi)
    level = density - 2.0 * np.log1p((x[:, None] - y) ** 2 / 0.75)
    level = level.sum(axis=1) - 0.5 * (x / 1e4) ** 2 - np.log(1e4 * np.sqrt(2.0 * np.pi))
    truth = np.log(np.exp(level).sum() * (x[1] - x[0]))
    # Two modes are beyond any Gaussian: a few nats off, or one of the two.
    assert fit.log_evidence == pytest.approx(truth, abs=7.0)
    assert 0.3 < float(fit.sd("b")) < 100.0


def test_far_from_a_fixed_point_there_is_no_evidence() -> None:
    """The value of the state handed back, 113, is above the largest that the sites allow, 0."""
    text, data = laplace_sites(1e4)
    fit = ep(text, data, mode="sequential", max_steps=5)
    assert fit.status is Status.iteration_limit and np.isnan(fit.log_evidence)
    assert "no log evidence" in fit.provenance["notes"] and "no log evidence" in fit.summary()
    page = lgm.compare(lgm.loads(text), data, ["ep"], max_steps=1).table
    assert "nan" not in fit.summary() + page
    assert np.isfinite(ep(text, data, mode="sequential").log_evidence)


@pytest.mark.thorough
@pytest.mark.parametrize("link", ["logit", "probit"])
def test_the_scale_of_separated_data_does_not_matter(link: str) -> None:
    """Sites become steps: the posterior of b tends to a limit, and is found in a few steps."""
    X = np.random.default_rng(0).normal(size=(300, 2))
    text = (
        "lgm 1\nindex obs\nindex feat\ndata X[obs, feat] : real\ndata y[obs] : binary\n"
        "latent b[feat] ~ normal(sd = 1)\nlet eta[obs] = X @ b\n"
        f"observe y ~ bernoulli({link} = eta)\n"
    )
    fits = [ep(text, {"X": s * X, "y": (X[:, 0] > 0).astype(int)}) for s in (1e4, 1e6)]
    assert all(f.converged and f.steps < 60 for f in fits)
    assert all({e.stage for e in f.trace} == {"parallel"} for f in fits)
    assert fits[0].log_evidence == pytest.approx(fits[1].log_evidence, abs=1e-3)
    np.testing.assert_allclose(fits[0].mean("b"), fits[1].mean("b"), rtol=2e-3)
