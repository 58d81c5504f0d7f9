"""px-vb: conformance, the kidney data, its bound, its counters, and hyperparameters under it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import special

import lgmdsl as lgm
from lgmdsl.api.fit.fit import Fit
from lgmdsl.arrays import AnyArray, Array
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.questions import Augmented, AugmentedAnswer
from lgmdsl.contract.status import Guarantee
from lgmdsl.inference.driver import Tolerances, run
from lgmdsl_backends.px_vb import ParameterExpanded
from tests.agreement.plain_models import slopes_hold
from tests.compiled import problem_for

HEAD = "lgm 1\nindex obs\nindex feat\ndata X[obs, feat] : real\ndata y[obs] : binary\n"
FLAT = f"{HEAD}latent w[feat] ~ flat()\nlet eta[obs] = X @ w\nobserve y ~ bernoulli(probit = eta)\n"
LIMIT = (-1.777489, 4.373882, 2.428321)


def small(seed: int = 0, rows: int = 25) -> dict[str, AnyArray]:
    rng = np.random.default_rng(seed)
    X = np.c_[np.ones(rows), rng.normal(size=(rows, 2))]
    return {"X": X, "y": (X @ [0.3, 1.0, -0.8] + rng.normal(size=rows) > 0).astype(int)}


def problem_of(text: str, data: dict[str, AnyArray]) -> Problem:
    return problem_for("px-vb", text, data)


def kidney(shared: Path) -> dict[str, AnyArray]:
    found = np.load(shared / "data" / "lupus.npz")
    return {"X": found["X"], "y": found["y"]}


def fitted(data: dict[str, AnyArray], text: str = FLAT, **settings: Any) -> Fit:
    return lgm.fit(lgm.loads(text), data, "px-vb", **settings)


@pytest.mark.thorough
def test_kidney_data_with_and_without_expansion(shared: Path) -> None:
    data = kidney(shared)
    expanded = fitted(data, tol=1e-8)
    plain = fitted(data, tol=1e-8, options={"expand": False})
    for fit in (expanded, plain):
        assert fit.converged and fit.guarantee is Guarantee.LOWER
        np.testing.assert_allclose(fit.mean("w"), LIMIT, atol=1e-5)
    assert expanded.log_evidence == pytest.approx(plain.log_evidence, abs=1e-9)
    assert 15 * expanded.steps < plain.steps


def test_the_default_tolerance_is_a_distance_and_not_a_move(shared: Path) -> None:
    """Plain variational Bayes moves by 1/375 of the way that is left: it must not stop early. Its
    limit is the posterior mode."""
    text = FLAT.replace("flat()", "normal(sd = 5)")
    fit = fitted(kidney(shared), text, options={"expand": False})
    known = json.loads((shared / "reference" / "known_fits.json").read_text())
    mode = known["lupus_probit_sd5/laplace"]["z"]
    away = np.abs(fit.mean("w").values - mode) / fit.sd("w").values
    assert fit.converged
    assert away.max() < 1.5e-4
    assert 0.5 * away.max() < fit.trace[-1].residual < 1e-4


def test_the_evidence_is_the_normaliser_and_the_sites_corrections() -> None:
    """log Phi(y m) + m^2 / 2 - b m for a probit site, W = 1, m the predictor's mean."""
    data = small()
    fit = fitted(data, tol=1e-12)
    (weight,), (shift,) = fit.weight, fit.shift
    m = fit.mean("eta").values
    sign = 2.0 * np.asarray(data["y"]) - 1.0
    correction = special.log_ndtr(sign * m) + 0.5 * m * m - shift * m
    q = fit.posterior.conditioned
    assert (weight == 1.0).all()
    assert fit.log_evidence == pytest.approx(q.log_normaliser + correction.sum(), abs=1e-9)
    hazard = np.exp(-0.5 * m * m - special.log_ndtr(sign * m)) / np.sqrt(2.0 * np.pi)
    np.testing.assert_allclose(shift, m + sign * hazard, atol=1e-6)


def test_it_says_what_it_is_and_what_it_did() -> None:
    fit = fitted(small())
    note = fit.provenance["notes"]
    assert "mean field" in note and f"{fit.steps} expansions" in note and "skipped" not in note
    assert "mean field" in str(fit.summary()).replace("\n", " ") and "lower bound" in fit.summary()
    assert {e.stage for e in fit.trace[1:]} == {"expanded"}
    plain = fitted(small(), options={"expand": False})
    assert "expansion" not in plain.provenance["notes"]


