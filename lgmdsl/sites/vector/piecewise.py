"""piecewise_exponential.log_hazard: lifetimes of a hazard that is constant between breaks.

With one log hazard s_k for each piece (b[k-1], b[k]] and t_k the time at risk in it,

    l = event s_j - sum_k t_k e^{s_k},   j the piece in which y lies,

a sum over pieces: the compiler makes an exponential site of each piece that a row was at risk in
(Holford 1980; Laird and Olivier 1981). With a piece for each event time it is Cox's model with
Breslow's likelihood where times of censoring and entry between two event times are moved back to
the earlier of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.contract.classes import Pieces, Split
from lgmdsl.contract.questions import Lifetimes, Pointwise, PointwiseAnswer
from lgmdsl.contract.site import Property, Site, SiteSpec
from lgmdsl.errors import DataError
from lgmdsl.numerics.stable import capped_exp
from lgmdsl.vocabulary.lookup import declared

if TYPE_CHECKING:
    from numpy.random import Generator


def time_at_risk(upto: Array, breaks: Array) -> Array:
    """How much of (0, upto] lies in each piece, (N, K): for K - 1 breaks, (N, K - 1)."""
    zero = np.zeros((len(breaks), 1))
    low, high = np.hstack([zero, breaks]), np.hstack([breaks, zero + np.inf])
    return np.asarray(np.clip(upto[:, None], low, high) - low)


@dataclass(frozen=True, eq=False)
class PiecewiseExponential(Site, Pointwise, Split, Lifetimes):
    """A constant hazard e^{s_k} in each piece; s is (N, K), the breaks (N, K - 1)."""

    y: Array
    breaks: Array
    event: Array
    entry: Array
    into: ClassVar[str] = "exponential.log_rate"
    spec: ClassVar[SiteSpec] = SiteSpec(
        "piecewise_exponential.log_hazard",
        signature=declared("family", "piecewise_exponential"),
        takes=("breaks", "event", "entry"),
        properties=Property.LOG_CONCAVE | Property.BOUNDED,
        vector=True,
        indexed=("breaks",),
        link="log",
        rewrite="piecewise exponential lifetimes to a Poisson term for each piece at risk: exact",
    )

    def __post_init__(self) -> None:
        wrong = np.flatnonzero(
            (self.breaks <= 0.0).any(axis=-1) | ~(np.diff(self.breaks, axis=-1) > 0.0).all(axis=-1)
        )
        if len(wrong):
            shown = ", ".join(f"{b:g}" for b in self.breaks[wrong[0]][:6])
            raise DataError.of(
                "E303",
                "`breaks` of `piecewise_exponential` must be positive and increase, but they "
                f"begin {shown}",
                help="sort them, each once: np.unique(time[died == 1])[:-1] for Cox's model",
            )

    @cached_property
    def before(self) -> Array:
        """The time in each piece before the entry, (N, K)."""
        return time_at_risk(np.where(np.isnan(self.entry), 0.0, self.entry), self.breaks)

    @cached_property
    def at_risk(self) -> Array:
        """The time in each piece, (N, K)."""
        return np.asarray(np.maximum(time_at_risk(self.y, self.breaks) - self.before, 0.0))

    @cached_property
    def last(self) -> Array:
        """The event in the piece in which y lies, (N, K)."""
        piece = (self.y[:, None] > self.breaks).sum(axis=1)
        out = np.zeros((len(self.y), self.breaks.shape[1] + 1))
        out[np.arange(len(self.y)), piece] = self.event
        return out

    @classmethod
    def split(cls, values: Mapping[str, Array], size: int) -> Pieces:
        site = cls(values["y"], values["breaks"], values["event"], values["entry"])
        return Pieces(site.at_risk > 0.0, site.at_risk, {"event": site.last})

    @staticmethod
    def pieces(y: Array, size: int) -> tuple[BoolArray, Array]:
        raise TypeError("the pieces depend on the breaks: ask `split`")

    def log_density(self, s: Array) -> Array:
        return np.asarray((self.last * s - self.at_risk * capped_exp(s)).sum(axis=-1))

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        fall = self.at_risk * capped_exp(s)
        own = np.einsum("nkk->nk", variance) if isinstance(variance, np.ndarray) else variance
        bend = np.zeros((*s.shape, s.shape[-1]))
        each = np.arange(s.shape[-1])
        bend[..., each, each] = -fall
        value = (self.last * s - fall).sum(axis=-1)
        return PointwiseAnswer(np.asarray(value), self.last - fall, bend, -fall * own)

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        return {}

    @property
    def censored(self) -> BoolArray:
        return np.asarray(self.event == 0.0)

    def log_survival_at(self, s: Array) -> Array:
        return np.asarray(-(time_at_risk(self.y, self.breaks) * capped_exp(s)).sum(axis=-1))

    def cdf(self, s: Array) -> Array:
        """1 - P(Y > y) / P(Y > entry), as rows with an entry are observed."""
        hazard = (self.at_risk * capped_exp(s)).sum(axis=-1)
        return np.where(np.isnan(self.y), np.nan, -np.expm1(-hazard))

    def sample(self, s: Array, rng: Generator) -> Array:
        """Lifetimes after the entry, none censored, by the inverse of the total hazard."""
        left = rng.exponential(size=len(s)) + (self.before * capped_exp(s)).sum(axis=-1)
        ends = np.hstack([self.breaks, np.full((len(s), 1), np.inf)])
        start, drawn = np.zeros(len(s)), np.full(len(s), np.inf)
        for k in range(s.shape[-1]):
            rate = capped_exp(s[:, k])
            with np.errstate(divide="ignore"):
                here = start + left / rate
            done = np.isinf(drawn) & (here <= ends[:, k])
            drawn = np.where(done, here, drawn)
            with np.errstate(invalid="ignore"):
                spent = (ends[:, k] - start) * rate
            left = np.where(np.isfinite(spent), left - spent, left)
            start = ends[:, k]
        return drawn

    def conditional_mean(self, s: Array) -> Array:
        """The sum over pieces of S(start) (1 - e^{-width rate}) / rate."""
        return self._moment(s)[0]

    def conditional_variance(self, s: Array) -> Array:
        """E y^2 - (E y)^2, by pieces."""
        first, second = self._moment(s)
        return np.asarray(second - first**2)

    def _moment(self, s: Array) -> tuple[Array, Array]:
        """E y = int S, E y^2 = 2 int t S, S the survivor function."""
        zero = np.zeros((len(s), 1))
        low = np.hstack([zero, self.breaks])
        width = np.hstack([np.diff(low, axis=1), zero + np.inf])
        rate = np.maximum(np.exp(np.clip(s, -300.0, 300.0)), 1e-140)
        with np.errstate(invalid="ignore", over="ignore"):
            spent = np.where(np.isinf(width), 0.0, width * rate)
            total = np.hstack([zero, np.cumsum(spent[:, :-1], axis=1)])
            start, x = np.exp(-total), np.minimum(width * rate, 745.0)
            gone = -np.expm1(-x)  # 1 - e^-x
            first = start * gone / rate
            # int_0^w u e^{-rate u} du = (1 - (1 + x) e^-x) / rate^2
            inner = np.where(x < 1e-4, 0.5 * x * x * (1.0 - 2.0 * x / 3.0), gone - x * np.exp(-x))
            second = 2.0 * (low * first + start * inner / rate**2)
        return np.asarray(first.sum(axis=1)), np.asarray(second.sum(axis=1))
