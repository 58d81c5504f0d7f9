"""Fits that are interrupted, at any place: what there is, honestly, and how it goes on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.api.files.netcdf import ATTRIBUTE, Group, digest
from lgmdsl.api.fit import compiled, completed
from lgmdsl.api.fit.errors.estimated import estimated
from lgmdsl.arrays import Array
from lgmdsl.contract.status import Status
from lgmdsl.inference.driver import TraceEntry
from lgmdsl.learning import learn
from lgmdsl.learning.objective.log_posterior import Objective
from lgmdsl.learning.search.maximise import Maximiser
from tests.learning.test_modes import CROSSED, VAGUE, crossed
from tests.stored_fits.cases import CASES

TEXT = """lgm 1
index obs
index g
data y[obs] : count
data x[obs] : real
data who[obs] : g
hyper s : positive ~ pc_sd(u = 1, alpha = 0.05)
latent b ~ normal(sd = 2)
latent u[g] ~ normal(sd = s)
let eta[obs] = b * x + u[who]
observe y ~ poisson(log_rate = eta)
"""


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    rng = np.random.default_rng(1)
    x, who = rng.standard_normal(80), rng.integers(0, 8, 80)
    return {"x": x, "who": who, "y": rng.poisson(np.exp(0.5 * x + 0.2 * who))}


def interrupting(after: Callable[[TraceEntry], bool]) -> Callable[[TraceEntry], None]:
    def on_step(entry: TraceEntry) -> None:
        if after(entry):
            raise KeyboardInterrupt

    return on_step


def test_a_search_goes_on_from_where_it_was_interrupted(data: Any, tmp_path: Path) -> None:
    model = lgm.loads(TEXT)
    whole = lgm.fit(model, data, hyper="map")
    on_step = interrupting(lambda e: e.stage == "hyperparameters" and e.step >= 2)
    first = lgm.fit(model, data, hyper="map", on_step=on_step)
    assert first.status is Status.interrupted and not first.converged
    assert "W601" in {w.code for w in first.warnings} and not first.accuracy.known
    assert any("start_from=fit" in (w.help or "") for w in first.warnings)
    first.save(tmp_path / "f.nc")
    assert lgm.load_fit(tmp_path / "f.nc").status is Status.interrupted
    again = lgm.fit(model, data, hyper="map", start_from=tmp_path / "f.nc")
    assert again.converged
    assert again.log_evidence == pytest.approx(whole.log_evidence, rel=1e-6)
    assert float(again.mean("s")) == pytest.approx(float(whole.mean("s")), rel=1e-3)
    assert again.learning is not None and whole.learning is not None
    assert again.learning.steps[0].objective > whole.learning.steps[0].objective


def test_an_integration_reports_its_points_and_may_be_interrupted(data: Any) -> None:
    model = lgm.loads(TEXT)
    entries: list[TraceEntry] = []
    fit = lgm.fit(model, data, on_step=entries.append)
    points = [e for e in entries if e.of]
    assert points and all(1 <= e.step <= e.of for e in points)
    assert any(e.step == e.of >= 2 for e in points)
    assert fit.learning is not None and len(points) <= fit.learning.fits
    cut = lgm.fit(model, data, on_step=interrupting(lambda e: e.of > 0))
    assert cut.status is Status.interrupted and cut.learning is not None
    assert cut.learning.design == "" and "not integrated" in cut.summary()


@pytest.mark.parametrize("place", ["estimated", "correction", "highest"])
def test_an_interrupt_after_the_posterior_leaves_it(
    place: str, data: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    model = lgm.loads(TEXT)
    whole = lgm.fit(model, data, options={"correction": "off"})
    monkeypatch.setattr(compiled if place == "highest" else completed, place, interrupted)
    fit = lgm.fit(model, data)
    assert fit.status is Status.interrupted
    assert not fit.accuracy.known and np.isnan(fit.log_evidence_corrected)
    assert [w.code for w in fit.warnings].count("W601") == 1
    assert float(fit.mean("b")) == pytest.approx(float(whole.mean("b")), rel=1e-9)
    assert "interrupted" in fit.summary()


class Fits:
    """Counts the fits of an objective, and interrupts after so many points of an integration."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.places: list[bytes] = []
        at = Objective.at

        def counted(
            objective: Objective, x: Array, warm: Any = None, rough: float = 0.0, most: int = 0
        ) -> Any:
            self.places.append(np.asarray(x, dtype=float).tobytes())
            return at(objective, x, warm, rough, most)

        monkeypatch.setattr(Objective, "at", counted)


