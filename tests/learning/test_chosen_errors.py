"""Standard errors by solves: those of the dense curvature, or none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.arrays import AnyArray
from lgmdsl.errors import MethodError
from lgmdsl.learning import chosen_errors as module
from lgmdsl.learning import learn
from lgmdsl.learning.chosen_errors import Differences
from lgmdsl.learning.objective.log_posterior import Objective
from lgmdsl.learning.search.maximise import Maximiser, Maximum
from lgmdsl.learning.unidentified import DenseHessian, frame_of, unidentified

LONG = """lgm 1
index obs
index user
index column
index factor = 2
data y[obs] : real
data who[obs] : user
data item[obs] : column
hyper c[column] : real ~ normal(sd = 3)
hyper L[column, factor] : real ~ normal(sd = 1)
hyper t : positive ~ half_normal(sd = 2)
latent z[user, factor] ~ normal(sd = 1)
let eta[obs] = c[item] + sum(L[item, factor] * z[who, factor], factor)
observe y ~ normal(mean = eta, sd = t)
"""
TABLE = """lgm 1
index user
index column
index factor = 2
data y[user, column] : real
hyper c[column] : real ~ normal(sd = 3)
hyper L[column, factor] : real ~ normal(sd = 1)
hyper t : positive ~ half_normal(sd = 2)
latent z[user, factor] ~ normal(sd = 1)
let eta[user, column] = c + sum(L * z, factor)
observe y ~ normal(mean = eta, sd = t)
"""
ITEMS = """lgm 1
index person
index item
data y[person, item] : binary
hyper c[item] : real ~ normal(sd = 2)
hyper a[item] : real ~ normal(mean = 1, sd = 0.5)
latent z[person] ~ normal(sd = 1)
let eta[person, item] = c + a * z
observe y ~ bernoulli(logit = eta)
"""
COLUMNS = 18


def ratings(users: int = 80) -> AnyArray:
    rng = np.random.default_rng(0)
    loads = 0.8 * rng.normal(size=(COLUMNS, 2))
    z = rng.normal(size=(users, 2))
    return rng.normal(size=COLUMNS) + z @ loads.T + 0.5 * rng.normal(size=(users, COLUMNS))


def long(y: AnyArray) -> dict[str, AnyArray]:
    """A third of the cells, by rows."""
    who, item = np.nonzero(np.asarray(np.random.default_rng(1).uniform(size=y.shape)) < 0.34)
    labels = np.array([f"m {j}" for j in range(y.shape[1])])
    return {"y": y[who, item], "who": who, "item": labels[item], "column": labels}


class Seen:
    """What standard errors are computed from."""

    objective: Objective
    maximum: Maximum

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def spy(objective: Objective, maximum: Maximum, chosen: AnyArray) -> object:
            self.objective, self.maximum = objective, maximum
            return module.chosen_errors(objective, maximum, chosen)

        monkeypatch.setattr(learn, "chosen_errors", spy)

    def dense(self) -> dict[str, AnyArray]:
        """Sds of all coordinates from the whole curvature."""
        search, at = Maximiser(self.objective, False), self.maximum.at
        hessian = search.hessian(at, np.full(len(at.x), 0.02))
        assert hessian is not None
        unknown = unidentified(self.objective, at, DenseHessian(hessian), self.maximum.edges)
        frame = frame_of(at.x, hessian, unknown, self.objective.coordinates.scaled)
        sds = np.sqrt(np.diag(frame.covariance))
        return {n: sds[s] for n, s in self.objective.coordinates.slices.items()}


@pytest.mark.thorough
def test_gaussian_factors_in_a_long_table(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Seen(monkeypatch)
    asked = "t, c[column m 3], c[column m 17], L[column m 3, factor 1]"
    fit = lgm.fit(lgm.loads(LONG), long(ratings()), hyper="em", options={"standard_errors": asked})
    assert fit.converged
    wanted, t = seen.dense(), float(fit.mean("t"))
    sds = fit.sd("c").values
    np.testing.assert_allclose(sds[[3, 17]], wanted["c"][[3, 17]], rtol=2e-4)
    assert np.isnan(np.delete(sds, [3, 17])).all()
    assert float(fit.sd("t")) == pytest.approx(t * float(wanted["t"][0]), rel=2e-4)
    assert np.isnan(fit.sd("L").values).all()  # they may rotate


@pytest.mark.thorough
def test_rotations_in_a_table_are_none_of_the_offsets_business(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = Seen(monkeypatch)
    options = {"standard_errors": ["c", "L[column 1, factor 1]"]}
    fit = lgm.fit(lgm.loads(TABLE), {"y": ratings()}, hyper="em", options=options)
    assert fit.converged and np.isnan(fit.sd("L").values).all()
    np.testing.assert_allclose(fit.sd("c").values, seen.dense()["c"], rtol=2e-4)


@pytest.mark.thorough
@pytest.mark.parametrize("way", ["em", "map"])
def test_loadings_of_one_factor(way: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Binary items, whose fits end at a tolerance; the file says the same."""
    seen, rng = Seen(monkeypatch), np.random.default_rng(2)
    logits = rng.normal(size=30) + rng.normal(size=(100, 1)) * np.exp(0.2 * rng.normal(size=30))
    y = (rng.random(logits.shape) < 1.0 / (1.0 + np.exp(-logits))).astype(int)
    asked = ["c[item 1]", "a[item 1]", "a[item 29]"]
    fit = lgm.fit(lgm.loads(ITEMS), {"y": y}, hyper=way, options={"standard_errors": asked})
    assert fit.converged
    wanted = seen.dense()
    np.testing.assert_allclose(fit.sd("c").values[1], wanted["c"][1], rtol=2e-3)
    np.testing.assert_allclose(fit.sd("a").values[[1, 29]], wanted["a"][[1, 29]], rtol=2e-3)
    five = fit.quantile("a", [0.05]).values.reshape(-1)
    assert five[1] == pytest.approx(fit.mean("a").values[1] - 1.6448536 * fit.sd("a").values[1])
    assert np.isnan(five[0]) and np.isnan(fit.density("a")["density"].values[0]).all()
    fit.save(str(tmp_path / "a.nc"))
    again = lgm.load_fit(str(tmp_path / "a.nc"))
    for name in ("a", "c"):
        np.testing.assert_array_equal(again.sd(name).values, fit.sd(name).values)
        np.testing.assert_allclose(again.quantile(name, [0.9]), fit.quantile(name, [0.9]))


