"""The bounds `piecewise-linear-R` and `piecewise-quadratic-R`, R from 3 to 40 pieces.

log(1 + e^x) <= rho(x), R polynomials of degree 1 or 2 that are at most `gap` too high anywhere, and
E[rho] is exact by truncated normal moments (Marlin, Khan and Murphy 2011; Khan 2012, section 4.2).

rho jumps where quadratic pieces meet, by the gap, and linear pieces meet in a kink. Derivatives are
those of E[rho], jumps and all: with D_k^i the jump of rho^(i) at the break t_k, z_k = (t_k - m)/sd,

    d^p E[rho] / dm^p = E[rho^(p)] + sum_{k, i < p} D_k^i He_j(z_k) N(t_k; m, v) / sd^j, j = p-1-i,

and 2 d/dv = d2/dm2. At an sd much below the width of a piece these follow single jumps.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files

import numpy as np
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.bounds.logistic import SoftplusBound
from lgmdsl.contract.bound import BoundSpec
from lgmdsl.contract.questions import Expected, ExpectedAnswer
from lgmdsl.contract.site import Site
from lgmdsl.contract.status import Guarantee
from lgmdsl.vocabulary.notes import Notes

FEWEST, MOST = 3, 40
_ENTRIES_PER_PASS = 1 << 17  # sites x pieces at a time
_ROOT_TWO_PI = float(np.sqrt(2.0 * np.pi))
_HERMITE: tuple[Callable[[Array], Array], ...] = (
    np.ones_like,
    lambda z: z,
    lambda z: z * z - 1.0,
    lambda z: z * (z * z - 3.0),
)


@dataclass(frozen=True, eq=False)
class Pieces:
    """rho(x) = a_k x^2 + b_k x + c_k on [t_{k-1}, t_k): breaks (R - 1,), coefficients (R,) each."""

    gap: float
    breaks: Array
    a: Array
    b: Array
    c: Array

    def at(self, x: Array) -> Array:
        """rho(x), any shape."""
        k = np.searchsorted(self.breaks, x, side="right")
        return np.asarray((self.a[k] * x + self.b[k]) * x + self.c[k])

    @cached_property
    def jumps(self) -> tuple[Array, Array, Array]:
        """Right minus left limit of rho, rho', rho'' at each break, (R - 1,) each."""
        t, (a, b, c) = self.breaks, (np.diff(x) for x in (self.a, self.b, self.c))
        return (a * t + b) * t + c, 2.0 * a * t + b, 2.0 * a


@cache
def pieces(kind: str, size: int) -> Pieces:
    """The table's entry for `linear` or `quadratic` and R pieces, mirrored to both sides."""
    entry = _table()[f"{kind}-{size}"]
    breaks, right, gap = (np.array(entry[k]) for k in ("breaks", "pieces", "gap"))
    odd = size % 2
    mirrored = right[odd:]  # the centre piece of an odd number is its own mirror image
    # rho(x) = x + rho(-x): (a, b, c) on [l, r] is (a, 1 - b, c) on [-r, -l].
    left = mirrored[::-1] * [1.0, -1.0, 1.0] + [0.0, 1.0, 0.0]
    a, b, c = np.concatenate([left, right]).T
    inner = breaks[odd:]
    both = np.concatenate([-inner[::-1], breaks[1:]])
    return Pieces(float(gap), both, a, b, c)


@cache
def _table() -> dict[str, dict[str, object]]:
    text = (files("lgmdsl.bounds") / "pieces.json").read_text(encoding="utf-8")
    table: dict[str, dict[str, object]] = json.loads(text)
    return table


