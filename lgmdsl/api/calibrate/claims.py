"""What fits claim of their own errors (`fit.accuracy`, W609), against what a calibration finds.

The claim of a run is its largest error of any mean, sd, 5 or 95 % point. The truth's normal score
under the reported posterior has mean E[m* - m] / s and sd E[s*] / s, where the exact posterior has
mean and sd m*, s*: over runs, the average error of a mean and of an sd. The averages of the claims
are therefore bounds on them; the shares of runs below a 5 % and above a 95 % point are those of
points that are off by up to the claim.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special, stats

from lgmdsl.api.page import counted
from lgmdsl.arrays import Array
from lgmdsl.assess.uniformity import TAIL, Uniformity, uniformity

if TYPE_CHECKING:
    from lgmdsl.posterior.fit_record import FitRecord

# The chance that fits whose claims are true are said to contradict them.
ALPHA = 0.01
# Comparisons of a quantity: mean, sd and two tails.
PARTS = 4
SIZES = ("mean", "sd", "quantile")


@dataclass(frozen=True)
class Claim:
    """Claim of one fit: the largest estimated errors of a `mean` and a 5 or 95 % point
    (`quantile`), in posterior sds, and of an `sd`, relative, None where they were not estimated;
    `basis`: how they are known; `worst`: the name that is farthest off, "" where none is; `warned`:
    whether it carries W609."""

    mean: float | None = None
    sd: float | None = None
    quantile: float | None = None
    basis: str = ""
    worst: str = ""
    warned: bool = False

    @classmethod
    def of(cls, fit: FitRecord) -> Claim:
        """What a fit says of itself."""
        known = fit.accuracy
        mean, sd, quantile = map(_number, (known.mean, known.sd, known.quantile))
        warned = any(w.code == "W609" for w in fit.warnings)
        return cls(mean, sd, quantile, known.basis, known.worst.partition("[")[0], warned)

    def as_json(self) -> list[object]:
        """In the order of the fields."""
        return list(astuple(self))

    @classmethod
    def of_json(cls, row: Sequence[Any]) -> Claim:
        """From `as_json`; raises ValueError or TypeError for anything else."""
        mean, sd, quantile, basis, worst, warned = row
        mean, sd, quantile = map(_number, (mean, sd, quantile))
        return cls(mean, sd, quantile, str(basis), str(worst), bool(warned))

    @property
    def known(self) -> bool:
        """Whether it says anything."""
        return None not in (self.mean, self.sd, self.quantile)


NO_CLAIM = Claim()


def _number(value: float | None) -> float | None:
    """None for what is not known."""
    return None if value is None or not math.isfinite(value) else float(value)


@dataclass(frozen=True)
class Claims:
    """Claims of several runs: averages and largest of what was claimed in `known` of `runs`;
    `warned`: runs with W609; `names`: how often each name was the worst; `bases`: how often errors
    were known in each way."""

    runs: int
    known: int
    warned: int
    average: Mapping[str, float]
    largest: Mapping[str, float]
    names: Mapping[str, int]
    bases: Mapping[str, int]

    @classmethod
    def of(cls, claims: Sequence[Claim]) -> Claims:
        """From those of the runs that have a posterior."""
        known = [c for c in claims if c.known]
        sizes = {n: np.array([getattr(c, n) for c in known], dtype=float) for n in SIZES}
        return cls(
            len(claims),
            len(known),
            sum(c.warned for c in claims),
            {n: float(x.mean()) if known else math.nan for n, x in sizes.items()},
            {n: float(x.max()) if known else math.nan for n, x in sizes.items()},
            _counts([c.worst for c in claims if c.worst]),
            _counts([c.basis for c in claims]),
        )

    @property
    def sentence(self) -> str:
        """`claimed: ...`, in words."""
        if not self.known:
            why = next(iter(self.bases), "none")
            return f"claimed: nothing, the fits do not know their errors ({why})"
        a = self.average
        text = (
            f"claimed: means within {a['mean']:.2g} sd, sds within {_percent(a['sd'])}, 5 and 95 % "
            f"points within {a['quantile']:.2g} sd"
        )
        of = "" if self.known == self.runs else f" of the {self.known} that know them"
        warned = "" if not self.warned else f"; W609 in {counted(self.warned, 'run')}"
        return f"{text} (largest errors in a fit, averaged over runs{of}{warned})"

    def as_json(self) -> dict[str, object]:
        """Averages and largest by `mean`, `sd` and `quantile`; None where nothing is known."""
        return {
            "runs": self.runs, "known": self.known, "warned": self.warned,
            "average": {n: x if self.known else None for n, x in self.average.items()},
            "largest": {n: x if self.known else None for n, x in self.largest.items()},
            "worst": dict(self.names), "basis": dict(self.bases),
        }  # fmt: skip


def contradiction(claims: Claims, values: Array, quantities: int) -> str:
    """What in one of so many quantities is off by more than fits claim, which know their errors in
    the runs of these values, in words; "" where nothing is."""
    if not claims.known or len(values) < 2:
        return ""
    test, level = uniformity(values), ALPHA / (PARTS * quantities)
    claimed = claims.average
    far = float(-special.ndtri(level / 2.0))
    mean, sd = abs(test.bias) - claimed["mean"], abs(test.sd_off) - claimed["sd"]
    if mean > far * test.bias_error:
        found, least = f"{abs(test.bias):.2g} +- {test.bias_error:.1g} sd", claimed["mean"]
        return f"its means are off by {found}, where {least:.2g} was claimed"
    if sd > far * test.sd_error:
        found, least = f"{_percent(abs(test.sd_off))} +- {_percent(test.sd_error)}", claimed["sd"]
        return f"its sds are off by {found}, where {_percent(least)} was claimed"
    reach = float(-special.ndtri(TAIL))
    bounds = [float(special.ndtr(side * claimed["quantile"] - reach)) for side in (-1.0, 1.0)]
    for end, count in (("5", np.sum(values < TAIL)), ("95", np.sum(values > 1.0 - TAIL))):
        few = stats.binom.cdf(count, len(values), bounds[0])
        many = stats.binom.sf(count - 1, len(values), bounds[1])
        if 2.0 * min(few, many) < level:
            share = f"{_percent(float(count) / len(values))} of the truths are beyond its {end} %"
            return f"{share} points, where an error of {claimed['quantile']:.2g} sd was claimed"
    return ""


def found(tests: Mapping[str, Uniformity]) -> str:
    """`found: ...`, the largest errors of means and sds, in words."""
    mean = max(tests, key=lambda n: abs(tests[n].bias))
    sd = max(tests, key=lambda n: abs(tests[n].sd_off))
    m, s = tests[mean], tests[sd]
    return (
        f"found: means off by {abs(m.bias):.2f} +- {m.bias_error:.2f} sd ({mean} the most), "
        f"sds by {_percent(s.sd_off, True)} +- {_percent(s.sd_error)} ({sd})"
    )


def _counts(words: Sequence[str]) -> dict[str, int]:
    """How often each is there, the most frequent first."""
    counts = {w: words.count(w) for w in dict.fromkeys(words)}
    return dict(sorted(counts.items(), key=lambda item: -item[1]))


def _percent(share: float, signed: bool = False) -> str:
    """`4 %`; one decimal below 1 %."""
    digits = 1 if 0.0 < abs(share) < 0.01 else 0
    return f"{100.0 * share:{'+' if signed else ''}.{digits}f} %"
