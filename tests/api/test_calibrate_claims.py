"""What fits claim of their errors against what a calibration finds, and where truths are placed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import special

import lgmdsl as lgm
from lgmdsl.api.calibrate.calibrate import Calibration
from lgmdsl.api.calibrate.claims import Claim
from lgmdsl.api.calibrate.placed import Truth, is_reported, placed
from lgmdsl.api.calibrate.run import CalibrationTask, RunOutcome, run_once
from lgmdsl.api.fit.fit import Fit
from lgmdsl.api.simulate.simulate import TRUTH, Simulated
from lgmdsl.inference import registry
from tests.api.test_calibrate import GAUSSIAN, SIZES, Narrow

GROUPS = """lgm 1
index obs
index g
data who[obs] : g
data y[obs] : real
hyper s : positive ~ half_normal(sd = 1)
latent b0 ~ normal(sd = 1)
latent u[g] ~ normal(sd = 1)
let eta[obs] = b0 + s * u[who]
observe y ~ normal(mean = eta, sd = 1)
"""
COUNT = """lgm 1
index obs
data y[obs] : count
hyper s : positive ~ half_normal(sd = 1)
latent a ~ normal(sd = 2)
latent u[obs] ~ normal(sd = s)
let eta[obs] = a + u
observe y ~ poisson(log_rate = eta)
"""
RUNS = 400


def calibration(shift: float, stretch: float, *claims: Claim) -> Calibration:
    """Runs of one latent whose truth's scores have this mean and sd."""
    u = (np.arange(RUNS) + 0.5) / RUNS
    scores = shift + stretch * np.random.default_rng(0).permutation(special.ndtri(u))
    outcomes = tuple(
        RunOutcome(k, {"a": float(special.ndtr(x))}, claim=claims[k % len(claims)])
        for k, x in enumerate(scores)
    )
    return Calibration(CalibrationTask(GAUSSIAN, "model"), outcomes, RUNS)


def said(mean: float, sd: float, quantile: float, **more: Any) -> Claim:
    return Claim(mean, sd, quantile, "second-order correction", **more)


@pytest.mark.parametrize(
    ("shift", "stretch", "claim", "words"),
    [
        (0.0, 1.0, said(0.0, 0.0, 0.0), ""),
        (0.5, 1.0, said(0.6, 0.0, 0.6), ""),
        (0.5, 1.0, said(0.1, 0.0, 0.6), "means are off by 0.5 +- 0.05 sd, where 0.1 was claimed"),
        (-0.5, 1.0, said(0.1, 0.0, 0.6), "means are off by 0.5"),
        (0.0, 1.5, said(0.0, 0.4, 1.0), ""),
        (0.0, 1.5, said(0.0, 0.1, 1.0), "sds are off by 33 % +- 2 %, where 10 % was claimed"),
        (0.0, 0.6, said(0.0, 0.1, 1.0), "sds are off by 67 %"),
        (0.0, 1.5, said(0.0, 0.4, 0.0), "beyond its 5 % points, where an error of 0 sd"),
        (0.5, 1.0, Claim(basis="none: it was not estimated"), ""),
    ],
)
def test_findings_contradict_claims(shift: float, stretch: float, claim: Claim, words: str) -> None:
    made = calibration(shift, stretch, claim)
    assert words in made.contradictions.get("a", "") and bool(words) == bool(made.contradictions)
    exact = shift == 0.0 and stretch == 1.0
    assert made.calibrated is exact
    if words:
        assert "contradicts what the fits claim: a: " in made.verdict
    elif not exact:
        why = "do not know" if not claim.known else "no larger than what the fits claim"
        assert why in made.verdict


