"""Student's t about a location, and its positive half."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.priors.location import OnLine
from lgmdsl.priors.positive import OnHalfLine
from lgmdsl.priors.prior import Terms, left_out
from lgmdsl.vocabulary.lookup import declared


@dataclass(frozen=True, eq=False)
class StudentT(OnLine):
    """location + scale t_df."""

    scale: Array
    df: Array
    location: Array = field(default_factory=left_out("student_t", "location"))
    signature = declared("prior", "student_t")

    def terms(self, value: Array) -> Terms:
        log, slope, slopes = _standard((value - self.location) / self.scale, self.scale, self.df)
        return Terms(log, slope, {**slopes, "location": -slope})

    def quantile(self, p: Array) -> Array:
        return np.asarray(self.location + self.scale * special.stdtrit(self.df, p))


@dataclass(frozen=True, eq=False)
class HalfStudentT(OnHalfLine):
    """scale |t_df|; df = 1 is half_cauchy."""

    scale: Array
    df: Array
    signature = declared("prior", "half_student_t")

    def terms(self, value: Array) -> Terms:
        log, slope, slopes = _standard(value / self.scale, self.scale, self.df)
        return Terms(log + np.log(2.0), slope, slopes)

    def quantile(self, p: Array) -> Array:
        # by the upper tail, whose digits (1 + p) / 2 does not have near p = 1
        return np.asarray(-self.scale * special.stdtrit(self.df, 0.5 * (1.0 - p)))


def _standard(z: Array, scale: Array, df: Array) -> Terms:
    """log of Gamma((df + 1) / 2) / (Gamma(df / 2) sqrt(pi df) scale) (1 + z^2 / df)^-((df + 1) / 2)
    with its slopes in x = scale z, scale and df."""
    half = 0.5 * df
    # poch keeps the digits at large df, as the difference of log gammas does not
    constant = np.log(special.poch(half, 0.5)) - 0.5 * np.log(np.pi * df) - np.log(scale)
    ratio = z * z / df
    spread = np.log1p(ratio)
    bend = (df + 1.0) * ratio / (1.0 + ratio)
    slope = -(df + 1.0) * z / (df * scale * (1.0 + ratio))
    gammas = special.digamma(half + 0.5) - special.digamma(half)
    slopes = {
        "scale": (bend - 1.0) / scale,
        "df": 0.5 * (gammas - 1.0 / df - spread + bend / df),
    }
    return Terms(np.asarray(constant - 0.5 * (df + 1.0) * spread), slope, slopes)
