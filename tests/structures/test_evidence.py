"""Evidence of whole models against dense algebra: constraints integrated out, free lines flat."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import multivariate_normal

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.structures.catalogue import structure

RNG = np.random.default_rng(8)
GRAPH = np.zeros((6, 6))
for a, b in ((0, 1), (1, 2), (3, 4)):
    GRAPH[a, b] = GRAPH[b, a] = 1.0
AT = np.array([4.0, 0.3, 2.0, 7.5, 1.1, 5.0])
WHO = np.concatenate([np.arange(6), RNG.integers(0, 6, 9)])
Y = RNG.normal(size=15)
POINTS = np.array([[0.0, 0], [1, 0], [0, 1], [1, 1], [2, 0.5], [0.4, 2]])
TRIANGLES = np.array([[0, 1, 2], [1, 3, 2], [1, 4, 3], [2, 3, 5]])
MESH = lgm.mesh_matrices(POINTS, TRIANGLES)

PRIORS = {
    "rw1": "rw1(sd = s)",
    "rw1 at": "rw1(sd = s, at = t)",
    "rw2": "rw2(sd = s, at = t)",
    "rw2 cyclic": "rw2(sd = s, cyclic = true)",
    "rw2 free": "rw2(sd = s, sum_to_zero = false)",
    "seasonal": "seasonal(sd = s, period = 3)",
    "ar1": "ar1(sd = s, rho = 0.6)",
    "ou": "ou(sd = s, rate = 0.6, at = t)",
    "besag": "besag(graph = adj, sd = s)",
    "bym2": "bym2(graph = adj, sd = s, mix = 0.3)",
    "car": "car(graph = adj, sd = s, alpha = 0.8)",
    "spde": "spde(mass = C, stiffness = G, sd = s, range = 1.5)",
    "gmrf": "gmrf(precision = Q, sd = s)",
}
Q = np.diff(np.eye(6), axis=0).T @ np.diff(np.eye(6), axis=0)
DATA = {"t": AT, "adj": GRAPH, "C": MESH.mass, "G": MESH.stiffness, "Q": Q}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "rw1": {}, "rw1 at": {"at": AT}, "rw2": {"at": AT}, "rw2 cyclic": {"cyclic": True},
    "rw2 free": {"sum_to_zero": False}, "seasonal": {"period": 3.0}, "ar1": {"rho": 0.6},
    "ou": {"rate": 0.6, "at": AT}, "car": {"alpha": 0.8}, "gmrf": {"precision": Q},
    "spde": {"mass": MESH.mass, "stiffness": MESH.stiffness, "range": 1.5}, "besag": {},
}  # fmt: skip


def model(prior: str, flat_level: bool) -> str:
    types = {"t": "u : real", "adj": "u, u : graph", "C": "u, u : real", "G": "u, u : real",
             "Q": "u, u : real"}  # fmt: skip
    data = "".join(
        f"data {n}[{d.replace(' :', '] :')}\n"
        for n, d in types.items()
        if re.search(rf"= {n}\b", prior)
    )
    level = "flat" if flat_level else "normal(sd = 2)"
    return (
        f"lgm 1\nindex obs\nindex u = 6\ndata y[obs] : real\ndata who[obs] : u\n{data}"
        f"hyper s : positive = 0.8\nlatent b ~ {level}\nlatent f[u] ~ {prior}\n"
        "let eta[obs] = b + f[who]\nobserve y ~ normal(mean = eta, sd = 0.7)\n"
    )


def prior_of(name: str) -> tuple[Array, Array]:
    """Covariance on the constrained subspace, and a basis of the directions of density 1."""
    if name == "bym2":
        one = prior_of("besag")[0] / 0.64
        return 0.64 * (0.7 * np.eye(6) + 0.3 * one), np.zeros((6, 0))
    given = dict(ARGUMENTS[name])
    if name in ("besag", "car"):
        given["graph"] = sp.csr_array(GRAPH)
    s = structure(name.split()[0], 6, sd=0.8, **given)
    q = np.asarray(s.precision().toarray())
    null, tied = s.null_space(), s.constraints().toarray()
    covariance = np.linalg.pinv(q, rcond=1e-10, hermitian=True)
    if len(tied):  # what of the null space the constraints leave
        seen = tied @ null
        null = null @ np.linalg.svd(seen, full_matrices=True)[2][len(tied) :].T
    return covariance, null


def evidence(name: str, flat_level: bool) -> float:
    """log N(y; 0, V) integrated over flat directions A: (y'Py with P = V^-1 - ...)."""
    b = np.eye(6)[WHO]
    k, null = prior_of(name)
    v = 0.49 * np.eye(15) + b @ k @ b.T
    flat = b @ null
    if flat_level:
        flat = np.column_stack([np.ones(15), flat])
    else:
        v += 4.0
    if not flat.shape[1]:
        return float(multivariate_normal(np.zeros(15), v).logpdf(Y))
    inside = flat.T @ np.linalg.solve(v, flat)
    pull = flat.T @ np.linalg.solve(v, Y)
    gain = 0.5 * flat.shape[1] * np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(inside)[1]
    gain += 0.5 * pull @ np.linalg.solve(inside, pull)
    return float(multivariate_normal(np.zeros(15), v).logpdf(Y) + gain)


PREDICTED = """lgm 1
index obs
data y[obs] : real
data t[obs] : real
latent u[obs] ~ {prior}
observe y ~ normal(mean = u, sd = 0.5)
"""


@pytest.mark.thorough
def test_new_positions_extend_ou_as_its_kernel() -> None:
    t, new = np.arange(8.0) ** 1.2, {"t": np.array([20.0, 0.5, 3.3])}
    found = []
    kernel = "matern(sd = 0.9, length = 2, smoothness = 0.5)"
    for prior in ("ou(sd = 0.9, rate = 0.5, at = t)", f"gp(at = t, kernel = {kernel})"):
        fit = lgm.fit(lgm.loads(PREDICTED.format(prior=prior)), {"y": np.sin(t), "t": t})
        p = fit.predict(new)
        found.append(np.stack([p.response("y")["mean"], p.response("y")["sd"]]))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9)


# Two free levels that only enter as their sum are improper, and refused elsewhere.
CASES = [
    (n, flat) for n in PRIORS for flat in (False, True) if not (flat and n in ("rw2 free", "gmrf"))
]


@pytest.mark.few(5)
@pytest.mark.parametrize("name, flat_level", CASES)
def test_evidence(name: str, flat_level: bool) -> None:
    prior = PRIORS[name]
    given = {k: v for k, v in DATA.items() if re.search(rf"= {k}\b", prior)}
    loaded = lgm.loads(model(prior, flat_level))
    fit = lgm.fit(loaded, {"y": Y, "who": WHO, **given}, method="laplace")
    assert {w.code for w in fit.warnings} <= {"W401"}  # sparse matrices stay so (no W304)
    assert fit.log_evidence == pytest.approx(evidence(name, flat_level), abs=1e-8)
