"""Which hyperparameters take a factor q(h), and the factors that a fit asks for.

A positive hyper that is a scale of Gaussians and nothing else (`canonical.queries.scales`) has a
bound that depends on it through log sd and the expected sum of squares alone; both are read off the
slope of the back end's bound in log h at its q,

    h d bound / dh = -K + 2 k B h^(-2k).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.canonical.queries.loadings import of_latents, of_predictors, roots
from lgmdsl.canonical.queries.scales import log_sd_slopes, scales
from lgmdsl.canonical.reverse import pull
from lgmdsl.contract.engine import Adjoints
from lgmdsl.contract.problem import GaussianPosterior
from lgmdsl.contract.questions import Augmented, Widths
from lgmdsl.contract.site import Property
from lgmdsl.contract.status import Guarantee
from lgmdsl.errors import Diagnostic, MethodError, NumericalError
from lgmdsl.inference.plan import Plan
from lgmdsl.learning.objective.gradient import evidence_gradient
from lgmdsl.numerics.expectations.log_line import LogLine, log_line
from lgmdsl.priors.prior import Elementwise, Prior
from lgmdsl.remedies import pin, setting

# Back ends that hold the Gaussian of a mixture: their bounds see its scale as that of a Gaussian.
CONDITIONALLY_GAUSSIAN = (Augmented, Widths)
# No scale of data is that far from 1, in any unit.
FARTHEST = 1e60


@dataclass(frozen=True, eq=False)
class ScaleFactors:
    """The scales of a plan: `exponents` of every free hyper that is not in `pinned`."""

    planned: Plan
    pinned: Mapping[str, object]
    exponents: Mapping[str, float]

    @classmethod
    def of(cls, planned: Plan, pinned: Mapping[str, object]) -> ScaleFactors:
        """Raises MethodError E501 for a free hyper that is no scale of a Gaussian, and for a method
        whose evidence is no lower bound."""
        canonical, backend = planned.canonical, planned.backend.spec
        exact = all(Property.GAUSSIAN in b.site.spec.properties for b in canonical.blocks)
        if backend.guarantee is not Guarantee.LOWER and not exact:
            raise MethodError(_no_bound(backend.name))
        mixtures = backend.needs in CONDITIONALLY_GAUSSIAN
        scaled = scales(canonical, pinned.keys(), mixtures)
        if scaled.others:
            raise MethodError(
                tuple(_no_scale(canonical, name, why) for name, why in scaled.others.items())
            )
        return cls(planned, pinned, scaled.exponents)

    @cached_property
    def _linear(self) -> frozenset[str]:
        """The hypers that priors of latents, predictors and constraints depend on."""
        canonical = self.planned.canonical
        return frozenset[str]().union(*of_latents(canonical), *of_predictors(canonical))

    @cached_property
    def sites_alone(self) -> bool:
        """Whether all scales are those of sites: then the engine is the same at all of them."""
        return not roots(self.planned.canonical, self._linear, self.pinned.keys())

    def at(self, posterior: GaussianPosterior, theta: Theta) -> dict[str, ScaleFactor]:
        """The best factor of every hyper for the q of a fit at theta.

        Raises NumericalError E601 where one is improper: a flat prior, and too few Gaussians; and
        where one has gone so far to 0 or infinity that the bound must rise without end.
        """
        canonical = self.planned.canonical
        counts = log_sd_slopes(canonical, theta, self.pinned.keys())
        slopes = self._slopes(posterior, theta)
        out = {}
        for name, k in self.exponents.items():
            block, h = canonical.hypers.block(name), np.asarray(theta[name], dtype=np.float64)
            assert block is not None and block.prior is not None
            count = np.broadcast_to(h * counts[name], h.shape)
            rate = np.maximum((h * slopes[name] + count) / (2.0 * k), 0.0) * h ** (2.0 * k)
            out[name] = factor(block.prior.at(theta), k, count, np.asarray(rate))
            if not out[name].proper:
                raise NumericalError(_improper(name))
            end = _end(out[name].effective)
            if end:
                raise NumericalError(_endless(name, end))
        return out

    def _slopes(self, posterior: GaussianPosterior, theta: Theta) -> Mapping[str, Array]:
        """d bound / dhyper at fixed q."""
        canonical = self.planned.canonical
        if self._linear or posterior.slopes is None:
            return evidence_gradient(self.planned, posterior, theta, self.pinned)
        nothing = Adjoints((), tuple({} for _ in canonical.blocks), {})
        raw = pull(canonical, nothing, posterior.slopes(), theta)
        return canonical.hypers.pull(raw, theta, self.pinned.keys())


def effective(canonical: CanonicalModel, found: Mapping[str, ScaleFactor], pinned: object) -> Theta:
    """Every hyper's value, of those with a factor the one whose precisions are expected."""
    space = canonical.hypers
    assert isinstance(pinned, Mapping)
    return space.filled(pinned, lambda block, _: found[block.name].effective)