@dataclass(frozen=True)
class Piecewise(SoftplusBound):
    """U = E[rho]: R linear or quadratic pieces, `spec.error` the gap of rho for one trial."""

    kind: str = "quadratic"
    size: int = 20

    def __post_init__(self) -> None:
        if self.kind not in ("linear", "quadratic") or not FEWEST <= self.size <= MOST:
            raise ValueError(f"no table for {self.kind} pieces, {self.size} of them")

    @property
    def spec(self) -> BoundSpec:
        """Declared for each kind and number of pieces."""
        return BoundSpec(
            f"piecewise-{self.kind}-{self.size}",
            asks=Site,
            gives=Expected,
            guarantee=Guarantee.LOWER,
            error=self.pieces.gap,
            paper="Marlin, Khan and Murphy 2011",
            summary=f"{self.size} {self.kind} pieces",
            notes=Notes(
                formula="E[log(1 + e^s)] <= E[rho(s)], rho of R linear or quadratic pieces, exact "
                "by truncated moments",
                support="logistic sites: bernoulli and binomial with a logit, ordinal logits, "
                "sech2 and logistic potentials",
                advice="a stated largest gap for each trial, which more pieces make as small as "
                "is wanted: 1.4e-4 of 20 quadratic pieces",
                example="lgm fit logit.lgm data.npz --method natural-gradient --bound "
                "piecewise-quadratic-20",
                see_also=("jaakkola", "bohning", "quadrature"),
            ),
        )

    @property
    def pieces(self) -> Pieces:
        """The table's entry."""
        return pieces(self.kind, self.size)

    def upper(self, mean: Array, variance: Array, second: bool) -> ExpectedAnswer:
        table = self.pieces
        step = max(1, _ENTRIES_PER_PASS // self.size)
        spans = [slice(i, i + step) for i in range(0, max(len(mean), 1), step)]
        parts = [_moments(table, mean[i], variance[i], 4 if second else 2) for i in spans]
        d = [np.concatenate(column) for column in zip(*parts, strict=True)]
        return ExpectedAnswer(
            d[0], d[1], 0.5 * d[2], 0.5 * d[3] if second else None, 0.25 * d[4] if second else None
        )


def _moments(table: Pieces, mean: Array, variance: Array, order: int) -> list[Array]:
    """E[rho] and its derivatives in the mean up to `order`, (N,) each."""
    # Below this sd the breaks fall between two numbers: what is left is rho(mean).
    sd = np.maximum(np.sqrt(variance), 1e-12 * np.maximum(1.0, np.abs(mean)))
    z = (table.breaks - mean[:, None]) / sd[:, None]
    # int s N = m P + sd [phi(z_lo) - phi(z_hi)]; int s^2 N = (m^2 + sd^2) P
    #   + sd [(m + t_lo) phi(z_lo) - (m + t_hi) phi(z_hi)]; no term at infinity. Sums over pieces
    #   of the ends' terms are sums over breaks of the coefficients' jumps. Both outer pieces are
    #   straight, so that `a` is 0 where squares would overflow.
    a, b, c = (_masses(z) @ np.column_stack([table.a, table.b, table.c])).T
    da, db = np.diff(table.a), np.diff(table.b)
    bell = np.exp(-0.5 * z * z) / _ROOT_TWO_PI
    rim, first, second = (bell @ np.column_stack([da, db, table.breaks * da])).T * sd
    value = c + mean * b + mean * (mean * a) + sd * (sd * a)
    moments = [value + first + mean * rim + second]
    jumps = np.column_stack(table.jumps)
    by_jump = []  # of each Hermite function, (N, 3)
    for p in range(1, order + 1):
        by_jump.append((_HERMITE[p - 1](z) * bell) @ jumps)
        total = np.zeros_like(mean)
        if p == 1:
            total += b + 2.0 * (mean * a) + 2.0 * rim
        elif p == 2:
            total += 2.0 * a
        for i in range(min(p, 3)):
            total += by_jump[p - 1 - i][:, i] * (1.0 / sd) ** (p - i)
        moments.append(total)
    return moments


def _masses(z: Array) -> Array:
    """(N, R) Phi(z_k) - Phi(z_k-1), z (N, R - 1) ascending, padded with -inf and inf: differences
    of whichever tails are smaller, which keeps their digits, and 1 more where 0 lies between."""
    tail = special.ndtr(-np.abs(z))
    signed = np.where(z > 0.0, -tail, tail)
    mass = np.diff(signed, axis=1, prepend=0.0, append=0.0)
    mass[np.arange(len(z)), (z <= 0.0).sum(axis=1)] += 1.0
    return np.asarray(mass)
