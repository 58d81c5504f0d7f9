"""The expected gain from a candidate's label, given the marginal N(mu, rho) of its predictor.

uncertainty: -|Q(y = 1) - 1/2|, Q(y = 1) = E_Q[t(s)] to 1e-9.
information: sum over labels of Q(y) D[Q' || Q], Q' the marginal once the label's site has joined.
random: nothing; the order is drawn beforehand.

The best of many is found without the quadrature of them all: with t = Phi(s / 1.702), Q(y = 1) is
a closed form and off by at most `OFF`, the largest distance of that curve from the logistic one
(an average over Q cannot exceed it). Only those that may be the best are computed exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from scipy import special

from lgmdsl.acquisition.width import include
from lgmdsl.arrays import Array
from lgmdsl.contract.questions import SuperGaussian, Tilted
from lgmdsl.contract.site import Site
from lgmdsl.inference.routes import answering

SCORES = ("uncertainty", "information", "random")
SLOPE = 1.0 / 1.702
OFF = 0.0096  # max |sigma(s) - Phi(SLOPE s)| is 0.00949 (Camilli 1994)

SiteMaker = Callable[[Array], Site]


def labelled(site: type[Site]) -> SiteMaker:
    """Sites of a binary family from their labels alone."""
    return lambda y: site(**cast("dict[str, Any]", {"y": y}))


def probability(make: SiteMaker, mean: Array, variance: Array) -> Array:
    """Q(y = 1), (N,), by quadrature to 1e-9."""
    site = make(np.ones_like(mean))
    asked = cast(Tilted, answering(type(site), Tilted)(site))
    return np.exp(asked.tilted(mean, variance).log_mass)


def informations(make: SiteMaker, mean: Array, variance: Array) -> tuple[Array, Array]:
    """D[Q' || Q] for the labels 1 and 0, (N,) each."""
    yes, no = (
        include(cast(SuperGaussian, make(np.full_like(mean, y))), mean, variance).information
        for y in (1.0, 0.0)
    )
    return yes, no


def score(kind: str, make: SiteMaker, mean: Array, variance: Array) -> Array:
    """The scores of all, (N,): the higher the sooner."""
    p = probability(make, mean, variance)
    if kind == "uncertainty":
        return -np.abs(p - 0.5)
    yes, no = informations(make, mean, variance)
    return p * yes + (1.0 - p) * no


def best(kind: str, make: SiteMaker, mean: Array, variance: Array) -> tuple[int, float]:
    """The position of the highest score, the first of equals, and the score."""
    roughly = special.ndtr(SLOPE * mean / np.sqrt(1.0 + SLOPE**2 * variance))
    if kind == "uncertainty":
        rough, slack = -np.abs(roughly - 0.5), np.full_like(mean, OFF)
    else:
        yes, no = informations(make, mean, variance)
        rough, slack = roughly * yes + (1.0 - roughly) * no, OFF * np.abs(yes - no)
    able = np.flatnonzero(rough + slack >= np.max(rough - slack))
    exact = score(kind, make, mean[able], variance[able])
    won = int(np.argmax(exact))
    return int(able[won]), float(exact[won])
