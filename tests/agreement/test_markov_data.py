"""Markov structures on real data: every method through the sparse and the dense engines.

Where only the engine differs, log evidence and moments are the same. (The variational solvers are
one fixed point: they agree with each other too.)
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

import lgmdsl as lgm
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.engine import Engine
from lgmdsl.contract.status import Status
from lgmdsl.engines.choose import choose
from lgmdsl.engines.sparse.engine import SparseEngine
from lgmdsl.structures.spatial.besag import besag

from .markov_data import CASES, ENGINES, GRAPHS, METHODS, Outcome, fit, stored

SAME = 1e-8  # relative, of log evidences
SETTLED = 1e-5  # of means in sds and of sds: where each run stopped
VARIATIONAL = METHODS[1:6]
PAIRS = [(c, m) for c in CASES for m in CASES[c].quick]
SLOW = [(c, m) for c in CASES for m in CASES[c].slow]
IMPROPER = ("germany larynx", "drivers rw1", "drivers ar1")


@lru_cache(maxsize=1)
def compiled(name: str, folder: Path) -> CanonicalModel:
    return CASES[name].compiled(folder)


@lru_cache(maxsize=1)
def variational(name: str, folder: Path) -> Outcome:
    return fit(compiled(name, folder), "natural-gradient", SparseEngine)


def taking(name: str, method: str, canonical: CanonicalModel) -> list[type[Engine]]:
    """The dense engines that take the model. A walk of 366 days has a condition of 1e9, and the
    evidence in terms of its dense precision so much noise that natural gradients creep on it."""
    linear = canonical.linear(canonical.hypers.theta())
    noisy = ("tokyo", "natural-gradient", "precision")
    dense = [n for n in ENGINES if n != "sparse" and (name, method, n) != noisy]
    return [ENGINES[n] for n in dense if not ENGINES[n].refuses(linear)]


@pytest.mark.few(14)
@pytest.mark.parametrize(
    ("name", "method"), [*PAIRS, *(pytest.param(*p, marks=pytest.mark.slow) for p in SLOW)]
)
def test_one_answer_whatever_the_engine(name: str, method: str, shared: Path) -> None:
    folder = shared / "data"
    canonical = compiled(name, folder)
    if method == "lcl" and name in IMPROPER:
        with pytest.raises(lgm.LgmError, match="its dual needs proper priors"):
            fit(canonical, method, SparseEngine)
        return
    sparse = fit(canonical, method, SparseEngine)
    assert sparse.status is Status.converged
    dense = taking(name, method, canonical)
    assert dense
    for engine in dense:
        other = fit(canonical, method, engine)
        assert other.log_evidence == pytest.approx(sparse.log_evidence, rel=SAME)
        np.testing.assert_allclose((other.mean - sparse.mean) / sparse.sd, 0.0, atol=SETTLED)
        np.testing.assert_allclose(other.sd, sparse.sd, rtol=SETTLED)
    if method in VARIATIONAL:
        one = variational(name, folder)
        assert sparse.log_evidence == pytest.approx(one.log_evidence, rel=SAME)
        np.testing.assert_allclose((sparse.mean - one.mean) / one.sd, 0.0, atol=1e-4)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "name", ["tokyo", "germany oral", "germany larynx", "pound", "drivers rw1"]
)
def test_the_sparse_engine_is_chosen(name: str, shared: Path) -> None:
    canonical = compiled(name, shared / "data")
    engine, why = choose(canonical.linear(canonical.hypers.theta()))
    assert isinstance(engine, SparseEngine), why


@pytest.mark.parametrize("edges", GRAPHS)
def test_scotland_is_scaled_by_component(edges: str, shared: Path) -> None:
    """Against pseudo-inverses, and Stan's case study, which gives 0.485318 for its graph."""
    pairs = stored(shared / "data", "scotland_lip")[edges]
    graph = sp.csr_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(56, 56))
    graph = sp.csr_array(graph + graph.T)
    count, label = connected_components(graph)
    scaled = besag(56, graph, 1.0).precision().toarray()
    found = {}
    for part in range(count):
        where = np.flatnonzero(label == part)
        if len(where) == 1:
            assert scaled[where[0], where[0]] == 1.0
            continue
        inner = graph[where][:, where].toarray()
        inverse = np.linalg.pinv(np.diag(inner.sum(axis=1)) - inner)
        found[len(where)] = float(np.exp(np.log(inverse.diagonal()).mean()))
        ours = np.linalg.pinv(scaled[np.ix_(where, where)])
        np.testing.assert_allclose(ours, inverse / found[len(where)], rtol=0, atol=1e-10)
    if edges == "edges":
        assert set(found) == {53} and count == 4
    else:
        assert set(found) == {56}
    if edges == "edges_stan_connected":
        assert found[56] == pytest.approx(0.485318, abs=5e-7)
