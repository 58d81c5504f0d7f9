"""Whether a standard deviation taken by draws is known: not where few draws carry it."""

from __future__ import annotations

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.errors import NOWHERE, Diagnostic, Span

# The share of the variance that the furthest SHARE of the draws may carry: of normal draws 0.08, of
# e^{1.5 z} 0.75, whose sd by 4,000 draws is 14 % off (median).
SHARE, MOST = 0.01, 0.7


def top_share(draws: Array) -> Array:
    """The share of the variance that 1 % of the draws carry, those furthest from the mean: draws
    (k, ...) to (...); 0 where all are the same or some are not finite."""
    with np.errstate(all="ignore"):
        return largest_share((draws - draws.mean(axis=0)) ** 2)


def largest_share(terms: Array) -> Array:
    """The share of their sum that the largest 1 % of terms of at least 0 have: (k, ...) to (...);
    0 where all are 0 or some are not finite."""
    count = max(1, round(SHARE * len(terms)))
    with np.errstate(all="ignore"):
        largest = np.partition(terms, len(terms) - count, axis=0)[len(terms) - count :]
        share = largest.sum(axis=0) / terms.sum(axis=0)
    return np.asarray(np.nan_to_num(share, nan=0.0))


def of_few_draws(
    message: str, shares: Array, help: str = "", span: Span = NOWHERE
) -> tuple[Diagnostic, ...]:
    """W611 where few draws carry one of the variances, by their `shares`; `span`: the statement of
    what they are the variances of."""
    doubtful = int((shares > MOST).sum())
    if not doubtful:
        return ()
    share = f"1 % of the draws carry {100.0 * float(shares.max()):.0f} % of the variance"
    many = f", and more than {100.0 * MOST:.0f} % of {doubtful:,} of {shares.size:,}"
    some = share + many if shares.size > 1 else share
    known = f"the quantiles are right{help}"
    return (Diagnostic("W611", message, span, details=(some,), help=known, severity="warning"),)
