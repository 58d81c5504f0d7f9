"""The questions a site can answer. Back ends name the types they need; bounds lift sites to one.

Shapes, from the first day: s, mean, shift are (N,) for scalar sites or (N, K) for vector sites;
variance, curvature and weight are (N,) or (N, K, K). Signs follow l(s) = log t(s).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract import rows


@dataclass(frozen=True, slots=True)
class PointwiseAnswer:
    """l, l', l'' at s; `third` is l''' contracted with the variance that was passed, so it has
    the shape of the slope: (N,) or (N, K) with entries sum_jk l_ijk V_jk.

    Sites with latents of their own, which they hold at the mode given s, have l at that mode;
    `eliminated`, (N,), is then -1/2 log|I + K_u H| of them, which belongs to the evidence and not
    to what the mode of s is sought of, and `third` has twice its slope in addition.
    """

    value: Array
    slope: Array
    curvature: Array
    third: Array
    eliminated: Array | None = None


class ParameterCurve(NamedTuple):
    """dl/dparameter, (N,), dl'/dparameter, (N,) or (N, K), and dl''/dparameter, (N,) or
    (N, K, K), of each site."""

    value: Array
    slope: Array
    curvature: Array


class Pointwise(ABC):
    """l(s) and its first three derivatives (what Laplace needs)."""

    @abstractmethod
    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        """Evaluate at s, (N,) or (N, K); scalar sites with variance 1 give the plain l'''."""


@dataclass(frozen=True, slots=True)
class ExpectedAnswer:
    """f = E[l(s)], s ~ N(m, v), with df/dm, df/dv and on request d2f/dmdv, d2f/dv2.

    2 df/dv = d2f/dm2 = E[l''] for every expectation of a fixed l. Bounds whose tangent moves with m
    (Jaakkola, Boehning) give their own d2f/dm2 as `d_mean2`; None stands for 2 df/dv.
    """

    value: Array
    d_mean: Array
    d_variance: Array
    d_mean_variance: Array | None = None
    d_variance2: Array | None = None
    d_mean2: Array | None = None

    @property
    def curvature(self) -> Array:
        """d2f/dm2: (N,), or (N, K, K) for vector sites."""
        return 2.0 * self.d_variance if self.d_mean2 is None else self.d_mean2


class Sloped(ABC):
    """l and l' of vector sites at many points at once (what quadrature of them needs). Where
    `Site.contrasts` gives any, l does not change with a constant added to all predictors."""

    @abstractmethod
    def sloped(self, s: Array) -> tuple[Array, Array]:
        """l, (P, N), and l', (P, N, K), at s, (P, N, K)."""


class Expected(ABC):
    """Gaussian expectations of l (what the variational Gaussian back ends need)."""

    @abstractmethod
    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        """E_{N(mean, variance)}[l] and derivatives; `second` asks for the mixed and second ones."""


class ThirdExpected(ABC):
    """Third derivatives of the expectations of vector sites (what estimates of errors need, which
    otherwise take differences of the second ones)."""

    @abstractmethod
    def third_expected(self, mean: Array, variance: Array) -> Array | None:
        """d3f/dm3, (N, K, K, K), f being what `expected` gives; None where it is not had so."""


class FourthExpected(ABC):
    """Third and fourth derivatives of the expectations of vector sites, from one look at them."""

    @abstractmethod
    def higher_expected(self, mean: Array, variance: Array) -> tuple[Array, Array] | None:
        """d3f/dm3, (N, K, K, K), and d4f/dm4, (N, K, K, K, K), f being what `expected` gives; None
        where they are not had so."""


class ExpectedSlopes(ABC):
    """Slopes of an expectation in the site's parameters (what the gradient of a variational
    bound's evidence needs). What answers Expected by a bound answers this for the bound."""

    @abstractmethod
    def expected_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        """df/dparameter, (N,) for each continuous parameter, f being what `expected` gives: for
        exact expectations E_{N(mean, variance)}[dl/dparameter]."""


@dataclass(frozen=True, slots=True)
class ConjugateAnswer:
    """The maximiser (h, sigma) of `Decoupled`'s problem and the maximum, (N,) each."""

    h: Array
    sigma: Array
    value: Array


class Decoupled(ABC):
    """f decoupled from q, its mean h and sd sigma free (what lcl asks where it is in closed form).

    Khan 2014, (12): slope = -alpha, pull = lambda sigma_k, penalty = lambda_k, centre = sigma_k,
    without its constant -lambda sigma_k^2 / 2.
    """

    @abstractmethod
    def conjugate(
        self, slope: Array, pull: Array, penalty: Array, centre: Array
    ) -> ConjugateAnswer:
        """max over h, sigma >= 0 of f(h, sigma^2) - slope h + pull sigma - penalty (sigma -
        centre)^2 / 2, for slopes between the limits of f_m, penalty > 0, pull > -penalty centre."""


@dataclass(frozen=True, slots=True)
class TiltedAnswer:
    """log E_{N(m,v)}[t(s)^power] and the mean and variance of the tilted density."""

    log_mass: Array
    mean: Array
    variance: Array


class Tilted(ABC):
    """Moments of N(mean, variance) t(s)^power (what expectation propagation needs)."""

    #: `power` may be an array, one for each site: sites with weights then use the closed form.
    powers: ClassVar[bool] = False

    @abstractmethod
    def tilted(self, mean: Array, variance: Array, power: float = 1.0) -> TiltedAnswer: ...


class TiltedSlopes(ABC):
    """Averages of dl/dparameter over the tilted density (what the gradient of EP's evidence
    needs)."""

    @abstractmethod
    def tilted_slopes(self, mean: Array, variance: Array, power: float = 1.0) -> dict[str, Array]:
        """E[dl/dparameter] under N(mean, variance) t^power, (N,) for each continuous parameter:
        (1 / power) dlog mass/dparameter."""


@dataclass(frozen=True, slots=True)
class WidthsAnswer:
    """The super-Gaussian bound at (s, z): h*(s), its slope and curvature, width gamma, shift b,
    h(gamma). Of vector sites slope and shift are (N, K), the curvature (N, K, K), and all K
    predictors of a site share its width."""

    penalty: Array
    slope: Array
    curvature: Array
    width: Array
    h: Array
    shift: Array

    @property
    def weight(self) -> Array:
        """1 / gamma, (N,), or times the identity, (N, K, K)."""
        return rows.isotropic(1.0 / self.width, self.slope)


@dataclass(frozen=True, slots=True)
class BoundedAnswer:
    """A Gaussian bound at (s, z), t(s) >= exp(b's - s'Ws / 2 - h / 2): h*(s), its slope, (N,) or
    (N, K), and its curvature, where h* is convex, else W, (N,) or (N, K, K); W, b and h.

        h*(s) = -E[b's - s'Ws / 2 - h / 2] at E s = s, Cov s = z,   slope Ws - b
    """

    penalty: Array
    slope: Array
    curvature: Array
    weight: Array
    shift: Array
    h: Array


class Bounded(ABC):
    """Gaussian lower bounds of t (what the objective of the double loop needs): of families, by
    their `Widths`; of sums over rows, by those of the rows."""

    # Whether z counts through its trace alone: all predictors of a site share a width.
    by_spread: ClassVar[bool] = False

    @abstractmethod
    def bounded(self, s: Array, z: Array) -> BoundedAnswer:
        """The best bound of E[log t] where E s = s and Cov s = z."""

    @abstractmethod
    def at_scale(self, s: Array) -> BoundedAnswer:
        """The best bound at s where sds are the distance of the site's landmark, 1 where it
        declares none."""

    @abstractmethod
    def width_slopes(self, s: Array, z: Array) -> dict[str, Array]:
        """Slopes of that bound in each continuous parameter, (N,), the width as it is; summed over
        the sites for those in `spec.shared`."""


class Widths(Bounded):
    """t(s) >= exp(b's - ||s||^2 / (2 gamma) - h(gamma) / 2) (what the double loop needs)."""

    by_spread = True

    @abstractmethod
    def widths(self, s: Array, z: Array) -> WidthsAnswer:
        """The best such bound of E[log t] where E s = s and Cov s = z: (N,) each, or (N, K) and
        (N, K, K)."""

    def bounded(self, s: Array, z: Array) -> BoundedAnswer:
        a = self.widths(s, z)
        weight = a.weight
        convex = rows.per_site(rows.smallest(a.curvature) > 0.0, weight)
        curvature = np.where(convex, a.curvature, weight)
        return BoundedAnswer(a.penalty, a.slope, curvature, weight, a.shift, a.h)

    def at_scale(self, s: Array) -> BoundedAnswer:
        landmark = cast(Any, self).landmark()
        square = np.ones(len(s)) if landmark is None else landmark[1] ** 2 + np.zeros(len(s))
        return self.bounded(s, rows.isotropic(square, s))


class SuperGaussian(Widths):
    """t(s) = exp(beta s) exp(g(s^2)), g convex and decreasing.

    A site gives beta, g, g', g''; h and h* follow (Nickisch and Seeger 2009, appendix).
    """

    @property
    @abstractmethod
    def beta(self) -> Array:
        """(N,) slope of the odd part."""

    @abstractmethod
    def g(self, x: Array) -> tuple[Array, Array, Array]:
        """g, g', g'' at x = s^2 >= 0, each (N,)."""

    def widths(self, s: Array, z: Array) -> WidthsAnswer:
        """At x* = z + s^2: h* = -g - beta s, 1/gamma = -2g', h = -x*/gamma - 2g (duality)."""
        x = z + s * s
        g, g1, g2 = self.g(x)
        inverse_width = -2.0 * g1
        return WidthsAnswer(
            penalty=-g - self.beta * s,
            slope=s * inverse_width - self.beta,
            curvature=-2.0 * g1 - 4.0 * s * s * g2,
            width=1.0 / inverse_width,
            h=-x * inverse_width - 2.0 * g,
            shift=self.beta + np.zeros_like(inverse_width),
        )

    def width_slopes(self, s: Array, z: Array) -> dict[str, Array]:
        """dg at x + dbeta s: the even and the odd part of the site's dl at +-sqrt(x)."""
        root, site = np.sqrt(z + s * s), cast(Any, self)
        up, down = site.parameter_slopes(root), site.parameter_slopes(-root)
        ratio = s / np.maximum(root, 1e-300)
        return {name: 0.5 * ((1.0 + ratio) * up[name] + (1.0 - ratio) * down[name]) for name in up}


class Radial(SuperGaussian):
    """t(s) = exp(g(||s||^2)) of vector sites, s (N, K), g convex and decreasing:

        t(s) = max over gamma of exp(-||s||^2 / (2 gamma) - h(gamma) / 2)

    is the bound of SuperGaussian in ||s||, with one width for all K predictors of a site, and
    E||s||^2 = ||m||^2 + tr V in the place of m^2 + v.
    """

    @property
    def beta(self) -> Array:
        """There is no odd part."""
        return np.zeros(len(cast(Any, self)))

    def widths(self, s: Array, z: Array) -> WidthsAnswer:
        """At x* = tr z + ||s||^2: the curvature of h* is -2g' I - 4g'' ss'."""
        x = rows.spread(z) + rows.inner(s, s)
        g, g1, g2 = self.g(x)
        inverse_width = -2.0 * g1
        bend = (4.0 * g2)[:, None, None] * (s[:, :, None] * s[:, None, :])
        return WidthsAnswer(
            penalty=-g,
            slope=s * inverse_width[:, None],
            curvature=rows.isotropic(inverse_width, s) - bend,
            width=1.0 / inverse_width,
            h=-x * inverse_width - 2.0 * g,
            shift=np.zeros_like(s),
        )


class Normed(SuperGaussian):
    """A potential that is a function of |s|, with a form for the norm of a group of n predictors:
    a density of s in R^n, with n = 1 the potential itself."""

    @abstractmethod
    def of_norm(self, members: Array) -> tuple[Normed, Array]:
        """Sites and constants c, (N,), such that log t of a group of `members`, (N,), is
        l(||s||) + c."""

    @abstractmethod
    def norm_slopes(self, length: Array, members: Array) -> dict[str, Array]:
        """d log t / dparameter of groups whose norm is `length`, (N,) for each parameter."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Other distributions of a site's auxiliaries, one for each rho > 0, that of the answer at
    rho = 1 (probit: zeta / rho has the law that zeta had). Their precision is the answer's, and

        shift(rho) = shift + (rho - 1) pull
        correction(rho) = correction + count log rho - (rho - 1) slope - (rho^2 - 1) square / 2

    For every rho, log_normaliser(precision, shift(rho)) + sum correction(rho) is a lower bound of
    the evidence. All (N,); rows with nothing to stretch have zeros.
    """

    pull: Array
    count: Array
    slope: Array
    square: Array


@dataclass(frozen=True, slots=True)
class AugmentedAnswer:
    """A site's auxiliaries at their best for q(s) = N(m, v), as a Gaussian site: the expectation of
    log p(t, aux | s) in s is -1/2 precision s^2 + shift s + constant.

    `correction` = that constant + the entropy of q(aux), so that for any q(z) = p(z)
    exp(-1/2 s'Ws + b's) / e^log_normaliser the mean-field bound of q(z) q(aux) is

        log_normaliser(W, b) + sum 1/2 (W - precision)(m^2 + v) - (b - shift) m + correction

    (m, v those of q), and where W, b are precision, shift, log_normaliser + sum correction. All
    (N,). `stretch`: what an expansion may do to the auxiliaries, if anything.
    """

    precision: Array
    shift: Array
    correction: Array
    stretch: Stretch | None = None


class Augmented(ABC):
    """Data augmentation, t(s) = int p(t, aux | s) daux, by a conditionally Gaussian site (what
    px-vb needs)."""

    @abstractmethod
    def weights(self, mean: Array, variance: Array) -> AugmentedAnswer:
        """At q(aux) proportional to exp E_{N(mean, variance)}[log p(t, aux | s)], the best there is
        for these moments, (N,) each.

        f(m, v) = correction - precision (m^2 + v) / 2 + shift m is then a lower bound of E[log t],
        with precision = -2 df/dv and shift = df/dm + precision m.
        """

    @abstractmethod
    def weight_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        """df/dparameter, (N,) for each continuous parameter, f as above."""


# ---- lifetimes ---------------------------------------------------------------------------------
# What families of lifetimes answer in addition: their survivor function, to its last digits.


class Lifetimes(ABC):
    """Families with a survivor function of their own: 1 - cdf loses the digits of a small one."""

    @abstractmethod
    def log_survival_at(self, s: Array) -> Array:
        """log P(Y > y | s), (N,), whatever was observed of the row and from when; 0 at y = 0."""
