"""Operators whose places are known: the same matrices and slopes as those that are made anew."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from lgmdsl.canonical.expressions.coefficient import Gradient, Theta
from lgmdsl.canonical.lowering import flatten
from lgmdsl.canonical.lowering.flatten import PlacedEntries, placed
from lgmdsl.canonical.model import CanonicalModel
from tests.compiled import canonical_form

TEXT = """lgm 1
index obs
index who
index part = {"a", "b"}
data x[obs] : real
data Z[obs, who] : real
data g[obs] : who
data y[obs] : real?
hyper s : positive ~ half_normal(sd = 1)
hyper w[part] : real ~ normal(sd = 1)
latent a ~ normal(sd = 5)
latent u[who] ~ normal(sd = 1)
latent d[who, part] ~ normal(sd = 1)
latent v[who] ~ normal(sd = 1)
let both[obs] = w["a"] * d[g, "a"] + sum(w * d[g, part], part)
let eta[obs] = a + s * u[g] + x * u[g] + both + s * (Z @ v)
observe y ~ normal(mean = eta, sd = 0.3)
"""
THETAS = (
    {"s": np.asarray(0.7), "w": np.array([0.4, -1.1])},
    {"s": np.asarray(1.9), "w": np.array([0.0, 2.3])},
)


def model(missing: bool) -> CanonicalModel:
    rng = np.random.default_rng(4)
    y = rng.normal(size=12)
    if missing:
        y[[2, 7]] = np.nan
    g = np.arange(12) % 3
    data = {"x": rng.normal(size=12), "g": g, "y": y, "Z": rng.normal(size=(12, 3))}
    return canonical_form(TEXT, data)


def anew(canonical: CanonicalModel, theta: Theta) -> dict[str, sp.csr_array]:
    """The operators of a copy that was asked for nothing else."""
    made = replace(canonical).predictor(
        canonical.blocks[0].form,
        canonical.blocks[0].predictor_dims,
        theta,
        None if canonical.blocks[0].complete else canonical.blocks[0].predictor_rows(),
    )
    return {name: sp.csr_array(o.dense()) for name, o in made.columns.items()}


@pytest.mark.parametrize("missing", [False, True])
def test_operators_are_those_made_anew(missing: bool) -> None:
    canonical = model(missing)
    for theta in (*THETAS, THETAS[0]):
        columns = canonical.linear(theta).predictors[0].columns
        wanted = anew(canonical, theta)
        for name, operator in columns.items():
            np.testing.assert_allclose(operator.dense(), wanted[name].toarray(), rtol=1e-15)
    assert {n for n in ("a", "u", "d", "v") if canonical.placed(0, n)} == {"u", "d"}


def test_what_no_hyper_stands_in_is_the_same_object() -> None:
    canonical = model(True)
    first, second = (canonical.linear(t).predictors[0].columns for t in THETAS)
    assert first["a"] is second["a"]
    assert first["u"] is not second["u"]


@pytest.mark.parametrize("missing", [False, True])
def test_slopes_are_those_of_the_terms(missing: bool) -> None:
    canonical, theta = model(missing), THETAS[0]
    block = canonical.blocks[0]
    columns = canonical.linear(theta).predictors[0].columns
    rng = np.random.default_rng(1)
    for name in ("u", "d"):
        known = canonical.placed(0, name)
        assert known is not None
        pattern = columns[name].sparse()
        values = rng.normal(size=pattern.nnz)
        adjoint = sp.csr_array((values, pattern.indices, pattern.indptr), shape=pattern.shape)
        assert known.holds(adjoint)
        found: Gradient = {}
        known.pull(adjoint, theta, found)
        every = np.zeros((12, adjoint.shape[1]))
        every[block.predictor_rows() if missing else slice(None)] = adjoint.toarray()
        wanted: Gradient = {}
        terms = [t for t in block.form.terms if t.latent == name]
        sizes = canonical.latent(name).sizes
        over = flatten.Over(block.predictor_dims, sizes, block.sizes)
        flatten.pull_operator(terms, over, theta, every, wanted)
        assert found.keys() == wanted.keys()
        for hyper, slope in wanted.items():
            np.testing.assert_allclose(found[hyper], slope, rtol=1e-12)
        assert not known.holds(adjoint.toarray())
        assert not known.holds(sp.csr_array(adjoint[:, ::-1]))


def test_a_row_that_is_wanted_twice_has_no_places() -> None:
    canonical = model(False)
    block = canonical.blocks[0]
    terms = [t for t in block.form.terms if t.latent == "u"]
    rows = np.array([0, 3, 3])
    over = flatten.Over(block.predictor_dims, (3,), block.sizes)
    found = placed(terms, over, THETAS[0], rows)
    assert found is None
    some = placed(terms, over, THETAS[0], np.array([5, 0]))
    assert isinstance(some, PlacedEntries)
    whole = flatten.operator(terms, over, THETAS[1]).dense()
    np.testing.assert_allclose(some.at(THETAS[1]).dense(), whole[[5, 0]], rtol=1e-15)
