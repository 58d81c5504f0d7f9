"""Members at one position share one value: as if rows were mapped to the unique places by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lgmdsl as lgm
from lgmdsl.canonical.lowering.positions import places_of

TEXT = """lgm 1
index row
index m
data who[row] : m
data y[row] : real
data at[m] : real
hyper s : positive ~ half_normal(sd = 1)
latent f[m] ~ {prior}
let eta[row] = 2 * f[who]
observe y ~ normal(mean = eta, sd = 0.3)
"""
PRODUCT = """lgm 1
index row
index m
index g
data who[row] : m
data whom[row] : g
data y[row] : count
data at[m] : real
data adj[g, g] : graph
latent f[g, m] ~ {first} * {prior}
observe y ~ poisson(log_rate = f[whom, who])
"""
PRIORS = (
    "rw1(sd = s, at = at)",
    "rw2(sd = s, at = at)",
    "ou(sd = s, rate = 0.4, at = at)",
    "rw1(sd = s, at = 2 * at + 1, sum_to_zero = false)",
)
AT = np.array([2.0, 0.5, 2.0, 7.0, 0.5, 3.0, 4.5])
RING = np.roll(np.eye(4), 1, axis=1) + np.roll(np.eye(4), -1, axis=1)


def both(text: str, data: dict[str, Any], at: Any = AT, **settings: Any) -> tuple[lgm.Fit, Any]:
    """The fit, that of rows mapped onto the unique places, and the place of each member."""
    unique, place = np.unique(at, return_inverse=True)
    tied = lgm.fit(lgm.loads(text), {**data, "m": np.arange(len(at)), "at": at}, **settings)
    by_hand = lgm.fit(
        lgm.loads(text),
        {**data, "who": place[data["who"]], "m": np.arange(len(unique)), "at": unique},
        **settings,
    )
    return tied, (by_hand, place)


def rows(seed: int = 0, size: int = 40) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    who = rng.integers(0, len(AT), size)
    return {"who": who, "y": np.sin(AT[who]) + 0.3 * rng.normal(size=size)}


@pytest.mark.parametrize("hyper", ["fixed", "integrate"])
@pytest.mark.parametrize("prior", PRIORS)
def test_shared_places_are_those_of_rows_mapped_by_hand(prior: str, hyper: str) -> None:
    fixed = {"s": 0.8} if hyper == "fixed" else None
    tied, (by_hand, place) = both(TEXT.format(prior=prior), rows(), hyper=hyper, fixed=fixed)
    assert tied.log_evidence == pytest.approx(by_hand.log_evidence, abs=1e-10)
    for statistic in ("mean", "sd"):
        found = getattr(tied, statistic)("f").values
        np.testing.assert_allclose(
            found, getattr(by_hand, statistic)("f").values[place], atol=1e-10
        )
    assert tied.mean("f").dims == ("m",) and tied.mean("f").size == len(AT)
    draws = tied.sample(5, seed=1)["f"].values
    np.testing.assert_allclose(draws[:, 0], draws[:, 2], atol=1e-12)


@pytest.mark.parametrize("first", ["iid", "besag(graph = adj)", "bym2(graph = adj, mix = 0.4)"])
@pytest.mark.parametrize("prior", ["rw1(sd = 0.6, at = at)", "ou(sd = 0.6, rate = 1, at = at)"])
def test_one_axis_of_a_product(first: str, prior: str) -> None:
    rng = np.random.default_rng(3)
    who, whom = rng.integers(0, len(AT), 80), rng.integers(0, 4, 80)
    data = {"who": who, "whom": whom, "y": rng.poisson(2.0, 80), "adj": RING, "g": np.arange(4)}
    text = PRODUCT.format(first=first, prior=prior)
    tied, (by_hand, place) = both(text, data, method="laplace")
    assert tied.log_evidence == pytest.approx(by_hand.log_evidence, abs=1e-9)
    np.testing.assert_allclose(tied.mean("f").values, by_hand.mean("f").values[:, place], atol=1e-8)


def test_the_sum_over_distinct_places_is_zero_and_their_scale_is_sd() -> None:
    text = TEXT.format(prior="rw1(sd = 0.7, at = at)").replace(
        "hyper s : positive ~ half_normal(sd = 1)\n", ""
    )
    none = {"who": np.zeros(1, dtype=int), "y": np.array([np.nan])}
    fit = lgm.fit(
        lgm.loads(text.replace("y[row] : real", "y[row] : real?")),
        {**none, "m": np.arange(len(AT)), "at": AT},
    )
    _, first = np.unique(AT, return_index=True)
    sds = fit.sd("f").values[first]
    assert np.exp(np.log(sds).mean()) == pytest.approx(0.7, rel=1e-9)
    draws = fit.sample(50, seed=0)["f"].values[:, first]
    np.testing.assert_allclose(draws.sum(axis=1), 0.0, atol=1e-9)


def test_what_is_kept_predicted_drawn_and_shown(tmp_path: Path) -> None:
    text = TEXT.format(prior=PRIORS[0])
    data = {**rows(), "m": np.arange(len(AT)), "at": AT}
    fit = lgm.fit(lgm.loads(text), data)
    fit.save(tmp_path / "f.nc")
    again = lgm.load_fit(tmp_path / "f.nc")
    np.testing.assert_allclose(again.quantile("f", [0.2]), fit.quantile("f", [0.2]), atol=1e-9)
    found = fit.predict({"who": [3, 0, 2]}).mean("eta").values
    np.testing.assert_allclose(found, 2 * fit.mean("f").values[[3, 0, 2]], atol=1e-9)
    shown = str(lgm.explain(lgm.loads(text), data))
    assert "7 members of m at 5 places" in shown
    made = lgm.simulate(lgm.loads(text), {"who": data["who"], "m": data["m"], "at": AT}, seed=2)
    assert made["truth.f"][0] == pytest.approx(made["truth.f"][2], abs=1e-12)
    assert fit.summary().count("f[m]") == 1 and "f.places" not in fit.summary()


def test_too_few_places_are_too_few_points() -> None:
    data = {**rows(), "m": np.arange(len(AT)), "at": np.repeat([1.0, 2.0], [3, 4])}
    with pytest.raises(lgm.ModelError, match=r"E205.*`rw2` needs at least 3 points, and `m` has 2"):
        lgm.fit(lgm.loads(TEXT.format(prior=PRIORS[1])), data)


@pytest.mark.thorough
@given(order=st.permutations(range(len(AT))))
def test_the_order_of_members_does_not_matter(order: list[int]) -> None:
    text, data = TEXT.format(prior=PRIORS[0]), rows()
    plain = lgm.fit(lgm.loads(text), {**data, "m": np.arange(7), "at": AT}, fixed={"s": 1})
    turned = {**data, "m": np.arange(7)[order], "at": AT[order]}
    fit = lgm.fit(lgm.loads(text), turned, fixed={"s": 1})
    assert fit.log_evidence == pytest.approx(plain.log_evidence, abs=1e-10)
    found = fit.mean("f").sel(m=range(7)).values
    np.testing.assert_allclose(found, plain.mean("f").values, atol=1e-10)


def test_distinct_sorted_places_and_the_map_to_them() -> None:
    found = places_of(AT)
    assert found.values.tolist() == [0.5, 2.0, 3.0, 4.5, 7.0]
    assert found.of.tolist() == [1, 0, 1, 4, 0, 2, 3] and found.tied and not found.regular
    assert places_of(np.arange(4.0)).regular and not places_of(np.arange(4.0)[::-1]).regular
