"""Every (method, bound) pair that takes a family of vector sites, read off the registries, and a
small model of each family: a new bound or method is covered without a word here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.bounds.catalogue import applicable
from lgmdsl.contract.site import Site
from lgmdsl.inference.routes import Route, compiled, route
from lgmdsl.sites.catalogue import families
from lgmdsl_backends.catalogue import BACKENDS

ROWS, CLASSES = 5, 3
PIECES = 5  # of the series of bounds, one member stands for all


class Pair(NamedTuple):
    """A method, and the bound that sites reach it through ("" where they answer themselves)."""

    method: str
    bound: str

    def __str__(self) -> str:
        return f"{self.method}-{self.bound or 'itself'}"


def pairs(site: type[Site]) -> Iterator[Pair]:
    """All that take the sites which the compiler makes of a family's."""
    seen = compiled(site)
    for back in BACKENDS.values():
        usual = route(seen, back)
        if isinstance(usual, Route) and usual.bound is None:
            yield Pair(back.spec.name, "")
        for name in applicable(seen, back.spec.needs):
            member = name.replace("-R", f"-{PIECES}")
            if isinstance(route(seen, back, member), Route):
                yield Pair(back.spec.name, member)


VECTOR = {f.spec.name: f for f in families() if f.spec.vector}
ALL = [(name, pair) for name, family in VECTOR.items() for pair in pairs(family)]

HEAD = """lgm 1
index obs
index class = {"a", "b", "c"}
index cut = head(class)
data x[obs] : real
"""
LABELS = np.array(["a", "b", "c"])
ONE = (
    HEAD + "data y[obs] : class?\nlatent w[class] ~ normal(sd = 1.2)\n"
    "let eta[obs, class] = x * w\nobserve y ~ categorical(softmax = eta)\n"
)
COUNTS = (
    HEAD + "data y[obs, class] : count?\ndata n[obs] : count\nlatent w[class] ~ normal(sd = 1.2)\n"
    "let eta[obs, class] = x * w\nobserve y ~ multinomial(n = n, softmax = eta)\n"
)
WORDS = (
    HEAD + "index word = 4\ndata y[obs, word] : count?\n"
    "hyper beta[class, word] : simplex ~ dirichlet(alpha = 1)\n"
    "latent w[class] ~ normal(sd = 1.2)\nlet eta[obs, class] = x * w\n"
    "observe y ~ admixture(softmax = eta, emission = beta)\n"
)
SHARES = (
    HEAD + "data y[obs, class] : unit?\nlatent w[class] ~ normal(sd = 1.2)\n"
    "let eta[obs, class] = x * w\nobserve y ~ dirichlet(softmax = eta, concentration = 6)\n"
)
TIMES = (
    HEAD + "data y[obs] : positive?\ndata breaks[cut] : positive\n"
    "latent w[class] ~ normal(sd = 1.2)\nlet eta[obs, class] = x * w\n"
    "observe y ~ piecewise_exponential(log_hazard = eta, breaks = breaks)\n"
)
TEXTS: Mapping[str, str] = {
    "categorical.softmax": ONE,
    "categorical.probit": ONE.replace("softmax", "probit"),
    "categorical.stick": ONE.replace("softmax", "stick").replace("class]", "cut]"),
    "multinomial.softmax": COUNTS,
    "admixture.softmax": WORDS,
    "dirichlet.softmax": SHARES,
    "dirichlet_multinomial.softmax": COUNTS.replace(
        "multinomial(", "dirichlet_multinomial(concentration = 6, "
    ),
    "piecewise_exponential.log_hazard": TIMES,
}  # fmt: skip
EMISSION = np.array([[0.5, 0.3, 0.1, 0.1], [0.1, 0.2, 0.3, 0.4], [0.25, 0.05, 0.6, 0.1]])


def data(family: str) -> dict[str, Any]:
    """Five rows: classes by label, counts of them or of words, shares, or lifetimes."""
    rng = np.random.default_rng(3)
    x = np.round(rng.normal(size=ROWS), 2) + 0.3
    if family.startswith("categorical"):
        return {"x": x, "y": LABELS[rng.integers(0, CLASSES, ROWS)]}
    if family.startswith("piecewise"):
        return {"x": x, "y": rng.exponential(size=ROWS), "breaks": np.array([0.3, 0.9])}
    if family.startswith("dirichlet."):
        return {"x": x, "y": rng.dirichlet(np.full(CLASSES, 2.0), ROWS)}
    trials = "multinomial.softmax" in family
    width = CLASSES if trials else EMISSION.shape[1]
    y = rng.multinomial([1, 3, 2, 2, 4], np.full(width, 1.0 / width)).astype(np.float64)
    return {"x": x, "y": y} | ({"n": y.sum(axis=1)} if trials else {})


def fit(family: str, pair: Pair, given: dict[str, Any], emission: Array = EMISSION) -> lgm.Fit:
    fixed = {"beta": emission} if family.startswith("admixture") else None
    return lgm.fit(
        _model(family),
        given,
        pair.method,
        bound=pair.bound or None,
        fixed=fixed,
        tol=1e-10,
        max_steps=2000,
    )


@cache
def _model(family: str) -> lgm.Model:
    return lgm.loads(TEXTS[family])


@cache
def fitted(family: str, pair: Pair) -> lgm.Fit:
    """The fit of the whole data, once."""
    return fit(family, pair, data(family))
