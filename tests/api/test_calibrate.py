"""Calibration: exact posteriors pass, wrong ones are told how, digits do not depend on the workers,
and a run that was cut off goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.api.calibrate import calibrate as module
from lgmdsl.contract.backend import BackendSpec
from lgmdsl.contract.engine import Failed
from lgmdsl.contract.problem import GaussianPosterior, Problem
from lgmdsl.contract.questions import Pointwise
from lgmdsl.inference import registry
from lgmdsl_backends.laplace import Laplace

GAUSSIAN = """lgm 1
index obs
index feat
data X[obs, feat] : real
data y[obs] : real
latent b[feat] ~ normal(mean = 1, sd = 1.5)
latent a ~ normal(sd = 0.5)
let eta[obs] = a + X @ b
observe y ~ normal(mean = eta, sd = 0.7)
"""
SIZES = {"obs": 6, "feat": 2}


class Narrow(Laplace):
    """Takes every datum twice."""

    spec = BackendSpec(name="narrow", needs=Pointwise)

    def posterior(self, problem: Problem, state: Any) -> GaussianPosterior:
        q = super().posterior(problem, state)
        weight, shift = tuple(2.0 * w for w in q.weight), tuple(2.0 * b for b in q.shift)
        twice = problem.engine.condition(weight, shift)
        assert not isinstance(twice, Failed)
        return GaussianPosterior(weight, shift, twice, q.log_evidence, q.guarantee)


def calibrate(**more: Any) -> lgm.Calibration:
    given = {"sizes": SIZES, "runs": 60, "method": "laplace", "jobs": 1, **more}
    return lgm.calibrate(lgm.loads(GAUSSIAN), **given)


@pytest.mark.thorough
def test_an_exact_posterior_is_calibrated() -> None:
    found = calibrate(runs=200)
    assert found.calibrated and found.faults == {} and "200 runs" in found.verdict
    assert set(found.tests) == {"b[.]", "mean(b)", "a", "eta[.]", "log likelihood"}
    assert max(map(len, found.table.splitlines())) <= 80
    assert all(abs(t.bias) < 0.3 and abs(t.spread - 1) < 0.25 for t in found.tests.values())


@pytest.mark.thorough
def test_data_counted_twice_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._backends, "narrow", Narrow)
    found = calibrate(runs=200, method="narrow")
    assert not found.calibrated
    assert "too narrow" in found.faults["b[.]"] and "not calibrated" in found.verdict
    assert " *" in found.table


@pytest.mark.thorough
def test_given_covariates_are_kept_and_the_seed_decides() -> None:
    X = np.random.default_rng(0).normal(size=(6, 2))
    one, two = (calibrate(data={"X": X}, sizes={}, runs=20) for _ in range(2))
    other = calibrate(data={"X": X}, sizes={}, runs=20, seed=1)
    assert one.as_json() == two.as_json() != other.as_json()


@pytest.mark.thorough
def test_the_number_of_workers_does_not_matter(tmp_path: Path) -> None:
    alone = calibrate(runs=24)
    shared = calibrate(runs=24, jobs=2, record=tmp_path / "runs.jsonl")
    assert alone.outcomes == shared.outcomes
    assert len((tmp_path / "runs.jsonl").read_text().splitlines()) == 25


@pytest.mark.thorough
def test_it_goes_on_where_it_was_cut_off(tmp_path: Path) -> None:
    place = tmp_path / "runs.jsonl"

    def stop(done: int, wanted: int) -> None:
        if done == 7:
            raise KeyboardInterrupt

    cut = calibrate(runs=30, record=place, on_run=stop)
    assert cut.interrupted and len(cut.outcomes) == 7 and "7 of 30" in cut.table
    with place.open("a") as file:
        file.write('{"run": 7, "val')  # killed in the middle of a line
    seen: list[int] = []
    whole = calibrate(runs=30, record=place, on_run=lambda done, wanted: seen.append(done))
    assert seen[0] == 8 and not whole.interrupted
    assert whole.outcomes == calibrate(runs=30).outcomes
    again = calibrate(runs=10, record=place, on_run=lambda done, wanted: seen.append(-1))
    assert -1 not in seen and len(again.outcomes) == 10


@pytest.mark.parametrize(
    "change",
    [{"seed": 3}, {"sizes": {"obs": 7, "feat": 2}}, {"method": "natural-gradient"}, {"tol": 1e-3}],
)
def test_a_record_of_another_calibration_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    place = tmp_path / "runs.jsonl"
    calibrate(runs=1, record=place)
    with pytest.raises(lgm.DataError) as caught:
        calibrate(runs=2, record=place, **change)
    assert caught.value.codes == ("E306",) and next(iter(change)) in str(caught.value)
    place.write_text("a,b\n1,2\n")
    with pytest.raises(lgm.DataError, match="no record"):
        calibrate(runs=2, record=place)
    assert place.read_text() == "a,b\n1,2\n"


def test_errors_of_the_model_are_raised_and_those_of_a_run_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(lgm.DataError) as caught:
        calibrate(sizes={})
    assert caught.value.codes == ("E305",)
    with pytest.raises(lgm.MethodError):
        calibrate(method="laplase")
    for bad in ({"runs": 0}, {"runs": True}, {"jobs": 0}, {"seed": -1}):
        with pytest.raises(lgm.MethodError):
            calibrate(**bad)
    from lgmdsl.api.calibrate import run as calibrate_run
    from lgmdsl.api.fit.fitting import fit_data
    from lgmdsl.inference.settings import FitSettings

    count = iter(range(100))

    def sometimes(model: lgm.Model, data: object, settings: FitSettings) -> lgm.Fit:
        method = "nonsense" if next(count) % 3 == 1 else settings.method
        return fit_data(model, data, replace(settings, method=method))

    monkeypatch.setattr(calibrate_run, "fit_data", sometimes)
    found = calibrate(runs=45)
    assert len(found.failed) == 15 and not found.calibrated
    assert "15 runs ended without a posterior" in found.verdict and "nonsense" in found.table


def test_too_few_runs_decide_nothing() -> None:
    found = calibrate(runs=module.FEWEST - 1)
    assert found.tests == {} and not found.calibrated and "too few" in found.verdict
    assert found.as_json()["quantities"] == {}


@pytest.mark.thorough
def test_the_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    found = calibrate()
    assert found.picture().startswith(b"\x89PNG")
    assert found.picture("svg") == found.picture("svg")


@pytest.mark.thorough
def test_what_a_prior_holds_fixed_is_no_quantity() -> None:
    """The mean of a walk that sums to zero is known, but for rounding."""
    text = """lgm 1
    index t
    data y[t] : real
    latent f[t] ~ rw1(sd = 1)
    latent b0 ~ normal(sd = 5)
    let m[t] = b0 + f
    observe y ~ normal(mean = m, sd = 0.5)
    """
    found = lgm.calibrate(lgm.loads(text), sizes={"t": 10}, runs=20, jobs=1)
    assert set(found.tests) == {"f[.]", "b0", "m[.]", "log likelihood"}


@pytest.mark.thorough
def test_priors_without_their_flat_directions_are_noted(tmp_path: Path) -> None:
    model = lgm.loads(
        "lgm 1\nindex t\ndata y[t] : real\nlatent f[t] ~ rw2(sd = 1)\n"
        "observe y ~ normal(mean = f, sd = 0.5)\n"
    )
    record = tmp_path / "runs.jsonl"
    for _ in range(2):  # the second time from the record
        found = lgm.calibrate(
            model, sizes={"t": 6}, runs=40, method="laplace", jobs=1, record=record
        )
        assert found.notes == (
            "W402: `f` is drawn without the directions in which the prior is flat",
        )
        assert "no matter where responses are normal" in " ".join(found.table.split())
        assert found.as_json()["notes"] == list(found.notes)
    assert found.calibrated  # the truth of the line is 0, and normal errors do not depend on it
    assert calibrate(runs=1).notes == ()
