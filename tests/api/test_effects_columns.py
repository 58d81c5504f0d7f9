"""Effects of models whose matrices are made of columns (`--map "X=x,contrasts(arm)"`)."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import lgmdsl as lgm
from lgmdsl.dataset import Keys

CODED = """lgm 1
index obs
index term
data y[obs] : count
data X[obs, term] : real
data hours[obs] : positive
latent b[term] ~ normal(sd = 2)
let eta[obs] = X @ b + 0.1 * hours
observe y ~ poisson(log_rate = eta)
"""


def test_matrices_made_of_columns_are_not_made_again(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"x": rng.normal(size=60), "arm": ["a", "b", "c"] * 20})
    table["hours"], table["y"] = 1.0 + rng.random(60), rng.poisson(2.0, 60)
    mapping: Keys = {"X": ["x", "contrasts(arm)"]}
    fitted = lgm.fit(lgm.loads(CODED), table, mapping=mapping)
    fitted.save(tmp_path / "f.nc")
    for fit in (fitted, lgm.load_fit(tmp_path / "f.nc")):
        for term, at in (("X[x]", "x"), ("X[arm[b]]", "arm[b]")):
            for kind in ("average", "conditional"):
                found = fit.effects(term, scale="link", kind=kind)
                assert found["estimate"].item() == pytest.approx(fit.mean("b").sel(term=at).item())
        assert fit.effects("hours", scale="link")["estimate"].item() == pytest.approx(0.1)
        assert fit.effects("X[x]", scale="link", data=table)["estimate"].item() == pytest.approx(
            fit.mean("b").sel(term="x").item()
        )
        assert fit.effects("x", scale="link").equals(fit.effects("X[x]", scale="link"))
        with pytest.raises(
            lgm.ModelError, match=r"it has: X\[x\], X\[arm\[b\]\], X\[arm\[c\]\], h"
        ):
            fit.effects("nothing")


def test_a_level_is_compared_with_the_base() -> None:
    """The columns of the other levels are 0 on both sides: no row has two levels."""
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"x": rng.normal(size=90), "arm": ["a", "b", "c"] * 30})
    rate = table["arm"].map({"a": 2.0, "b": 6.0, "c": 1.0})
    table["hours"], table["y"] = 1.0 + rng.random(90), rng.poisson(rate)
    fit = lgm.fit(lgm.loads(CODED), table, mapping={"X": ["x", "contrasts(arm)"]})
    means = {
        arm: float(fit.predict(table.assign(arm=arm)).response("y")["mean"].mean()) for arm in "abc"
    }
    for arm in "bc":
        found = fit.effects(f"X[arm[{arm}]]")["estimate"].item()
        assert found == pytest.approx(means[arm] - means["a"], abs=0.05)


LINEAR = """lgm 1
index obs
index f
data X[obs, f] : real
data y[obs] : real
latent a ~ normal(sd = 1000)
latent b[f] ~ normal(sd = 1000)
let eta[obs] = a + X @ b
observe y ~ normal(mean = eta, sd = 0.5)
"""


def design(table: pd.DataFrame) -> np.ndarray:
    """Treatment contrasts of arm and sex, and x, with a constant."""
    arm, sex = table["arm"].to_numpy(), table["sex"].to_numpy()
    columns = [np.ones(len(table)), table["x"], arm == "b", arm == "c", sex == "m"]
    return np.column_stack([np.asarray(c, dtype=float) for c in columns])


def unbalanced() -> pd.DataFrame:
    rng = np.random.default_rng(7)
    table = pd.DataFrame({"x": rng.normal(size=70), "arm": rng.choice(list("abc"), 70)})
    table["sex"] = rng.choice(["f", "m"], 70, p=[0.3, 0.7])
    table["y"] = design(table) @ [1.0, 0.3, -1.0, 2.0, 0.7] + rng.normal(0, 0.5, 70)
    return table


@pytest.mark.parametrize("kind", ["treatment", "sum"])
def test_levels_of_a_factor_whatever_its_contrasts(kind: str) -> None:
    """Against least squares on treatment contrasts; `eff` and `pairwise` as R's emmeans defines
    them: the level less the mean of all levels, with equal weights."""
    table = unbalanced()
    fit = lgm.fit(
        lgm.loads(LINEAR),
        table,
        mapping={"X": ["x", f"contrasts(arm, kind={kind})", f"contrasts(sex, kind={kind})"]},
    )
    x = design(table)
    inverse = np.linalg.inv(x.T @ x)
    beta = inverse @ x.T @ table["y"].to_numpy()

    def check(frame: pd.DataFrame, weights: Mapping[str, Sequence[float]]) -> None:
        assert list(frame["contrast"]) == [*weights]
        for (_, row), w in zip(frame.iterrows(), weights.values(), strict=True):
            assert row["estimate"] == pytest.approx(float(np.dot(w, beta)), rel=1e-5)
            variance = float(np.array(w) @ inverse @ np.array(w))
            assert row["sd"] == pytest.approx(0.5 * np.sqrt(variance), rel=1e-5)

    pairs = {"b - a": [0, 0, 1, 0, 0], "c - a": [0, 0, 0, 1, 0], "c - b": [0, 0, -1, 1, 0]}
    for asked in ("arm", "X[arm]"):
        check(fit.effects(asked, contrast="pairwise"), pairs)
    check(fit.effects("arm", contrast=("c", "b")), {"b - c": [0, 0, 1, -1, 0]})
    third = 1 / 3
    eff = {
        "a - mean": [0, 0, -third, -third, 0],
        "b - mean": [0, 0, 2 * third, -third, 0],
        "c - mean": [0, 0, -third, 2 * third, 0],
    }
    reference = {k: pairs[k] for k in ("b - a", "c - a")}
    check(fit.effects("arm"), eff if kind == "sum" else reference)
    check(fit.effects("arm", contrast="reference"), reference)
    mean = float(table["x"].mean())
    at = {"a": [1, mean, 0, 0], "b": [1, mean, 1, 0], "c": [1, mean, 0, 1]}
    frame = fit.effects("arm", contrast="levels", kind="balanced")
    check(frame, {k: [*w, 0.5] for k, w in at.items()})
    frame = fit.effects("arm", contrast="levels", kind="conditional")
    check(frame, {k: [*w, 1.0] for k, w in at.items()})
    frame = fit.effects("arm", contrast="levels")
    check(frame, {k: [*w, float((table["sex"] == "m").mean())] for k, w in at.items()})
    whole = fit.effects("X")
    assert next(iter(whole["contrast"])) == "slope"
    with pytest.raises(lgm.ModelError, match=r"all levels together: X\[arm\]"):
        fit.effects("X[arm[b]]", contrast="pairwise")
    with pytest.raises(lgm.ModelError, match='no label "d"'):
        fit.effects("arm", contrast=("a", "d"))


def test_contrasts_that_are_written_otherwise() -> None:
    for term, message in (
        ("contrasts(arm, sum)", r"contrasts\(arm, kind=sum\)"),
        ("sum_contrasts(arm)", r"names `sum_contrasts\(arm\)`, which is no column"),
    ):
        with pytest.raises(lgm.DataError, match=message):
            lgm.fit(lgm.loads(LINEAR), unbalanced(), mapping={"X": ["x", term]})


INDEXED = """lgm 1
index obs
index arms = {"a", "b", "c"}
data arm[obs] : arms
data x[obs] : real
data y[obs] : count
latent level ~ normal(sd = 3)
latent slope ~ normal(sd = 2)
latent u[arms] ~ normal(sd = 2)
constrain u["a"] = 0
let eta[obs] = level + slope * x + u[arm]
observe y ~ poisson(log_rate = eta)
"""
ONE_MATRIX = """lgm 1
index obs
index term
data X[obs, term] : real
data y[obs] : count
latent level ~ normal(sd = 3)
latent b[term] ~ normal(sd = 2)
let eta[obs] = level + X @ b
observe y ~ poisson(log_rate = eta)
"""


@pytest.mark.parametrize("kind", ["average", "conditional", "balanced"])
def test_groups_by_a_column_that_only_a_matrix_has(kind: str) -> None:
    """As by the map of the same model over an index; numeric columns group by their values."""
    rng = np.random.default_rng(4)
    n = 90
    table = pd.DataFrame({"x": rng.integers(0, 3, n) / 2.0, "arm": rng.choice(["a", "b", "c"], n)})
    table["y"] = rng.poisson(np.exp(0.3 + 0.4 * table["x"] + 0.5 * (table["arm"] == "b")))
    mapping = {"X": ["x", "contrasts(arm)"]}
    fit = lgm.fit(lgm.loads(ONE_MATRIX), table, mapping=mapping, method="laplace")
    other = lgm.fit(lgm.loads(INDEXED), table, method="laplace")
    known = other.effects("x", by="arm", kind=kind)
    for by in ("arm", "X[arm]"):
        found = fit.effects("x", by=by, kind=kind)
        assert found[by].tolist() == known["arm"].tolist() == ["a", "b", "c"]
        if kind == "average":
            assert np.allclose(found["estimate"], known["estimate"], rtol=1e-4)
            assert np.allclose(found["sd"], known["sd"], rtol=1e-3)
            again = fit.effects("x", by=by, data=table, mapping=mapping)
            assert np.allclose(found["estimate"], again["estimate"], rtol=1e-6)
    assert fit.effects("arm", by="x", kind=kind)["x"].tolist() == [0.0, 0.5, 1.0, 0.0, 0.5, 1.0]
    with pytest.raises(lgm.ModelError, match=r"there are: X\[x\], X\[arm\], obs"):
        fit.effects("x", by="nothing")


def test_events_in_words_are_no_data_of_new_rows_nor_groups() -> None:
    """Neither does the predictor need them."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"time": rng.weibull(1.4, 40) + 0.01, "x": rng.normal(size=40)})
    table["status"] = np.where(np.arange(40) % 3 == 0, "alive", "dead")
    model = lgm.loads(
        "lgm 1\nindex obs\ndata time[obs] : positive\ndata died[obs] : binary\ndata x[obs] : real\n"
        "latent a ~ normal(sd = 5)\nlatent b ~ normal(sd = 2)\nlet eta[obs] = a + b * x\n"
        "observe time ~ weibull(log_scale = eta, shape = 1.4, event = died)\n"
    )
    fit = lgm.fit(model, table, mapping={"died": "contrasts(status, base=alive)"}, method="laplace")
    known = fit.predict(table).response("time")["mean"].values
    found = fit.predict(table[["x"]]).response("time")["mean"].values
    np.testing.assert_allclose(found, known, rtol=1e-12)
    for by in ("died", "status"):
        with pytest.raises(lgm.ModelError, match="effects cannot be grouped") as error:
            fit.effects("x", by=by)
        assert "there are: x, obs" in str(error.value)
    with pytest.raises(lgm.DataError, match="died"):
        fit.loo(data=table[["time", "x"]])
