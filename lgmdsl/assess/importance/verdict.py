"""What an audit amounts to: trust, shifted or unreliable."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

import numpy as np

from lgmdsl.assess.importance.audit import Findings
from lgmdsl.assess.importance.pareto import threshold

# A corrected mean that is farther from the fit's than so many sds is shifted.
SHIFT = 0.25
# Monte Carlo errors that a shift must exceed, and that it must stay clear of SHIFT by.
ERRORS, CLEAR = 3.0, 2.0
# A corrected sd so many times wider or narrower than the fit's is another posterior.
STRETCH = 2.0
# With fewer effective draws not even the standard errors are reliable.
LEAST = 50.0


class Outcome(Enum):
    """The values are the meanings."""

    trust = "no posterior mean of the fit is contradicted"
    shifted = "a posterior mean differs from that of the fit"
    unreliable = "the draws are too few to decide, or do not support the fit's tails"

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class EntryShift:
    """The entry of a functional (its flat position) whose mean moved farthest, in sds."""

    name: str
    place: int
    shift: float
    error: float


@dataclass(frozen=True)
class Verdict:
    """`reason` is one of "", "k-hat", "draws", "sd"; `k_hat` the worst of all; `farthest` the entry
    that decided, else the one that moved farthest; `stretch` its corrected sd over the fit's, where
    that is the reason."""

    outcome: Outcome
    reason: str
    k_hat: float
    farthest: EntryShift | None
    stretch: float = 1.0


def exact(findings: Findings) -> bool:
    """Whether q is the posterior: its own draws all have the same weight."""
    return findings.own_size >= findings.draws * (1.0 - 1e-9)


def judge(findings: Findings) -> Verdict:
    """*shifted*: a corrected mean is off by more than 0.25 sd and three Monte Carlo errors (more
    where the largest of many is looked at: sqrt(9 + 2 log N) for N means, as one normal deviate
    of three). *unreliable*: k-hat above 0.7, or too few effective draws to detect a shift of
    0.25 sd (below 50, or where 0.25 lies within two errors of a shift), or a corrected sd that is
    twice or half the fit's, which symmetric posteriors hide from their means. Else *trust*."""
    worst = max([findings.k_hat, *findings.along.values()])
    shifts = tuple(_shifts(findings))
    # Rounded, so that rounding errors do not decide which of two names of one quantity is reported.
    farthest = max(shifts, key=lambda m: round(abs(m.shift), 9), default=None)
    known = all(math.isfinite(m.shift) and math.isfinite(m.error) for m in shifts)
    if not (findings.effective >= LEAST and known):
        return Verdict(Outcome.unreliable, "draws", worst, farthest)
    count = sum(f.mean.size for f in findings.functionals if f.judged)
    errors = math.sqrt(ERRORS**2 + 2.0 * math.log(max(count, 1)))
    shifted = [m for m in shifts if abs(m.shift) > SHIFT and abs(m.shift) > errors * m.error]
    if shifted:
        most = max(abs(m.shift) for m in shifted)
        # Of nearly equal ones the first: latents come before what is made of them.
        farthest = next(m for m in shifted if abs(m.shift) >= 0.9 * most)
        return Verdict(Outcome.shifted, "", worst, farthest)
    if worst > threshold(findings.draws):
        return Verdict(Outcome.unreliable, "k-hat", worst, farthest)
    stretched = max(_stretched(findings), key=lambda s: round(abs(math.log(s[0])), 6), default=None)
    if stretched is not None and abs(math.log(stretched[0])) > math.log(STRETCH):
        return Verdict(Outcome.unreliable, "sd", worst, stretched[1], stretched[0])
    doubted = max(shifts, key=_reach, default=None)
    if doubted is not None and _reach(doubted) > SHIFT:
        return Verdict(Outcome.unreliable, "draws", worst, doubted)
    return Verdict(Outcome.trust, "", worst, farthest)


def _reach(m: EntryShift) -> float:
    """How far the mean may be off."""
    return abs(m.shift) + CLEAR * m.error


def _stretched(findings: Findings) -> Iterable[tuple[float, EntryShift]]:
    """Of each functional that counts, the ratio of corrected to fitted sd farthest from 1."""
    for f in findings.functionals:
        if not f.judged or not f.mean.size:
            continue
        corrected = findings.corrected[f.name]
        vary = (f.sd > 0.0) & (corrected.sd > 0.0)
        ratio = np.where(vary, corrected.sd / np.where(vary, f.sd, 1.0), 1.0)
        k = int(np.argmax(np.abs(np.log(ratio))))
        shift = EntryShift(f.name, k, float(corrected.shift[k]), float(corrected.error[k]))
        yield float(ratio[k]), shift


def _shifts(findings: Findings) -> Iterable[EntryShift]:
    """Of each functional that counts, the entry farthest off, the one whose shift is the most
    errors beyond SHIFT, and the one that may be farthest off."""
    for f in findings.functionals:
        if not f.judged or not f.mean.size:
            continue
        corrected = findings.corrected[f.name]
        shift, error = np.abs(corrected.shift), corrected.error
        places = {
            int(np.argmax(shift)),
            int(np.argmax(shift + CLEAR * error)),
            int(np.argmax(np.where(shift > SHIFT, shift / np.maximum(error, 1e-300), 0.0))),
        }
        for place in sorted(places):
            yield EntryShift(
                f.name, place, float(corrected.shift[place]), float(corrected.error[place])
            )
