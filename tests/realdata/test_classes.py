"""Classes of real data: party identification against maximum likelihood, glass by stick breaking
against one logistic regression for each cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import special
from scipy.optimize import minimize

import lgmdsl as lgm
from lgmdsl.arrays import Array

ORDINAL = """lgm 1
index voter
index term
index party
index cut = head(party)
data X[voter, term] : real
data y[voter] : party
hyper c[cut] : ordered ~ normal(sd = 100)
latent b[term] ~ normal(sd = 100)
let eta[voter] = X @ b
observe y ~ ordinal({} = eta, cuts = c)
"""
GLASS = """lgm 1
index obs
index term
index class
index cut = head(class)
data X[obs, term] : real
data y[obs] : class
latent b[term, cut] ~ normal(sd = 2)
let eta[obs, cut] = X @ b
observe y ~ categorical(stick = eta)
"""
LOGISTIC = """lgm 1
index obs
index term
data X[obs, term] : real
data y[obs] : binary
latent b[term] ~ normal(sd = 2)
let eta[obs] = X @ b
observe y ~ bernoulli(logit = eta)
"""


def voters(shared: Path) -> dict[str, Any]:
    """Party identification, 1 to 7, of 1992, by ideology, age, education, gender, income, race."""
    with np.load(shared / "data" / "pdb_nes1992.npz") as d:
        names = ("real_ideo", "age_discrete", "educ1", "gender", "income", "race_adj")
        X = np.column_stack([d[n] for n in names]).astype(float)
        return {"X": (X - X.mean(axis=0)) / X.std(axis=0), "y": d["partyid7"]}


def minus_log_likelihood(at: Array, data: dict[str, Any], law: Any) -> float:
    """Of slopes, the first cut and the logarithms of the gaps."""
    terms = data["X"].shape[1]
    upto = law(cuts(at[terms:])[None] - (data["X"] @ at[:terms])[:, None])
    edge = np.zeros((len(upto), 1))
    mass = np.diff(np.hstack([edge, upto, edge + 1.0]), axis=1)
    return -float(np.log(mass[np.arange(len(upto)), data["y"] - 1]).sum())


def cuts(free: Array) -> Array:
    return np.asarray(np.cumsum(np.r_[free[0], np.exp(free[1:])]))


@pytest.mark.thorough
@pytest.mark.parametrize(("link", "law"), [("logit", special.expit), ("probit", special.ndtr)])
def test_party_identification_is_maximum_likelihood(link: str, law: Any, shared: Path) -> None:
    data = voters(shared)
    share = np.cumsum(np.bincount(data["y"])[1:-1]) / len(data["y"])
    first = special.logit(share) if link == "logit" else special.ndtri(share)
    start = np.r_[np.zeros(6), first[0], np.log(np.diff(first))]
    found: Any = minimize(
        minus_log_likelihood, start, (data, law), method="BFGS", options={"gtol": 1e-5}
    )
    slopes, known = found.x[:6], cuts(found.x[6:])
    model = lgm.loads(ORDINAL.format(link))
    pinned = lgm.fit(model, data, method="laplace", fixed={"c": known})
    sd = np.ravel(pinned.sd("b"))
    np.testing.assert_allclose(np.ravel(pinned.mean("b")), slopes, atol=2e-3 * sd.min())
    # Cuts at the mode of the evidence, which has the slopes integrated out.
    learned = lgm.fit(model, data, method="laplace", hyper="map")
    assert learned.converged
    error = np.sqrt(np.diag(found.hess_inv)[:6])
    np.testing.assert_allclose(learned.theta["c"], known, atol=0.02)
    np.testing.assert_allclose(np.ravel(learned.mean("b")), slopes, atol=0.1 * error.min())
    if link == "logit":  # ideology moves voters towards the last party, the Republicans
        assert float(learned.mean("b")[0]) > 10.0 * sd[0]


def test_glass_by_sticks_is_a_logistic_regression_for_each_cut(shared: Path) -> None:
    with np.load(shared / "data" / "glass.npz") as d:
        X = (d["X"] - d["X"].mean(axis=0)) / d["X"].std(axis=0)
        y = d["y"].astype(int)
    X = np.hstack([np.ones((len(y), 1)), X])
    classes = np.unique(y)
    whole = lgm.fit(lgm.loads(GLASS), {"X": X, "y": y}, method="ep")
    evidence, single = 0.0, lgm.loads(LOGISTIC)
    for k, label in enumerate(classes[:-1]):
        left = y >= label
        part = {"X": X[left], "y": (y[left] == label).astype(int)}
        one = lgm.fit(single, part, method="ep")
        evidence += one.log_evidence
        np.testing.assert_allclose(whole.mean("b")[:, k], one.mean("b"), atol=1e-4)
        np.testing.assert_allclose(whole.sd("b")[:, k], one.sd("b"), rtol=1e-4)
    assert whole.log_evidence == pytest.approx(evidence, rel=1e-6)
    p = whole.predict({"X": X}).response("y").probability
    hit = np.mean(p["class"].values[p.values.argmax(axis=1)] == y)
    base = np.bincount(y).max() / len(y)
    loo = whole.loo()
    shown = np.bincount(y)[classes] / len(y)
    assert hit > 0.65 > base
    # Better than the shares of the classes, left out.
    assert loo.elpd > len(y) * float(np.sum(shown * np.log(shown))) + 50.0
