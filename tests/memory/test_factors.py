"""Factors that a fit makes, and those that it keeps, stay within the memory budget."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import lgmdsl as lgm
from lgmdsl.contract.engine import Failed
from lgmdsl.engines.iterative.engine import IterativeEngine
from lgmdsl.engines.shared import prior_precision
from lgmdsl.engines.shared.prior_precision import SparsePrior
from lgmdsl.engines.sparse.engine import SparseEngine
from lgmdsl.errors import LgmError
from lgmdsl.memory import TooLarge
from lgmdsl.numerics.sparse import supernodal as panels
from lgmdsl.numerics.sparse.analyse import analyse
from lgmdsl.numerics.sparse.base import Factor, Pattern
from tests.engines.subspace import case

MODEL = """lgm 1
index region
data W[region, region] : graph
data y[region] : count
hyper s : positive ~ pc_sd(u = 1, alpha = 0.05)
latent u[region] ~ besag(graph = W, sd = s)
latent b ~ normal(sd = 3)
let eta[region] = b + u
observe y ~ poisson(log_rate = eta)
"""
REGIONS, PAIRS = 900, 1600


def edges(n: int, pairs: int, seed: int = 0) -> Any:
    drawn = np.random.default_rng(seed).integers(0, n, (pairs, 2))
    return np.unique(np.sort(drawn[drawn[:, 0] != drawn[:, 1]], axis=1), axis=0)


def data() -> dict[str, Any]:
    y = np.random.default_rng(1).poisson(1.5, REGIONS)
    return {"W": edges(REGIONS, PAIRS), "y": y}


def fitted() -> lgm.Fit:
    return lgm.fit(lgm.loads(MODEL), data(), method="laplace", hyper="map")


def laplacian(seed: int) -> tuple[Pattern, Any]:
    i, j = edges(REGIONS, PAIRS, seed).T
    half = sp.csr_array((np.ones(len(i)), (i, j)), shape=(REGIONS, REGIONS))
    graph = sp.csr_array(half + half.T)
    q = sp.csr_array(sp.diags_array(graph.sum(axis=1) + 0.5) - graph)
    pattern = Pattern.of(q)
    return pattern, pattern.values(q)


def test_factors_beyond_their_share_are_made_again_to_the_same_digits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pattern, values = laplacian(0)
    symbolic = analyse(pattern)
    size = 8 * symbolic.tree.panels[-1]  # type: ignore[attr-defined]
    rhs = np.random.default_rng(2).normal(size=pattern.size)

    def factors() -> list[Factor]:
        made = [symbolic.factor(values * (1.0 + k)) for k in range(6)]
        return [f for f in made if f is not None]

    plenty = factors()
    assert panels.held() >= 6 * size
    expected = [(f.solve(rhs), f.selected(), f.pivots) for f in plenty]
    del plenty
    monkeypatch.setenv("LGM_MEMORY", str(int(8.5 * symbolic.held)))
    few = factors()
    assert len(few) == 6 and panels.held() <= 2 * size
    for factor, (solved, inverse, pivots) in zip(few, expected, strict=True):
        assert np.array_equal(factor.solve(rhs), solved)
        assert np.array_equal(factor.selected(), inverse)
        assert np.array_equal(factor.pivots, pivots)
        assert panels.held() <= 2 * size


def test_what_a_factor_takes_with_its_inverse_is_refused_by_a_smaller_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However often the pattern was met before."""
    symbolic = analyse(laplacian(3)[0])
    monkeypatch.setenv("LGM_MEMORY", str(int(7.9 * symbolic.held)))
    with pytest.raises(TooLarge, match="900 unknowns"):
        analyse(symbolic.pattern)


def test_a_prior_is_refused_by_name_before_it_is_factored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """L alone would fit; the work for its inverse does not."""
    monkeypatch.setenv("LGM_MEMORY", "1100kB")
    with pytest.raises(LgmError) as caught:
        fitted()
    assert caught.value.codes == ("E505",)
    for said in (str(caught.value), str(lgm.explain(lgm.loads(MODEL), data()))):
        words = " ".join(said.split())
        assert "the prior of `u` is larger than the memory budget" in words, said
        assert "899 unknowns" in words and "LGM_MEMORY=" in words
        assert "neighbours that are near" in words


def test_a_search_keeps_no_more_factors_than_the_budget_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    most = [0.0]
    before = panels.blank

    def counted(symbolic: Any, size: int) -> Any:
        panel = before(symbolic, size)
        most[0] = max(most[0], panels.held() + panel.nbytes)
        return panel

    from lgmdsl.numerics.sparse import supernodal

    monkeypatch.setattr(supernodal, "blank", counted)
    free = fitted()
    whole, most[0] = most[0], 0.0
    monkeypatch.setenv("LGM_MEMORY", "1900kB")
    tight = fitted()
    assert most[0] < 0.5 * whole
    assert tight.log_evidence == free.log_evidence
    assert tight.status == free.status


@pytest.mark.parametrize("engine", [SparseEngine, IterativeEngine])
def test_slopes_of_a_prior_that_no_one_constrains_take_no_factor_of_it(engine: Any) -> None:
    made = case(0, ("besag",), "")
    q = engine(made.linear).condition(made.weight, made.shift)
    assert not isinstance(q, Failed)
    slopes = q.adjoints()
    assert all(slopes.precision[name] is not None for name in slopes.precision)
    prior = q.engine.prior if engine is SparseEngine else q.engine.ties.prior
    assert "moments" not in vars(prior)


def test_a_prior_keeps_no_factor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under the user's constraints its moments take one."""
    made, alive = case(0, ("besag",), "sum"), list[weakref.ref[Factor]]()

    class Watched:
        def __init__(self, pattern: Pattern) -> None:
            self.symbolic = analyse(pattern)

        def factor(self, values: Any) -> Factor | None:
            factor = self.symbolic.factor(values)
            assert factor is not None
            alive.append(weakref.ref(factor))
            return factor

    monkeypatch.setattr(prior_precision, "analyse", Watched)
    prior = SparsePrior(made.linear)
    block = next(b for b in prior.blocks if not b.flat)
    rows = np.arange(block.where.start, block.where.stop)
    assert (prior.covariance(rows, rows) >= 0.0).all()
    assert alive and all(ref() is None for ref in alive)


def test_the_spectrum_of_a_graph_is_refused_before_it_is_a_dense_matrix(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where its factor, which is smaller, would fit."""
    text = MODEL.replace("besag(graph = W, sd = s)", "bym2(graph = W, sd = s, mix = m)").replace(
        "latent u", "hyper m : unit ~ pc_mix(graph = W, u = 0.5, alpha = 0.67)\nlatent u"
    )
    monkeypatch.setenv("LGM_MEMORY", "10MB")
    with pytest.raises(TooLarge) as caught:
        lgm.fit(lgm.loads(text), data(), method="laplace")
    said = str(caught.value)
    assert "`pc_mix`" in said and "x" in caught.value.count and "LGM_MEMORY=" in said, said
