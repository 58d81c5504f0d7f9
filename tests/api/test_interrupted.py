"""Fits that are interrupted, at any place: what there is, honestly, and how it goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.api.fit import completed, fitting
from lgmdsl.contract.status import Status
from lgmdsl.inference.driver import TraceEntry

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
    monkeypatch.setattr(fitting if place == "highest" else completed, place, interrupted)
    fit = lgm.fit(model, data)
    assert fit.status is Status.interrupted
    assert not fit.accuracy.known and np.isnan(fit.log_evidence_corrected)
    assert [w.code for w in fit.warnings].count("W601") == 1
    assert float(fit.mean("b")) == pytest.approx(float(whole.mean("b")), rel=1e-9)
    assert "interrupted" in fit.summary()
