"""Where the truth lies in what a fit reports: probabilities, uniform over runs if it is right.

Of latents, lets and hyperparameters P(X < truth) under their reported marginals, mixed over
hyperparameters where these were integrated, or ranks among the exact draws that are reported; of
the log likelihood its rank among joint draws of both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.api.simulate.simulate import TRUTH, Simulated
from lgmdsl.arrays import Array
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.lowering.derived import Leaf
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.linear import Predictor
from lgmdsl.operators.explicit import Dense
from lgmdsl.posterior.marginals import Marginals
from lgmdsl.posterior.normal_mixtures import distribution, rank_of
from lgmdsl.posterior.shifted_draws import by_theta, hypers_of

if TYPE_CHECKING:
    from lgmdsl.posterior.fit_record import FitRecord

# The rank of the log likelihood among so many draws.
DRAWS = 199
LIKELIHOOD = "log likelihood"
# An average of less variance, relative to that of independent entries, is one that a prior holds
# fixed (a sum to zero): what is left of it is rounding.
KNOWN = 1e-10

AVERAGE = "mean("

Placed = Iterator[tuple[str, float]]


@dataclass(frozen=True, eq=False)
class Truth:
    """What data were drawn from: latents z, (n,), and every hyperparameter; `drawn`: the names of
    those hyperparameters that came from their priors."""

    z: Array
    theta: Theta
    drawn: tuple[str, ...]

    @classmethod
    def of(cls, fit: FitRecord, drawn: Simulated, fixed: Mapping[str, object]) -> Truth:
        """From simulated data."""
        canonical = fit.canonical
        z = np.zeros(canonical.size)
        for block in canonical.reported:
            value = drawn.latents[block.name]
            z[canonical.layout.latent(block.name)] = value.reshape(-1)
        theta = canonical.hypers.filled(
            fixed, lambda block, _: np.asarray(drawn.data[TRUTH + block.name], dtype=float)
        )
        names = tuple(b.name for b in canonical.hypers.unpinned(fixed))
        return cls(z, theta, names)


def is_reported(name: str) -> bool:
    """Whether a quantity is an entry of what a fit reports by name."""
    return name != LIKELIHOOD and not name.startswith(AVERAGE)


def placed(fit: FitRecord, truth: Truth, rng: np.random.Generator) -> Placed:
    """One random entry of each latent, let and hyperparameter, each latent's average, and the
    likelihood (Modrak et al. 2023: a quantity that depends on the data finds posteriors that are
    the prior). Nothing for what is known exactly (a constrained direction) or has no marginal."""
    canonical = fit.canonical
    given = Marginals(canonical, truth.theta, fit.marginals.part(0).frame)
    blocks = (b for b in canonical.reported if canonical.shown(b.name) == b.name)
    for block in blocks:
        values = truth.z[canonical.layout.latent(block.name)]
        yield from _entry(fit, block.name, values, rng)
        if block.size > 1:
            yield from _average(fit, block.name, values)
    for name in canonical.named:
        if name in given.affine and not fit.marginals.of_hypers(name):
            yield from _entry(fit, name, given.evaluate(name, truth.z[None, :])[0], rng)
    for name in truth.drawn:
        yield from _entry(fit, name, truth.theta[name], rng)
    yield LIKELIHOOD, _likelihood(fit, truth, rng)


def _entry(fit: FitRecord, name: str, truth: Array, rng: np.random.Generator) -> Placed:
    """P(X < truth) of one random entry of a name."""
    quantity = fit.marginals.quantity(name)
    mean, sd = quantity.mean.reshape(-1), quantity.sd.reshape(-1)
    if not mean.size:
        return
    k = int(rng.integers(mean.size))
    if sd[k] > np.sqrt(KNOWN) * max(1.0, abs(float(mean[k]))):
        value = fit.marginals.below(name, np.reshape(truth, quantity.mean.shape)).reshape(-1)[k]
        if np.isfinite(value):
            yield (name if mean.size == 1 else f"{name}[.]"), float(value)


def _average(fit: FitRecord, name: str, truth: Array) -> Placed:
    """P(X < truth) of the average of a latent's entries."""
    where, label = fit.canonical.layout.latent(name), f"{AVERAGE}{name})"
    value = np.array([truth.mean()])
    if fit.drawn is not None:
        draws = fit.drawn.z(slice(None))[:, where]
        # Constraints hold to single precision in draws.
        if draws.mean(axis=1).var() > 1e-8 * float(draws.var(axis=0).mean()):
            yield label, float(rank_of(value, draws.mean(axis=1)[:, None])[0])
        return
    means, variances = [], []
    row = Predictor({name: Dense(np.full((1, len(truth)), 1.0 / len(truth)))}, np.zeros(1))
    for k in range(len(fit.marginals.weights)):
        frame = fit.marginals.part(k).frame
        mean, variance = frame.conditioned.project(frame.embed(row))
        if variance[0] <= KNOWN * float(frame.conditioned.latent_variance[where].mean()):
            return
        means.append(mean)
        variances.append(variance)
    sds = np.sqrt(np.array(variances))
    yield label, float(distribution(fit.marginals.weights, np.array(means), sds, value)[0])


def _likelihood(fit: FitRecord, truth: Truth, rng: np.random.Generator) -> float:
    """The randomised rank of the true log likelihood among those of joint draws."""
    marginals, canonical = fit.marginals, fit.canonical
    mixing = any(hypers_of(Leaf(b.written)) for b in canonical.blocks)
    hypers = marginals.drawn(fit.seed, mixing)
    level = np.empty(DRAWS)
    for chosen, part, places, z in marginals.joint(DRAWS, rng):
        thetas = hypers.at(chosen, places)
        z = hypers.carry(chosen, places, z)
        if not thetas:
            level[places] = log_likelihood(canonical, z, part.theta)
        for theta, rows in by_theta(thetas):
            level[places[rows]] = log_likelihood(canonical, z[rows], theta)
    true = log_likelihood(canonical, truth.z[None, :], truth.theta)[0]
    return float((np.count_nonzero(level < true) + rng.random()) / (DRAWS + 1))


def log_likelihood(canonical: CanonicalModel, z: Array, theta: Theta) -> Array:
    """sum log t(s) of all sites at draws z, (size, n), and hyperparameters: (size,)."""
    linear, total = canonical.linear(theta), np.zeros(len(z))
    for site, predictor in zip(canonical.sites(theta), linear.predictors, strict=True):
        s = predictor.values(z.T, linear.slices)
        for k in range(len(z)):
            predictor_values = (
                s[:, k] if not predictor.event else s[:, k].reshape(-1, predictor.event)
            )
            total[k] += float(np.sum(site.log_density(predictor_values)))
    return total
