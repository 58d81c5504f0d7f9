"""Mini-batch EM: it ends near the optimum of all rows, and the search after it there; which index
rows are taken along."""

from __future__ import annotations

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.canonical.queries.loadings import linear_hypers
from lgmdsl.inference.driver import Tolerances
from lgmdsl.inference.plan import plan
from lgmdsl.learning.coordinates.vector import Coordinates
from lgmdsl.learning.em.batches import Batches, plate_of, some_rows
from lgmdsl.learning.em.complete_data import CompleteData
from lgmdsl.learning.objective.log_posterior import Objective
from tests.compiled import canonical_form

TEXT = """lgm 1
index p
index i
index k = 2
data y[p, i] : real?
data b[p, i] : binary
data W[k, k] : real
hyper c[i] : real ~ normal(sd = 2)
hyper L[i, k] : real ~ normal(sd = 1)
hyper s[i] : positive ~ pc_sd(u = 1, alpha = 0.5)
hyper S[k, k] : covariance ~ inv_wishart(df = 5, scale = W)
latent z[p, k] ~ iid * dense(cov = S)
let eta[p, i] = c + L @ z
observe y ~ normal(mean = eta, sd = s)
observe b ~ bernoulli(logit = eta)
"""


def data(persons: int = 900) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    loads = np.array([[1.2, 0], [0.8, 0.3], [0, 1], [-0.5, 0.9], [0.6, 0.6]])
    eta = 0.3 + rng.normal(size=(persons, 2)) @ loads.T
    y = eta + 0.6 * rng.normal(size=eta.shape)
    y[rng.random(y.shape) < 0.1] = np.nan
    b = (rng.random(eta.shape) < 1 / (1 + np.exp(-eta))).astype(float)
    return {"y": y, "b": b, "W": 3.0 * np.eye(2)}


def objective(text: str = TEXT, **given: np.ndarray) -> Objective:
    values = given or data()
    canonical = canonical_form(text, values)
    planned = plan(canonical, bound="jaakkola")
    return Objective(planned, Coordinates(canonical.hypers), {}, Tolerances())


def test_rows_are_the_model_of_fewer_persons() -> None:
    whole, values = objective(), data()
    rows = np.array([3, 5, 700])
    fewer = {**values, "y": values["y"][rows], "b": values["b"][rows]}
    theta = whole.planned.canonical.hypers.start()
    theta["L"] = np.random.default_rng(0).normal(size=(5, 2))
    x = whole.coordinates.pack(theta)
    part = some_rows(whole.planned, "p", rows)
    found = Objective(part, Coordinates(part.canonical.hypers), {}, Tolerances()).at(x)
    wanted = objective(**fewer).at(x)
    assert found is not None and wanted is not None
    assert found.value == pytest.approx(wanted.value, rel=1e-9)


@pytest.mark.thorough
def test_batches_end_near_the_optimum() -> None:
    model, values = lgm.loads(TEXT), data()
    fit = lgm.fit(model, values, hyper="em", bound="jaakkola")
    assert fit.converged and fit.learning
    best = fit.learning.steps[-1].objective
    own = objective()
    batches = batches_of(own)
    assert batches.plate == "p" and batches.count == 900
    theta = {**fit.theta, "L": 0.7 * fit.theta["L"] + 0.1, "s": 1.5 * fit.theta["s"]}
    begin = own.coordinates.pack(theta)
    first, last = own.at(begin), own.at(batches.run(begin))
    assert first is not None and last is not None
    assert first.value < best - 300.0
    assert best - 5.0 < last.value < best + 1e-3
    assert np.array_equal(batches_of(own).run(begin), batches_of(own).run(begin))


