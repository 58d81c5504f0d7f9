"""Searches that a sample of the rows has gone before, against those of all rows alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.learning import learn, pilot
from lgmdsl.learning.search.maximise import Maximiser
from lgmdsl.streams import model
from lgmdsl.streams.model import ByPlaces

GROUPS, EACH = 400, 12

TEXT = """
lgm 1
index obs
index group
data y[obs] : count
data x[obs] : real
data g[obs] : group
hyper s : positive ~ pc_sd(u = 1, alpha = 0.05)
latent a ~ normal(sd = 5)
latent b ~ normal(sd = 5)
latent u[group] ~ normal(sd = s)
observe y ~ poisson(log_rate = a + b * x + u[g])
"""

found: list[str] = []


@pytest.fixture(autouse=True)
def small_samples(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Samples of every eighth of so few places; `found`: what they came to."""
    monkeypatch.setattr(model, "LEAST_ROWS", 100)
    monkeypatch.setattr(model, "LEAST_PLACES", 50)
    known, climbed = pilot.piloted, pilot.Pilot.climbed

    def piloted(search: Maximiser) -> pilot.Pilot | None:
        made = known(search)
        found.append("nothing" if made is None else "a place")
        return made

    def recorded(own: pilot.Pilot, search: Maximiser, on_step: object) -> object:
        made = climbed(own, search, on_step)  # type: ignore[arg-type]
        found[-1] = "misled" if made is None else "a maximum"
        return made

    monkeypatch.setattr(learn, "piloted", piloted)
    monkeypatch.setattr(pilot.Pilot, "climbed", recorded)
    found.clear()
    yield


def counts(effects: Array, seed: int = 0) -> dict[str, object]:
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(GROUPS), EACH)
    x = rng.normal(size=len(who))
    y = rng.poisson(np.exp(1.0 + 0.3 * x + effects[who]))
    return {"y": y.astype(float), "x": x, "g": np.array([f"g{k:04d}" for k in who])}


def streamed(data: dict[str, object], method: str, hyper: str) -> lgm.Fit:
    return lgm.fit(lgm.loads(TEXT), data, method=method, hyper=hyper, options={"rows": "streamed"})


def compared(
    data: dict[str, object],
    monkeypatch: pytest.MonkeyPatch,
    method: str = "laplace",
    hyper: str = "map",
) -> None:
    """A search that begins with a sample against one of all rows alone."""
    fit = streamed(data, method, hyper)
    with monkeypatch.context() as without:
        without.setattr(ByPlaces, "sampled", lambda *_: None)
        alone = streamed(data, method, hyper)
    assert fit.converged and alone.converged
    assert fit.log_evidence == pytest.approx(alone.log_evidence, abs=2e-5)
    sd = float(alone.sd("s"))
    assert float(fit.mean("s")) == pytest.approx(float(alone.mean("s")), abs=5e-3 * sd)
    assert float(fit.sd("s")) == pytest.approx(sd, rel=5e-3)
    np.testing.assert_allclose(fit.mean("u"), alone.mean("u"), atol=1e-3)


def even(step: int = 8) -> Array:
    """(GROUPS,) whether a group is in the sample."""
    return np.asarray((np.arange(GROUPS) % step) == step // 2)


@pytest.mark.few(1)
@pytest.mark.parametrize("hyper", ["map", "integrate"])
@pytest.mark.parametrize("method", ["laplace", "natural-gradient"])
def test_a_sample_leads_to_the_same_maximum(
    monkeypatch: pytest.MonkeyPatch, hyper: str, method: str
) -> None:
    effects = 0.5 * np.random.default_rng(1).normal(size=GROUPS)
    compared(counts(effects), monkeypatch, method, hyper)
    assert found == ["a maximum", "nothing"]


@pytest.mark.few(2)
@pytest.mark.parametrize("inside, outside, came", [
    (0.0, 1.0, "nothing"), (3.0, 0.05, "misled"), (0.2, 1.5, "misled"),
])  # fmt: skip
def test_a_sample_unlike_the_rest_does_no_harm(
    monkeypatch: pytest.MonkeyPatch, inside: float, outside: float, came: str
) -> None:
    rng = np.random.default_rng(2)
    effects = np.where(even(), inside, outside) * rng.normal(size=GROUPS)
    compared(counts(effects), monkeypatch)
    assert found == [came, "nothing"]


def test_values_to_start_from_need_no_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    effects = 0.5 * np.random.default_rng(1).normal(size=GROUPS)
    options = {"rows": "streamed"}
    lgm.fit(lgm.loads(TEXT), counts(effects), method="laplace", options=options, start={"s": 0.4})
    assert found == []
