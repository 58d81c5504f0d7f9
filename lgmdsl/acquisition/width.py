"""A site that joins a Gaussian: the width of its bound by scalar convex minimisation, and its
effect on the marginal (Nickisch and Seeger 2009, appendix, active learning scores; sigma = 1).

With Q(s) = N(mu, rho), weight w = 1/gamma and kappa = 1 + rho w, the bound on the evidence gains

    log int Q(s) exp(beta s - w s^2 / 2) ds - h / 2
        = -1/2 log kappa + (2 mu beta + rho beta^2 - mu^2 w) / (2 kappa) - h(1/w) / 2

and is highest where w = -2 g'(x), x = E_Q'[s^2]: one root, as the minimisation is convex in gamma.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.questions import SuperGaussian

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