def test_a_step_moves_each_kind_of_hyper_by_its_formula() -> None:
    """A third of the rows, a third of the way: log sds by share g / 2n, S by share 2/N S G S with
    the prior's slope in G once, loadings by the running mean of N/B times the curvature."""
    own = objective()
    theta = own.planned.canonical.hypers.start()
    rng, share = np.random.default_rng(1), 1.0 / 3.0
    theta["L"] = rng.normal(size=(5, 2))
    batches, x = Batches(own, "p", 900, 300, 1), own.coordinates.pack(theta)
    seen = []
    for rows in (np.arange(300), np.arange(300, 600)):
        part = batches.part(rows)
        at = part.at(x)
        assert at is not None
        known = batches.curvature
        after = own.coordinates.unpack(batches._moved(part, at, share))
        names = linear_hypers(part.planned.canonical, at.theta, {}).names
        complete = CompleteData.of(part.planned.canonical, part.coordinates, names, at.theta)
        seen.append(3.0 * complete.curvature(at.posterior).toarray())
        wanted = seen[0] if known is None else (1.0 - share) * seen[0] + share * seen[1]
        assert batches.curvature is not None
        np.testing.assert_allclose(batches.curvature, wanted, rtol=1e-10)
        space = own.planned.canonical.hypers
        prior = space.log_prior(at.theta)[1]
        slope = {n: 3.0 * at.slopes[n] + np.asarray(prior.get(n, 0.0)) for n in ("s", "S")}
        s = np.asarray(theta["S"])
        moved = s + share * 2.0 / 900.0 * s @ slope["S"] @ s
        np.testing.assert_allclose(after["S"], moved, rtol=1e-9)
        sds = np.asarray(theta["s"])
        held = 3.0 * (~np.isnan(data()["y"][rows])).sum(axis=0)
        np.testing.assert_allclose(
            np.log(after["s"] / sds), share * sds * slope["s"] / (2.0 * held), rtol=1e-8
        )


def batches_of(own: Objective) -> Batches:
    found = Batches.of(own, 150, 6)
    assert found is not None
    return found


@pytest.mark.thorough
def test_the_search_after_them_is_exact() -> None:
    model, values = lgm.loads(TEXT), data(300)
    fit = lgm.fit(model, values, hyper="em", bound="jaakkola")
    batched = lgm.fit(
        model, values, hyper="em", bound="jaakkola", options={"batch": 60, "epochs": 2}
    )
    assert batched.converged and fit.learning and batched.learning
    steps = batched.learning.steps
    assert steps[-1].objective == pytest.approx(fit.learning.steps[-1].objective, abs=0.01)
    with pytest.raises(lgm.MethodError, match="`batch` cannot be `some`"):
        lgm.fit(model, values, hyper="em", options={"batch": "some"})
    with pytest.raises(lgm.MethodError, match="`epochs` cannot be `0`"):
        lgm.fit(model, values, hyper="em", options={"batch": 60, "epochs": 0})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "latent z[p, k] ~ iid * dense(cov = S)",
            "latent z[p, k] ~ ar1(rho = 0.5) * dense(cov = S)",
        ),
        ("hyper c[i] : real", "hyper c[p, i] : real"),
        ("let eta", "latent v[i] ~ normal(sd = 1)\nlet eta"),
        ("hyper c[i]", "data of[i] : p\nhyper c[i]"),
        ("c + L @ z", "c + L @ z + x[0]"),
        ("c + L @ z", "c + L @ z + z[0, 0]"),
        ("c + L @ z", "c + L @ z + x - sum(x, p) / 40"),
        ("c + L @ z", "c + L @ z + 0.1 * sum(L @ z, p)"),
        ("c + L @ z", "c + L @ z + cumsum(x, p)"),
    ],
)
def test_no_batches_where_rows_are_joined(old: str, new: str) -> None:
    given = {**data(40), "of": np.arange(5), "x": np.arange(40.0)}
    text = TEXT.replace("data W", "data x[p] : real\ndata W").replace(old, new)
    found = objective(text, **given).planned.canonical
    assert plate_of(found) == ""
    assert plate_of(objective().planned.canonical) == "p"
    reported = TEXT + "report all[k] = sum(z, p)\n"
    assert plate_of(objective(reported).planned.canonical) == "p"
    assert Batches.of(objective(), 900, 1) is None
