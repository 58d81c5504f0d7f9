"""The same model at one theta after another: what is kept changes no digit."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest
import scipy.sparse as sp

from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.engine import Conditioned
from lgmdsl.contract.linear import LinearGaussian, Predictor, PriorBlock
from lgmdsl.engines.dense.precision import PrecisionEngine
from lgmdsl.engines.sparse.engine import SparseEngine
from lgmdsl.inference.plan import plan
from lgmdsl.learning.objective.gradient import evidence_gradient
from lgmdsl.operators.explicit import Identity
from lgmdsl.structures.catalogue import structure
from tests.learning.test_gradients import COUNT, PRIORS, check, compiled, data, fitted, model

SPARSE = ["besag * ar1", "bym2", "rw2", "constrained walk", "loadings"]
SECOND = {"s": 0.5, "rho": 0.2, "mix": 0.4, "e": -0.3, "c": 0.7, "L": np.array([0.2, 1.0, -1.0])}


def made(prior: str) -> CanonicalModel:
    return compiled(model(PRIORS[prior] + COUNT, "count"), data("count"))


def digits(canonical: CanonicalModel, first: bool) -> list[float]:
    """Evidence and gradient at SECOND, after a fit elsewhere or at once."""
    planned = plan(canonical, "laplace")
    free = {n: np.asarray(SECOND[n], dtype=float) for n in canonical.hypers.free}
    if first:
        fitted(planned, {n: 1.3 * at if n != "rho" else at for n, at in free.items()}, "sparse")
    found = fitted(planned, free, "sparse")
    gradient = evidence_gradient(planned, found, canonical.hypers.theta(free), {})
    return [found.log_evidence, *(float(x) for g in gradient.values() for x in g.reshape(-1))]


@pytest.mark.parametrize("prior", SPARSE)
def test_what_is_kept_changes_no_digit(prior: str) -> None:
    assert digits(made(prior), first=True) == digits(made(prior), first=False)


def test_operators_without_hypers_and_their_table_are_kept() -> None:
    """A loading's operator is made anew, and so is the table of its pairs."""
    engines = {}
    for prior in ("besag * ar1", "loadings"):
        canonical = made(prior)
        thetas = [{n: k * np.asarray(SECOND[n]) for n in canonical.hypers.free} for k in (1.0, 0.9)]
        engines[prior] = [SparseEngine(canonical.linear(canonical.hypers.theta(t))) for t in thetas]
        sites = [canonical.sites(canonical.hypers.theta(t)) for t in thetas]
        assert sites[0][0] is sites[1][0]
    kept, anew = engines["besag * ar1"], engines["loadings"]
    assert kept[0].table is kept[1].table and kept[0].b is kept[1].b
    assert not np.array_equal(kept[0].prior_values, kept[1].prior_values)
    assert anew[0].table is not anew[1].table


def test_a_loading_of_zero_keeps_its_slope() -> None:
    """Beside another term on the same latent its place in B is stored."""
    body = PRIORS["loadings"] + " + f[where]" + COUNT
    canonical = compiled(model(body, "count"), data("count"))
    planned = plan(canonical, "laplace")

    def evidence(loading: float) -> float:
        free = {"c": np.asarray(0.4), "L": np.array([0.7, loading, 1.2])}
        return fitted(planned, free, "sparse").log_evidence

    free = {"c": np.asarray(0.4), "L": np.array([0.7, 0.0, 1.2])}
    theta = canonical.hypers.theta(free)
    found = evidence_gradient(planned, fitted(planned, free, "sparse"), theta, {})
    h = 1e-3
    low2, low, high, high2 = (evidence(k * h) for k in (-2, -1, 1, 2))
    measured = (low2 - 8 * low + 8 * high - high2) / (12 * h)
    assert float(cast("np.ndarray", found["L"])[1]) == pytest.approx(measured, rel=1e-6)
    assert abs(measured) > 1e-3


def test_no_prior_is_factored_for_a_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries of the covariance of a product come from its factors, of a walk from those kept."""
    from lgmdsl.engines.shared.prior_precision import SparsePrior

    asked = []
    plain = SparsePrior.moments.func  # type: ignore[attr-defined]

    def counted(prior: SparsePrior) -> object:
        asked.append(prior.linear.size)
        return plain(prior)

    monkeypatch.setattr(SparsePrior, "moments", property(counted))
    canonical = made("besag * ar1")
    check(canonical, "laplace", "sparse")
    assert max(asked, default=0) <= 7  # besag's regions, never regions x years


def test_another_graph_of_the_same_degrees_has_its_own_table() -> None:
    """The operator is the same object, and Q stores as many entries in each row."""
    rows = Predictor({"v": Identity(6)}, np.zeros(6))
    pairs = [np.array([[0, 1], [2, 3], [4, 5]]), np.array([[0, 2], [1, 3], [4, 5]])]
    found = []
    for edges in pairs:
        i, j = np.concatenate([edges, edges[:, ::-1]]).T
        graph = sp.csr_array((np.ones(6), (i, j)), shape=(6, 6))
        block = PriorBlock("v", (structure("besag", 6, graph=graph),), np.zeros(6))
        linear = LinearGaussian((block,), (rows,))
        q = SparseEngine(linear).condition((np.ones(6),), (np.arange(6.0),))
        wanted = PrecisionEngine(linear).condition((np.ones(6),), (np.arange(6.0),))
        assert isinstance(q, Conditioned) and isinstance(wanted, Conditioned)
        np.testing.assert_allclose(q.latent_mean, wanted.latent_mean, rtol=1e-9)
        found.append(q.latent_mean)
    assert not np.allclose(found[0], found[1])
