"""The models and data of the kept result files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Case:
    """A fit: `arguments` of `lgm.fit`, and `new`, data that it is asked to predict at; `by`: the
    map by which its rows are split into two shards, if they are."""

    text: str
    data: Callable[[], dict[str, Any]]
    new: Callable[[], dict[str, Any]]
    arguments: dict[str, Any] = field(default_factory=dict)
    audit: bool = False
    by: str = ""


def _rng() -> np.random.Generator:
    return np.random.default_rng(17)


COUNTS = """lgm 1
index obs
index subject
data y[obs]    : count
data x[obs]    : real
data time[obs] : positive
data who[obs]  : subject
hyper s : positive ~ half_normal(sd = 1)
latent b ~ normal(sd = 2)
latent u[subject] ~ normal(sd = s)
let eta[obs] = b * x + u[who]
observe y ~ poisson(log_rate = eta, exposure = time)
report rate[obs] = exp(eta)
"""


def _counts() -> dict[str, Any]:
    rng = _rng()
    who = np.arange(30) % 6
    x, time = rng.normal(size=30), rng.uniform(0.5, 2.0, size=30)
    effect = np.array([0.5, -0.8, 0.1, 0.9, -0.3, 0.0])
    y = rng.poisson(time * np.exp(0.4 * x + effect[who]))
    names = np.array(["ann", "bob", "cy", "dee", "eve", "flo"])
    return {"y": y, "x": x, "time": time, "who": names[who]}


def _new_counts() -> dict[str, Any]:
    return {"x": [0.0, 1.0], "time": [1.0, 2.0], "who": ["cy", "ann"]}


LINE = """lgm 1
index obs
data x[obs] : real
data y[obs] : real
hyper v : positive ~ half_normal(sd = 2)
hyper s : positive ~ half_normal(sd = 3)
latent a ~ normal(sd = 3)
latent b ~ normal(sd = s)
let eta[obs] = a + b * x
observe y ~ normal(mean = eta, sd = v)
"""


def _line() -> dict[str, Any]:
    rng = _rng()
    x = np.linspace(-1.0, 1.0, 12)
    return {"x": x, "y": 0.5 + 1.5 * x + 0.4 * rng.normal(size=12)}


def _new_line() -> dict[str, Any]:
    return {"x": [-2.0, 0.25, 3.0]}


FACTORS = """lgm 1
index person
index item
index dim = 1
data y[person, item] : real
hyper L[item, dim] : real ~ normal(mean = 0, sd = 1)
hyper psi[item] : positive ~ half_normal(sd = 1)
latent z[person, dim] ~ normal(sd = 1)
let eta[person, item] = L @ z
observe y ~ normal(mean = eta, sd = psi)
"""


def _factors() -> dict[str, Any]:
    rng = _rng()
    z, loading = rng.normal(size=(15, 1)), np.array([[0.9, -0.6, 0.7, 1.2]])
    return {"y": z @ loading + 0.4 * rng.normal(size=(15, 4))}


def _new_factors() -> dict[str, Any]:
    return {"y": _factors()["y"][:3]}


CLASSES = """lgm 1
index obs
index kind = {"a", "b", "c"}
data x[obs] : real
data y[obs] : kind
latent b[kind] ~ normal(sd = 1)
latent c[kind] ~ normal(sd = 1)
let eta[obs, kind] = c + b * x
observe y ~ categorical(softmax = eta)
"""


def _classes() -> dict[str, Any]:
    rng = _rng()
    x = rng.normal(size=25)
    score = np.outer(x, [1.0, 0.0, -1.0]) + rng.gumbel(size=(25, 3))
    return {"x": x, "y": np.array(["a", "b", "c"])[score.argmax(axis=1)]}


def _new_classes() -> dict[str, Any]:
    return {"x": [-1.0, 0.0, 2.0]}


CHAIN = """lgm 1
index obs
index week
data x[obs]    : real
data y[obs]    : binary
data when[obs] : week
latent b ~ normal(sd = 1)
latent f[week] ~ ar1(sd = 0.8, rho = 0.9)
let eta[obs] = f[when] + b * x
observe y ~ bernoulli(logit = eta)
"""


def _chain() -> dict[str, Any]:
    rng = _rng()
    x = rng.normal(size=300)
    y = (rng.random(300) < 0.5 + 0.3 * np.tanh(x)).astype(int)
    return {"x": x, "y": y, "when": np.arange(300) // 2}


def _new_chain() -> dict[str, Any]:
    return {"x": [0.0, 1.0], "when": [5, 149]}


IMAGE = """lgm 1
index row = 80
index col = 80
index krow
index kcol
data y[row, col]     : real
data psf[krow, kcol] : positive
latent u[row, col] ~ normal(sd = 1)
observe y ~ normal(mean = conv2(u, psf, boundary = "circular"), sd = 0.1)
"""


def _image() -> dict[str, Any]:
    rng = _rng()
    side = np.exp(-(np.linspace(-2.0, 2.0, 21) ** 2))
    return {"y": rng.integers(-3, 4, size=(80, 80)) / 4, "psf": np.outer(side, side) / side.sum()}


def _new_image() -> dict[str, Any]:
    return {}


ZEROS = """lgm 1
index obs
data n[obs] : count
data y[obs] : count
latent a ~ normal(sd = 10)
let eta[obs] = a
observe y ~ binomial(n = n, logit = eta)
report p = invlogit(a)
"""


def _zeros() -> dict[str, Any]:
    return {"n": [20, 27], "y": [0, 0]}


def _new_zeros() -> dict[str, Any]:
    return {"n": [10, 47]}


SLOPES = """lgm 1
index obs
index group
index k
data y[obs]    : real
data x[obs, k] : real
data who[obs]  : group
hyper S[k, k] : covariance ~ lkj_cov(eta = 2, u = 3, alpha = 0.05)
latent u[group, k] ~ iid * dense(cov = S)
let eta[obs] = sum(x[obs, k] * u[who, k], k)
observe y ~ normal(mean = eta, sd = 1)
"""


def _slopes() -> dict[str, Any]:
    rng = _rng()
    who, x = np.arange(40) % 8, np.c_[np.ones(40), rng.normal(size=40)]
    u = np.array([1.5, 0.7]) * rng.normal(size=(8, 2))
    return {"y": (x * u[who]).sum(axis=1) + rng.normal(size=40), "x": x, "who": who}


def _new_slopes() -> dict[str, Any]:
    return {"x": [[1.0, 0.5], [1.0, -1.0]], "who": [0, 3]}


CASES = {
    "fixed": Case(COUNTS, _counts, _new_counts, {"fixed": {"s": 0.7}}, audit=True),
    "map": Case(COUNTS, _counts, _new_counts, {"hyper": "map", "method": "laplace"}),
    "integrated": Case(COUNTS, _counts, _new_counts, {"hyper": "integrate"}),
    "em": Case(FACTORS, _factors, _new_factors, {"hyper": "em"}),
    "vb": Case(LINE, _line, _new_line, {"hyper": "vb"}),
    "vectors": Case(CLASSES, _classes, _new_classes),
    "sparse": Case(CHAIN, _chain, _new_chain, {"method": "laplace"}),
    "iterative": Case(IMAGE, _image, _new_image),
    "streamed": Case(
        COUNTS.replace("report rate[obs] = exp(eta)\n", ""),
        _counts,
        _new_counts,
        {"hyper": "integrate", "method": "laplace", "options": {"rows": "streamed"}},
    ),
    "sharded": Case(
        COUNTS.replace("report rate[obs] = exp(eta)\n", ""),
        _counts,
        dict,
        {"hyper": "integrate"},
        by="who",
    ),
    "drawn": Case(ZEROS, _zeros, _new_zeros),
    "covariance": Case(SLOPES, _slopes, _new_slopes, {"hyper": "integrate"}),
}