def test_what_is_claimed_is_averaged_over_the_runs_that_know() -> None:
    claims = (
        said(0.2, 0.1, 0.3, worst="a", warned=True),
        said(0.0, 0.3, 0.1),
        Claim(basis="none: too large"),
        Claim(basis="none: too large"),
    )
    made = calibration(0.0, 1.0, *claims)
    assert made.claims.average == pytest.approx({"mean": 0.1, "sd": 0.2, "quantile": 0.2})
    assert made.claims.largest == pytest.approx({"mean": 0.2, "sd": 0.3, "quantile": 0.3})
    assert (made.claims.known, made.claims.warned) == (RUNS // 2, RUNS // 4)
    text = " ".join(made.table.split())
    assert "claimed: means within 0.1 sd, sds within 20 %, 5 and 95 % points within 0.2" in text
    assert f"of the {RUNS // 2} that know them; W609 in {RUNS // 4} runs" in text
    assert "found: means off by 0" in text and max(map(len, made.table.splitlines())) <= 80
    row = next(line.split() for line in made.table.splitlines() if line.startswith("a "))
    assert row[:5] == ["a", f"{RUNS}", row[2], row[3], "%"] and row[-1] == f"{RUNS // 4}"
    shown = made.as_json()
    assert shown["claimed"] == made.claims.as_json() and shown["contradictions"] == {}


def test_runs_that_claim_nothing_are_left_out_of_the_comparison() -> None:
    """Half of the runs claim nothing, and they alone are off."""
    made = calibration(0.0, 1.0, said(0.0, 0.0, 0.0), Claim(basis="none: too large"))
    shifted = tuple(
        o if o.claim.known else replace(o, values={"a": min(1.0, 0.5 + 0.5 * o.values["a"])})
        for o in made.outcomes
    )
    off = replace(made, outcomes=shifted)
    assert off.faults and not off.contradictions


def test_claims_survive_a_record() -> None:
    claim = said(0.1, 0.2, 0.3, worst="u", warned=True)
    outcome = RunOutcome(3, {"a": 0.5}, True, "ep", "", claim)
    assert RunOutcome.of_json(outcome.as_json()) == outcome
    nothing = RunOutcome(4, {}, False, "", "E601")
    assert RunOutcome.of_json(nothing.as_json()) == nothing


@pytest.mark.thorough
def test_data_counted_twice_contradict_a_fit_that_calls_itself_exact(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(registry._backends, "narrow", Narrow)
    made = lgm.calibrate(lgm.loads(GAUSSIAN), sizes=SIZES, runs=150, method="narrow", jobs=1)
    assert made.claims.average["sd"] == 0.0
    assert "sds are off" in made.contradictions["b[.]"]
    assert made.worst_first[0] in made.faults and "contradicts" in made.verdict


@pytest.fixture(scope="module")
def learned() -> tuple[Fit, dict[str, Any]]:
    model = lgm.loads(GROUPS)
    data = lgm.simulate(model, sizes={"obs": 12, "g": 3}, seed=4)
    return lgm.fit(model, data), data


def test_truths_are_placed_in_the_mixture(learned: tuple[Fit, dict[str, Any]]) -> None:
    """Under learned hyperparameters: not at their mode, and lets at the true ones."""
    fit, data = learned
    latents = {b.name: np.asarray(data[TRUTH + b.name]) for b in fit.canonical.reported}
    truth = Truth.of(fit, Simulated(data, latents), {})
    values = dict(placed(fit, truth, np.random.default_rng(0)))
    assert set(values) == {"b0", "u[.]", "mean(u)", "eta[.]", "s", "log likelihood"}
    shares = np.array([p.share for p in fit.points])
    moments = [p.condition() for p in fit.points]
    b0, s = (float(data[f"truth.{n}"]) for n in ("b0", "s"))
    parts = [special.ndtr((b0 - q.latent_mean[0]) / np.sqrt(q.latent_variance[0])) for q in moments]
    assert values["b0"] == pytest.approx(float(shares @ parts), abs=1e-12)
    c = np.array([0.0, 1.0, 1.0, 1.0]) / 3.0
    mean = float(np.mean(data["truth.u"]))
    parts = [special.ndtr((mean - c @ q.latent_mean) / np.sqrt(c @ q.solve(c))) for q in moments]
    assert values["mean(u)"] == pytest.approx(float(shares @ parts), abs=1e-9)
    eta = b0 + s * np.asarray(data["truth.u"])[np.asarray(data["who"], dtype=int)]
    away = np.abs(fit.marginals.below("eta", eta) - values["eta[.]"])
    assert away.min() < 1e-9
    assert float(fit.quantile("s", [values["s"]]).item()) == pytest.approx(s, rel=1e-2)


@pytest.mark.thorough
def test_levels_are_the_inverse_of_quantiles(learned: tuple[Fit, dict[str, Any]]) -> None:
    levels = np.array([0.03, 0.5, 0.9])
    drawn = lgm.fit(lgm.loads(COUNT), {"y": [0, 0, 0, 1]})
    assert drawn.drawn is not None
    for fit, names in ((learned[0], ("b0", "u", "eta", "s")), (drawn, ("a", "u", "eta", "s"))):
        for name in names:
            for level in levels:
                at = fit.quantile(name, [level]).values[0]
                assert fit.marginals.below(name, at) == pytest.approx(level, abs=3e-3), name


@pytest.mark.thorough
def test_a_run_places_hyperparameters_and_keeps_the_claim() -> None:
    task = CalibrationTask(COUNT, "model", sizes={"obs": 4})
    outcome = run_once(lgm.loads(COUNT), task, 1)
    assert {"s", "a", "u[.]", "eta[.]"} <= set(outcome.values)
    assert outcome.claim.known and outcome.claim.basis
    assert all(0.0 < v < 1.0 for v in outcome.values.values())
    assert [n for n in outcome.values if not is_reported(n)] == ["mean(u)", "log likelihood"]
