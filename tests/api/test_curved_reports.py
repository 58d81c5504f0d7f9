"""Reports that are not affine, gathered, picked, and under the operators of named axes: against the
same functions of draws of the latents, written in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

import lgmdsl as lgm

TEXT = """lgm 1
index obs
index g
index k = {"a", "b", "c"}
data who[obs] : g
data like[k] : g
data keep[g] : binary
data y[obs] : real
latent b[g] ~ normal(sd = 1)
latent v[g, k] ~ normal(sd = 0.7)
observe y ~ normal(mean = b[who] + v[who, "a"], sd = 0.5)
report r[g] = exp(b)
report q[obs] = r[who]
report q3[k] = r[like]
report double[obs] = q[obs] * 2
report less[g] = -r
report minus[obs] = less[who]
report step = r["B"] - r["A"]
report p[g, k] = softmax(v + b, k)
report pw[obs, k] = p[who, k]
report pa[obs] = p[who, "a"]
report cross[k] = p[like, k]
report again[k] = pw[0, k]
report total = sum(pa, obs)
report m[g] = sum(exp(v), k)
report mk[k] = m[like]
report cum[g] = cumsum(exp(b), g)
report cumw[obs] = cum[who]
report ring[g] = diff(r, g, boundary = "circular")
report kept[g] = mask(r, keep)
report along[g, k] = cumsum(p, k)
"""
WHO, LIKE = np.array([0, 2, 1, 0, 2, 2]), np.array([1, 0, 2])
LABELS = np.array(["A", "B", "C"])
DATA: dict[str, Any] = {
    "g": LABELS,
    "who": LABELS[WHO],
    "like": LABELS[LIKE],
    "keep": np.array([1, 0, 1]),
    "y": np.array([1.0, -1.0, 0.3, 0.8, -0.5, -1.2]),
}


@pytest.fixture(scope="module")
def fit() -> lgm.Fit:
    return lgm.fit(lgm.loads(TEXT), DATA)


def test_draws_are_the_functions_of_the_latents(fit: lgm.Fit) -> None:
    drawn = fit.sample(400, seed=1)
    b, v = drawn["b"].values, drawn["v"].values
    r, p = np.exp(b), special.softmax(v + b[:, :, None], axis=2)
    m, cum = np.exp(v).sum(axis=2), np.cumsum(r, axis=1)
    wanted = {
        "q": r[:, WHO], "q3": r[:, LIKE], "double": 2 * r[:, WHO], "minus": -r[:, WHO],
        "step": r[:, 1] - r[:, 0], "pw": p[:, WHO], "pa": p[:, WHO, 0],
        "cross": p[:, LIKE, [0, 1, 2]], "again": p[:, 0], "total": p[:, WHO, 0].sum(axis=1),
        "mk": m[:, LIKE], "cum": cum, "cumw": cum[:, WHO], "ring": np.roll(r, -1, axis=1) - r,
        "kept": r * [1, 0, 1], "along": np.cumsum(p, axis=2),
    }  # fmt: skip
    for name, values in wanted.items():
        np.testing.assert_allclose(drawn[name].values, values, rtol=1e-12, err_msg=name)


def test_moments_and_quantiles_are_those_of_the_entries(fit: lgm.Fit) -> None:
    """exp of a Gaussian stays exact through a map; others share the draws of what is gathered."""
    mean, variance = fit.mean("b").values, fit.sd("b").values ** 2
    np.testing.assert_allclose(fit.mean("q").values, np.exp(mean + variance / 2)[WHO], rtol=1e-12)
    for name, base, at in (("q", "r", WHO), ("q3", "r", LIKE), ("cumw", "cum", WHO)):
        for ask in (fit.mean, fit.sd):
            np.testing.assert_allclose(ask(name).values, ask(base).values[at], rtol=1e-12)
    levels = [0.05, 0.5, 0.9]
    quantiles = fit.quantile("q", levels).values
    np.testing.assert_allclose(quantiles, fit.quantile("r", levels).values[..., WHO], rtol=1e-12)
    z = special.ndtri(levels)[:, None]
    np.testing.assert_allclose(quantiles, np.exp(mean + z * np.sqrt(variance))[:, WHO], rtol=1e-12)
    np.testing.assert_allclose(fit.mean("pw").values, fit.mean("p").values[WHO], rtol=1e-12)
    np.testing.assert_allclose(fit.sd("pa").values, fit.sd("p").values[WHO, 0], rtol=1e-12)
    np.testing.assert_allclose(fit.mean("total"), fit.mean("pa").values.sum(), rtol=1e-12)


def test_predictions_gather_by_the_new_map(fit: lgm.Fit) -> None:
    new = fit.predict({"who": np.array(["C", "A"]), "like": DATA["like"], "keep": DATA["keep"]})
    np.testing.assert_allclose(new.mean("q").values, fit.mean("r").values[[2, 0]], rtol=1e-12)
    np.testing.assert_allclose(new.mean("pa").values, fit.mean("p").values[[2, 0], 0], atol=0.03)


def test_files_keep_them(fit: lgm.Fit, tmp_path: Any) -> None:
    fit.save(tmp_path / "fit.nc")
    again = lgm.load_fit(tmp_path / "fit.nc")
    for name in ("q", "pw", "cumw"):
        np.testing.assert_array_equal(again.mean(name).values, fit.mean(name).values)


def test_a_label_that_the_index_lacks() -> None:
    text = TEXT.replace('r["B"] - r["A"]', 'r["Z"]')
    with pytest.raises(lgm.LgmError, match="Z"):
        lgm.fit(lgm.loads(text), DATA)
