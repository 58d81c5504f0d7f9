"""What predictions need to know, what they refuse, and what they warn of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.sparse as sp

import lgmdsl as lgm
from lgmdsl.api.fit.fit import Fit
from lgmdsl.arrays import Array, SparseMatrix
from lgmdsl.contract.structure import Extension, Members, Shape, Structure
from lgmdsl.structures.catalogue import STRUCTURES
from lgmdsl.vocabulary.lookup import unregister
from lgmdsl.vocabulary.signature import Parameter, Signature

RNG = np.random.default_rng(7)
X, TIME = RNG.normal(size=30), RNG.exponential(size=30) + 0.05
EVENT = RNG.integers(0, 2, 30)
SURVIVAL = """lgm 1
index patient
data x[patient] : real
data time[patient] : positive
data event[patient] : binary
latent b0 ~ normal(sd = 3)
latent b ~ normal(sd = 3)
let eta[patient] = b0 + b * x
observe time ~ {family}
"""


@pytest.mark.parametrize(
    "family",
    [
        "weibull(log_scale = eta, shape = 1.5, event = event)",
        "exponential(log_rate = eta, event = event)",
        "gamma(log_mean = eta, shape = 2, event = event)",
        "lognormal(mean = eta, sd = 0.7, event = event)",
    ],
)
def test_new_patients_need_no_outcome(family: str, tmp_path: Any) -> None:
    fit = lgm.fit(lgm.loads(SURVIVAL.format(family=family)), {"x": X, "time": TIME, "event": EVENT})
    new = X[:4] + 0.1
    found = fit.predict({"x": new}).response("time")
    for event in (np.zeros(4), np.ones(4)):
        told = fit.predict({"x": new, "event": event, "time": np.ones(4)}).response("time")
        np.testing.assert_allclose(told["mean"], found["mean"], rtol=1e-12)
        np.testing.assert_allclose(told["sd"], found["sd"], rtol=1e-12)
    fit.save(tmp_path / "f.nc")
    again = lgm.load_fit(tmp_path / "f.nc").predict({"x": new})
    np.testing.assert_allclose(again.response("time")["mean"], found["mean"], rtol=1e-9)
    assert again.sample_response("time", 50, seed=1).shape == (50, 4)


INTERVAL = """lgm 1
index obs
data x[obs] : real
data y[obs] : real
data low[obs] : real?
data high[obs] : real?
latent b ~ normal(sd = 3)
let eta[obs] = b * x
observe y ~ normal(mean = eta, sd = 0.5, lower = low, upper = high)
"""


def test_new_rows_need_no_interval() -> None:
    y = X + 0.1
    low, high = np.where(EVENT, np.nan, y - 1.0), np.where(EVENT, np.nan, y + 1.0)
    fit = lgm.fit(lgm.loads(INTERVAL), {"x": X, "y": y, "low": low, "high": high})
    found = fit.predict({"x": [1.0, 2.0]})
    spread = found.sd("eta").values ** 2 + 0.25
    np.testing.assert_allclose(found.response("y")["sd"] ** 2, spread, rtol=1e-9)


COUNTS = """lgm 1
index obs
data x[obs] : real
data y[obs] : count
data size[obs] : positive
latent b ~ normal(sd = 3)
let eta[obs] = b * x
observe y ~ poisson(log_rate = eta, exposure = size)
"""


def test_the_scale_of_a_response_is_asked_for() -> None:
    fit = lgm.fit(lgm.loads(COUNTS), {"x": X, "y": RNG.poisson(1.0, 30), "size": np.ones(30)})
    with pytest.raises(lgm.DataError, match="`exposure` of the response `y`") as caught:
        fit.predict({"x": [1.0]})
    assert caught.value.codes == ("E305",)
    one, two = (fit.predict({"x": [1.0], "size": [s]}).response("y")["mean"] for s in (1.0, 2.0))
    np.testing.assert_allclose(two, 2.0 * one, rtol=1e-9)


PERSONS = """lgm 1
index person
data x[person] : real
data y[person] : real
latent b ~ normal(sd = 3)
latent u[person] ~ normal(sd = 0.5)
let eta[person] = b * x + u
observe y ~ normal(mean = eta, sd = 0.5)
"""


def persons(**labels: Any) -> Fit:
    return lgm.fit(lgm.loads(PERSONS), {"x": X, "y": X + 0.2, **labels})


def codes(warnings: Any) -> list[str]:
    return [w.code for w in warnings]


def test_unlabelled_persons_are_new_and_that_is_said() -> None:
    fit = persons()
    with pytest.warns(lgm.PredictionWarning, match="W305"):
        found = fit.predict({"x": X})
    assert codes(found.warnings) == ["W305"]
    np.testing.assert_allclose(found.sd("u"), 0.5, rtol=1e-9)
    assert fit.predict({"x": X[:5]}).warnings == ()
    with pytest.warns(lgm.PredictionWarning, match="W306"):
        assert codes(fit.predict({"x": X[:5], "y": X[:5]}).warnings) == ["W306"]
    assert fit.predict({"x": X[:5], "y": np.full(5, np.nan)}).warnings == ()


def test_labelled_persons_are_known() -> None:
    names = np.array([f"p{k:02d}" for k in range(30)])
    fit = persons(person=names)
    with pytest.warns(lgm.PredictionWarning) as said:
        found = fit.predict({"x": X[:3], "person": ["p01", "new", "p01"], "y": [0.0, 1.0, 2.0]})
    assert len(said) == 2 and codes(found.warnings) == ["W307", "W306"]
    u = fit.mean("u").values[1]
    np.testing.assert_allclose(found.mean("u"), [u, 0.0, u], atol=1e-12)
    known = fit.predict({"x": X, "person": names, "y": X})
    assert known.warnings == ()
    np.testing.assert_allclose(known.mean("eta"), fit.mean("eta"), atol=1e-9)


def test_a_potential_over_new_members_is_refused() -> None:
    text = PERSONS + "potential u ~ laplace(scale = 1)\n"
    fit = lgm.fit(lgm.loads(text), {"x": X, "y": X + 0.2})
    with pytest.raises(lgm.DataError, match="a potential runs over it") as caught:
        fit.predict({"x": X[:3]})
    assert caught.value.codes == ("E302",)


def test_a_hyper_over_the_axis_has_no_value_for_new_members() -> None:
    text = """lgm 1
