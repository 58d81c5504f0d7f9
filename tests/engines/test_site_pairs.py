"""B'WB and blocks of B V B' by the table of pairs of vector sites, against dense products."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import lgmdsl as lgm
from lgmdsl.arrays import SparseMatrix
from lgmdsl.contract.linear import Predictor
from lgmdsl.engines.dense import gram
from lgmdsl.engines.dense.gram import SitePairGram
from lgmdsl.engines.shared.weights import SiteWeight
from lgmdsl.numerics.cholesky import cholesky

TEXT = """lgm 1
index trial
index person
index alt = {"bus", "car", "train"}
data x[trial, alt] : real
data who[trial] : person
data y[trial] : alt
latent b ~ normal(sd = 2)
latent d[person] ~ normal(sd = 1)
let util[trial, alt] = b * x + d[who] * x
observe y ~ categorical(softmax = util)
"""


def test_tables_of_pairs_are_dense_products() -> None:
    """Blocks of three predictors, scalar ones and of two; rows of no entry and of many; weights
    that are not definite."""
    rng, n = np.random.default_rng(0), 9
    predictors = tuple(
        Predictor({}, np.zeros(rows), event) for rows, event in ((21, 3), (5, 0), (0, 2), (8, 2))
    )
    dense = rng.normal(size=(34, n)) * (rng.random((34, n)) < 0.3)
    dense[4] = 0.0
    b = sp.csr_array(dense)
    assert (np.diff(b.indptr) == 0).any()
    weight = tuple(
        rng.normal(size=p.rows)
        if not p.event
        else rng.normal(size=(p.rows // p.event,) + (p.event,) * 2)
        for p in predictors
    )
    weight = tuple(w if w.ndim == 1 else w + w.transpose(0, 2, 1) for w in weight)
    table, w = SitePairGram(b, predictors), SiteWeight(predictors, weight)
    whole = dense.T @ w.sparse().toarray() @ dense
    np.testing.assert_allclose(np.triu(table.weighted(w)), np.triu(whole), atol=1e-13)
    a = dense.T @ dense + np.eye(n)
    factor = cholesky(a.copy())
    assert factor is not None
    v, start = dense @ np.linalg.inv(a) @ dense.T, 0
    for p, found in zip(predictors, table.variance(factor), strict=True):
        width = max(p.event, 1)
        for k in range(p.rows // width):
            at = slice(start + k * width, start + (k + 1) * width)
            np.testing.assert_allclose(np.reshape(found[k], (width, width)), v[at, at], atol=1e-13)
        start += p.rows
        assert found.shape == ((p.rows // width, p.event, p.event) if p.event else (p.rows,))


@pytest.mark.thorough
def test_choices_take_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the fit is that of the products it replaces."""
    rng = np.random.default_rng(1)
    data = {
        "x": rng.normal(size=(150, 3)),
        "who": np.arange(150) % 30,
        "y": np.array(["bus", "car", "train"])[rng.integers(0, 3, 150)],
    }
    made = list[SitePairGram]()
    plain = SitePairGram.__init__

    def noted(self: SitePairGram, b: SparseMatrix, predictors: tuple[Predictor, ...]) -> None:
        made.append(self)
        plain(self, b, predictors)

    monkeypatch.setattr(SitePairGram, "__init__", noted)
    options = {"engine": "precision"}
    fits = [lgm.fit(lgm.loads(TEXT), data, options=options)]
    assert made
    monkeypatch.setattr(gram, "_site_pairs", lambda *a: np.inf)
    made.clear()
    fits.append(lgm.fit(lgm.loads(TEXT), data, options=options))
    assert not made
    assert fits[0].log_evidence == pytest.approx(fits[1].log_evidence, abs=1e-9)
    np.testing.assert_allclose(fits[0].sd("d").values, fits[1].sd("d").values, rtol=1e-8)