@pytest.mark.parametrize("family", ["binomial(probit = eta, n = n)", "bernoulli(probit = eta)"])
def test_counts_are_rows_that_come_again(family: str) -> None:
    """y of n trials at one predictor is n rows there, also to the auxiliaries."""
    data = small()
    one = fitted(data)
    if family.startswith("bernoulli"):
        twice = {k: np.repeat(v, 2, axis=0) for k, v in data.items()}
        text = (
            FLAT.replace("binary", "count")
            .replace("bernoulli(probit = eta)", "binomial(probit = eta, n = n)")
            .replace("data y", "data n[obs] : count\ndata y")
        )
        counts = {"X": data["X"], "y": 2 * data["y"], "n": np.full(len(data["y"]), 2)}
        one, other = fitted(twice, tol=1e-10), fitted(counts, text, tol=1e-10)
    else:
        text = FLAT.replace("binary", "count").replace("bernoulli(probit = eta)", family)
        text = text.replace("data y", "data n[obs] : count\ndata y")
        other = fitted({**data, "n": np.ones(len(data["y"]), dtype=int)}, text)
    np.testing.assert_allclose(one.mean("w"), other.mean("w"), atol=1e-6)
    np.testing.assert_allclose(one.sd("w"), other.sd("w"), rtol=1e-9)
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=1e-8)


def test_two_ordered_classes_are_a_probit() -> None:
    data = small()
    text = FLAT.replace("bernoulli(probit = eta)", "ordinal(probit = eta, cuts = c)")
    text = text.replace("data y[obs] : binary", "index k = 2\nindex cut = head(k)\ndata y[obs] : k")
    text = text.replace("latent w", "hyper c[cut] : ordered ~ normal(sd = 1)\nlatent w")
    one = fitted(data, tol=1e-10)
    two = fitted(data, text, tol=1e-10, fixed={"c": [0.0]}, hyper="fixed")
    assert one.log_evidence == pytest.approx(two.log_evidence, abs=1e-8)
    np.testing.assert_allclose(one.mean("w"), two.mean("w"), atol=1e-6)


@dataclass(frozen=True, eq=False)
class Greedy(Augmented):
    """Says that stretching gains more than it does: its answers' best rho is no bound's."""

    site: Augmented
    share: float

    def weights(self, mean: Array, variance: Array) -> AugmentedAnswer:
        a = self.site.weights(mean, variance)
        assert a.stretch is not None
        return replace(a, stretch=replace(a.stretch, count=self.share * a.stretch.count))

    def weight_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        return self.site.weight_slopes(mean, variance)


@pytest.mark.parametrize("share", [0.9, 1.2])
def test_a_wrong_expansion_is_skipped_and_counted(share: float) -> None:
    """As with N in the place of N + M in (13), which moves the limit of the paper's algorithm."""
    problem = problem_of(FLAT, small())
    right = run(ParameterExpanded(), problem, Tolerances(1e-10, 1e-6)).posterior
    (answer,) = problem.answers
    wrong = replace(problem, answers=(Greedy(answer, share),))  # type: ignore[arg-type]
    found = run(ParameterExpanded(), wrong, Tolerances(1e-10, 1e-6))
    assert found.posterior is not None and right is not None
    assert "skipped" in found.posterior.notes[1]
    assert [e.stage for e in found.trace].count("expansion skipped") > 3
    assert (np.diff([e.objective for e in found.trace]) > -1e-11).all()
    assert found.posterior.log_evidence == pytest.approx(right.log_evidence, abs=1e-9)
    np.testing.assert_allclose(
        found.posterior.conditioned.latent_mean, right.conditioned.latent_mean, atol=1e-5
    )


def test_the_gradient_in_hyperparameters_and_cuts() -> None:
    text = """lgm 1
index obs
index feat
index k = 3
index cut = head(k)
data X[obs, feat] : real
data y[obs] : k
hyper s : positive ~ gamma(shape = 2, rate = 1)
hyper c[cut] : ordered ~ normal(sd = 3)
latent w[feat] ~ normal(mean = 0.4, sd = s)
let eta[obs] = X @ w
observe y ~ ordinal(probit = eta, cuts = c)
"""
    data = small(3)
    data["y"] = np.digitize(data["X"] @ [0.0, 1.0, -0.5], [-0.5, 0.7])
    at = {"s": np.array(0.8), "c": np.array([-0.4, 0.9])}
    slopes_hold(fitted(data, text, fixed=at), "px-vb", None, at)


def test_other_sites_are_told_what_they_lack() -> None:
    text = FLAT.replace("binary", "count").replace("bernoulli(probit", "poisson(log_rate")
    with pytest.raises(lgm.MethodError) as caught:
        fitted(small(), text)
    message = str(caught.value)
    assert "E501" in message and "poisson.log_rate does not answer Augmented" in message
    assert "natural-gradient" in message


def test_the_expansion_is_an_option() -> None:
    with pytest.raises(lgm.MethodError, match="expand"):
        fitted(small(), options={"expands": False})
