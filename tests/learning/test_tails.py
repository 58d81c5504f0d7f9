"""Tails and several modes of hyperparameters against quadrature of a closed evidence; statuses of
integrals that do not hold or were interrupted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.api.fit.warnings import entitled
from lgmdsl.arrays import Array
from lgmdsl.contract.status import Status
from lgmdsl.learning import learn as learning
from lgmdsl.learning.coordinates.standardised import Standardised
from lgmdsl.learning.integration import integrate as integration
from lgmdsl.learning.integration.hyper_posterior import matched
from lgmdsl.learning.integration.integrate import Integrated
from lgmdsl.learning.integration.surrogate import SLACK, surrogate
from lgmdsl.learning.integration.visited import Known, Visited
from lgmdsl.learning.objective.log_posterior import Evaluation, Objective
from lgmdsl.learning.search.maximise import Maximiser
from tests.learning.balanced import (
    LEVELS,
    NAMES,
    Balanced,
    half_cauchy,
    log_half_cauchy,
    log_spiked,
    spiked,
)
from tests.learning.glmm import GLMM, counts, load

SMALL = Balanced.drawn(1, (5, 4, 2), (0.5, 0.15, 1.0))
TWO = Balanced.drawn(0, (5, 4, 2), (0.5, 0.5, 0.5))


@pytest.mark.few(1)
@pytest.mark.parametrize("design", ["ccd", "gauss-hermite"])
def test_tails_of_small_components(design: str) -> None:
    """The left tails of log sds are exponential, and fall far more slowly than the curvature at the
    mode says."""
    fit = lgm.fit(
        load(half_cauchy()), SMALL.data, hyper="integrate", options={"integration": design}
    )
    evidence, marginals = SMALL.exact(log_half_cauchy)
    assert fit.converged
    assert fit.log_evidence == pytest.approx(evidence, abs=0.03)
    _close(fit, marginals)


def _close(fit: lgm.Fit, marginals: dict[str, tuple[float, float, Array]]) -> None:
    for name, (mean, sd, quantiles) in marginals.items():
        assert float(fit.mean(name)) == pytest.approx(mean, abs=0.1 * sd)
        assert 0.95 < float(fit.sd(name)) / sd < 1.05
        found = fit.quantile(name, LEVELS.tolist()).values
        np.testing.assert_allclose(found, quantiles, atol=0.1 * sd)


@pytest.mark.thorough
def test_the_sd_of_the_sd_of_four_rows() -> None:
    """A single node far out held half of the variance: the surrogate passed 8 nats above a fit
    there. The sd was 1.49 of the exact one."""
    rng = np.random.default_rng(0)
    rows, cells = np.repeat(np.arange(4), 6), np.repeat(np.arange(12), 2)
    y = rng.normal(size=4)[rows] + 0.5 * rng.normal(size=12)[cells] + 0.7 * rng.normal(size=24)
    four = Balanced(y, (4, 3, 2))
    fit = lgm.fit(load(half_cauchy()), four.data, hyper="integrate")
    exact = four.exact(log_half_cauchy)[1]
    assert float(fit.sd("sa")) / exact["sa"][1] == pytest.approx(1.0, abs=0.07)


def test_a_surrogate_stays_near_a_fit_far_down() -> None:
    """Noise all but takes such a fit out of the process, whose tail is wider here."""
    points = np.array([[0.0], [1.0], [-1.0], [2.5], [9.0]])
    values = np.array([0.0, -0.5, -0.5, -1.6, -40.0])
    gradients = np.array([[0.0], [-0.8], [0.8], [-0.7], [-6.0]])
    made = surrogate(points, values, gradients, np.ones((1, 2)))
    assert made(np.array([[9.0]]))[0] < -40.0 + SLACK + 1e-9
    assert made(np.array([[9.3]]))[0] < -41.8 + SLACK + 1e-9


def ends(objective: Objective) -> list[Evaluation]:
    """Maxima of the density, from sds that are small or not."""
    search, out = Maximiser(objective, jacobian=True), list[Evaluation]()
    for a in (-10.0, -1.0):
        for b in (-10.0, -1.0):
            first = objective.at(np.array([a, b, -1.0]))
            assert first is not None
            found = search.run(first)
            new = all(np.linalg.norm(found.at.x - e.x) > 0.3 for e in out)
            if found.status is Status.converged and new:
                out.append(found.at)
    return out


def around_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make fits integrate around every mode that `ends` has."""

    def around(
        objective: Objective,
        mode: Evaluation,
        frame: Standardised,
        design: str,
        others: Sequence[Evaluation] = (),
        made: Known | None = None,
    ) -> Integrated:
        more = [e for e in ends(objective) if np.linalg.norm(e.x - mode.x) > 0.3]
        return integration.integrate(objective, mode, frame, design, more, made)

    monkeypatch.setattr(learning, "integrate", around)