@pytest.mark.thorough
def test_a_noise_sd_of_0_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the edge of its range; the others have those that they have without it."""
    seen = Seen(monkeypatch)
    text = LONG.replace("sd = t)\n", "sd = 0.5)\n").replace("z[user, factor] ~ normal(sd = 1)",
        "z[user, factor] ~ normal(sd = 1)\nlatent w[user] ~ normal(sd = t)").replace(
        "eta[obs] = ", "eta[obs] = w[who] + ")  # fmt: skip
    data, options = long(ratings()), {"standard_errors": "t, c[column m 5]"}
    fit = lgm.fit(lgm.loads(text), data, hyper="em", options=options)
    if not seen.maximum.edges:
        pytest.skip("the data give the term a variance")
    assert np.isnan(float(fit.sd("t")))
    np.testing.assert_allclose(fit.sd("c").values[5], seen.dense()["c"][5], rtol=1e-3)


@pytest.mark.parametrize("asked", ["u", "t[item 1]", "c[column x]", "t, z", 3, ["c", ""]], ids=str)
def test_what_is_no_hyper_is_refused(asked: object) -> None:
    with pytest.raises(MethodError, match="standard_errors") as refusal:
        lgm.fit(lgm.loads(LONG), long(ratings(20)), options={"standard_errors": asked})
    assert "E104" in str(refusal.value)


def test_too_many_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_COORDINATES_SOLVED", 10)
    with pytest.raises(MethodError, match="18 values"):
        lgm.fit(lgm.loads(LONG), long(ratings(20)), options={"standard_errors": "c"})


def test_a_saddle_gives_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the curvature is not positive there is no variance, rather than a negative one."""
    times = Differences.times

    def turned(self: Differences, v: AnyArray, length: float | None = None) -> AnyArray | None:
        product = times(self, v, length)
        return None if product is None else -product

    monkeypatch.setattr(Differences, "times", turned)
    options = {"standard_errors": "t"}
    fit = lgm.fit(lgm.loads(LONG), long(ratings()), hyper="em", options=options)
    assert fit.converged and np.isnan(float(fit.sd("t")))
