"""EP: known answers, three ways to one fixed point, powers, and what it does where it fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.contract.status import Status
from lgmdsl_backends.ep import ExpectationPropagation, backend
from tests.backends.climbing import FLAT, GP, HEAVY, KINKED, TIED, TWO, solved
from tests.backends.gps import random_gp
from tests.backends.test_natural_gradient import hard_gp

MODES = ("parallel", "sequential", "double-loop")


def ep(text: str, data: Any, **options: Any) -> lgm.Fit:
    change = {k: options.pop(k) for k in ("tol", "max_steps", "start_from") if k in options}
    return lgm.fit(lgm.loads(text), data, "ep", options=options, **change)


def oscillating() -> tuple[str, dict[str, Any]]:
    """A Student-t GP with nearly flat cavities, on which parallel EP does not settle."""
    return random_gp(np.random.default_rng(53), "student_t", 60)


@pytest.mark.few(2)
@pytest.mark.parametrize("text", [FLAT, TIED, TWO, KINKED, HEAVY])
def test_modes_share_a_fixed_point(text: str) -> None:
    """Flat blocks, constraints, two site blocks, kinks, heavy tails."""
    fits = [solved(text, "ep", options={"mode": m}, tol=1e-9) for m in MODES]
    assert [f.trace[-1].stage for f in fits] == ["parallel", "sequential", "double loop"]
    names = [b.name for b in fits[0].canonical.latents]
    for other in fits[1:]:
        assert other.converged
        assert other.log_evidence == pytest.approx(fits[0].log_evidence, rel=1e-9)
        for name in names:
            np.testing.assert_allclose(other.mean(name), fits[0].mean(name), atol=1e-5)
            np.testing.assert_allclose(other.sd(name), fits[0].sd(name), rtol=1e-5)


def test_the_double_loop_rises_from_far_away() -> None:
    """From Laplace's sites at a wide GP, where it is half a posterior sd off."""
    text, data = hard_gp(50)
    start = lgm.fit(lgm.loads(text), data, "laplace")
    fit = ep(text, data, mode="double-loop", start_from=start)
    assert fit.converged
    objective = np.array([e.objective for e in fit.trace])
    assert (np.diff(objective) > -1e-9 * np.abs(objective[1:])).all()
    best = ep(text, data)
    assert objective[0] < best.log_evidence - 0.05
    assert fit.log_evidence == pytest.approx(best.log_evidence, rel=1e-6)
    np.testing.assert_allclose((fit.mean("f") - best.mean("f")) / best.sd("f"), 0.0, atol=1e-3)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("family", "seed", "power", "most"),
    [("probit", 1, 1.0, 45), ("logit", 8, 1.0, 50), ("student_t", 7, 0.5, 45)],
)
def test_the_double_loop_from_rough_sites(
    family: str, seed: int, power: float, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the parallel steps before it; plain outer steps would take hundreds. The masses of
    the Student-t sites have errors that hide the last descents."""
    monkeypatch.setattr(backend, "APPROACH", 0)
    text, data = random_gp(np.random.default_rng(seed), family, 60)
    fit = ep(text, data, mode="double-loop", power=power)
    assert fit.converged and fit.steps <= most
    other = ep(text, data, power=power)
    assert fit.log_evidence == pytest.approx(other.log_evidence, rel=1e-6)


def test_a_hard_gp_converges_in_few_factorisations() -> None:
    """Where undamped parallel EP oscillates; the damped one alone takes three times as many."""
    text, data = hard_gp(250)
    fit = ep(text, data)
    assert fit.converged and fit.trace[-1].stage == "parallel"
    assert fit.steps <= 30
    further = ep(text, data, tol=1e-10, start_from=fit)
    assert further.converged
    assert further.log_evidence == pytest.approx(fit.log_evidence, rel=1e-8)


@pytest.mark.few(1)
@pytest.mark.parametrize("family", ["logit", "probit", "poisson", "student_t"])
def test_random_gps_converge(family: str) -> None:
    rng = np.random.default_rng(4)
    for _ in range(6):
        text, data = random_gp(rng, family, 120)
        fit = ep(text, data)
        assert fit.converged, (family, fit.trace[-1])
        if family != "student_t":
            assert fit.trace[-1].stage == "parallel"


def test_a_start_from_another_method_saves_steps() -> None:
    text, data = hard_gp(120)
    cold = ep(text, data)
    warm = ep(text, data, start_from=lgm.fit(lgm.loads(text), data, "natural-gradient"))
    assert warm.steps <= cold.steps  # which begins with a rough fit by the same method
    assert warm.log_evidence == pytest.approx(cold.log_evidence, rel=1e-7)


# ---- powers ------------------------------------------------------------------------------------


def test_small_powers_tend_to_the_variational_fit() -> None:
    text, data = hard_gp(60)
    limit = lgm.fit(lgm.loads(text), data, "natural-gradient", tol=1e-9)
    gaps = []
    for power in (0.1, 0.01):
        fit = ep(text, data, power=power, tol=1e-9)
        assert fit.converged
        mean = float(abs((fit.mean("f") - limit.mean("f")) / limit.sd("f")).max())
        gaps.append((fit.log_evidence - limit.log_evidence, mean))
    assert gaps[1][0] < 0.25 and gaps[1][1] < 0.005
    # The distance is of the first order in the power.
    np.testing.assert_allclose(np.array(gaps[0]) / gaps[1], 10.0, rtol=0.2)


@pytest.mark.parametrize("text", [FLAT, KINKED])
def test_the_power_is_continuous_at_one(text: str) -> None:
    one = solved(text, "ep", tol=1e-9)
    gaps = []
    for short in (1e-2, 1e-3):
        near = solved(text, "ep", options={"power": 1.0 - short}, tol=1e-9)
        gaps.append(abs(near.log_evidence - one.log_evidence))
    assert gaps[1] < 1e-3 and gaps[1] == pytest.approx(0.1 * gaps[0], rel=0.1)


# ---- what it does where it does not settle -----------------------------------------------------


def test_student_t_regression_with_outliers() -> None:
    """A quarter of the responses are far off: negative site weights, and the truth all the same."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 2))
    y = X @ [1.0, -0.7] + 0.3 * rng.normal(size=60)
    y[:15] += 12.0 * rng.normal(size=15)
    text = HEAVY.replace("data who[obs] : g\n", "").replace("index g\n", "")
    fit = ep(text.replace("scale = 1", "scale = 0.3"), {"X": X, "y": y})
    assert fit.converged
    assert min(w.min() for w in fit.weight) < 0.0
    np.testing.assert_allclose(fit.mean("b"), [1.0, -0.7], atol=0.2)


@pytest.mark.thorough
def test_stages_are_entered_by_themselves_and_told() -> None:
    fit = ep(*oscillating())
    stages = list(dict.fromkeys(e.stage for e in fit.trace))
    assert stages == ["parallel", "parallel, power 0.5", "double loop, power 0.5"]
    assert fit.converged
    assert "power 0.5" in fit.provenance["notes"]
    assert "power 0.5" in fit.summary()
    half = ep(*oscillating(), mode="double-loop", power=0.5)
    assert half.log_evidence == pytest.approx(fit.log_evidence, rel=1e-6)


def test_the_double_loop_takes_over_on_log_concave_sites(monkeypatch: pytest.MonkeyPatch) -> None:
    """No such model is known on which the damped steps fail, so their patience is taken away."""
    plain = solved(GP, "ep")
    monkeypatch.setattr(backend, "PATIENCE", 0)
    fit = solved(GP, "ep")
    stages = list(dict.fromkeys(e.stage for e in fit.trace[1:]))
    assert stages == ["parallel", "sequential", "double loop"]  # the first from the prior again
    assert fit.converged and "notes" not in fit.provenance
    assert fit.log_evidence == pytest.approx(plain.log_evidence, rel=1e-6)


def test_a_run_that_oscillates_ends_stalled_with_the_best_state(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(backend, "LARGEST", 10)
    fit = ep(*oscillating(), power=0.5)
    assert fit.status is Status.stalled
    assert "51 rows are too many" in str(fit.warnings)
    best = min(fit.trace, key=lambda e: e.residual)
    assert best.step < fit.trace[-1].step
    assert fit.log_evidence == best.objective
    assert np.isfinite(fit.mean("f").values).all()
    fit.save(tmp_path / "fit.nc")
    assert lgm.load_fit(tmp_path / "fit.nc").trace == fit.trace


def test_stopping_early_hands_back_the_best_state() -> None:
    text, data = hard_gp(60)
    fit = ep(text, data, max_steps=3)
    assert fit.status is Status.iteration_limit
    assert fit.log_evidence == min(fit.trace, key=lambda e: e.residual).objective


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"power": 0.0}, "power lies in"),
        ({"power": 1.5}, "power lies in"),
        ({"damping": -1.0}, "damping lies in"),
        ({"mode": "serial"}, "parallel, sequential, double-loop"),
        ({"power": 1e-12}, "method `ep` refuses power=1e-12: power lies in \\[0.0001, 1\\]"),
        ({"power": "nan"}, "power lies in"),
        ({"damping": 1e-9}, "damping lies in"),
        ({"power": "half"}, "option `power` of method `ep` is a number, not `half`"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(lgm.MethodError, match=said) as caught:
        solved(TWO, "ep", options=options)
    assert caught.value.codes == ("E104",)


def test_sites_that_share_a_parameter_are_refused() -> None:
    from lgmdsl.inference.routes import Refusal, Route, route
    from lgmdsl.sites.vector.admixture import AdmixtureSoftmax
    from tests.backends.softmax import Softmax

    refused = route(AdmixtureSoftmax, ExpectationPropagation)
    assert isinstance(refused, Refusal) and refused.code == "E501"
    assert isinstance(route(Softmax, ExpectationPropagation), Route)
