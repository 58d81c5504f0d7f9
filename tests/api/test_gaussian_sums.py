"""Gaussian rows are fitted as their sums (`canonical.rotated`), which changes no answer."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lgmdsl as lgm
from lgmdsl.canonical.rotated import rotated
from tests.compiled import canonical_form

TEXT = """lgm 1
index obs
index grp
index term
data y[obs] : real?
data X[obs, term] : real
data g[obs] : grp
data w[obs] : positive
data o[obs] : real
hyper s : positive ~ half_normal(sd = {unit})
hyper e : positive ~ half_normal(sd = {unit})
latent a ~ normal(sd = {wide})
latent b[term] ~ normal(sd = {wide})
latent u[grp] ~ normal(sd = s)
let eta[obs] = a + X @ b + u[g] + o
observe y ~ normal(mean = eta, sd = e{weight})
"""
OFF: dict[str, object] = {"merge": "off"}


def table(unit: float = 1.0, rows: int = 2400, noise: float = 0.5) -> dict[str, Any]:
    rng = np.random.default_rng(4)
    X, g = rng.normal(size=(rows, 3)), rng.integers(0, 12, rows)
    o, u = 0.1 * rng.normal(size=rows), rng.normal(size=12)
    y = 1.0 + X @ [0.5, -1.0, 0.0] + 0.7 * u[g] + o + noise * rng.normal(size=rows)
    y[::50] = np.nan
    w = rng.uniform(0.5, 2.0, rows)
    return {"y": y * unit, "X": X, "g": g, "w": w, "o": o * unit}


def model(unit: float = 1.0, weight: str = ", weight = w") -> lgm.Model:
    return lgm.loads(TEXT.format(unit=unit, wide=10.0 * unit, weight=weight))


def summed(fit: lgm.Fit) -> bool:
    return "summed" in fit.provenance


def same(one: lgm.Fit, other: lgm.Fit, unit: float = 1.0) -> None:
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=1e-5)
    for name in ("a", "b", "u", "eta", "s", "e"):
        for ask in ("mean", "sd"):
            ours, theirs = (np.asarray(getattr(f, ask)(name)) / unit for f in (one, other))
            assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("hyper", ["map", "integrate"])
@pytest.mark.parametrize("method", ["laplace", "natural-gradient"])
def test_the_same_answers(hyper: Any, method: str, tmp_path: Path) -> None:
    whole = lgm.fit(model(), table(), method, hyper=hyper, options=OFF)
    fit = lgm.fit(model(), table(), method, hyper=hyper)
    assert summed(fit) and not summed(whole)
    assert fit.provenance["summed"] == "y: 2,352 rows, 17 sums"
    same(fit, whole)
    fit.save(tmp_path / "f.nc")
    again = lgm.load_fit(tmp_path / "f.nc")
    same(again, whole)
    new = {**table(), "g": np.arange(2400) % 12}
    for f in (fit, again):
        ours, theirs = f.predict(new), whole.predict(new)
        assert np.allclose(ours.mean("eta"), theirs.mean("eta"), atol=1e-4)
    pairs = [(f.loo(), f.waic(), f.pit()) for f in (fit, whole)]
    assert pairs[0][0].elpd == pytest.approx(pairs[1][0].elpd, abs=1e-2)
    assert pairs[0][1].elpd == pytest.approx(pairs[1][1].elpd, abs=1e-2)


@pytest.mark.parametrize("unit", [1e-20, 1e12])
def test_any_unit(unit: float) -> None:
    fit = lgm.fit(model(unit), table(unit), hyper="map")
    assert summed(fit)
    same(fit, lgm.fit(model(unit), table(unit), hyper="map", options=OFF), unit)


def test_columns_that_say_the_same_and_rows_without_noise() -> None:
    data = table(noise=1e-7)
    data["X"][:, 2] = data["X"][:, 1]
    fits = [
        lgm.fit(model(weight=""), data, hyper="map", fixed={"e": 1e-2}, options=o)
        for o in ({}, OFF)
    ]
    assert summed(fits[0])
    same(fits[0], fits[1])


def test_next_to_other_sites_and_rows_that_are_kept() -> None:
    """A block of counts stays as it is, and so do rows whose sd is their own."""
    text = TEXT.replace(
        "observe y", "data c[obs] : count\nobserve c ~ poisson(log_rate = a + u[g])\nobserve y"
    )
    counts = np.random.default_rng(2).poisson(2.0, 2400)
    joint = lgm.loads(text.format(unit=1.0, wide=10.0, weight=""))
    fits = [lgm.fit(joint, {**table(), "c": counts}, hyper="map", options=o) for o in ({}, OFF)]
    assert summed(fits[0])
    same(fits[0], fits[1])
    own = TEXT.replace("sd = e{weight}", "sd = e * w").format(unit=1.0, wide=10.0)
    assert not summed(lgm.fit(lgm.loads(own), table(), hyper="map"))


def test_started_from_a_fit_of_rows_and_the_other_way_round() -> None:
    for first, then in ((OFF, {}), ({}, OFF)):
        one = lgm.fit(model(), table(), hyper="map", options=first)
        two = lgm.fit(model(), table(), hyper="map", options=then, start_from=one)
        same(two, one)


@pytest.mark.parametrize("mean", ["a + X @ b + u[g] + k * o", "a + X @ b + k * u[g] + o"])
def test_predictors_with_hyperparameters_are_kept(mean: str) -> None:
    text = TEXT.replace("let eta[obs] = a + X @ b + u[g] + o", f"let eta[obs] = {mean}")
    text = text.replace("latent a ~", "hyper k : real ~ normal(mean = 1, sd = 1)\nlatent a ~")
    learned = lgm.loads(text.format(unit=1.0, wide=10.0, weight=""))
    fits = [lgm.fit(learned, table(), hyper="map", options=o) for o in ({}, OFF)]
    assert not summed(fits[0])
    assert fits[0].log_evidence == fits[1].log_evidence


def test_sites_of_rows_and_of_sums_are_the_same_ones() -> None:
    canonical = canonical_form(TEXT.format(unit=1.0, wide=10.0, weight=", weight = w"), table())
    folded = rotated(canonical)
    assert folded is not None and folded.rows.folding is not None
    fold, theta = folded.rows.folding, canonical.hypers.start({"e": np.array(0.7)})
    weight, shift = fold.unfolded(theta, *_sites(folded, theta), _never, object, ())
    again, moved = fold.summed(theta, weight, shift)
    sums, own = _sites(folded, theta), _sites(canonical, theta)
    np.testing.assert_allclose(again[0], sums[0][0], rtol=1e-12)
    np.testing.assert_allclose(moved[0], sums[1][0], rtol=1e-12)
    np.testing.assert_allclose(weight[0], own[0][0], rtol=1e-12)
    np.testing.assert_allclose(shift[0], own[1][0], rtol=1e-12)


def _sites(model: Any, theta: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Weights and shifts of Gaussian sites: minus the curvature of log t, and its slope at 0."""
    (site,) = model.sites(theta)
    at = site.pointwise(np.zeros(len(model.blocks[0].rows)))
    return (-at.curvature,), (at.slope,)


def _never() -> Any:
    raise AssertionError("Gaussian sites need no posterior")


def test_it_is_explained() -> None:
    said = str(lgm.explain(model(), table()))
    assert "2,352 Gaussian rows: fitted as their 17 sums" in said


@settings(max_examples=15)
@given(st.integers(2060, 2600), st.integers(0, 2**32 - 1), st.sampled_from([1.0, 30.0]))
def test_fixed_hyperparameters(rows: int, seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    data = table(rows=rows)
    data["X"] = data["X"] * scale
    data["w"] = np.exp(rng.normal(size=rows))
    theta = {"s": float(np.exp(rng.normal())), "e": float(np.exp(rng.normal()))}
    fits = [lgm.fit(model(), data, "laplace", fixed=theta, options=o) for o in ({}, OFF)]
    assert summed(fits[0])
    assert fits[0].log_evidence == pytest.approx(fits[1].log_evidence, rel=1e-9)
    for name in ("a", "b", "u"):
        assert np.allclose(fits[0].mean(name), fits[1].mean(name), rtol=1e-7, atol=1e-9)
        assert np.allclose(fits[0].sd(name), fits[1].sd(name), rtol=1e-7)
