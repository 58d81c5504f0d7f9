"""What a graph of data may hold: loops are dropped and told, an edge counts once however often it
is given, one-way edges are refused; all the same in every structure on a graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import lgmdsl as lgm
from lgmdsl.errors import LgmError

MODEL = """lgm 1
index region
data W[region, region] : graph
data y[region] : count
latent u[region] ~ {structure}
latent b ~ normal(sd = 3)
let eta[region] = b + u
observe y ~ poisson(log_rate = eta)
"""
STRUCTURES = (
    "besag(graph = W, sd = 1)",
    "bym2(graph = W, sd = 1, mix = 0.5)",
    "car(graph = W, sd = 1, alpha = 0.9)",
)
PAIRS = np.array([[0, 1], [1, 2], [2, 3], [3, 4], [4, 0], [1, 4]])
ADJACENCY = np.zeros((5, 5))
ADJACENCY[tuple(PAIRS.T)] = 1.0
ADJACENCY += ADJACENCY.T
LOOPS = ADJACENCY + np.diag([0.0, 0.0, 1.0, 0.0, 1.0])


def fitted(structure: str, graph: Any) -> lgm.Fit:
    model = lgm.loads(MODEL.format(structure=structure))
    return lgm.fit(model, {"W": graph, "y": [1, 2, 3, 2, 1]}, method="laplace")


@pytest.mark.few(10)
@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize(
    ("graph", "told"),
    [
        (LOOPS, ["W303"]),
        (sp.csr_array(LOOPS), ["W303"]),
        (np.vstack([PAIRS, [[2, 2]], PAIRS[:2, ::-1], PAIRS[:3]]), ["W303"]),
        (np.vstack([PAIRS, PAIRS[:, ::-1], PAIRS]), []),
    ],
)
def test_loops_and_repeats_change_nothing(structure: str, graph: Any, told: list[str]) -> None:
    known, found = fitted(structure, ADJACENCY), fitted(structure, graph)
    codes = [[w.code for w in f.warnings if w.code.startswith("W3")] for f in (found, known)]
    assert codes == [told, []]
    assert found.log_evidence == pytest.approx(known.log_evidence, abs=1e-12)
    np.testing.assert_allclose(found.sd("u"), known.sd("u"), rtol=1e-10)


@pytest.mark.parametrize(
    ("make", "remedy"), [(np.asarray, "np.maximum(W, W.T)"), (sp.csr_array, "W.maximum(W.T)")]
)
def test_edges_of_one_way_and_weights_are_refused(make: Any, remedy: str) -> None:
    one_way = ADJACENCY.copy()
    one_way[0, 1] = 0.0
    for wrong, said in ((one_way, remedy), (2.0 * ADJACENCY, "W != 0")):
        with pytest.raises(LgmError) as caught:
            fitted(STRUCTURES[0], make(wrong))
        assert caught.value.codes == ("E303",) and said in str(caught.value)
