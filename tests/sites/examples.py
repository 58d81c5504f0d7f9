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
    "concentration": (4.0, 40.0), "level": (0.1, 0.9), "skew": (-0.9, 0.9),
    "dispersion": (0.4, 3.0),
}  # fmt: skip

# e^{-shape s} at sd 10 has its mass shape * 10 sds from the mean, beyond what brute force sums.
NARROWER: dict[str, dict[str, tuple[float, float]]] = {
    "weibull.log_scale": {"shape": (0.6, 1.6)},
    "weibull.log_scale.censored": {"shape": (0.6, 1.6)},
    "generalized_poisson.log_mean": {"dispersion": (1.1, 3.0)},
    "tweedie.log_mean": {"power": (1.2, 1.8)},
    # draws of which means and scores have an expectation, and some a variance
    "loglogistic.log_scale": {"shape": (4.5, 8.0)},
    "inverse_gaussian.log_mean": {"shape": (3.0, 20.0)},
    "gompertz.log_rate": {"shape": (0.0, 0.8)},
    "generalized_gamma.location": {"scale": (0.7, 1.2), "shape": (-0.3, 1.2)},
    "skew_normal.mean": {"sd": (0.8, 2.5)},
    "generalized_pareto.log_scale": {"shape": (0.0, 0.2)},
    "gev.location": {"shape": (-0.12, 0.15), "scale": (1.6, 2.5)},
}
CUTS = 3
WHOLE: dict[str, tuple[int, int]] = {"n": (1, 20), "event": (0, 2)}
BLANK = {"lower": np.nan, "upper": np.nan}


def example(name: str, count: int = 8, seed: int = 0) -> Site:
    """`count` sites of a family with random parameters and observations."""
    cls = find_site(name)
    assert cls is not None
    rng = np.random.default_rng(seed)
    if "cuts" in cls.spec.parameters:
        cuts = np.cumsum(rng.uniform(0.2, 2.0, (count, CUTS)), axis=1) - 2.0
        of_cuts = {"cuts": cuts}
        if "scores" in cls.spec.parameters:
            of_cuts["scores"] = np.cumsum(rng.uniform(0.3, 1.5, (count, CUTS + 1)), axis=1) - 1.0
        return make_sites(cls, (np.arange(count) % (CUTS + 1)).astype(float), of_cuts)
    ranges = RANGES | NARROWER.get(name, {})
    parameters: dict[str, Array] = {
        k: np.full(count, BLANK[k])
        if k in BLANK
        else rng.uniform(*ranges[k], count)
        if k in ranges
        else rng.integers(*WHOLE[k], count).astype(np.float64)
        for k in cls.spec.parameters
    }
    if cls.spec.name.endswith(".censored"):
        return censored_example(cls, {k: v for k, v in parameters.items() if k not in BLANK}, rng)
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
    elif kind in ("positive", "nonnegative"):
        y = rng.gamma(2.0, size=count)
        if name == "tweedie.log_mean":
            y[::3] = 0.0
    else:
        y = 1.5 * rng.standard_normal(count)
    return make_sites(cls, y, parameters)


def censored_example(
    cls: type[Site], parameters: dict[str, Array], rng: np.random.Generator
) -> Site:
    """Rows of all kinds in turn: observed, event 0, between, left- and right-censored, narrow."""
    count = len(parameters["event"])
    positive = cls.spec.observed[0] == "positive"
    y = rng.gamma(2.0, size=count) if positive else 1.5 * rng.standard_normal(count)
    kind = np.arange(count) % 8
    event = np.where(kind == 1, 0.0, 1.0)
    low, high = np.full(count, np.nan), np.full(count, np.nan)
    gap = rng.uniform(0.1, 2.0, count)
    for k, width in ((2, gap), (5, 1e-3 * gap), (7, 6.0 * gap)):
        at = kind == k
        low[at] = y[at] / (1.0 + width[at]) if positive else y[at] - width[at]
        high[at] = y[at] + width[at]
    high[kind == 3] = y[kind == 3]
    low[kind == 4] = y[kind == 4]
    low[kind == 6] = high[kind == 6] = y[kind == 6]
    return make_sites(cls, y, {**parameters, "event": event, "lower": low, "upper": high})
