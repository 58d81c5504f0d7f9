"""Missing entries of observed data: against closed forms, and what else is said of them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import lgmdsl as lgm

LINE = """lgm 1
index who
index time
data y[who, time] : real?
hyper s : positive ~ pc_sd(u = 3, alpha = 0.05)
latent a[who] ~ normal(sd = s)
let eta[who, time] = a
observe y ~ normal(mean = eta, sd = 0.5)
"""
BINARY = """lgm 1
index row
data x[row] : real
data y[row] : binary?
data n[row] : count?
latent w ~ normal(sd = 2)
latent v ~ normal(sd = 1)
let eta[row] = w * x
let rate[row] = v * x
observe y ~ bernoulli(probit = eta)
observe n ~ poisson(log_rate = rate)
"""
RNG = np.random.default_rng(5)
X = RNG.normal(size=12)


def _line() -> np.ndarray:
    y = RNG.normal(size=(6, 4)) + 2.0 * RNG.normal(size=6)[:, None]
    y[0, 1] = y[2, 3] = y[4] = np.nan
    return y


def _binary() -> dict[str, np.ndarray]:
    y, n = (RNG.random(12) < special.ndtr(X)).astype(float), RNG.poisson(np.exp(X)).astype(float)
    y[3] = n[5] = n[6] = np.nan
    return {"x": X, "y": y, "n": n}


def test_gaussian_entries_have_their_conditional_moments() -> None:
    y = _line()
    fit = lgm.fit(lgm.loads(LINE), {"y": y}, fixed={"s": 1.5})
    filled = fit.impute()
    gaps = np.isnan(y)
    count = (~gaps).sum(axis=1)
    variance = 1.0 / (1.0 / 1.5**2 + count / 0.25)
    mean = variance * np.nansum(y, axis=1) / 0.25
    wanted = np.where(gaps, mean[:, None], y)
    np.testing.assert_allclose(filled["y"].values, wanted, rtol=1e-9, atol=1e-12)
    sd = np.where(gaps, np.sqrt(variance + 0.25)[:, None], 0.0)
    np.testing.assert_allclose(filled.sd("y").values, sd, rtol=1e-9)
    np.testing.assert_array_equal(filled.missing("y").values, gaps)
    assert filled["y"].dims == ("who", "time")
    assert str(filled) == "y: 6 of 24 entries were missing"


def test_classes_and_counts() -> None:
    data = _binary()
    fit = lgm.fit(lgm.loads(BINARY), data, method="natural-gradient")
    filled = fit.impute()
    assert list(filled) == ["y", "n"]
    m, v = float(fit.mean("w")) * X[3], float(fit.sd("w")) ** 2 * X[3] ** 2
    chance = special.ndtr(m / np.sqrt(1.0 + v))
    np.testing.assert_allclose(filled["y"].values[3], chance, rtol=1e-6)
    np.testing.assert_allclose(filled.sd("y").values[3], np.sqrt(chance * (1 - chance)), rtol=1e-6)
    table = filled.probability("y")
    assert table.dims == ("row", "value")
    np.testing.assert_allclose(table.values[3], [1 - chance, chance], rtol=1e-6)
    given = np.delete(np.arange(12), 3)
    np.testing.assert_array_equal(table.values[given, 1], data["y"][given])
    rate = np.exp(float(fit.mean("v")) * X[5] + 0.5 * float(fit.sd("v")) ** 2 * X[5] ** 2)
    np.testing.assert_allclose(filled["n"].values[5], rate, rtol=1e-6)
    assert set(filled.arrays()) == {"y", "y_sd", "y_probability", "n", "n_sd"}
    with pytest.raises(lgm.ModelError, match="has no classes"):
        filled.probability("n")
    with pytest.raises(lgm.ModelError, match="did you mean `n`"):
        filled["nn"]


def test_the_mixture_over_hyperparameters_is_respected() -> None:
    y = _line()
    fit = lgm.fit(lgm.loads(LINE), {"y": y}, hyper="integrate")
    parts = [
        lgm.fit(lgm.loads(LINE), {"y": y}, fixed={"s": p.theta["s"]}).impute()["y"].values[0, 1]
        for p in fit.points
    ]
    mixed = float(np.dot([p.share for p in fit.points], parts))
    assert len(parts) > 2
    np.testing.assert_allclose(fit.impute()["y"].values[0, 1], mixed, rtol=1e-8)


def test_nothing_missing_and_files(tmp_path) -> None:  # type: ignore[no-untyped-def]
    y = RNG.normal(size=(3, 2))
    fit = lgm.fit(lgm.loads(LINE), {"y": y}, fixed={"s": 1.0})
    whole = fit.impute()
    np.testing.assert_array_equal(whole["y"].values, y)
    assert not whole.sd("y").values.any()
    assert "nothing is missing" in str(whole)
    fit.save(tmp_path / "out.nc")
    read = lgm.load_fit(tmp_path / "out.nc")
    with pytest.raises(lgm.DataError, match=r"impute needs `y`"):
        read.impute()
    np.testing.assert_array_equal(read.impute({"y": y})["y"].values, y)


CLASSES = """lgm 1
index who
index time
index class = {"a", "b", "c"}
index cut = head(class)
data x[who] : real
data y[who, time] : class?
latent b[CUT] ~ normal(sd = 1)
let eta[who, time, CUT] = b * x
observe y ~ categorical(LINK = eta)
"""
COUNTS = """lgm 1
index row
index class = 3
data n[row] : count
data y[row, class] : count?
latent b[class] ~ normal(sd = 1)
let eta[row, class] = b
observe y ~ multinomial(n = n, softmax = eta)
"""


@pytest.mark.parametrize(("link", "cut"), [("softmax", "class"), ("stick", "cut")])
def test_a_missing_class_gets_the_probability_of_each(link: str, cut: str) -> None:
    y = np.array(["a", "b", "c"])[RNG.integers(0, 3, (5, 2))]
    y[2, 1] = ""
    model = lgm.loads(CLASSES.replace("LINK", link).replace("CUT", cut))
    data = {"x": RNG.normal(size=5), "y": y}
    filled = lgm.fit(model, data).impute()
    gaps = y == ""
    assert filled["y"].dims == ("who", "time", "class")
    np.testing.assert_array_equal(
        filled["y"].values[~gaps], y[~gaps][:, None] == np.array(["a", "b", "c"])
    )
    p = filled["y"].values[gaps]
    np.testing.assert_allclose(p.sum(axis=-1), 1.0, atol=1e-7)
    assert (p > 0.01).all()
    np.testing.assert_allclose(filled.sd("y").values[gaps], np.sqrt(p * (1.0 - p)))
    assert not filled.sd("y").values[~gaps].any()
    np.testing.assert_array_equal(filled.missing("y").values, gaps)
    np.testing.assert_array_equal(filled.probability("y").values, filled["y"].values)


def test_missing_counts_over_classes_get_their_means() -> None:
    y = np.array([[1.0, 2.0, 5.0], [np.nan] * 3, [0.0, 4.0, 2.0]])
    data = {"n": np.array([8, 10, 6]), "y": y}
    filled = lgm.fit(lgm.loads(COUNTS), data).impute()
    np.testing.assert_allclose(filled["y"].values[1].sum(), 10.0, atol=1e-6)
    np.testing.assert_array_equal(filled["y"].values[[0, 2]], y[[0, 2]])
    np.testing.assert_array_equal(filled.missing("y").values, np.isnan(y))
    assert (filled.sd("y").values[1] > 0.5).all()
    assert not filled.sd("y").values[[0, 2]].any()
