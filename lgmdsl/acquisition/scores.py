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
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy import special

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


# ---- width -------------------------------------------------------------------------------------
# A site that joins a Gaussian: the width of its bound by scalar convex minimisation, and its
# effect on the marginal (Nickisch and Seeger 2009, appendix, active learning scores; sigma = 1).
#
# With Q(s) = N(mu, rho), weight w = 1/gamma and kappa = 1 + rho w, the bound on the evidence gains
#
#     log int Q(s) exp(beta s - w s^2 / 2) ds - h / 2
#         = -1/2 log kappa + (2 mu beta + rho beta^2 - mu^2 w) / (2 kappa) - h(1/w) / 2
#
# and is highest where w = -2 g'(x), x = E_Q'[s^2]: one root, as the minimisation is convex in
# gamma.


# Newton doubles its digits; bisection alone gains one bit a step.
STEPS = 100


@dataclass(frozen=True)
class Inclusion:
    """Sites of weight w and shift beta on marginals N(mu, rho), all (N,).

    `kappa`: the factor by which |A| grows. `mean`, `variance`: of Q'. `gain`: what the bound on the
    log evidence gains. `information`: D[Q' || Q].
    """

    weight: Array
    kappa: Array
    mean: Array
    variance: Array
    gain: Array
    information: Array


def include(site: SuperGaussian, mean: Array, variance: Array) -> Inclusion:
    """Each site on its own marginal N(mean, variance), (N,), variance >= 0, at its best width.

    g'(0) must be finite (logistic sites: no kink).
    """
    weight = best_weight(site, mean, variance)
    kappa = 1.0 + variance * weight
    beta = site.beta
    pull = (beta - mean * weight) / kappa
    x = variance / kappa + ((mean + variance * beta) / kappa) ** 2
    g = site.g(x)[0]
    h = -x * weight - 2.0 * g
    gained = (2.0 * mean * beta + variance * beta**2 - mean**2 * weight) / kappa
    return Inclusion(
        weight=weight,
        kappa=kappa,
        mean=mean + variance * pull,
        variance=variance / kappa,
        gain=0.5 * (gained - np.log(kappa) - h),
        information=0.5 * (np.log(kappa) + variance * (pull**2 - weight / kappa)),
    )


def best_weight(site: SuperGaussian, mean: Array, variance: Array) -> Array:
    """The w with w = -2 g'(x(w)), by Newton's steps inside a bracket."""
    reach = mean + variance * site.beta
    low = -2.0 * site.g(variance + reach**2)[1]
    high = -2.0 * site.g(np.zeros_like(reach))[1]
    weight = low.copy()
    for _ in range(STEPS):
        kappa = 1.0 + variance * weight
        x = variance / kappa + (reach / kappa) ** 2
        _, first, second = site.g(x)
        gap = weight + 2.0 * first
        low, high = np.where(gap <= 0.0, weight, low), np.where(gap >= 0.0, weight, high)
        steepness = 1.0 - 2.0 * second * variance * (
            variance / kappa**2 + 2.0 * reach**2 / kappa**3
        )
        with np.errstate(all="ignore"):  # a slope of zero bisects
            step = weight - gap / steepness
        inside = (step > low) & (step < high)
        candidate = np.where(inside, step, 0.5 * (low + high))
        settled = np.abs(candidate - weight) <= 4e-16 * high
        weight = np.where(settled, weight, candidate)
        if settled.all():
            break
    return weight