def points_before(limit: int) -> Callable[[TraceEntry], None]:
    seen = [0]

    def on_step(entry: TraceEntry) -> None:
        seen[0] += entry.of > 0
        if seen[0] > limit:
            raise KeyboardInterrupt

    return on_step


@pytest.mark.few(2)
@pytest.mark.parametrize("limit", [3, 6, 9])
@pytest.mark.parametrize("design", ["ccd", "grid"])
def test_an_integration_goes_on_with_the_fits_it_had(
    limit: int, design: str, data: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = lgm.loads(TEXT)
    settings: Any = {"method": "laplace", "options": {"integration": design}}
    whole = lgm.fit(model, data, **settings)
    cut = lgm.fit(model, data, **settings, on_step=points_before(limit))
    assert cut.status is Status.interrupted and cut.checkpoint is not None
    made = {p.x.tobytes() for p in cut.checkpoint.points} - {cut.checkpoint.mode.tobytes()}
    assert len(made) >= limit - 2  # the curvature took two
    cut.save(tmp_path / "f.nc")
    loaded = lgm.load_fit(tmp_path / "f.nc")
    assert loaded.status is Status.interrupted
    fits = Fits(monkeypatch)
    for start in (cut, tmp_path / "f.nc"):
        fits.places.clear()
        again = lgm.fit(model, data, **settings, start_from=start)
        assert again.converged and again.checkpoint is None and again.learning is not None
        assert not made & {*fits.places}  # none is fitted twice
        assert again.learning.steps == cut.learning.steps
        assert again.log_evidence == pytest.approx(whole.log_evidence, abs=1e-8)
        assert again.accuracy.known and len(again.points) == len(whole.points)
        for name in ("s", "b", "u", "eta"):
            np.testing.assert_allclose(again.mean(name), whole.mean(name), rtol=1e-6, atol=1e-8)
            np.testing.assert_allclose(again.sd(name), whole.sd(name), rtol=1e-6)


def test_an_integration_that_ended_goes_on_from_what_followed(
    data: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    model = lgm.loads(TEXT)
    whole = lgm.fit(model, data, method="laplace")
    with monkeypatch.context() as patch:
        patch.setattr(completed, "estimated", interrupted)
        cut = lgm.fit(model, data, method="laplace")
    assert cut.status is Status.interrupted and cut.checkpoint is not None
    fits = Fits(monkeypatch)
    again = lgm.fit(model, data, method="laplace", start_from=cut)
    made = {p.x.tobytes() for p in cut.checkpoint.points} - {cut.checkpoint.mode.tobytes()}
    assert made and not made & {*fits.places}
    assert again.converged and again.log_evidence == pytest.approx(whole.log_evidence, abs=1e-8)


@pytest.mark.thorough
def test_a_checkpoint_is_of_its_model_data_and_settings(data: Any) -> None:
    model = lgm.loads(TEXT)
    cut = lgm.fit(model, data, method="laplace", on_step=points_before(2))
    other = {**data, "y": data["y"] + 1}
    cases: tuple[tuple[lgm.Model, Any, dict[str, Any]], ...] = (
        (model, other, {"method": "laplace"}),
        (model, data, {"method": "ep"}),
        (model, data, {"method": "laplace", "seed": 1}),
        (model, data, {"method": "laplace", "tol": 1e-9}),
        (lgm.loads(TEXT.replace("u = 1,", "u = 3,")), data, {"method": "laplace"}),
    )
    for text, given, settings in cases:
        alone = lgm.fit(text, given, **settings)
        warm = lgm.fit(text, given, **settings, start_from=cut)
        assert warm.learning is not None and warm.learning.fits >= len(warm.points)
        assert warm.converged
        assert warm.log_evidence == pytest.approx(alone.log_evidence, abs=1e-3)
        np.testing.assert_allclose(warm.mean("s"), alone.mean("s"), rtol=1e-2)


def test_a_fit_that_ended_has_no_checkpoint(data: Any) -> None:
    model = lgm.loads(TEXT)
    assert lgm.fit(model, data, method="laplace").checkpoint is None
    search = interrupting(lambda e: e.stage == "hyperparameters" and e.step >= 1)
    assert lgm.fit(model, data, method="laplace", on_step=search).checkpoint is None


@pytest.mark.few(7)
@pytest.mark.parametrize("hyper", ["map", "integrate", "em"])
@pytest.mark.parametrize("place", ["from_corners", "conflicts", "to_the_top", "_frame"])
def test_an_interrupt_between_searches_leaves_the_mode(
    place: str, hyper: str, data: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def interrupted(*_: object, **__: object) -> None:
        calls.append(place)
        raise KeyboardInterrupt

    model = lgm.loads(TEXT)
    with monkeypatch.context() as patch:
        patch.setattr(learn, place, interrupted)
        cut = lgm.fit(model, data, method="laplace", hyper=hyper)
    if calls:
        assert cut.status is Status.interrupted and "W601" in {w.code for w in cut.warnings}
    whole = lgm.fit(model, data, method="laplace", hyper=hyper)
    again = lgm.fit(model, data, method="laplace", hyper=hyper, start_from=cut)
    assert again.converged
    assert again.log_evidence == pytest.approx(whole.log_evidence, abs=1e-5)
    assert cut.summary() and np.isfinite(cut.mean("u")).all()


@pytest.mark.thorough
def test_both_modes_are_integrated_around_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt around the second mode: none of them counts twice, and hardly a fit is made
    again."""
    model = lgm.loads(CROSSED.replace("PRIOR", VAGUE))
    settings: Any = {"method": "laplace", "hyper": "integrate", "options": {"correction": "off"}}
    given, fits = crossed(13), Fits(monkeypatch)
    points: list[TraceEntry] = []
    whole = lgm.fit(model, given, **settings, on_step=points.append)
    assert whole.learning is not None and whole.learning.modes == 2
    total, count = len(fits.places), sum(e.of > 0 for e in points)
    cut = lgm.fit(model, given, **settings, on_step=points_before(int(0.9 * count)))
    assert cut.checkpoint is not None and len(cut.checkpoint.others) == 1
    fits.places.clear()
    again = lgm.fit(model, given, **settings, start_from=cut)
    assert again.learning is not None and again.learning.modes == 2
    assert len(fits.places) < 0.4 * total
    assert again.log_evidence == pytest.approx(whole.log_evidence, abs=1e-8)
    assert [w.code for w in again.warnings] == [w.code for w in whole.warnings]
    for name in ("v1", "v2", "u"):
        np.testing.assert_allclose(again.mean(name), whole.mean(name), rtol=1e-7, atol=1e-9)


def test_places_in_other_coordinates_are_not_gone_on_from(tmp_path: Path) -> None:
    """An earlier version integrated covariances in the entries of their Cholesky factor: its places
    would be other covariances now."""
    case = CASES["covariance"]
    model = lgm.loads(case.text)
    cut = lgm.fit(model, case.data(), on_step=points_before(12), **case.arguments)
    assert cut.status is Status.interrupted
    cut.save(tmp_path / "f.nc")
    kept = lgm.load_fit(tmp_path / "f.nc").checkpoint
    assert kept is not None and len(kept.points)
    with h5py.File(tmp_path / "f.nc", "a") as file:
        assert file.attrs["lgmdsl_format"] == 5
        del file["checkpoint"].attrs["apart"]
        file.attrs[ATTRIBUTE] = digest(Group(file))
    earlier = lgm.load_fit(tmp_path / "f.nc")
    assert earlier.checkpoint is None and earlier.status is Status.interrupted


def test_stages_count_the_fits_that_they_make(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the whole fit is made again from a higher optimum, by fewer than at first."""
    data = {
        "y": np.random.default_rng(1).poisson(3.0, 30),
        "x": np.ones(30),
        "who": [*range(5)] * 6,
    }
    plain = lgm.fit(lgm.loads(TEXT), data, method="laplace")
    learned = plain.learning
    assert learned is not None

    def again(planned: Any, way: str, settings: Any, learning: Any, solved: Any, *_: Any) -> Any:
        fewer = replace(solved.learned, calls=1)
        return replace(solved, learned=fewer), None

    monkeypatch.setattr(compiled, "highest", again)
    fit = lgm.fit(lgm.loads(TEXT), data, method="laplace")
    fits = {stage.name: stage.fits for stage in fit.stages}
    assert sum(fits.values()) == learned.fits + 1 and fits["look elsewhere"] == 1
    assert all(stage.fits >= 0 for stage in fit.stages)


def test_seconds_are_those_of_all_stages_and_none_counts_twice(
    data: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`solve` had the seconds and the fits of the stages within it, and `fit.seconds`, which
    `fit.glance` shows, lacked the estimate of the errors."""
    assessed = estimated

    def slow(*args: Any, **others: Any) -> Any:
        time.sleep(0.3)
        return assessed(*args, **others)

    monkeypatch.setattr(completed, "estimated", slow)
    before = time.perf_counter()
    fit = lgm.fit(lgm.loads(TEXT), data)
    whole = time.perf_counter() - before
    stages = {stage.name: stage for stage in fit.stages}
    assert stages["assess"].seconds >= 0.3
    assert sum(s.seconds for s in fit.stages) == pytest.approx(fit.seconds, abs=1e-9)
    assert 0.3 < fit.seconds <= whole
    assert fit.glance()["seconds"][0] == fit.seconds
    assert stages["solve"].seconds < stages["search"].seconds + stages["posterior"].seconds
    assert fit.learning is not None
    assert sum(s.fits for s in fit.stages) == fit.learning.fits
    assert stages["solve"].fits == 0


@pytest.mark.parametrize("hyper", ["map", "integrate", "em"])
@pytest.mark.parametrize("place", ["with_curvature", "polished", "_at_the_mode"])
def test_an_interrupt_after_the_search_does_not_blame_the_search(
    place: str, hyper: str, data: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`map` said that the search stopped early, after its end."""
    whole = lgm.fit(lgm.loads(TEXT), data, hyper=hyper)
    cut: list[str] = []

    def interrupted(*_: object, **__: object) -> Any:
        if not cut:
            cut.append(place)
            raise KeyboardInterrupt
        return once(*_, **__)

    owner = learn if place == "_at_the_mode" else Maximiser
    once = getattr(owner, place)
    monkeypatch.setattr(owner, place, interrupted)
    fit = lgm.fit(lgm.loads(TEXT), data, hyper=hyper)
    if not cut:
        pytest.skip(f"{hyper} does not come there")
    assert fit.status is Status.interrupted
    (warning,) = [w for w in fit.warnings if w.code == "W601"]
    assert "search" not in warning.message
    assert "start_from=fit" in warning.help
    what = "integration over" if hyper == "integrate" else "after the hyperparameters' mode"
    assert what in warning.message
    assert fit.learning is not None and whole.learning is not None
    assert float(fit.theta["s"]) == pytest.approx(float(whole.theta["s"]), rel=1e-3)
    again = lgm.fit(lgm.loads(TEXT), data, hyper=hyper, start_from=fit)
    assert again.converged
