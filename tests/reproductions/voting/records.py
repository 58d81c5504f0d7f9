"""Congressional voting records as Khan 2012 uses them, factor models of them, and imputation
errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import lgmdsl as lgm
from lgmdsl.api.fit.fit import Fit
from lgmdsl.arrays import Array

# In the order of figure 4.8; the numbers are columns of the file (the UCI order).
ISSUES = {
    "budget-resolution": 2, "aid-nicaraguan-contras": 7, "mx-missile": 8, "duty-free-exports": 14,
    "anti-satellite-test-ban": 6, "handicapped-infants": 0, "export-admin-south-africa": 15,
    "immigration": 9, "synfuels-cutback": 10, "water-project": 1, "physician-fee-freeze": 3,
    "el-salvador-aid": 4, "religious-groups-schools": 5, "education-spending": 11,
    "superfund-right-to-sue": 12, "crime": 13,
}  # fmt: skip
# The three that go least with party and other votes; without them 258 records are complete, as in
# the thesis.
MILD = ("immigration", "synfuels-cutback", "water-project")
# Factors are maximised over; the thesis names no prior. This one is wide: votes are 0 or 1, and a
# loading of 9 decides one.
MODEL = """lgm 1
index person
index item
index factor = {factors}
data y[person, item] : binary?
hyper c[item] : real ~ normal(sd = 10)
hyper L[item, factor] : real ~ normal(sd = 3)
latent z[person, factor] ~ normal(sd = 1)
let eta[person, item] = c + L @ z
observe y ~ bernoulli(logit = eta)
"""


def votes(shared: Path, without: tuple[str, ...] = ()) -> Array:
    """(persons, issues + 1) complete records, party (1: Republican) last."""
    with np.load(shared / "data" / "house_votes_84.npz") as file:
        columns = [k for name, k in ISSUES.items() if name not in without]
        both = np.column_stack([file["X"][:, columns], file["y"]]).astype(float)
    return np.asarray(both[(both >= 0).all(axis=1)])


def split(y: Array, number: int) -> tuple[Array, Array, Array]:
    """80 % for training, the rest for testing, and which entry of each test record is held out."""
    rng = np.random.default_rng(number)
    order, count = rng.permutation(len(y)), round(0.8 * len(y))
    test = y[order[count:]]
    out = np.arange(y.shape[1]) == rng.integers(0, y.shape[1], len(test))[:, None]
    return y[order[:count]], test, out


def model(factors: int) -> lgm.Model:
    return lgm.loads(MODEL.format(factors=factors))


def bits(truth: Array, probability: Array) -> float:
    """Average cross entropy, base 2: 1 for a coin."""
    return float(-np.mean(np.log2(np.where(truth > 0, probability, 1.0 - probability))))


def imputation_error(
    asked: lgm.Model, theta: dict[str, object], bound: str, test: Array, out: Array
) -> float:
    """Cross entropy of the held-out entries, at given hyperparameters."""
    held = np.where(out, np.nan, test)
    fit: Fit = lgm.fit(asked, {"y": held}, hyper="fixed", fixed=theta, bound=bound)
    assert fit.converged
    return bits(test[out], fit.impute()["y"].values[out])