@pytest.mark.thorough
def test_all_modes_that_matter_are_integrated_around(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    around_all(monkeypatch)
    fit = lgm.fit(load(spiked()), TWO.data, hyper="integrate")
    evidence, marginals = TWO.exact(log_spiked)
    assert fit.learning is not None and fit.learning.modes > 1
    assert f"around {fit.learning.modes} modes" in fit.summary()
    assert fit.log_evidence == pytest.approx(evidence, abs=0.05)
    for name, (mean, sd, _) in marginals.items():
        assert float(fit.mean(name)) == pytest.approx(mean, abs=0.1 * sd)
        assert float(fit.sd(name)) == pytest.approx(sd, rel=0.1)
    drawn = fit.sample(4000, seed=1, names=list(NAMES))
    for name, (mean, sd, _) in marginals.items():
        assert float(drawn[name].mean()) == pytest.approx(mean, abs=0.15 * sd)
    fit.save(tmp_path / "fit.nc")
    again = lgm.load_fit(tmp_path / "fit.nc")
    assert again.learning is not None and again.learning.modes == fit.learning.modes
    np.testing.assert_allclose(
        again.quantile("se", [0.1, 0.9]), fit.quantile("se", [0.1, 0.9]), rtol=1e-12
    )


def test_an_integral_without_an_end_is_not_converged() -> None:
    text = GLMM.replace("pc_sd(u = 1, alpha = 0.01)", "flat")
    fit = lgm.fit(load(text), counts(groups=1), hyper="integrate")
    assert fit.status is Status.stalled
    assert any(w.code == "W606" and "failed: do not use" in w.message for w in fit.warnings)


@pytest.mark.parametrize("what", ["log_evidence", "theta"])
def test_what_is_not_finite_is_not_converged(what: str) -> None:
    fit = lgm.fit(load(GLMM), counts(groups=5), hyper="integrate")
    assert fit.converged and entitled(fit) is fit
    wrong = (
        replace(fit, log_evidence=float("nan"))
        if what == "log_evidence"
        else replace(fit, theta={**fit.theta, "s": np.array(np.inf)})
    )
    found = entitled(wrong)
    assert found.status is Status.numerical_error
    assert "not finite" in found.warnings[-1].message


@pytest.mark.parametrize("call", [1, 3])
def test_interrupted_between_points(call: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made, calls = Visited.at_u, 0

    def interrupted(visited: Visited, places: Array) -> list[float]:
        nonlocal calls
        calls += 1
        if calls == call:
            raise KeyboardInterrupt
        return made(visited, places)

    monkeypatch.setattr(Visited, "at_u", interrupted)
    fit = lgm.fit(load(GLMM), counts(groups=8), method="laplace", hyper="integrate")
    assert fit.status is Status.interrupted
    assert [w.code for w in fit.warnings] == ["W601"]
    assert "integration over the hyperparameters was interrupted" in fit.warnings[0].message
    page = " ".join(fit.summary().split())
    assert "integrated over" not in page and "conditional on the best values found" in page
    assert float(fit.sd("s")) > 0.0 and np.isfinite(fit.sd("u")).all()
    mode = lgm.fit(
        load(GLMM), counts(groups=8), method="laplace", fixed={"s": float(fit.mean("s"))}
    )
    np.testing.assert_allclose(fit.sd("u"), mode.sd("u"), rtol=1e-4)


def test_interrupted_at_the_curvature(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(search: Maximiser, at: Evaluation, spread: Array) -> Array | None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Maximiser, "hessian", interrupted)
    fit = lgm.fit(load(GLMM), counts(groups=8), method="laplace", hyper="integrate")
    assert fit.status is Status.interrupted
    assert "integration over the hyperparameters was interrupted" in fit.warnings[0].message
    assert "without sds" in " ".join(fit.summary().split())


def test_weights_of_points_that_cannot_have_the_moments() -> None:
    """Nodes with more mass in their tails than any weights of the points can give."""
    rng = np.random.default_rng(0)
    nodes = rng.standard_t(3, size=(3000, 3)) * [1.0, 4.0, 1.0]
    z = rng.normal(size=(150, 3))
    rule = np.exp(-0.5 * np.sum(z**2, axis=1))
    weights = matched(nodes, np.full(3000, 1.0 / 3000), z, rule / rule.sum(), (nodes, z))
    assert (weights >= 0.0).all() and weights.sum() == pytest.approx(1.0)