index obs
index t
data y[obs] : real
data when[obs] : t
hyper s[t] : positive ~ pc_sd(u = 1, alpha = 0.1)
latent f[t] ~ ar1(sd = 1, rho = 0.8)
observe y ~ normal(mean = f[when], sd = s[when])
"""
    fit = lgm.fit(lgm.loads(text), {"y": X, "when": np.arange(30) % 5}, fixed={"s": 0.5})
    with pytest.raises(lgm.DataError, match="hyper `s` has a value for each") as caught:
        fit.predict({"when": [5]})
    assert caught.value.codes == ("E302",)


def test_a_product_that_leaves_new_members_improper_is_refused() -> None:
    text = """lgm 1
index a
index t
data y[a, t] : real
latent z[a, t] ~ rw2(sd = 1) * ar1(rho = 0.7)
observe y ~ normal(mean = z, sd = 0.5)
"""
    fit = lgm.fit(lgm.loads(text), {"y": RNG.normal(size=(5, 6))})
    with pytest.raises(lgm.DataError, match="without a proper prior") as caught:
        fit.predict({"t": [6]})
    assert caught.value.codes == ("E302",)
    assert fit.predict({"t": [2, 5]}).mean("z").shape == (5, 2)


# ---- a structure from outside ----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Brownian(Structure):
    """z_0 ~ N(0, sd^2) and increments of variance sd^2: its members go on by themselves."""

    points: int
    sd: Array
    name: ClassVar[str] = "brownian"
    members: ClassVar[Members] = Members.ORDERED
    signature: ClassVar[Signature] = Signature(
        "brownian",
        "structure",
        (Parameter("sd", "positive", over="none"),),
        ordered_axis=True,
        carries_scale=("sd",),
        summary="a walk from 0",
    )

    @property
    def size(self) -> int:
        return self.points

    @property
    def shape(self) -> Shape:
        return Shape.COVARIANCE | Shape.PRECISION | Shape.SPARSE

    def covariance(self) -> Array:
        at = np.arange(1.0, self.points + 1.0)
        return np.asarray(float(self.sd) ** 2 * np.minimum.outer(at, at))

    def precision(self) -> SparseMatrix:
        return sp.csr_array(np.linalg.inv(self.covariance()))

    def log_det_precision(self) -> float:
        return -2.0 * self.points * float(np.log(self.sd))

    def extension(self, places: Array, new: Array) -> Extension:
        ahead = new - places[-1]
        weights = sp.csr_array(
            (np.ones(len(new)), (np.arange(len(new)), np.full(len(new), len(places) - 1))),
            shape=(len(new), len(places)),
        )
        return Extension(weights, float(self.sd) ** 2 * np.minimum.outer(ahead, ahead))


def test_a_structure_from_outside_says_how_it_goes_on() -> None:
    try:
        lgm.register(Brownian)
        text = "lgm 1\nindex t\ndata y[t] : real?\nlatent f[t] ~ brownian(sd = 0.7)\n"
        model = lgm.loads(text + "observe y ~ normal(mean = f, sd = 0.5)\n")
        fit = lgm.fit(model, {"y": X})
        known = lgm.fit(model, {"y": np.concatenate([X, [np.nan] * 3])})
        found = fit.predict({"t": [32, 30]})
        np.testing.assert_allclose(found.mean("f"), known.mean("f")[[32, 30]], atol=1e-9)
        np.testing.assert_allclose(found.sd("f"), known.sd("f")[[32, 30]], rtol=1e-9)
    finally:
        unregister("structure", "brownian")
        STRUCTURES.pop("brownian", None)


ACROSS = """lgm 1
index t
data y[t] : real
latent b0 ~ normal(sd = 5)
latent f[t] ~ ar1(sd = 1, rho = 0.8)
let eta[t] = b0 + {form}
observe y ~ normal(mean = eta, sd = 0.5)
"""


@pytest.mark.parametrize("form", ["f - sum(f, t) / 30", "cumsum(f, t)"])
def test_what_runs_over_all_fitted_members_is_not_run_over_others(form: str) -> None:
    fit = lgm.fit(lgm.loads(ACROSS.format(form=form)), {"y": X})
    with pytest.raises(lgm.DataError, match="runs over all fitted ones") as caught:
        fit.predict({"t": [3, 4]})
    assert caught.value.codes == ("E302",)


@pytest.mark.parametrize("unused", ["data z[patient] : real", "index arm\ndata z[patient] : arm"])
def test_what_nothing_depends_on_is_not_wanted(unused: str) -> None:
    text = SURVIVAL.format(family="exponential(log_rate = eta)")
    model = lgm.loads(text.replace("index patient\n", f"index patient\n{unused}\n"))
    given = {"x": X, "time": TIME, "event": EVENT, "z": np.arange(30) % 3}
    fit = lgm.fit(model, given, method="laplace")
    wanted = lgm.fit(lgm.loads(text), given, method="laplace").predict({"x": np.zeros(2)})
    found = fit.predict({"x": np.zeros(2)})
    np.testing.assert_allclose(found.mean("eta"), wanted.mean("eta"), rtol=1e-9)
