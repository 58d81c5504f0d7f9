"""Rows in memory that are many are summed up by places: nothing else changes."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.contract import row_source
from lgmdsl.streams import model

TEXT = """lgm 1
index obs
index group
index cell
data g[obs] : group
data h[obs] : cell
data x[obs] : real
data n[obs] : count
data w[obs] : positive
data e[obs] : real
data y[obs] : {type}
data y2 : real
hyper s : positive ~ half_normal(sd = 1)
{hypers}latent a ~ normal(sd = 2)
latent b ~ normal(sd = 1)
latent u[group] ~ normal(sd = s)
latent v[cell] ~ normal(sd = 0.7)
let eta[obs] = a + 0.1 * e + b * x + u[g] + v[h] * x
observe y ~ {family}
observe y2 ~ normal(mean = a, sd = 1)
"""
N, GROUPS, CELLS = 1200, 20, 3
GAUSSIAN = {"marginals": "gaussian"}
SD = "hyper t : positive ~ half_normal(sd = 2)\n"
SIZE = "hyper r : positive ~ half_normal(sd = 3)\n"
# Family: type of y, further hypers, methods.
FAMILIES = {
    "poisson(log_rate = eta, exposure = n + 1)": ("count", "", ("laplace", "natural-gradient")),
    "poisson(log_rate = eta, weight = w)": ("count", "", ("laplace", "natural-gradient")),
    "bernoulli(logit = eta)": ("binary", "", ("laplace", "double-loop", "map")),
    "normal(mean = eta, sd = t)": ("real", SD, ("laplace", "natural-gradient")),
    "negbinomial(log_mean = eta, size = r)": ("count", SIZE, ("laplace",)),
}
CASES = [(family, method) for family, known in FAMILIES.items() for method in known[2]]


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that small data sets are folded."""
    monkeypatch.setattr(row_source, "LEAST", N // 2)
    monkeypatch.setattr(model, "LEAST_ROWS", N)


def simulated(kind: str) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    out: dict[str, Any] = {"g": rng.integers(0, GROUPS, N), "h": rng.integers(0, CELLS, N)}
    out |= {"x": rng.normal(size=N), "n": rng.integers(0, 3, N), "e": rng.normal(size=N)}
    out["w"] = rng.uniform(0.5, 2.0, N)
    level = 0.3 + 0.4 * out["x"] + rng.normal(0.0, 0.5, GROUPS)[out["g"]]
    values = {
        "count": rng.poisson(np.exp(level)),
        "binary": (rng.random(N) < 1.0 / (1.0 + np.exp(-level))).astype(np.int64),
        "real": level + rng.normal(size=N),
    }
    return {**out, "y": values[kind], "y2": 0.2}


def made(family: str) -> tuple[str, dict[str, Any]]:
    kind, hypers, _ = FAMILIES[family]
    return TEXT.format(type=kind, hypers=hypers, family=family), simulated(kind)


def both(family: str, **how: Any) -> tuple[lgm.Fit, lgm.Fit]:
    """The fit by places, and the one whose rows are kept apart."""
    text, data = made(family)
    given = how.pop("options", {})
    together = lgm.fit(text, data, options=given, **how)
    apart = lgm.fit(text, data, options={**given, "rows": "kept"}, **how)
    assert "places" in together.provenance
    assert "places" not in apart.provenance
    return together, apart


def assert_same(a: lgm.Fit, b: lgm.Fit) -> None:
    assert a.status == b.status
    np.testing.assert_allclose(a.log_evidence, b.log_evidence, rtol=2e-9)
    for name in ("a", "b", "u", "v", "eta"):
        sd = np.asarray(b.sd(name))
        gap = np.abs(np.asarray(a.mean(name)) - np.asarray(b.mean(name))) / sd
        assert gap.max() < 2e-4, name
        np.testing.assert_allclose(np.asarray(a.sd(name)), sd, rtol=2e-4, err_msg=name)
    for mine, other in zip(a.weight, b.weight, strict=True):
        np.testing.assert_allclose(mine, other, rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize(("family", "method"), CASES)
def test_fits_by_places_are_those_of_the_rows(family: str, method: str) -> None:
    hyper = "fixed" if method in ("map", "double-loop") else "map"
    fixed = {"s": 0.5} if hyper == "fixed" else {}
    together, apart = both(family, method=method, hyper=hyper, fixed=fixed, options={})
    assert_same(together, apart)
    if method != "map":
        np.testing.assert_allclose(together.loo().elpd, apart.loo().elpd, atol=0.02)
        np.testing.assert_allclose(
            np.asarray(together.loo().pointwise("y")),
            np.asarray(apart.loo().pointwise("y")),
            atol=1e-3,
        )
        _, data = made(family)
        news = {k: data[k][:7] for k in ("g", "h", "x", "n", "w", "e")}
        ours, theirs = (f.predict(news).response("y") for f in (together, apart))
        np.testing.assert_allclose(ours["mean"], theirs["mean"], rtol=1e-4)


def test_integrals_are_over_points_of_the_rows() -> None:
    together, apart = both("poisson(log_rate = eta, exposure = n + 1)", options=GAUSSIAN)
    assert_same(together, apart)
    assert len(together.points) == len(apart.points)
    for mine, other in zip(together.points, apart.points, strict=True):
        np.testing.assert_allclose(mine.share, other.share, atol=1e-4)
        assert mine.weight[0].shape == other.weight[0].shape == (N,)


def test_what_is_reported_by_default_is_drawn_of_the_rows() -> None:
    together, apart = both("bernoulli(logit = eta)")
    assert (together.drawn is None) == (apart.drawn is None)
    for name in ("a", "b", "u"):
        gap = np.asarray(together.mean(name)) - np.asarray(apart.mean(name))
        assert np.abs(gap / np.asarray(apart.sd(name))).max() < 0.1


def test_stored_fits_give_the_same_posterior(tmp_path: Path) -> None:
    together, _ = both("poisson(log_rate = eta, exposure = n + 1)", method="laplace", hyper="map")
    together.save(tmp_path / "a.nc")
    again = lgm.load_fit(tmp_path / "a.nc")
    np.testing.assert_allclose(again.mean("eta"), together.mean("eta"), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(again.sd("u"), together.sd("u"), rtol=1e-6)
    copied = pickle.loads(pickle.dumps(together))
    np.testing.assert_allclose(copied.mean("eta"), together.mean("eta"), rtol=1e-6, atol=1e-8)


def test_a_fit_starts_from_one_of_the_rows_and_back() -> None:
    text, data = made("poisson(log_rate = eta, exposure = n + 1)")
    how: dict[str, Any] = {"method": "laplace", "hyper": "map"}
    apart = lgm.fit(text, data, options={"rows": "kept"}, **how)
    together = lgm.fit(text, data, start_from=apart, **how)
    assert_same(together, apart)
    assert together.learning is not None and apart.learning is not None
    assert together.learning.fits < apart.learning.fits
    assert_same(lgm.fit(text, data, start_from=together, options={"rows": "kept"}, **how), apart)


def test_workers_fold_the_same_rows(tmp_path: Path) -> None:
    text, data = made("poisson(log_rate = eta, exposure = n + 1)")
    alone = lgm.fit(text, data, options=GAUSSIAN)
    shared = lgm.fit(text, data, options=GAUSSIAN, jobs=2)
    assert alone.log_evidence == shared.log_evidence
    np.testing.assert_array_equal(alone.mean("u"), shared.mean("u"))


def test_rows_at_as_many_places_stay_apart() -> None:
    text, data = made("poisson(log_rate = eta, exposure = n + 1)")
    data["g"] = np.arange(N)
    assert "places" not in lgm.fit(text, data, method="laplace", hyper="map").provenance