def _no_bound(method: str) -> Diagnostic:
    return Diagnostic(
        "E501",
        f"method `{method}` has no lower bound of the evidence for `hyper = vb` to raise",
        help=f"take px-vb, natural-gradient or double-loop, or {setting('hyper', 'map')}",
    )


def _no_scale(canonical: CanonicalModel, name: str, why: str) -> Diagnostic:
    block = canonical.hypers.block(name)
    assert block is not None
    return Diagnostic(
        "E501",
        f"`hyper = vb` has no factor for `{name}`",
        block.span,
        f"it {why}",
        note="factors are over scales of Gaussians: sd = c h^k, or a product of such",
        help=f"pin it: {pin(name)}, or take {setting('hyper', 'map')} or integrate",
    )


def _end(effective: Array) -> str:
    """Where values out of all range are going to; empty where there are none."""
    if float(np.min(effective, initial=1.0)) < 1.0 / FARTHEST:
        return "0"
    return "infinity" if float(np.max(effective, initial=1.0)) > FARTHEST else ""


def _endless(name: str, end: str) -> Diagnostic:
    exact = "the data are all alike, or the model reproduces them exactly; " if end == "0" else ""
    return Diagnostic(
        "E601",
        f"the bound rises without end as `{name}` goes to {end}",
        note=f"{exact}its prior does not keep `{name}` from there",
        help=f"give `{name}` a prior that vanishes there, e.g. inv_gamma, or pin it: {pin(name)}",
    )


def _improper(name: str) -> Diagnostic:
    return Diagnostic(
        "E601",
        f"the factor of `{name}` is improper: its prior does not fall off, and too few values "
        "share it",
        help=f"give `{name}` a proper prior, or pin it: {pin(name)}",
    )


# ---- factor ------------------------------------------------------------------------------------
# A factor q(h) over a scale: a positive hyper whose every entry enters sds as c h^k.
#
# With the factors of everything else held, the bound in entry h is log p(h) - K log h - B h^(-2k):
#
#     q(x) = exp(log p(e^x) + x - K x - B e^(-2kx)) / Z,   x = log h
#
# K = k n for n Gaussians of that sd, B = half their expected sum of squares at h = 1. Where the
# prior is conjugate (flat; inv_gamma on a variance; gamma on a precision) e^(-2kx) is gamma
# distributed (Bishop and Tipping 2000, (22) to (26)); else q is integrated numerically in x, entry
# by entry.


@dataclass(frozen=True, eq=False)
class ScaleFactor(ABC):
    """`prior` of h; `exponent` k; `count` K and `rate` B, of the hyper's shape."""

    prior: Prior
    exponent: float
    count: Array
    rate: Array

    @property
    @abstractmethod
    def log_normaliser(self) -> Array:
        """log Z of each entry."""

    @property
    @abstractmethod
    def expected_power(self) -> Array:
        """E[h^(-2k)]: what the sds' expected precisions are proportional to."""

    @abstractmethod
    def quantile(self, levels: Array) -> Array:
        """(Q, ...) quantiles of h."""

    @property
    def proper(self) -> bool:
        """Whether q can be normalised, in every entry."""
        return bool(np.isfinite(self.log_normaliser).all() and np.isfinite(self.effective).all())

    @property
    def effective(self) -> Array:
        """The value of h at which the sds' precisions are the expected ones."""
        return np.asarray(self.expected_power ** (-0.5 / self.exponent))

    @property
    def correction(self) -> float:
        """What the bound has over that at `effective`: E[log sd] for log sd, less KL(q || p)."""
        inside = self.rate * self.expected_power
        gain = self.count * np.log(self.effective) + inside + self.log_normaliser
        return float(gain.sum())


