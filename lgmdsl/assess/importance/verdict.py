"""What an audit amounts to: trust, shifted or undecided."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

import numpy as np

from lgmdsl.accuracy.tails import threshold
from lgmdsl.arrays import Array
from lgmdsl.assess.importance.audit import Findings
from lgmdsl.assess.importance.moments import Corrected
from lgmdsl.assess.importance.scan import EXACT

# A corrected mean or quantile that is farther from the fit's than so many sds, and a corrected sd
# that differs by such a share, are not what the fit says: what W609 tolerates.
LIMIT, LIMIT_TAIL = 0.1, 0.15
# Monte Carlo errors that a difference must exceed; and so many must be less than the limit, for
# nothing larger to have been overlooked.
ERRORS, CLEAR = 3.0, 2.0
# With fewer effective draws not even the standard errors of means are reliable, and those of sds
# and tails: of 1,001 latents, 200 effective draws put a 95 % point 0.33 sd off, by five errors, and
# exact draws none by more than 0.19.
LEAST, LEAST_TAIL = 50.0, 500.0
# Chains whose R-hat is larger do not agree.
AGREE = 1.05
# What is compared of each entry.
MEAN, SD, LOW, HIGH = "mean", "sd", "5 % point", "95 % point"


class Outcome(Enum):
    """The values are the meanings."""

    trust = "no mean, sd or quantile of the fit is contradicted"
    shifted = "a mean, sd or quantile differs from that of the fit"
    undecided = "the draws are too few, or too uneven, to tell"

    def __str__(self) -> str:
        return self.name

    @classmethod
    def read(cls, name: str) -> Outcome:
        """From a file, which may be of an earlier version."""
        return cls.undecided if name == "unreliable" else cls[name]


@dataclass(frozen=True)
class EntryShift:
    """How far something of an entry of a functional (its flat position) moved: `of` is MEAN, LOW or
    HIGH, in sds, or SD, as a share of the corrected one."""

    name: str
    place: int
    shift: float
    error: float
    of: str = MEAN

    @property
    def limit(self) -> float:
        """What is tolerated of it."""
        return limit_of(self.of)

    @property
    def times(self) -> float:
        """The shift in multiples of what is tolerated."""
        return abs(self.shift) / self.limit

    @property
    def doubt(self) -> float:
        """How far it may be off without being noticed, or is off without being certain, in
        multiples of what is tolerated."""
        return max(abs(self.shift), CLEAR * self.error) / self.limit


def limit_of(of: str) -> float:
    """What is tolerated of a mean, sd or quantile."""
    return LIMIT_TAIL if of in (LOW, HIGH) else LIMIT


@dataclass(frozen=True)
class Verdict:
    """`reason` of what is undecided is one of "k-hat", "draws", "chains", else ""; `k_hat` the
    worst of all; `farthest` what decided, else what moved farthest."""

    outcome: Outcome
    reason: str
    k_hat: float
    farthest: EntryShift | None


def exact(findings: Findings) -> bool:
    """Whether q is the posterior: its own draws all have the same weight."""
    return findings.own_size >= findings.draws * (1.0 - 1e-9)


def judge(findings: Findings) -> Verdict:
    """*shifted*: a corrected mean is off by more than 0.1 sd, an sd by 10 %, or a quantile by 0.15
    sd, and by three Monte Carlo errors (more where the largest of many is looked at: sqrt(9 + 2 log
    N) for N entries, as one normal deviate of three). *undecided*: k-hat above 0.7, chains that
    disagree, or too few effective draws (below 50, or 500 for sds and quantiles; where twice an
    error is as much; or where what is off by more is so by fewer errors than that). Else, and where
    q is exact, *trust*."""
    worst = max([findings.k_hat, *findings.along.values()])
    compared = tuple(_compared(findings))
    farthest = max(compared, key=lambda m: round(m.times, 9), default=None)
    if exact(findings):
        return Verdict(Outcome.trust, "", worst, farthest)
    if findings.r_hat > AGREE:
        return Verdict(Outcome.undecided, "chains", worst, farthest)
    known = all(math.isfinite(m.shift) and math.isfinite(m.error) for m in compared)
    if not (findings.effective >= LEAST and known):
        return Verdict(Outcome.undecided, "draws", worst, farthest)
    count = sum(f.mean.size for f in findings.functionals if f.judged)
    errors = math.sqrt(ERRORS**2 + 2.0 * math.log(max(count, 1)))
    tails = findings.effective >= LEAST_TAIL
    shifted = [
        m
        for m in compared
        if m.times > 1.0 and abs(m.shift) > errors * m.error and (tails or m.of == MEAN)
    ]
    if shifted:
        most = max(m.times for m in shifted)
        # Of nearly equal ones the first: latents come before what is made of them.
        first = next(m for m in shifted if m.times >= 0.9 * most)
        alike = [m for m in shifted if (m.name, m.of) == (first.name, first.of)]
        farthest = max(alike, key=lambda m: round(m.times, 9))
        return Verdict(Outcome.shifted, "", worst, farthest)
    if findings.proposal != EXACT and worst > threshold(findings.draws):
        return Verdict(Outcome.undecided, "k-hat", worst, farthest)
    doubted = max(compared, key=lambda m: m.doubt, default=None)
    if doubted is not None and (doubted.doubt > 1.0 or not tails):
        return Verdict(Outcome.undecided, "draws", worst, doubted)
    return Verdict(Outcome.trust, "", worst, farthest)


def differences(corrected: Corrected) -> Iterator[tuple[str, Array, Array]]:
    """What is compared, (size,) differences and their errors."""
    yield MEAN, corrected.shift, corrected.error
    possible = (corrected.sd > 0.0) & (corrected.stretch > 0.0)
    part = 1.0 / np.where(possible, corrected.stretch, 1.0)  # reported over corrected
    yield SD, 1.0 - part, corrected.sd_error * part
    for number, of in enumerate((LOW, HIGH)):
        shift = corrected.quantile_shift[number]
        seen = np.isfinite(shift)
        error = np.where(seen, corrected.quantile_error[number], 0.0)
        yield of, np.where(seen, shift, 0.0), error


def _compared(findings: Findings) -> Iterator[EntryShift]:
    """Shifts of each functional that counts, for each of its mean, sd and quantiles: the entry
    farthest off, the one that is the most errors beyond its limit, and the least certain."""
    for f in findings.functionals:
        if not f.judged or not f.mean.size:
            continue
        for of, shift, error in differences(findings.corrected[f.name]):
            size, limit = np.abs(shift), limit_of(of)
            places = {
                int(np.argmax(size)),
                int(np.argmax(error)),
                int(np.argmax(np.where(size > limit, size / np.maximum(error, 1e-300), 0.0))),
            }
            for place in sorted(places):
                yield EntryShift(f.name, place, float(shift[place]), float(error[place]), of)
