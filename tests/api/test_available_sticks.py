"""categorical(stick, available) in whole fits: against a grid, simulations and predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

import lgmdsl as lgm
from lgmdsl.arrays import Array

TEXT = """lgm 1
index obs
index k = {"a", "b", "c", "d"}
index cut = head(k)
data x[obs] : real
data av[obs, k] : binary
data y[obs] : k
latent b[cut] ~ normal(sd = 1)
let eta[obs, cut] = x * b
observe y ~ categorical(stick = eta, available = av)
"""
PLAIN = TEXT.replace(", available = av", "").replace("data av[obs, k] : binary\n", "")
N = 30


def given() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    av = (rng.random((N, 4)) < 0.7).astype(np.int64)
    av[np.arange(N), rng.integers(0, 4, N)] = 1
    data = {"x": rng.normal(size=N), "av": av}
    drawn = lgm.simulate(lgm.loads(TEXT), data, seed=3)
    return data | {"y": drawn["y"]}


def log_chance(available: Array, s: Array, y: int) -> Array:
    """log P(y) for s (..., 3): later classes are asked about once the earlier ones on offer are
    declined, and the last on offer needs no question."""
    out = np.zeros(s.shape[:-1])
    for j in np.flatnonzero(available)[:-1]:
        if j <= y:
            out += special.log_expit(s[..., j] if j == y else -s[..., j])
    return out


def test_against_a_grid() -> None:
    data = given()
    code = np.array([list("abcd").index(v) for v in data["y"]])
    assert (data["av"][np.arange(N), code] == 1).all() and len(set(code)) == 4
    g = np.linspace(-4.5, 4.5, 61)
    b = np.stack(np.meshgrid(g, g, g, indexing="ij"), axis=-1)
    log = -0.5 * (b**2).sum(axis=-1) - 1.5 * np.log(2 * np.pi)
    for x, av, y in zip(data["x"], data["av"], code, strict=True):
        log += log_chance(av, x * b, y)
    mass = np.exp(log) * (g[1] - g[0]) ** 3
    truth = float(np.log(mass.sum()))
    mean = np.einsum("ijk,ijkl->l", mass, b) / mass.sum()
    model = lgm.loads(TEXT)
    bound = lgm.fit(model, data, method="natural-gradient")
    assert truth - 0.05 < bound.log_evidence < truth
    ep = lgm.fit(model, data, method="ep")
    assert abs(ep.log_evidence - truth) < 0.03
    np.testing.assert_allclose(ep.mean("b").values, mean, atol=5e-3)


def test_everything_on_offer_is_no_mask() -> None:
    data = given()
    plain = lgm.fit(lgm.loads(PLAIN), {n: data[n] for n in "xy"}, method="ep")
    full = lgm.fit(lgm.loads(TEXT), data | {"av": np.ones((N, 4), dtype=int)}, method="ep")
    np.testing.assert_array_equal(plain.mean("b").values, full.mean("b").values)
    assert plain.log_evidence == full.log_evidence
    assert full.loo().elpd == pytest.approx(plain.loo().elpd, rel=1e-12)


def test_predictions_and_rows_that_say_nothing() -> None:
    """A row with one class on offer has no site, and its class probability 1."""
    data = given()
    one = data | {"av": np.array(data["av"])}
    code = np.array([list("abcd").index(v) for v in data["y"]])
    one["av"][0] = np.eye(4, dtype=int)[code[0]]
    fit = lgm.fit(lgm.loads(TEXT), one, method="ep")
    rest = {n: v[1:] for n, v in one.items()}
    fewer = lgm.fit(lgm.loads(TEXT), rest, method="ep")
    np.testing.assert_allclose(fit.mean("b").values, fewer.mean("b").values, atol=1e-8)
    new = {
        "x": np.array([0.5, 1.0, -1.0]),
        "av": np.array([[1, 0, 1, 0], [0, 0, 1, 0], [0, 1, 1, 1]]),
    }
    p = fit.predict(new).response("y")["probability"].values
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-10)
    assert (p[new["av"] == 0] == 0.0).all() and p[1, 2] == pytest.approx(1.0, rel=1e-12)
    b = fit.sample(20_000, seed=2)["b"].values
    third = np.exp([log_chance(new["av"][2], -b, y) for y in (1, 2, 3)]).mean(axis=1)
    np.testing.assert_allclose(p[2, 1:], third, atol=0.01)


def test_a_choice_that_was_not_on_offer() -> None:
    data = given()
    data["av"][:] = [1, 0, 0, 0]
    with pytest.raises(lgm.DataError, match="not available in") as caught:
        lgm.fit(lgm.loads(TEXT), data)
    assert caught.value.codes == ("E303",)
    with pytest.raises(lgm.DataError, match="none of its classes is available"):
        lgm.simulate(lgm.loads(TEXT), {"x": data["x"], "av": np.zeros((N, 4), dtype=int)})
