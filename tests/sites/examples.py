"""A few varied sites of every built-in family."""

from __future__ import annotations

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.site import Site
from lgmdsl.sites.catalogue import find_site
from lgmdsl.sites.observed import make_sites

RANGES: dict[str, tuple[float, float]] = {
    "sd": (0.3, 2.5), "scale": (0.3, 2.5), "df": (2.2, 20.0), "size": (0.6, 12.0),
    "shape": (0.6, 8.0), "exposure": (0.3, 4.0), "power": (0.5, 1.9), "mean": (-1.0, 1.0),
    "concentration": (4.0, 40.0),
}  # fmt: skip

# e^{-shape s} at sd 10 has its mass shape * 10 sds from the mean, beyond what brute force sums.
NARROWER: dict[str, dict[str, tuple[float, float]]] = {"weibull.log_scale": {"shape": (0.6, 1.6)}}
WHOLE: dict[str, tuple[int, int]] = {"n": (1, 20), "event": (0, 2)}


def example(name: str, count: int = 8, seed: int = 0) -> Site:
    """`count` sites of a family with random parameters and observations."""
    cls = find_site(name)
    assert cls is not None
    rng = np.random.default_rng(seed)
    ranges = RANGES | NARROWER.get(name, {})
    parameters: dict[str, Array] = {
        k: rng.uniform(*ranges[k], count)
        if k in ranges
        else rng.integers(*WHOLE[k], count).astype(np.float64)
        for k in cls.spec.parameters
    }
    if cls.spec.potential:
        return make_sites(cls, None, parameters)
    kind = cls.spec.observed[0]
    if "n" in parameters:
        y = rng.binomial(parameters["n"].astype(int), 0.5).astype(float)
    elif kind == "binary":
        y = (np.arange(count) % 2).astype(float)
    elif kind == "count":
        y = rng.poisson(2.0, count).astype(float)
    elif kind == "unit":
        y = rng.uniform(0.02, 0.98, count)
    elif kind == "positive":
        y = rng.gamma(2.0, size=count)
    else:
        y = 1.5 * rng.standard_normal(count)
    return make_sites(cls, y, parameters)