@dataclass(frozen=True, eq=False)
class GammaFactor(ScaleFactor):
    """h^(-2k) ~ gamma(shape, scale_rate)."""

    shape: Array
    scale_rate: Array
    constant: Array

    @property
    def log_normaliser(self) -> Array:
        with np.errstate(all="ignore"):
            log_integral = special.gammaln(self.shape) - self.shape * np.log(self.scale_rate)
        fine = (self.shape > 0.0) & (self.scale_rate > 0.0)
        total = self.constant - np.log(2.0 * abs(self.exponent)) + log_integral
        return np.where(fine, total, np.inf)

    @property
    def expected_power(self) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(self.shape / self.scale_rate)

    def quantile(self, levels: Array) -> Array:
        p = np.asarray(levels).reshape(-1, *(1 for _ in self.shape.shape))
        share = special.gammainccinv if self.exponent > 0.0 else special.gammaincinv
        return np.asarray((share(self.shape, p) / self.scale_rate) ** (-0.5 / self.exponent))


@dataclass(frozen=True, eq=False)
class NumericFactor(ScaleFactor):
    """Any prior with a density entry by entry."""

    @cached_property
    def line(self) -> LogLine:
        with np.errstate(all="ignore"):
            power = 2.0 * self.exponent
            guess = np.log(power * self.rate / self.count) / power
        width = 1.0 / np.sqrt(np.maximum(2.0 * self.exponent * self.count, 1e-2))
        with np.errstate(divide="ignore"):
            lower, upper = (np.log(end) for end in self.prior.bounds)
        guess = np.clip(np.where(np.isfinite(guess), guess, 0.0), lower, upper)
        return log_line(self._log_density, guess, width, (lower, upper))

    def _log_density(self, x: Array) -> Array:
        """(m, ...) log q up to its constant, at x (m, ...)."""
        h, prior = np.exp(x), cast(Elementwise, self.prior)
        lower, upper = prior.bounds
        inside = (h >= lower) & (h <= upper) & (h > 0.0)
        with np.errstate(all="ignore"):
            log = prior.terms(np.clip(h, lower, upper)).log_density
            value = log + (1.0 - self.count) * x - self.rate * np.exp(-2.0 * self.exponent * x)
        return np.where(inside & ~np.isnan(value), value, -np.inf)

    @property
    def log_normaliser(self) -> Array:
        return self.line.log_integral

    @property
    def expected_power(self) -> Array:
        return self.line.mean(lambda x: np.exp(-2.0 * self.exponent * x))

    def quantile(self, levels: Array) -> Array:
        return np.exp(self.line.quantile(levels))


def factor(prior: Prior, exponent: float, count: Array, rate: Array) -> ScaleFactor:
    """The factor of these statistics: in closed form where the prior is conjugate."""
    zero, conjugate = np.zeros(()), prior.gamma_power
    if prior.constant:
        own, more, constant = zero - 1.0, zero, zero
    elif conjugate is not None and conjugate.exponent == exponent:
        _, power, more = conjugate
        own, constant = 2.0 * exponent * power, _constant(power, more)
    else:
        return NumericFactor(prior, exponent, count, rate)
    shape = (count + own) / (2.0 * exponent)
    return GammaFactor(prior, exponent, count, rate, shape, rate + more, constant)


def _constant(shape: Array, rate: Array) -> Array:
    """The log of what a gamma density's powers are multiplied by."""
    return np.asarray(shape * np.log(rate) - special.gammaln(shape))
